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
and fall together. So texts are read as one record whose chains they are. For `auto` and `lr` a
token that stands r times in all of them counts 1/r each time, and their e-values multiply: such a
product has a mean of at most 1, since the powers of the factors add up to 1 for every coin (see
`statistics.texts`). For other detectors every coin counts once (see `coins`).

Likeness does not matter for records of block keys. E[i, r] is the ratio of record i if its nonce is
r (`statistics.block_ratio`). It depends on the coins of nonce r alone, and its mean over them is 1
for any letters. Coins of different nonces are independent; those of one nonce are shared by all
records. With m records, R nonces and s = 1 - (1 - 1 / R)^m, the share of nonces that m draws hit,

    spread = product over r of (1 - s + s * mean over i of E[i, r])

has mean 1: each factor is an average of things with mean 1 and rests on coins of its own, so the
mean of the product is the product of the means. It gains with every record that has a nonce of its
own. A second e-value is for records that share a nonce, such as those of one payload:

    shared = mean over r and strengths of the exact ratio of all letters together, without slips

Here all letters of all records that meet one coin enter its ratio exp(x S / 2) / cosh(S / 2)
through their sum S, whose mean over the coin is 1 whatever S is: each coin counts once. The third
is the mean of the records' own e-values, for one marked record among many. An average of e-values
is one: E = (spread + shared + mean) / 3, and p = 1 / E holds for any records, whoever wrote them,
copies among them. A single record keeps the p-value of its verdict.
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

_LEVEL = 2  # of strength, for letters that meet one coin together: delta 1
_STRENGTHS = (1.0, 0.3, 0.1)  # shares of it: records that are damaged, or unmarked among others


class Rule(StrEnum):
    """How p-values of several records are combined: the valid way for their alphabet."""

    GROUPS = "fisher over groups of similar records, bonferroni within"
    COINS = "as chains of one record, in which places of one token share its secret coin"
    NONCES = "e-values, multiplied over nonces, in which every secret coin counts once"


@dataclass(frozen=True, repr=False)
class Combined(Result):
    """The evidence of a whole set."""

    num_records: int
    groups: Groups  # of record numbers; of texts and block marks, those that say something
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
        """What can be said of the set, in one word."""
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
        """The same where it holds for any records, whoever wrote them; None where it does not."""
        holds = self.how is Rule.NONCES and len(self.groups) > 1
        return self.p_value if holds else None

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values, which JSON can hold."""
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
        """Return what people look at first, by name."""
        return cells_of(self, f"{self.num_records} records", key=self.key_id)


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
    same records, if there are any, save measuring proteins of the paper's keys again. The p-values
    of the detector are combined: ranks among the same fresh keys are not independent.
    """
    if detector.key.profile.alphabet.has_many_symbols and not detector.mask_repeats:
        # One p-value of many texts holds only if every coin counts once.
        fpr, strict = detector.fpr, detector.strict
        detector = Detector(detector.key, detector.statistic, fpr=fpr, strict=strict)
        verdicts = None
    encoded = [detector.encode(record, str(i + 1)) for i, record in enumerate(records)]
    nothing = [None] * len(encoded)
    masks, expected = list(scored or nothing), list(rates or nothing)
    how = _rule_of(detector)
    if how is Rule.NONCES:
        _check_verdicts(detector, encoded, verdicts)
        groups, log_p = _of_blocks(detector, detector.read(encoded, masks, expected))
    elif how is Rule.COINS:
        groups, log_p = _of_texts(detector, encoded, masks)
    else:
        log_ps = _log_ps(detector, encoded, masks, expected, verdicts)
        groups, log_p = _of_groups(log_ps, encoded, detector)
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


def _rule_of(detector: Detector) -> Rule:
    """Return the rule for a key: by its scheme, or else by its alphabet."""
    by_alphabet = Rule.COINS if detector.key.profile.alphabet.has_many_symbols else Rule.GROUPS
    return _RULES.get(detector.key.profile.scheme.name, by_alphabet)


_RULES = {Blocks.name: Rule.NONCES}


def _check_verdicts(
    detector: Detector,
    records: Sequence[NDArray[np.int64]],
    verdicts: Sequence[Verdict] | None,
) -> None:
    """Refuse verdicts that another detector made, or on other records."""
    if verdicts is None:
        return
    if len(verdicts) != len(records):
        raise ParameterError(f"{len(verdicts)} verdicts were given for {len(records)} records")
    for verdict in verdicts:
        if not detector.made(verdict):
            raise ParameterError(f"the verdict on {verdict.id!r} was not made by this detector")


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
    _check_verdicts(detector, records, verdicts)
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
    if len(groups) <= 1:
        single = next((i for (i,) in groups), None)
        if single is None:
            return groups, 0.0
        alone = detector.measure(detector.read([records[single]], [scored[single]]))[0]
        return groups, _deciding(detector, alone)
    if detector.key.schedule.nonces == 1:
        return groups, _deciding(detector, detector.measure([reading])[0])
    # Chains of a record have one nonce, texts each their own.
    texts = [
        Reading(
            reading.symbols[chain],
            (slice(0, chain.stop - chain.start),),
            times=None if reading.times is None else reading.times[chain],
        )
        for chain in reading.scored_chains
    ]
    found = detector.measure(texts)
    if reading.times is not None:  # e-values multiply, small ones too: see `statistics.texts`
        return groups, float(markov(sum(one.log_e_any or 0.0 for one in found)))
    return groups, fisher([one.log_p for one in found])


def _deciding(detector: Detector, found: Measurement) -> float:
    """Return ln of the p-value that makes the call."""
    is_strict = detector.strict and found.log_p_any is not None
    return cast(float, found.log_p_any) if is_strict else found.log_p


def _of_blocks(detector: Detector, readings: Sequence[Reading]) -> tuple[Groups, float]:
    """Combine records of a block key: see the module on why this holds."""
    statistic = cast(BlockStatistic, detector.statistic)
    block = cast(Blocks, detector.key.profile.scheme).block
    said = [i for i, reading in enumerate(readings) if reading.num_scored]
    groups = tuple((i,) for i in said)
    if not said:
        return groups, 0.0
    if len(said) == 1:  # nothing to combine: the sharper p-value of one record holds
        return groups, statistic.measure([readings[said[0]]])[0].log_p
    with repeated(len(said)):
        logs = np.stack([statistic.log_ratios(readings[i]) for i in said])  # [m, R] ln E[i, r]
    own = log_mean_exp(logs.ravel())
    shared = log_mean_exp(shared_log_ratios([readings[i] for i in said], statistic, block).ravel())
    return groups, float(markov(log_mean_exp(np.array([spread_log_ratio(logs), shared, own]))))


def spread_log_ratio(logs: NDArray[np.float64]) -> float:
    """Return ln of the product over nonces, given ln E[i, r]: [m, R].

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
    """Return ln of the ratio of all letters together if all records have one nonce: [R, strengths].

    What meets one coin is added up before the coin is asked.
    """
    pooled: dict[int, NDArray[np.float64]] = {}  # of each chain number: [blocks, pairs]
    for reading in readings:
        for number, chain in statistic.pieces(reading):
            sums = pooled.get(number, np.zeros((0, len(PROTEIN_PAIRS))))
            missing = ceil(chain.length / block) - len(sums)
            sums = np.pad(sums, ((0, max(missing, 0)), (0, 0)))
            weights = chain.weights[min(_LEVEL, len(chain.weights) - 1)] * chain.side
            np.add.at(sums, (np.arange(chain.length) // block, chain.pair), weights)
            pooled[number] = sums
    firsts = PROTEIN.encode("".join(pair[0] for pair in PROTEIN_PAIRS))
    found: NDArray[np.float64] = np.zeros((1, len(_STRENGTHS)))
    for number, sums in pooled.items():
        halves = statistic.halves(number, len(sums) * block, STRETCHES)
        coins = halves[:, : len(sums), firsts].astype(np.float64)  # [R, blocks, pairs]
        for_all = np.multiply.outer(_STRENGTHS, sums / 2.0)  # [strengths, blocks, pairs]
        agreed = np.tensordot(coins, for_all, axes=([1, 2], [1, 2]))
        means = np.logaddexp(for_all, -for_all) - log(2.0)  # ln cosh
        found = found + agreed - means.sum(axis=(1, 2))
    return found


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
