"""`audit`: play the attacker on the marked sequences of one key."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from patternmark.api.given import (
    Given,
    GivenKey,
    Progress,
    items_of,
    key_of,
    no_progress,
    warn_in_python,
)
from patternmark.api.on_structures import fitted_of
from patternmark.core.alphabet import PROTEIN, UNREAD
from patternmark.core.key import Key
from patternmark.core.profile import Profile
from patternmark.core.schemes import SCHEMES, Blocks, Paper
from patternmark.detector import Detector
from patternmark.errors import InputError, ParameterError
from patternmark.intervals import rate_interval
from patternmark.io.items import Item, RecordSource, Warn, manifests_in_words, signed_for_all
from patternmark.io.manifest_use import VERIFY, ManifestUse
from patternmark.results import Result

if TYPE_CHECKING:
    from patternmark.attacks.block_coins import CoinKnowledge
    from patternmark.attacks.split import SplitKnowledge

OUTCOMES = {
    "forged": "new sequences with the mark that the attacker learned",
    "forced": "new sequences with the learned mark, promoted as at delta 1.5",
    "unmarked": "new sequences made in the same way, without a mark",
    "before": "the given sequences, unchanged",
    "stripped": "the given sequences, edited where they agree with the learned key",
    "random": "the given sequences, with as many random edits",
}
MIN_RESIDUES = 2  # shorter chains are left out: they show nothing

_UNKNOWN = PROTEIN.letters.index("X")


@dataclass(frozen=True)
class CalledMarked:
    """The number of n sequences that are called marked; `low` and `high`: 95 % interval of rate."""

    hits: int
    n: int
    rate: float
    low: float
    high: float


@dataclass(frozen=True, repr=False)
class AuditResult(Result):
    """The result of an audit: what the attacker learned and, with a key, what they achieved.

    `learned` has only numbers, never a letter of the split or a coin of a schedule. `outcomes` says
    how many forged, stripped and other sequences the detector calls marked.
    """

    scheme: str
    delta: float
    seed: int
    sequences: int
    residues: int
    key_id: str | None
    learned: dict[str, Any]
    backbone: str | None
    fpr: float | None
    detector: str | None
    budget: float
    outcomes: dict[str, CalledMarked]
    manifests: tuple[str, ...] = ()  # what manifests that were used say, in words

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain values for JSON."""
        found = {
            name: getattr(self, name)
            for name in ("scheme", "delta", "seed", "sequences", "residues", "key_id", "learned")
        }
        found["backbone"] = self.backbone
        if self.outcomes:
            found |= {"fpr": self.fpr, "detector": self.detector, "budget": self.budget}
        return found | {name: asdict(count) for name, count in self.outcomes.items()}

    def cells(self) -> dict[str, str]:
        """Return the cells of a table row by the names of their columns."""
        found = {"sequences": str(self.sequences), "residues": f"{self.residues:,}"}
        rates = {name: f"{count.rate:.1%}" for name, count in self.outcomes.items()}
        return found | rates | {"key": self.key_id or ""}


class _Chain(NamedTuple):
    """One designed chain: its letters and, with a backbone, their expected rates."""

    symbols: NDArray[np.int64]
    rates: NDArray[np.float64] | None  # [levels, n]


def audit(
    records: Given,
    key: GivenKey | None = None,
    *,
    backbone: PathLike[str] | str | None = None,
    scheme: str | None = None,
    delta: float | None = None,
    tries: int = 100,
    budget: float = 0.1,
    seed: int = 0,
    manifest: str = VERIFY,
    warn: Warn = warn_in_python,
    progress: Progress = no_progress,
) -> AuditResult:
    """Learn the mark from marked sequences, then forge it and strip it.

    All sequences must carry the mark of one key. The attacker knows everything but the secret:
    `key` only judges what the attack achieved. With `backbone` (a structure file) the attacker also
    knows what ProteinMPNN expected of each residue. Options:

    - `scheme`, `delta`: of the mark, if no key is given (blocks, 1);
    - `tries`: sequences to forge, and at most to strip (100);
    - `budget`: the share of residues that stripping may change (0.1);
    - `seed`: the same seed gives the same result (0);
    - `manifest`: which manifests beside files are used: those that `key` signed ("verify"), all
      ("trust") or none ("ignore").
    """
    from patternmark.attacks.audit import (  # noqa: PLC0415  # as needed
        audit_sequences,
        check_attackable,
        first_chain_only,
    )

    if tries < 1:
        raise ParameterError(f"tries=N must be at least 1, not {tries}")
    if not 0.0 <= budget <= 1.0:
        raise ParameterError(f"budget=X must be 0 to 1, not {budget}")
    loaded = None if key is None else key_of(key)
    profile = _profile(loaded, scheme)
    check_attackable(profile)
    strength = profile.delta if delta is None else delta
    detector = Detector(loaded) if loaded else None
    manifests = ManifestUse(manifest, [loaded] if loaded else [])
    if backbone is None:
        items = list(items_of(records, RecordSource(PROTEIN, manifests=manifests), warn))
    elif loaded is None:
        raise ParameterError(
            "backbone=FILE needs key=FILE: the expected rates depend on its parameters"
        )
    else:
        items = list(_on_backbone(records, Path(backbone), loaded, manifests, warn))
    masks = profile.scheme.masks_repeats
    chains = _read(items, masks_repeats=masks, first_only=first_chain_only(profile))
    sequences = [one.symbols for one in chains]
    progress(f"attacking {len(sequences)} sequences", 0, None)
    found = audit_sequences(
        sequences,
        profile,
        np.random.default_rng(seed),
        delta=strength,
        judge=_judge(detector) if detector else None,
        tries=tries,
        budget=budget,
        position_rates=_position_rates(chains, strength) if backbone else None,
    )
    return AuditResult(
        scheme=profile.scheme.name,
        delta=strength,
        seed=seed,
        sequences=len(sequences),
        residues=int(sum(np.count_nonzero(s >= 0) for s in sequences)),
        key_id=loaded.key_id if loaded else None,
        learned=_LEARNED[profile.scheme.name](found.knowledge, loaded),
        backbone=None if backbone is None else str(backbone),
        fpr=detector.fpr if detector else None,
        detector=signed_for_all(detector.signature, items) if detector else None,
        manifests=tuple(manifests_in_words(items)),
        budget=budget,
        outcomes={name: _rate(getattr(found, name)) for name in OUTCOMES} if detector else {},
    )


def _judge(detector: Detector) -> Callable[[Sequence[NDArray[np.int64]]], int]:
    """Return a function that counts the sequences that are called marked."""

    def judge(batch: Sequence[NDArray[np.int64]]) -> int:
        # The detector must not score what the attacker did not read.
        texts = [np.where(sequence == UNREAD, _UNKNOWN, sequence) for sequence in batch]
        return sum(verdict.prediction for verdict in detector.detect_many(texts))

    return judge


def _profile(key: Key | None, scheme: str | None) -> Profile:
    if scheme is not None and scheme not in SCHEMES:
        raise ParameterError(f"scheme={scheme!r} is not one of {', '.join(SCHEMES)}")
    if key is None:
        return Profile() if scheme is None else Profile(scheme=SCHEMES[scheme]())
    if scheme not in (None, key.profile.scheme.name):
        raise ParameterError(
            f"key {key.key_id} has the scheme {key.profile.scheme.name}, not {scheme}"
        )
    return key.profile


def _on_backbone(
    records: Given, backbone: Path, key: Key, manifests: ManifestUse, warn: Warn
) -> Iterator[Item]:
    from patternmark.designing.on_backbone import (  # noqa: PLC0415  # needs torch
        BackboneReader,
        BackboneSetting,
    )

    reader = BackboneReader(BackboneSetting(backbone), key, warn, manifests)
    return reader.items(fitted_of(records, backbone, reader.plan, warn, manifests=manifests))


def _read(items: Iterable[Item], *, masks_repeats: bool, first_only: bool) -> list[_Chain]:
    """Return the designed chains of all records, without native sequences."""
    from patternmark.masks import read  # noqa: PLC0415

    chains = []
    for item in items:
        if item.is_native:
            continue
        reading = read(item.symbols, PROTEIN, item.scored, mask_repeats=masks_repeats)
        for rows in reading.chains[:1] if first_only else reading.scored_chains:
            symbols = reading.symbols[rows]
            if np.count_nonzero(symbols >= 0) >= MIN_RESIDUES:
                chains.append(_Chain(symbols, None if item.rates is None else item.rates[:, rows]))
    if not chains:
        raise InputError("no sequence could be read: there is nothing to attack")
    return chains


def _position_rates(chains: Sequence[_Chain], delta: float) -> list[NDArray[np.float64]]:
    from patternmark.statistics.expected_rates import level_of  # noqa: PLC0415

    level = level_of(delta)
    return [one.rates[level] for one in chains if one.rates is not None]


def _learned_split(knowledge: SplitKnowledge, key: Key | None) -> dict[str, Any]:
    return {
        "splits": knowledge.num_splits,
        "posterior": knowledge.posterior,
        "gap": knowledge.gap,
        "rank": knowledge.rank(key.partition) if key else None,
    }


def _learned_coins(knowledge: CoinKnowledge, key: Key | None) -> dict[str, Any]:
    del key  # these numbers do not depend on the key
    return {
        "nonces": knowledge.num_nonces,
        "largest": knowledge.largest,
        "bits": knowledge.num_coins,
        "bits_learned": knowledge.bits_learned,
    }


# Only numbers, never a letter of the split or a coin of a schedule.
_LEARNED: dict[str, Callable[[Any, Key | None], dict[str, Any]]] = {
    Paper.name: _learned_split,
    Blocks.name: _learned_coins,
}


def _rate(count: Any) -> CalledMarked:
    low, high = rate_interval(count.hits, count.n)
    return CalledMarked(count.hits, count.n, count.hits / count.n, low, high)
