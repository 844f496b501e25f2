"""The hardened scheme: align sequences of unknown nonce and start, and pool their votes.

A cell is one secret bit of a schedule: a block of keys and a pair of letters. Each residue votes
for the sign of its cell: which letter of the pair it is, and the parity of its place in the
schedule. The votes of a cell, weighted by the log-odds L of agreement, give its expected sign
tanh(L / 2). One sequence may be taken to start at phase 0, as only relative phases matter; where
starts fall inside blocks, at the phase within a block that makes its votes agree best.

Several sequences share cells where they share a nonce, and their starts differ by one of a few
steps. Which ones do is unknown. Given the others, a sequence with votes L falls on schedule and
start with a likelihood of prod (1 + m tanh(L / 2)) over cells of expected sign m. We draw from the
posterior by collapsed Gibbs sampling: take some sequences out, draw each a new place (a known
schedule at any start, or a schedule nobody has used), put them back; at last, take the best place
instead of a random one. Clusters of sequences that share a schedule grow from pairs by chance and
stay where they are real.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from patternmark.core.alphabet import PROTEIN, UNREAD
from patternmark.core.blocks import PROTEIN_PAIRS
from patternmark.core.profile import Profile
from patternmark.likelihood import log_mean_exp
from patternmark.statistics.base import padded

_MOST_AT_ONCE = 64  # sequences that find a place together
_SETTLING = 3  # last sweeps, in which the best place is taken
_MOST_FORGERIES_TRIED = 8


@dataclass(frozen=True, eq=False)
class CellKnowledge:
    """The pooled log-odds of every cell of every schedule found."""

    odds: NDArray[np.float32]  # [C, cells]
    schedule_of: NDArray[np.int64]  # [N]
    phase_of: NDArray[np.int64]  # [N]
    best: int
    best_start: int
    geometry: Cells

    def signs(self, schedule: int) -> NDArray[np.float64]:
        """Return the expected sign of each letter under each key: [P, V]."""
        return self.geometry.of_letters(np.tanh(self.odds[schedule] / 2.0))

    @property
    def num_schedules(self) -> int:
        return len(self.odds)

    @property
    def largest(self) -> int:
        """How many sequences the best known schedule has."""
        return int(np.count_nonzero(self.schedule_of == self.best))

    @property
    def bits_learned(self) -> float:
        """What the attacker believes to know of the best schedule, if its alignment is right."""
        odds = np.minimum(np.abs(self.odds[self.best].astype(float)), 30.0)  # p stays below 1
        p = 1.0 / (1.0 + np.exp(-odds))
        return float((1.0 + p * np.log2(p) + (1.0 - p) * np.log2(1.0 - p)).sum())


class Cells:
    """Where each residue votes, for the public parameters of a hardened profile."""

    def __init__(self, profile: Profile) -> None:
        self.period, self.block = profile.period, profile.block
        self.starts = np.arange(profile.starts) * (profile.period // profile.starts)
        self.nonces = profile.nonces
        # The starts that differ in more than whole blocks: where a schedule's first may stand.
        self.origins = np.unique(self.starts % self.block, return_index=True)[1]
        both = np.array([PROTEIN.encode(pair) for pair in PROTEIN_PAIRS])  # [pairs, 2]
        self._pair = np.zeros(PROTEIN.size, dtype=np.int64)
        self._side = np.zeros(PROTEIN.size)  # an unscored letter votes for neither
        self._pair[both[:, 0]] = self._pair[both[:, 1]] = np.arange(len(both))
        self._side[both[:, 0]], self._side[both[:, 1]] = 1.0, -1.0
        self.pairs = len(both)
        self.size = self.period // self.block * self.pairs

    def votes(
        self, symbols: NDArray[np.int64], log_odds: NDArray[np.float64]
    ) -> NDArray[np.float32]:
        """Return the votes of sequences [B, n] at each of the starts: [B, starts, cells]."""
        batch, length = symbols.shape
        letters = np.where(symbols == UNREAD, 0, symbols)
        weight = np.where(symbols == UNREAD, 0.0, (self._side * log_odds)[letters])
        place = (self.starts[:, None] + np.arange(length)) % self.period  # [starts, n]
        cell = (place // self.block)[None] * self.pairs + self._pair[letters][:, None]
        row = np.arange(batch * len(self.starts)).reshape(batch, len(self.starts), 1)
        signed = weight[:, None] * (1.0 - 2.0 * (place % 2))
        flat = np.bincount(
            (row * self.size + cell).ravel(),
            weights=signed.ravel(),
            minlength=batch * len(self.starts) * self.size,
        )
        return flat.reshape(batch, len(self.starts), self.size).astype(np.float32)

    def of_letters(self, signs: NDArray[np.floating]) -> NDArray[np.float64]:
        """Turn signs of cells into signs of letters under every key: [cells] -> [P, V]."""
        by_key = np.repeat(signs.reshape(-1, self.pairs), self.block, axis=0)
        parity = 1.0 - 2.0 * (np.arange(self.period) % 2)
        return np.asarray(parity[:, None] * by_key[:, self._pair] * self._side)


def learn_cells(
    sequences: Sequence[NDArray[np.int64]],
    profile: Profile,
    rates: NDArray[np.float64],
    rng: np.random.Generator,
    *,
    sweeps: int = 24,
) -> CellKnowledge:
    """Align sequences of one key and pool what they say of its schedules."""
    geometry = Cells(profile)
    table = padded(sequences)
    places = _Places(geometry, table, np.log(rates / (1.0 - rates)))
    if len(table) > 1:
        at_once = int(np.clip(len(table) // 8, 1, _MOST_AT_ONCE))
        for sweep in range(sweeps):
            order = rng.permutation(len(table))
            settle = sweep >= sweeps - _SETTLING
            for at in range(0, len(order), at_once):
                places.renew(order[at : at + at_once], None if settle else rng)
    else:
        places.renew(np.zeros(1, dtype=np.int64), None)
    return places.knowledge(table.shape[1])


class _Places:
    """Which schedule and start every sequence has for now, and the votes pooled accordingly."""

    def __init__(
        self, geometry: Cells, symbols: NDArray[np.int64], log_odds: NDArray[np.float64]
    ) -> None:
        self._geometry, self._symbols, self._log_odds = geometry, symbols, log_odds
        most = min(geometry.nonces, len(symbols))
        self._odds = np.zeros((most, geometry.size), dtype=np.float32)  # [C, cells]
        self._members = np.zeros(most, dtype=np.int64)
        self._schedule = np.full(len(symbols), -1)
        self._start = np.zeros(len(symbols), dtype=np.int64)
        self._trust = np.ones(len(symbols))  # [N] how likely its place was when it was taken

    def renew(self, rows: NDArray[np.int64], rng: np.random.Generator | None) -> None:
        """Take sequences out and place them anew: at random, or (without rng) at the best."""
        votes = self._geometry.votes(self._symbols[rows], self._log_odds)  # [B, S, cells]
        for number, row in enumerate(rows.tolist()):
            if self._schedule[row] >= 0:
                self._move(row, votes[number], -1)
        used = np.flatnonzero(self._members)
        scores = self._scores(votes, used)  # [B, S * used + origins]
        known = len(self._geometry.starts) * len(used)
        drawn = scores if rng is None else scores + rng.gumbel(size=scores.shape)
        total = log_mean_exp(scores, total=True)
        for number, row in enumerate(rows.tolist()):
            choice = int(drawn[number].argmax())
            self._trust[row] = np.exp(scores[number, choice] - total[number])
            start, which = divmod(choice, len(used)) if len(used) else (0, 0)
            if choice < known:
                self._schedule[row], self._start[row] = int(used[which]), start
            else:  # a schedule of its own
                fresh = np.flatnonzero(self._members == 0)
                self._schedule[row] = int(fresh[0]) if len(fresh) else 0
                self._start[row] = self._geometry.origins[choice - known]
            self._move(row, votes[number], 1)

    def _move(self, row: int, votes: NDArray[np.float32], sign: int) -> None:
        schedule = self._schedule[row]
        self._odds[schedule] += sign * votes[self._start[row]]
        self._members[schedule] += sign
        if self._members[schedule] == 0:
            self._odds[schedule] = 0.0  # no rounding is left behind

    def _scores(self, votes: NDArray[np.float32], used: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return ln of prior times likelihood of all places; new schedules come last.

        ln(1 + m tanh(L/2)) is taken as m L/2 - m^2 ln cosh(L/2): exact where m is 0 or 1, right
        to second order between, and two matrix products.
        """
        batch, starts, cells = votes.shape
        nonces, origins = self._geometry.nonces, self._geometry.origins
        half = votes.reshape(-1, cells) / 2
        sure = np.abs(half) + np.log1p(np.exp(-2 * np.abs(half))) - np.float32(np.log(2.0))
        expected = np.tanh(self._odds[used] / 2)  # [used, cells]
        shared = half @ expected.T - sure @ (expected**2).T  # [B * S, used]
        alone = sure.sum(axis=1, keepdims=True)  # a sequence's own votes agree or do not
        known = (shared + alone).reshape(batch, -1) - np.log(nonces * starts)
        free = nonces - len(used)
        prior = np.log(free / nonces / len(origins)) if free else -np.inf
        fresh = alone.reshape(batch, starts)[:, origins] + prior
        return np.concatenate([known, fresh], axis=1).astype(float)

    def knowledge(self, length: int) -> CellKnowledge:
        """Return what has been learned, with the best window for a new sequence of a length.

        Much may be "known" of a schedule that only chance put together, so knowledge is weighed by
        how surely its sequences belong to it; if they do not, one of them still says the truth.
        """
        used, schedule = np.unique(self._schedule, return_inverse=True)
        odds = self._odds[used]
        members = np.bincount(schedule)
        trust = np.bincount(schedule, weights=self._trust) / members
        trust += (1.0 - trust) / members
        sure = trust * np.abs(np.tanh(odds / 2)).sum(axis=1)
        best, best_start, most = 0, 0, -1.0
        for candidate in np.argsort(-sure)[:_MOST_FORGERIES_TRIED].tolist():
            signs = np.tanh(odds[candidate] / 2)
            of_keys = np.abs(self._geometry.of_letters(signs)).sum(axis=1)  # [P]
            for start in self._geometry.starts.tolist():
                window = of_keys[(start + np.arange(length)) % len(of_keys)]
                value = trust[candidate] * window.sum()
                if value > most:
                    best, best_start, most = candidate, start, float(value)
        return CellKnowledge(
            odds=odds,
            schedule_of=schedule.astype(np.int64),
            phase_of=self._geometry.starts[self._start],
            best=best,
            best_start=best_start,
            geometry=self._geometry,
        )
