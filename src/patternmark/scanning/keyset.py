"""The keys that a scan looks for, and the limits of its first stage.

A scan has two stages. The first counts how many positions of a segment agree with a key: with the
two alternating parts in the better phase, or with the best nonce and phase of a block key. The
p-value of that count assumes independent residues and ignores repeats. If it is at most
10^-5 / keys, which about one segment in a hundred thousand reaches by chance with any key, the pair
goes to the second stage: the detector `auto`, whose p-value is reported.

What the first stage loses. A mark that agrees at rate q in n scored positions fails only if a
binomial count stays below the limit. `lost` is that probability, exact for a sequence without
repeats. A mark that is significant among millions of pairs is far beyond the limit, so the loss is
negligible: see docs/scan.md. For two-part keys, the first count includes repeats. They may dilute a
mark, or count against it if a copy is shifted by an odd number of places. The residues that are
left without them must pass as well (`unrepeated`). Leaving pairs out never makes a false positive.
"""

from __future__ import annotations

import pickle
from collections import OrderedDict
from collections.abc import Sequence
from functools import cache, cached_property
from math import ceil, log, log10
from threading import Lock
from typing import TYPE_CHECKING

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
from patternmark.workers import pickle_with_secrets

if TYPE_CHECKING:
    from patternmark.scanning.block_stage import FirstStage
    from patternmark.scanning.gpu_two_part import GpuScreen

AMINO_ACIDS = "ACDEFGHIKLMNPQRSTVWY"  # in the order in which they are counted
LONGEST = 2048  # residues of the longest segment
SURVIVORS = 5  # digits: one segment in 10^5 passes by chance, with any key
LEVELS = 16  # levels of the tally: p-values of 10^-1 to 10^-16
_KEPT_DETECTORS = 32  # detectors of keys with many nonces have tables of several MiB
_ALTERNATING = [list(row) for row in KeyChain.alternating().transition]
_OF_PROCESS = ("_lock", "_detectors")  # of a key set: what other processes do not get
TWO_PARTS, BLOCKS = "two parts", "blocks"
_KINDS = {Paper.name: TWO_PARTS, Blocks.name: BLOCKS}  # how the first stage counts, by scheme


class KeySet:
    """The keys of a scan."""

    def __init__(self, keys: Sequence[Key], device: str = "cpu") -> None:
        """Prepare a scan for keys. With device `cuda` the first stage runs on the GPU."""
        if not keys:
            raise ParameterError("there are no keys to look for: give at least one")
        for key in keys:
            _check_key(key)
        self.keys, self.device = list(keys), device
        self.two_part = np.array(
            [i for i, key in enumerate(self.keys) if kind_of_key(key) == TWO_PARTS], dtype=np.int64
        )
        # Pairs pass the first stage with a p-value of at most 10^-passing.
        self.passing = min(LEVELS, SURVIVORS + ceil(log10(len(self.keys))))
        self._keep_none()

    @cached_property
    def parts(self) -> NDArray[np.int16]:
        """Which amino acids are in the first part of each two-part key: [20, K]."""
        members = [self.keys[i].partition.members[0] for i in self.two_part]
        letters = [PROTEIN.letters.index(letter) for letter in AMINO_ACIDS]
        return np.ascontiguousarray(np.array(members)[:, letters].T.astype(np.int16))

    @cached_property
    def columns(self) -> NDArray[np.int64]:
        """The number of each key among two-part keys, -1 for other keys: [K]."""
        columns = np.full(len(self.keys), -1, dtype=np.int64)
        columns[self.two_part] = np.arange(len(self.two_part))
        return columns

    @cached_property
    def blocks(self) -> list[tuple[NDArray[np.int64], FirstStage]]:
        """Groups of block keys with the same scheme: their numbers, and their first stage."""
        from patternmark.scanning.block_stage import BlockGroup  # noqa: PLC0415  # cyclic import
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
        """The first stage of two-part keys on a GPU; None means the compiled loops."""
        from patternmark.scanning.gpu_two_part import GpuScreen  # noqa: PLC0415

        return None if self.device == "cpu" else GpuScreen(self.parts, self.limits, self.device)

    @cached_property
    def limits(self) -> NDArray[np.int16]:
        """The least |2 A - n| at each p-value of the tally, if A of n agree: [n + 1, LEVELS]."""
        return _limits()

    @property
    def signatures(self) -> list[str]:
        """The signatures of uncorrected p-values, one for each kind of key."""
        keys = keys_part([key.key_id for key in self.keys])
        first = {key.profile.canonical: i for i, key in reversed(list(enumerate(self.keys)))}
        kinds = {self.detector(i).settings_of_any_key for i in first.values()}
        common = f"screen:{self.passing}|v:{__version__}"
        return [joined(keys, kind, common) for kind in sorted(kinds)]

    def detector(self, key: int) -> Detector:
        """Return the detector of a key. The most recent ones are kept, shared by all threads."""
        with self._lock:
            found = self._detectors.pop(key, None) or Detector(self.keys[key])
            self._detectors[key] = found  # the last one used is the last to go
            if len(self._detectors) > _KEPT_DETECTORS:
                self._detectors.popitem(last=False)
        return found

    def __getstate__(self) -> bytes:
        """Return what workers need: the keys with their secrets. They make their own detectors."""
        own = {name: value for name, value in vars(self).items() if name not in _OF_PROCESS}
        return pickle_with_secrets(own)

    def __setstate__(self, state: bytes) -> None:
        vars(self).update(pickle.loads(state))  # noqa: S301  # a part of a pickle itself
        self._keep_none()

    def _keep_none(self) -> None:
        self._lock = Lock()
        self._detectors: OrderedDict[int, Detector] = OrderedDict()

    def lost(self, rate: float, scored: int, key: int = 0) -> float:
        """Return the probability that an intact mark that agrees at `rate` fails the first stage.

        The sequence is assumed to have no repeats.
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
    """Return how the first stage counts for a key: TWO_PARTS, BLOCKS, or None if it cannot."""
    return _KINDS.get(key.profile.scheme.name)


def _check_key(key: Key) -> None:
    """Raise an error for a key that the first stage cannot count."""
    profile = key.profile
    if profile.alphabet != PROTEIN:
        raise ParameterError(
            f"key {key.key_id}: its alphabet is {profile.alphabet.name!r}, but a scan is for "
            "proteins: use `patternmark identify`"
        )
    kind = kind_of_key(key)
    table = profile.scheme.tables()["scheme"]
    if kind is None or (kind == TWO_PARTS and table["transition"] != _ALTERNATING):
        raise ParameterError(
            f"key {key.key_id}: a scan supports block keys, and paper-scheme keys with two "
            "alternating parts: use `patternmark identify` for other keys"
        )


@cache
def _limits() -> NDArray[np.int16]:
    """Return the least 2 A - n for each n whose p-value is at most 10^-level: [n + 1, LEVELS].

    If no p-value is that small, the limit is more than n.
    """
    n = np.arange(LONGEST + 1)
    least = [least_count(n, -level * log(10.0), ways=2) for level in range(1, LEVELS + 1)]
    return (2 * np.stack(least, axis=1) - n[:, None]).astype(np.int16)
