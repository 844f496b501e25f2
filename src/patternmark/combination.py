"""One p-value for a set of records, by a rule that is valid for their key.

*Proteins, paper's scheme.* Designs on one backbone resemble each other: their p-values rise and
fall together, and Fisher's method, which multiplies them, would count one piece of luck many times.
So similar records form a group. The smallest p-value of a group counts, multiplied by the size of
the group: by Bonferroni's inequality P(smallest of g <= x/g) <= x, however they depend on each
other. Records of different groups share no more than unrelated records do. Without a mark their
symbols, and so their p-values, are independent, and Fisher's method combines them. The groups
depend on the symbols alone, not on the key or the p-values, so the choice cannot bias the test. The
price: a hundred marked designs on one backbone weigh no more than the best of them.

*Texts.* Two texts that are not similar at all both contain *the* and *of*, and a hundred speeches
begin with the same greeting. Wherever texts meet the same secret coins, their p-values rise and
fall together. So texts are read as the chains of one record. For `auto` and `lr` a token that
occurs r times in all texts counts 1/r each time, and their e-values multiply: such a product has a
mean of at most 1, since the powers of the factors add up to 1 for every coin (see
`statistics.texts`). For other detectors every coin counts once (see `coins`).

*Block keys.* Similar records do no harm. E[i, r] is the ratio of record i if its nonce is r
(`statistics.block_ratio`). It depends on the coins of nonce r alone, and its mean over them is 1
for any letters. Coins of different nonces are independent; all records share those of one nonce.
With m records, R nonces and s = 1 - (1 - 1 / R)^m, the expected share of nonces that m draws hit,

    spread = product over r of (1 - s + s * mean over i of E[i, r])

has mean 1: each factor averages values with mean 1 and depends on the coins of one nonce, so the
mean of the product is the product of the means. It grows with every record that has a nonce of its
own. A second e-value is for records that share a nonce, such as those with one payload:

    shared = mean over r and strengths of the exact ratio of all letters together, without slips

Here S is the sum over all letters of all records that meet one coin x. The coin's ratio
exp(x S / 2) / cosh(S / 2) has mean 1 whatever S is: each coin counts once. A third e-value is the
mean of the records' own e-values, for one marked record among many. An average of e-values is an
e-value: E = (spread + shared + mean) / 3, and p = 1 / E holds for any records, whoever wrote them,
even copies. A single record keeps the p-value of its verdict.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import ceil, log
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from patternmark.core.alphabet import PROTEIN, SEPARATOR, UNREAD
from patternmark.core.blocks import PROTEIN_PAIRS
from patternmark.core.reading import Reading
from patternmark.core.schemes import Blocks
from patternmark.detector import Detector
from patternmark.errors import ParameterError
from patternmark.evidence import bonferroni, fisher, is_below, markov
from patternmark.fast.compiled import repeated
from patternmark.masks.similar import Groups, similar_groups
from patternmark.results import (
    LN10,
    BareCombined,
    Result,
    Status,
    Verdict,
    cells_of,
    finite_or_none,
    p_value_of,
)
from patternmark.signature import joined
from patternmark.statistics.base import Measurement
from patternmark.statistics.block_best import STRETCHES
from patternmark.statistics.block_ratio import BlockStatistic
from patternmark.statistics.likelihood import log_mean_exp

_SHARED_LEVEL = 2  # index of the strength in the e-value `shared`: delta 1
_SHARED_STRENGTHS = (1.0, 0.3, 0.1)  # factors of it: damaged records, or some unmarked


class Rule(StrEnum):
    """The rule that combines several records, as the JSON output names it."""

    GROUPS = "fisher over groups of similar records, bonferroni within"
    COINS = "as chains of one record, in which places of one token share its secret coin"
    NONCES = "e-values, multiplied over nonces, in which every secret coin counts once"


@dataclass(frozen=True, repr=False)
class Combined(Result):
    """The result for a set of records."""

    num_records: int
    groups: Groups  # numbers of records; for texts and block keys, one scored record each
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
    def status(self) -> Status:
        """The result for the set in one word."""
        if self.prediction:
            return Status.MARKED
        return Status.NO_MARK if self.groups else Status.NOTHING_TO_SCORE

    @property
    def p_value(self) -> float:
        """The p-value of the set."""
        return p_value_of(self.log_p)

    @property
    def log10_p(self) -> float:
        return self.log_p / LN10 + 0.0  # never minus zero

    @property
    def p_any(self) -> float | None:
        """The p-value if it holds for any records, whoever wrote them; None if it does not."""
        holds = self.how is Rule.NONCES and len(self.groups) > 1
        return self.p_value if holds else None

    def to_dict(self) -> dict[str, Any]:
        """Return its fields as plain values for JSON."""
        return {
            "combined": True,
            "num_records": self.num_records,
            "num_groups": len(self.groups),
            "p_value": self.p_value,
            "log10_p": finite_or_none(self.log10_p),
            "p_any": self.p_any,
            "prediction": self.prediction,
            "status": self.status,
            "fpr": self.fpr,
            "method": str(self.how),
            "key_id": self.key_id,
            "signature": self.signature,
        }

    def bare(self) -> BareCombined:
        """Return the call without any number that says how clear it was."""
        return BareCombined(
            num_records=self.num_records,
            prediction=self.prediction,
            status=self.status,
            fpr=self.fpr,
            key_id=self.key_id,
            signature=self.signature,
        )

    def cells(self) -> dict[str, str]:
        """Return the cells of a table row by the names of their columns."""
        return cells_of(self, f"{self.num_records} records", key=self.key_id)


def combine(
    detector: Detector,
    records: Sequence[str | ArrayLike],
    scored: Sequence[NDArray[np.bool_] | None] | None = None,
    rates: Sequence[NDArray[np.float64] | None] | None = None,
    *,
    verdicts: Sequence[Verdict] | None = None,
) -> Combined:
    """Return one p-value for records, by the rule that is valid for their key.

    `scored` and `rates` are those of `Detector.detect_many`. If this detector has judged the same
    records, its `verdicts` save measuring proteins again for keys of the paper's scheme. Ranks are
    not combined: ranks among the same fresh keys are not independent.
    """
    if detector.key.profile.alphabet.has_many_symbols and not detector.mask_repeats:
        # One p-value for many texts holds only if every coin counts once.
        fpr, strict = detector.fpr, detector.strict
        detector = Detector(detector.key, detector.statistic, fpr=fpr, strict=strict)
        verdicts = None
    encoded = [detector.encode(record, str(i + 1)) for i, record in enumerate(records)]
    nothing = [None] * len(encoded)
    masks, expected = list(scored or nothing), list(rates or nothing)
    how = _choose_rule(detector)
    if how is Rule.NONCES:
        _check_verdicts(detector, encoded, verdicts)
        groups, log_p = _combine_blocks(detector, detector.read(encoded, masks, expected))
    elif how is Rule.COINS:
        groups, log_p = _combine_texts(detector, encoded, masks)
    else:
        log_ps = _log_ps(detector, encoded, masks, expected, verdicts)
        groups, log_p = _combine_groups(log_ps, encoded, detector)
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


def _choose_rule(detector: Detector) -> Rule:
    """Return the rule of a key: that of its scheme, or else that of its alphabet."""
    by_alphabet = Rule.COINS if detector.key.profile.alphabet.has_many_symbols else Rule.GROUPS
    return _RULES.get(detector.key.profile.scheme.name, by_alphabet)


_RULES = {Blocks.name: Rule.NONCES}


def _check_verdicts(
    detector: Detector,
    records: Sequence[NDArray[np.int64]],
    verdicts: Sequence[Verdict] | None,
) -> None:
    """Raise ParameterError if verdicts are from another detector, or too many or too few."""
    if verdicts is None:
        return
    if len(verdicts) != len(records):
        raise ParameterError(
            f"{len(verdicts)} verdicts were given for {len(records)} records: give one for each"
        )
    for verdict in verdicts:
        if not detector.made(verdict):
            raise ParameterError(
                f"the verdict on {verdict.id!r} was not made by this detector: leave out verdicts"
            )


def _log_ps(
    detector: Detector,
    records: Sequence[NDArray[np.int64]],
    scored: Sequence[NDArray[np.bool_] | None],
    rates: Sequence[NDArray[np.float64] | None],
    verdicts: Sequence[Verdict] | None,
) -> list[float]:
    """Return ln p of every record, from the verdicts if they are given."""
    if verdicts is None:
        readings = detector.read(records, scored, rates)
        return [found.log_p for found in detector.measure(readings)]
    _check_verdicts(detector, records, verdicts)
    return [verdict.log10_p * LN10 for verdict in verdicts]


def _combine_groups(
    log_ps: Sequence[float], records: Sequence[NDArray[np.int64]], detector: Detector
) -> tuple[Groups, float]:
    """Combine p-values of proteins over groups of similar records: see the module."""
    groups = similar_groups(records, detector.key.profile.alphabet)
    best = [bonferroni(min(log_ps[i] for i in group), len(group)) for group in groups]
    return groups, fisher([float(log_p) for log_p in best])


def _combine_texts(
    detector: Detector,
    records: Sequence[NDArray[np.int64]],
    scored: Sequence[NDArray[np.bool_] | None],
) -> tuple[Groups, float]:
    """Combine texts; a group is a text with scored positions: see the module."""
    reading = detector.read(*_join_records(records, scored))[0]
    is_scored = reading.symbols != UNREAD
    groups = tuple((i,) for i, chain in enumerate(reading.chains) if is_scored[chain].any())
    if len(groups) <= 1:
        single = next((i for (i,) in groups), None)
        if single is None:
            return groups, 0.0
        alone = detector.measure(detector.read([records[single]], [scored[single]]))[0]
        return groups, _deciding_log_p(detector, alone)
    if detector.key.schedule.nonces == 1:
        return groups, _deciding_log_p(detector, detector.measure([reading])[0])
    # Chains of one record share a nonce, but each text has its own.
    texts = [
        Reading(
            reading.symbols[chain],
            (slice(0, chain.stop - chain.start),),
            times=None if reading.times is None else reading.times[chain],
        )
        for chain in reading.scored_chains
    ]
    found = detector.measure(texts)
    if reading.times is not None:  # multiply all e-values: see `statistics.texts`
        return groups, float(markov(sum(one.log_e_any or 0.0 for one in found)))
    return groups, fisher([one.log_p for one in found])


def _deciding_log_p(detector: Detector, found: Measurement) -> float:
    """Return ln of the p-value that decides."""
    is_strict = detector.strict and found.log_p_any is not None
    return cast(float, found.log_p_any) if is_strict else found.log_p


def _combine_blocks(detector: Detector, readings: Sequence[Reading]) -> tuple[Groups, float]:
    """Combine records of a block key: see the module."""
    statistic = cast(BlockStatistic, detector.statistic)
    block = cast(Blocks, detector.key.profile.scheme).block
    scored = [i for i, reading in enumerate(readings) if reading.num_scored]
    groups = tuple((i,) for i in scored)
    if not scored:
        return groups, 0.0
    if len(scored) == 1:  # nothing to combine: the smaller p-value of one record holds
        return groups, statistic.measure([readings[scored[0]]])[0].log_p
    used = [readings[i] for i in scored]
    with repeated(len(used)):
        logs = np.stack([statistic.log_ratios(reading) for reading in used])  # [m, R] ln E[i, r]
    own = log_mean_exp(logs.ravel())
    shared = log_mean_exp(shared_log_ratios(used, statistic, block).ravel())
    return groups, float(markov(log_mean_exp(np.array([spread_log_ratio(logs), shared, own]))))


def spread_log_ratio(logs: NDArray[np.float64]) -> float:
    """Return ln of the e-value `spread`, a product over nonces, given ln E[i, r]: [m, R].

    >>> both = spread_log_ratio(np.log([[1.0, 9.0], [5.0, 1.0]]))
    >>> round(float(np.exp(both)), 6)  # (1/4 + 3/4 * 3) (1/4 + 3/4 * 5)
    10.0
    """
    records, nonces = logs.shape
    share = -np.expm1(records * np.log1p(-1.0 / nonces)) if nonces > 1 else 1.0
    by_nonce = log_mean_exp(logs.T)  # [R]
    rest = np.log1p(-share) if share < 1.0 else -np.inf
    return float(np.logaddexp(rest, by_nonce + np.log(share)).sum())


def shared_log_ratios(
    readings: Sequence[Reading], statistic: BlockStatistic, block: int
) -> NDArray[np.float64]:
    """Return ln of the e-value `shared` for each nonce and strength: [R, strengths].

    The weights of all letters that meet one coin are added up first.
    """
    pooled: dict[int, NDArray[np.float64]] = {}  # by chain number: [blocks, pairs]
    for reading in readings:
        for number, chain in statistic.pieces(reading):
            sums = pooled.get(number, np.zeros((0, len(PROTEIN_PAIRS))))
            missing = ceil(chain.length / block) - len(sums)
            sums = np.pad(sums, ((0, max(missing, 0)), (0, 0)))
            weights = chain.weights[min(_SHARED_LEVEL, len(chain.weights) - 1)] * chain.side
            np.add.at(sums, (np.arange(chain.length) // block, chain.pair), weights)
            pooled[number] = sums
    firsts = PROTEIN.encode("".join(pair[0] for pair in PROTEIN_PAIRS))
    found: NDArray[np.float64] = np.zeros((1, len(_SHARED_STRENGTHS)))
    for number, sums in pooled.items():
        halves = statistic.halves(number, len(sums) * block, STRETCHES)
        coins = halves[:, : len(sums), firsts].astype(np.float64)  # [R, blocks, pairs]
        tilts = np.multiply.outer(_SHARED_STRENGTHS, sums / 2.0)  # [strengths, blocks, pairs]
        agreed = np.tensordot(coins, tilts, axes=([1, 2], [1, 2]))
        means = np.logaddexp(tilts, -tilts) - log(2.0)  # ln cosh
        found = found + agreed - means.sum(axis=(1, 2))
    return found


def _join_records(
    records: Sequence[NDArray[np.int64]], scored: Sequence[NDArray[np.bool_] | None]
) -> tuple[list[NDArray[np.int64]], list[NDArray[np.bool_]]]:
    """Join records as the chains of one record, with the positions that count."""
    between = np.array([SEPARATOR])
    ids, masks = [], []
    for record, mask in zip(records, scored, strict=True):
        ids += [record, between]
        masks += [np.ones(len(record), dtype=bool) if mask is None else mask, between < 0]
    return [np.concatenate(ids[:-1] or [between])], [np.concatenate(masks[:-1] or [between < 0])]
