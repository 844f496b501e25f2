"""One p-value for a set of records: Fisher's method over groups of records that are alike.

Designs on one backbone resemble each other: their p-values rise and fall together, and Fisher's
method, which multiplies them, would count one piece of luck many times. So records that share much
are put into one group. Within it the smallest p-value counts, times the size of the group: by
Bonferroni's inequality P(smallest of g <= x/g) <= x, however they depend on each other. Records of
different groups share no more than unrelated ones do; without a mark their symbols, and so their
p-values, are independent, and Fisher's method combines them. The groups follow from the symbols
alone, never from the key or the p-values: choosing them cannot bias the test.

What it costs: a hundred marked designs on one backbone weigh no more than the best of them.

Texts are another matter. Two that are not alike at all both hold *the* and *of*, and a hundred
speeches begin with the same greeting: wherever they meet the same secret coins, their p-values rise
and fall together. So texts are read as one record whose chains they are, in which every coin counts
once (see `coins`); what is left of each is independent of the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from patternmark.core.alphabet import SEPARATOR, UNREAD, Alphabet
from patternmark.core.reading import Reading
from patternmark.core.verdict import LN10, Verdict, finite_or_none, p_value_of
from patternmark.detect import Detector
from patternmark.errors import ParameterError
from patternmark.evidence import bonferroni, fisher, is_below, markov
from patternmark.signature import joined
from patternmark.statistics.ratio import AutoStatistic, RatioStatistic

ALIKE = 0.3  # the share of identical residues, or of words, from which on two records are alike
_WORD = 4
Groups = tuple[tuple[int, ...], ...]
_NOTHING = -1  # separators and unscored symbols: equal to none


class Rule(StrEnum):
    """How p-values of several records are combined: the valid way for their alphabet."""

    GROUPS = "fisher over groups of similar records, bonferroni within"
    COINS = "as chains of one record, in which every secret coin counts once"


@dataclass(frozen=True)
class Combined:
    """The evidence of a whole set."""

    num_records: int
    groups: Groups  # of record numbers; of texts, those that say something new
    log_p: float
    fpr: float
    how: Rule
    key_id: str
    signature: str

    @property
    def prediction(self) -> bool:
        """Whether the set as a whole carries the mark."""
        return is_below(self.log_p, self.fpr)

    @property
    def log10_p(self) -> float:
        return self.log_p / LN10 + 0.0  # never minus zero

    def to_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
        return {
            "combined": True,
            "num_records": self.num_records,
            "num_groups": len(self.groups),
            "p_value": p_value_of(self.log_p),
            "log10_p": finite_or_none(self.log10_p),
            "prediction": self.prediction,
            "fpr": self.fpr,
            "method": str(self.how),
            "key_id": self.key_id,
            "signature": self.signature,
        }


def combine(
    detector: Detector,
    records: Sequence[str | ArrayLike],
    scored: Sequence[NDArray[np.bool_] | None] | None = None,
    rates: Sequence[NDArray[np.float64] | None] | None = None,
    *,
    verdicts: Sequence[Verdict] | None = None,
) -> Combined:
    """Return one p-value for records, by the rule that holds for their alphabet.

    `scored` and `rates` are those of `Detector.detect_many`. `verdicts` of this detector on the
    same records, if there are any, save measuring proteins again. The p-values of the detector are
    combined: ranks among the same fresh keys are not independent.
    """
    if detector.key.profile.alphabet.has_many_symbols and not detector.mask_repeats:
        # One p-value of many texts holds only if every coin counts once.
        detector = Detector(detector.key, detector.statistic, fpr=detector.fpr)
        verdicts = None
    encoded = [detector.encode(record, str(i + 1)) for i, record in enumerate(records)]
    nothing = [None] * len(encoded)
    masks, expected = list(scored or nothing), list(rates or nothing)
    if detector.key.profile.alphabet.has_many_symbols:
        how, (groups, log_p) = Rule.COINS, _of_texts(detector, encoded, masks)
    else:
        log_ps = _log_ps(detector, encoded, masks, expected, verdicts)
        how, (groups, log_p) = Rule.GROUPS, _of_groups(log_ps, encoded, detector)
    return Combined(
        num_records=len(encoded),
        groups=groups,
        log_p=log_p,
        fpr=detector.fpr,
        how=how,
        key_id=detector.key.key_id,
        signature=joined(
            detector.signature_of(encoded, masks, expected), f"combined:{how.name.lower()}"
        ),
    )


def _log_ps(
    detector: Detector,
    records: Sequence[NDArray[np.int64]],
    scored: Sequence[NDArray[np.bool_] | None],
    rates: Sequence[NDArray[np.float64] | None],
    verdicts: Sequence[Verdict] | None,
) -> list[float]:
    """Return ln p of every record, from its verdict where there is one."""
    if verdicts is None:
        readings = detector.read(records, scored, rates)
        return [found.log_p for found in detector.measure(readings)]
    if len(verdicts) != len(records):
        raise ParameterError(f"{len(verdicts)} verdicts were given for {len(records)} records")
    for verdict in verdicts:
        if not detector.made(verdict):
            raise ParameterError(f"the verdict on {verdict.id!r} was not made by this detector")
    return [verdict.log10_p * LN10 for verdict in verdicts]


def _of_groups(
    log_ps: Sequence[float], records: Sequence[NDArray[np.int64]], detector: Detector
) -> tuple[Groups, float]:
    """Combine p-values of records, given with their symbols: see the module on why this holds."""
    groups = similar_groups(records, detector.key.profile.alphabet)
    best = [bonferroni(min(log_ps[i] for i in group), len(group)) for group in groups]
    return groups, fisher([float(log_p) for log_p in best])


def _of_texts(
    detector: Detector,
    records: Sequence[NDArray[np.int64]],
    scored: Sequence[NDArray[np.bool_] | None],
) -> tuple[Groups, float]:
    """Combine texts, given as token ids and which positions count; a group says something new."""
    reading = detector.read(*_as_one(records, scored))[0]
    said = reading.symbols != UNREAD
    groups = tuple((i,) for i, chain in enumerate(reading.chains) if said[chain].any())
    if detector.key.schedule.nonces == 1 or len(groups) <= 1:
        return groups, detector.statistic.measure([reading])[0].log_p if groups else 0.0
    # Chains of a record have one nonce, texts each their own.
    texts = [Reading(part, (slice(0, len(part)),)) for part in reading.parts]
    found = detector.statistic.measure(texts)
    if detector.statistic.name in (AutoStatistic.name, RatioStatistic.name):
        return groups, float(markov(sum(one.statistic for one in found)))  # e-values multiply
    return groups, fisher([one.log_p for one in found])


def _as_one(
    records: Sequence[NDArray[np.int64]], scored: Sequence[NDArray[np.bool_] | None]
) -> tuple[list[NDArray[np.int64]], list[NDArray[np.bool_]]]:
    """Lay records end to end as the chains of one, with the positions that count."""
    between = np.array([SEPARATOR])
    ids, masks = [], []
    for record, mask in zip(records, scored, strict=True):
        ids += [record, between]
        masks += [np.ones(len(record), dtype=bool) if mask is None else mask, between < 0]
    return [np.concatenate(ids[:-1] or [between])], [np.concatenate(masks[:-1] or [between < 0])]


def similar_groups(records: Sequence[NDArray[np.int64]], alphabet: Alphabet) -> Groups:
    """Group records that are alike, directly or through others.

    Alike are two that have more than 30 % of the shorter one's residues in common at equal
    positions, or more than 30 % of its words of four (which a shift does not hide).
    """
    cleaned = [np.where(alphabet.is_scored(ids), ids, _NOTHING) for ids in records]
    leader = list(range(len(records)))

    def first_of(i: int) -> int:
        while leader[i] != i:
            leader[i] = leader[leader[i]]
            i = leader[i]
        return i

    by_place, by_word = _PlaceIndex(cleaned), _WordIndex(cleaned, alphabet.size)
    for i in range(1, len(records)):
        for j in np.flatnonzero(by_place.alike_before(i) | by_word.alike_before(i)).tolist():
            one, other = sorted((first_of(i), first_of(j)))
            leader[other] = one
    members: dict[int, list[int]] = {}
    for i in range(len(records)):
        members.setdefault(first_of(i), []).append(i)
    return tuple(tuple(group) for group in members.values())


class _PlaceIndex:
    """Finds records with identical residues at equal positions."""

    def __init__(self, records: Sequence[NDArray[np.int64]]) -> None:
        longest = max(map(len, records), default=0)
        self._table = np.full((len(records), longest), _NOTHING, dtype=np.int32)
        for row, ids in zip(self._table, records, strict=True):
            row[: len(ids)] = ids
        self._sizes = np.count_nonzero(self._table != _NOTHING, axis=1)

    def alike_before(self, i: int) -> NDArray[np.bool_]:
        """Return which of the records before number `i` are like it: [i]."""
        own = self._table[i]
        places = np.flatnonzero(own != _NOTHING)
        same = np.count_nonzero(self._table[:i, places] == own[places], axis=1)
        return np.asarray(same > ALIKE * np.minimum(self._sizes[:i], self._sizes[i]))


class _WordIndex:
    """Finds records that share words, wherever they stand."""

    def __init__(self, records: Sequence[NDArray[np.int64]], size: int) -> None:
        self._words = [_words(ids, size) for ids in records]
        self._sizes = np.array([len(words) for words in self._words])
        self._holders: dict[int, list[int]] = {}
        for i, words in enumerate(self._words):
            for word in words.tolist():
                self._holders.setdefault(word, []).append(i)

    def alike_before(self, i: int) -> NDArray[np.bool_]:
        """Return which of the records before number `i` are like it: [i]."""
        holders = [self._holders[word] for word in self._words[i].tolist()]
        shared = np.bincount(
            np.array([j for row in holders for j in row], dtype=np.int64), minlength=i
        )
        return np.asarray(shared[:i] > ALIKE * np.minimum(self._sizes[:i], self._sizes[i]))


def _words(ids: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """Return the different words of a record as numbers; those with gaps are left out."""
    if len(ids) < _WORD:
        return np.zeros(0, dtype=np.int64)
    windows = np.lib.stride_tricks.sliding_window_view(ids, _WORD)
    whole = windows[(windows != _NOTHING).all(axis=1)]
    # A product beyond 64 bits wraps around: words that fall together make groups larger, no more.
    return np.unique(whole @ (np.int64(size) ** np.arange(_WORD)))
