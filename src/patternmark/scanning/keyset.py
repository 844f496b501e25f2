"""Which keys are looked for, and what a segment must show of one to be judged in full.

A scan has two stages. The first counts how many positions of a segment agree with a key: with its
two alternating parts in the better phase, or with the best nonce and phase of a block key
(`blocks`). The p-value of that count takes residues for independent and does not look at repeats.
What is at most 10^-5 / keys, so that about one segment in a hundred thousand has a key by chance,
goes to the second: the detector `auto`, whose p-value is the one reported.

What the first stage loses. A mark that agrees at rate q in n scored positions passes unless a
binomial count stays below the limit: `lost` is that probability, exactly, for a sequence that does
not repeat itself. What must be significant among millions of pairs is far beyond the limit, so that
it is next to nothing: see docs/scan.md. For two parts, repeats are counted with the rest at first.
They may dilute a mark, or speak against it where a copy stands an odd number of places further on;
and what is left without them must pass as well (`unrepeated`). Leaving pairs out never makes a
false positive.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from functools import cache, cached_property
from math import ceil, log, log10
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from patternmark._version import __version__
from patternmark.core.alphabet import PROTEIN
from patternmark.core.chain import KeyChain
from patternmark.core.key import Key
from patternmark.core.schemes import Blocks, Paper
from patternmark.detector import Detector
from patternmark.errors import ParameterError
from patternmark.null.binomial import binomial_log_tail, least_count
from patternmark.signature import joined, keys_part

if TYPE_CHECKING:
    from patternmark.scanning.block_stage import FirstStage
    from patternmark.scanning.gpu_two_part import GpuScreen

AMINO_ACIDS = "ACDEFGHIKLMNPQRSTVWY"  # in the order in which they are counted
LONGEST = 2048  # residues of a segment
SURVIVORS = 5  # digits: how rarely a segment passes by chance, with any key
LEVELS = 16  # of the tally: p-values of 10^-1 to 10^-16
_KEPT_DETECTORS = 32  # those of many nonces have tables of some MiB
_ALTERNATING = [list(row) for row in KeyChain.alternating().transition]
_OF_PROCESS = ("_lock", "_detectors")  # of a key set: what other processes do not get
TWO_PARTS, BLOCKS = "two parts", "blocks"
_KINDS = {Paper.name: TWO_PARTS, Blocks.name: BLOCKS}  # how keys of a scheme are counted


class KeySet:
    """The keys of a scan."""

    def __init__(self, keys: Sequence[Key], device: str = "cpu") -> None:
        """On a GPU (`cuda`) the first stage is done there."""
        if not keys:
            raise ParameterError("there are no keys to look for")
        for key in keys:
            _check(key)
        self.keys, self.device = list(keys), device
        self.two_part = np.array(
            [i for i, key in enumerate(self.keys) if kind_of_key(key) == TWO_PARTS], dtype=np.int64
        )
        # p-values of the tally that decide: 10^-passing.
        self.passing = min(LEVELS, SURVIVORS + ceil(log10(len(self.keys))))
        self._keep_none()

    @cached_property
    def parts(self) -> NDArray[np.int16]:
        """Which amino acids are in the first part of each key of two parts: [20, K]."""
        members = [self.keys[i].partition.members[0] for i in self.two_part]
        letters = [PROTEIN.letters.index(letter) for letter in AMINO_ACIDS]
        return np.ascontiguousarray(np.array(members)[:, letters].T.astype(np.int16))

    @cached_property
    def columns(self) -> NDArray[np.int64]:
        """Where each key stands among those of two parts, -1 where it is none: [K]."""
        columns = np.full(len(self.keys), -1, dtype=np.int64)
        columns[self.two_part] = np.arange(len(self.two_part))
        return columns

    @cached_property
    def blocks(self) -> list[tuple[NDArray[np.int64], FirstStage]]:
        """Block keys by the shape of their schedules: their numbers, and what screens them."""
        from patternmark.scanning.block_stage import BlockGroup  # noqa: PLC0415  # it needs this module
        from patternmark.scanning.gpu_block_stage import GpuBlocks  # noqa: PLC0415

        numbers_of: dict[str, list[int]] = {}
        for number, key in enumerate(self.keys):
            if kind_of_key(key) == BLOCKS:
                numbers_of.setdefault(key.profile.scheme.signature, []).append(number)
        found: list[tuple[NDArray[np.int64], FirstStage]] = []
        for numbers in numbers_of.values():
            group = BlockGroup([self.keys[i] for i in numbers])
            on_cpu = self.device == "cpu"
            found.append((np.array(numbers), group if on_cpu else GpuBlocks(group, self.device)))
        return found

    @cached_property
    def gpu(self) -> GpuScreen | None:
        """What screens keys of two parts instead of the compiled loops, if anything does."""
        from patternmark.scanning.gpu_two_part import GpuScreen  # noqa: PLC0415

        return None if self.device == "cpu" else GpuScreen(self.parts, self.limits, self.device)

    @cached_property
    def limits(self) -> NDArray[np.int16]:
        """How far from half the agreement is at each p-value of the tally: [n + 1, LEVELS]."""
        return _limits()

    @property
    def signatures(self) -> list[str]:
        """What shapes p-values that are not corrected yet: one for each kind of key."""
        keys = keys_part([key.key_id for key in self.keys])
        first = {key.profile.canonical: i for i, key in reversed(list(enumerate(self.keys)))}
        kinds = {self.detector(i).settings_of_any_key for i in first.values()}
        common = f"screen:{self.passing}|v:{__version__}"
        return [joined(keys, kind, common) for kind in sorted(kinds)]

    def detector(self, key: int) -> Detector:
        """Return the detector of a key; those of the last ones are kept, for all threads."""
        with self._lock:
            found = self._detectors.pop(key, None) or Detector(self.keys[key])
            self._detectors[key] = found  # the last one used is the last to go
            if len(self._detectors) > _KEPT_DETECTORS:
                self._detectors.popitem(last=False)
        return found

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what stays in this process: workers make detectors of their own."""
        return {name: value for name, value in vars(self).items() if name not in _OF_PROCESS}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._keep_none()

    def _keep_none(self) -> None:
        self._lock = Lock()
        self._detectors: OrderedDict[int, Detector] = OrderedDict()

    def lost(self, rate: float, scored: int, key: int = 0) -> float:
        """Return how likely an intact mark is lost that agrees at a rate: it does not pass.

        The sequence is taken to have no repeats.
        """
        if kind_of_key(self.keys[key]) == BLOCKS:
            limits = next(group.limits for numbers, group in self.blocks if key in numbers)
            least = int(limits[scored, self.passing - 1])
        else:
            least = (scored + int(self.limits[scored, self.passing - 1]) + 1) // 2
        if least > scored:
            return 1.0
        found = binomial_log_tail(np.array([least]), np.array([scored]), rate)
        return float(-np.expm1(found[0]))


def kind_of_key(key: Key) -> str | None:
    """Return how the first stage counts for a key: TWO_PARTS, BLOCKS, or None where it cannot."""
    return _KINDS.get(key.profile.scheme.name)


def _check(key: Key) -> None:
    """Refuse keys that the first stage does not know."""
    profile = key.profile
    if profile.alphabet != PROTEIN:
        raise ParameterError(
            f"key {key.key_id}: its alphabet is {profile.alphabet.name!r}: a scan is for proteins"
        )
    kind = kind_of_key(key)
    table = profile.scheme.tables()["scheme"]
    if kind is None or (kind == TWO_PARTS and table["transition"] != _ALTERNATING):
        raise ParameterError(
            f"key {key.key_id}: a scan looks for block keys and for those of two alternating "
            "parts; use `patternmark identify` for others"
        )


@cache
def _limits() -> NDArray[np.int16]:
    """Return the least 2 A - n of each n whose p-value is 10^-level: [n + 1, LEVELS].

    Where none is small enough it is more than n.
    """
    n = np.arange(LONGEST + 1)
    least = [least_count(n, -level * log(10.0), ways=2) for level in range(1, LEVELS + 1)]
    return (2 * np.stack(least, axis=1) - n[:, None]).astype(np.int16)
