"""The detector of block marks: an e-value that holds for any sequence, and a sharper p-value.

E averages the exact ratio (`block_paths`) over everything that is unknown: the nonce, the strength
of the mark, lost and inserted residues, which part of the chain is marked, and which chain of the
design this is. Chains of a record share a nonce but each has its own coins, so their ratios are
multiplied.

    p_any = 1 / E      holds for every sequence, whoever wrote it: P(E >= t) <= 1 / t over keys
    p_value = C / E    is smaller: C is the largest t P(E >= t) that was measured for natural
                       chains, designs, repeats and sequences written to deceive the detector
                       (`bench block-null`)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from hashlib import sha256
from math import log
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from patternmark.core.alphabet import PROTEIN, UNREAD
from patternmark.core.blocks import halves_of, pair_of_letter, side_of_letter
from patternmark.core.key import Key
from patternmark.core.reading import Reading
from patternmark.core.schemes import Blocks
from patternmark.errors import ParameterError
from patternmark.evidence import markov
from patternmark.fast.compiled import together
from patternmark.null.block_bound import log_c
from patternmark.statistics.base import CURVE_POINTS, Measurement, NullCurve, likeliest_nonce
from patternmark.statistics.block_paths import (
    BlockChain,
    Component,
    Look,
    log_ratios,
    num_blocks,
)
from patternmark.statistics.block_screen import (
    Packed,
    blocks_reached,
    log_ratio_of_path,
    looks,
    pack,
    score,
)
from patternmark.statistics.likelihood import log_mean_exp
from patternmark.statistics.rates import agreement_rates

SHORT = 200  # scored residues; chains below this length are more often cut out of a design
# What numpy needs for a record: counted for 100 to 1,000 residues, 32 nonces and no mark.
ADDITIONS_PER_LETTER, CALLS_PER_LETTER = 10_500, 107  # additions: for each nonce
UNMARKED = 0.1  # probability that one of several chains of a marked record carries no mark


@dataclass(frozen=True)
class Mixture:
    """Components with their weights for long and for short chains, and `unusual` components.

    The unusual ones share a small part of the weight. They are added up only if a quick estimate
    says that they matter.
    """

    components: tuple[Component, ...]
    weights: tuple[float, ...]
    short_weights: tuple[float, ...]
    unusual: tuple[Component, ...] = ()
    unusual_share: float = 0.0

    @property
    def every(self) -> tuple[Component, ...]:
        return self.components + self.unusual

    @cached_property
    def digest(self) -> str:
        """A hash that identifies this mixture and the rates of letters."""
        rates = agreement_rates(PROTEIN, Blocks.name).tobytes()
        return sha256(repr(self).encode() + rates).hexdigest()[:8]

    @property
    def of_other_chain(self) -> Component:
        """The component for records whose chain numbers differ from those of the design."""
        return self.components[1]

    def log_weights(self, scored: int) -> NDArray[np.float64]:
        """Return ln of the weights of all components for a number of scored residues: [C]."""
        usual = np.array(self.short_weights if scored < SHORT else self.weights)
        each = self.unusual_share / max(len(self.unusual), 1)
        return np.log([*usual * (1.0 - self.unusual_share), *[each] * len(self.unusual)])


# Components and weights were chosen on a third of the backbones that no reported number uses.
MIXTURE = Mixture(
    (
        Component(0, 0.003),
        Component(2, 0.02),
        Component(1, 0.08),
        Component(2, 0.2),
        Component(2, 0.004, "inside"),
        Component(3, 0.004, "anywhere"),
        Component(2, 0.004, "anywhere"),
    ),
    weights=(0.46, 0.03, 0.17, 0.05, 0.23, 0.03, 0.03),
    short_weights=(0.04, 0.22, 0.05, 0.02, 0.05, 0.42, 0.20),
    # Someone only removed residues, or only inserted some: a tenth of all positions or more.
    unusual=tuple(
        Component(2, slip, growth=growth)
        for slip, growth in ((0.11, -0.1), (0.21, -0.19), (0.31, -0.29), (0.11, 0.1), (0.3, 0.27))
    ),
    unusual_share=0.08,
)
# Rates of positions already say how strong the mark is at each position: fewer levels are needed.
BACKBONE_MIXTURE = Mixture(
    (
        Component(0, 0.003),
        Component(1, 0.003),
        Component(2, 0.003),
        Component(1, 0.05),
        Component(1, 0.004, "anywhere"),
    ),
    weights=(0.25, 0.30, 0.20, 0.15, 0.10),
    short_weights=(0.20, 0.30, 0.25, 0.10, 0.15),
)
# Chains of a record may have other numbers than in their design. If the record lacks the first
# chains of the design, it begins with chain 1, 2 or 3; if it begins with foreign chains, chain 0
# comes later.
_LACKING, _BEFORE = (1, 2, 3), (-1, -2)
_SHIFTED_SHARE = 0.1  # the assumed share of such records
_CLEAR_LOG_E = 12.0  # ln E of a mark that is clear without the other branches


class BlockCoins(Protocol):
    """A source of coins: the schedule of a key, or drawn coins."""

    block: int
    nonces: int

    def words(self, chain: int, blocks: int) -> NDArray[np.uint16]:
        """Return the coins of the first blocks of a chain: [blocks, R]."""


class NumberedChain(NamedTuple):
    """A chain and its number in the record."""

    number: int
    chain: BlockChain


class Branch(NamedTuple):
    """Components that E averages over, for one shift between the chain numbers."""

    shift: int  # chain c of the record is chain c + shift of the design
    components: tuple[Component, ...]
    log_weights: NDArray[np.float64]  # [C]

    def chains_in_design(self, pieces: Sequence[NumberedChain]) -> list[NumberedChain]:
        """Return the chains that belong to the design: those whose number is 0 or more there."""
        return [piece for piece in pieces if piece.number + self.shift >= 0]


@lru_cache(1024)
def _branches(mixture: Mixture, scored: int, chains: int) -> list[Branch]:
    weights = mixture.log_weights(scored) + log(1.0 - _SHIFTED_SHARE)
    usual = len(mixture.components)
    shifts = [*_LACKING, *(shift for shift in _BEFORE if chains + shift > 0)]
    share = np.array([log(_SHIFTED_SHARE / len(shifts))])
    return [
        Branch(0, mixture.components, weights[:usual]),
        *(
            Branch(0, (component,), np.array([weight]))
            for component, weight in zip(mixture.unusual, weights[usual:], strict=True)
        ),
        *(Branch(shift, (mixture.of_other_chain,), share) for shift in shifts),
    ]


def _mix_unmarked(log_ratios: NDArray[np.float64], chains: int) -> NDArray[np.float64]:
    """Return ln of a chain's ratio, averaged with 1 if it is one of several: it may be unmarked."""
    if chains == 1:
        return log_ratios
    mixed: NDArray[np.float64] = np.logaddexp(log_ratios + log(1.0 - UNMARKED), log(UNMARKED))
    return mixed


class BlockStatistic:
    """ln E of block marks; `auto` has the sharper p-value, `lr` the one for any sequence."""

    def __init__(
        self, coins: BlockCoins, *, name: str = "auto", source: str = "", screens: bool = True
    ) -> None:
        """With `screens`, only terms that a quick estimate finds likely are added up.

        Leaving out terms makes an average smaller, so p-values remain valid.
        """
        self.name = name
        self._screens = screens
        self.coins = coins
        self._source = source
        self.mixture = BACKBONE_MIXTURE if source else MIXTURE
        rates = agreement_rates(PROTEIN, Blocks.name)
        self._weights = np.append(np.log(rates / (1.0 - rates)), np.zeros((len(rates), 1)), axis=1)
        null = "markov" if name == "lr" else f"c-{log_c.digest(coins.block, self.mixture.digest)}"
        self.signature = f"{source}{'|' if source else ''}mixture:{self.mixture.digest}|null:{null}"
        self._halves: dict[int, NDArray[np.int8]] = {}
        self._bits: dict[int, Packed] = {}

    @classmethod
    def of(cls, key: Key, *, name: str = "auto", source: str = "") -> BlockStatistic:
        """Return the statistic for a key; `source` says where rates of positions come from."""
        return cls(key.schedule, name=name, source=source)  # type: ignore[arg-type]

    def with_coins(self, coins: BlockCoins) -> BlockStatistic:
        """Return this statistic for another key."""
        return BlockStatistic(coins, name=self.name, source=self._source, screens=self._screens)

    def measure(self, readings: Sequence[Reading]) -> list[Measurement]:
        """Measure every record; nothing in it is masked."""
        with together(*self._work(readings)):
            return [self._judge(reading) for reading in readings]

    def null_curve(self, reading: Reading, statistic: float) -> NullCurve:
        """Return ln p against ln E."""
        values = np.linspace(min(statistic, 0.0), 1.1 * max(statistic, 10.0), CURVE_POINTS)
        heights = self._log_p(values, reading)
        return NullCurve.of_tail(values, heights, statistic, "ln of the likelihood ratio")

    def _judge(self, reading: Reading) -> Measurement:
        pieces = self.pieces(reading)
        by_nonce = self._mix(reading, pieces)  # [R]
        total = float(log_mean_exp(by_nonce)) if reading.num_scored else 0.0
        payload, error = likeliest_nonce(by_nonce)
        log_p, floor = self._log_p(np.array([total, self._largest(pieces)]), reading)
        return Measurement(
            statistic=total,
            expected=None,
            log_p=float(log_p),
            log_p_floor=float(floor),
            payload=payload,
            payload_error=error,
            log_p_any=float(markov(np.array(total))),
        )

    def log_ratios(self, reading: Reading) -> NDArray[np.float64]:
        """Return ln of the mixed ratio of each nonce: [R]."""
        with together(*self._work([reading])):
            return self._mix(reading, self.pieces(reading))

    def _work(self, readings: Sequence[Reading]) -> tuple[int, int]:
        """Return how many additions and calls numpy needs for records, about."""
        letters = sum(len(reading.symbols) for reading in readings)
        return ADDITIONS_PER_LETTER * self.coins.nonces * letters, CALLS_PER_LETTER * letters

    def _mix(self, reading: Reading, pieces: Sequence[NumberedChain]) -> NDArray[np.float64]:
        first, *others = self.branches(reading)
        logs = [self._of_chains(pieces, first) + first.log_weights]
        if self._screens:
            shown = log_mean_exp(log_mean_exp(logs[0], total=True))
            others = [b for b in others if shown <= _CLEAR_LOG_E and self._is_in_reach(pieces, b)]
        logs += [self._of_chains(pieces, branch) + branch.log_weights for branch in others]
        return log_mean_exp(np.concatenate(logs, axis=1), total=True)

    def _is_in_reach(self, pieces: Sequence[NumberedChain], branch: Branch) -> bool:
        """Whether a branch of one component may add 1 or more to E, judging by best paths."""
        total = np.full(self.coins.nonces, branch.log_weights[0] - log(self.coins.nonces))
        pieces = branch.chains_in_design(pieces)
        for number, chain in pieces:
            packed = self._packed(number + branch.shift, chain.length)
            estimate = log_ratio_of_path(chain, packed, branch.components[0].pace)
            total += _mix_unmarked(estimate, len(pieces))
        return bool(total.max() >= 0.0)

    def branches(self, reading: Reading) -> list[Branch]:
        """Return what E averages over besides the nonce, with the logarithms of weights."""
        return _branches(self.mixture, min(reading.num_scored, SHORT), len(reading.chains))

    def _of_chains(self, pieces: Sequence[NumberedChain], branch: Branch) -> NDArray[np.float64]:
        """Return ln of the product of the ratios of a record's chains: [R, C]."""
        shift, components, _ = branch
        total = np.zeros((self.coins.nonces, len(components)))
        pieces = branch.chains_in_design(pieces)
        chosen = self._looks(pieces, shift, components)
        for (number, chain), own in zip(pieces, chosen, strict=True):
            halves = self.halves(number + shift, chain.length, components)
            found = log_ratios(chain, halves, self.coins.block, components, own)
            total += _mix_unmarked(found, len(pieces))
        return total

    def _looks(
        self, pieces: Sequence[NumberedChain], shift: int, components: Sequence[Component]
    ) -> list[list[Look] | None]:
        """Return which nonces and components to add up for each chain; None: all.

        Chains of a record share a nonce: one that is likely for one chain is used for all.
        """
        if not self._screens:
            return [None] * len(pieces)
        loose = any(component.begins != "start" for component in components)
        pace = components[0].pace
        scores = [
            score(chain, self._packed(number + shift, chain.length), pace=pace, loose=loose)
            for number, chain in pieces
        ]
        anchored = sum((own.anchored for own in scores), np.zeros(self.coins.nonces, np.int64))
        return [
            looks(own._replace(anchored=anchored), chain.length, components)
            for own, (_, chain) in zip(scores, pieces, strict=True)
        ]

    def _packed(self, chain: int, length: int) -> Packed:
        """Return the coins of the blocks that a chain may reach, packed as bits."""
        known = self._bits.get(chain)
        if known is None or known.longest < length:
            longest = length + length // 4
            words = self.coins.words(chain, blocks_reached(self.coins.block, longest))
            known = self._bits[chain] = pack(words, self.coins.block, longest)
        return known

    def halves(self, chain: int, length: int, components: Sequence[Component]) -> NDArray[np.int8]:
        """Return what each block that a chain may reach promotes: [R, J, V]."""
        needed = num_blocks(length, self.coins.block, components)
        known = self._halves.get(chain)
        if known is None or known.shape[1] < needed:
            words = self.coins.words(chain, needed + needed // 4)
            known = np.ascontiguousarray(halves_of(words).transpose(1, 0, 2))
            self._halves[chain] = known
        return known[:, :needed]

    def pieces(self, reading: Reading) -> list[NumberedChain]:
        """Return the chains with scored positions, numbered as in the record."""
        return [
            NumberedChain(number, self._chain(reading, rows))
            for number, rows in enumerate(reading.chains)
            if np.any(reading.symbols[rows] != UNREAD)
        ]

    def _chain(self, reading: Reading, rows: slice) -> BlockChain:
        symbols = reading.symbols[rows]
        if not self._source:
            weights = self._weights[:, symbols]  # UNREAD is -1: the last column, 0
        elif reading.rates is None:
            raise ParameterError(
                "this detector needs the rates of positions that a model gives: pass them as "
                "rates (see patternmark.statistics.expected_rates)"
            )
        else:
            rates = reading.rates[:, rows]
            weights = np.where(symbols != UNREAD, np.log(rates / (1.0 - rates)), 0.0)
        letters = np.where(symbols == UNREAD, 0, symbols)
        return BlockChain(letters, weights, pair_of_letter()[letters], side_of_letter()[letters])

    def _log_p(self, totals: NDArray[np.float64], reading: Reading) -> NDArray[np.float64]:
        """Return ln p for values of ln E."""
        if self.name == "lr":
            return markov(totals)
        longest = max((int(np.count_nonzero(p != UNREAD)) for p in reading.parts), default=0)
        return log_c.log_p(self.coins.block, self.mixture.digest, longest, totals)

    def _largest(self, pieces: Sequence[NumberedChain]) -> float:
        """Return ln E if every letter agreed with one nonce: the largest possible value."""
        # A letter that is not scored has weight 0 and adds nothing.
        strongest = [piece.chain.weights.max(axis=0) for piece in pieces]
        agreeing = sum(float((log(2.0) - np.logaddexp(0.0, -own)).sum()) for own in strongest)
        return max(agreeing - log(self.coins.nonces), 0.0)
