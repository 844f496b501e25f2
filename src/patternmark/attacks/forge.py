"""Use what was learned: write new sequences with the mark one believes in, or edit one away.

There is no structure model here. New sequences are drawn letter by letter from a composition and
tilted as the mark tilts designs, by the measured rates. A forger with a model would promote the
same letters in its logits. One that need not fold can copy a marked sequence as it stands, and no
key prevents that: what is measured are *new* sequences. Promoting harder than an honest mark does
costs the forger's designs some quality and brings more of them past the detector.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from patternmark.core.alphabet import PROTEIN, UNREAD

_AT_ONCE = 256  # sequences drawn together: bounds the memory


class Knowledge(Protocol):
    """What an attacker believes after having seen sequences.

    Signs are expected values: 1 where a position surely promotes a letter, -1 where it surely does
    not, 0 where nothing is known.
    """

    def best_signs(self, length: int) -> NDArray[np.float64]:
        """Return the signs along a new sequence, of the schedule most is known of: [length, V]."""

    def signs_of(self, number: int, length: int) -> NDArray[np.float64]:
        """Return the signs along a seen sequence: [length, V]."""


def composition(sequences: Sequence[NDArray[np.int64]]) -> NDArray[np.float64]:
    """Return how often letters occur in sequences, each counted once more than it does: [V]."""
    letters = np.concatenate([s[s != UNREAD] for s in sequences])
    counts = np.bincount(letters, minlength=PROTEIN.size)[: PROTEIN.size] + 1.0
    counts[list(PROTEIN.unscored)] = 0.0
    return np.asarray(counts / counts.sum())


def tilted(
    signs: NDArray[np.float64], rates: NDArray[np.float64], frequencies: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the law of letters where keys promote by these signs: [..., V] -> [..., V]."""
    law = frequencies * (1.0 + signs * (2.0 * rates - 1.0))
    return np.asarray(law / law.sum(axis=-1, keepdims=True))


def draw(law: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw one letter for every position: [..., V] -> [...]."""
    cumulative = np.cumsum(law, axis=-1)
    uniforms = rng.random((*law.shape[:-1], 1)) * cumulative[..., -1:]
    return np.asarray((uniforms >= cumulative[..., :-1]).sum(axis=-1))


def forge(
    knowledge: Knowledge,
    lengths: Sequence[int],
    rates: NDArray[np.float64],
    frequencies: NDArray[np.float64],
    rng: np.random.Generator,
) -> list[NDArray[np.int64]]:
    """Write new sequences of these lengths with the mark of the best known schedule.

    Believed signs are taken for true, however faint the belief: agreement is linear in the tilt,
    so no other use of so much strength agrees more often on average.
    """
    believed = np.sign(knowledge.best_signs(max(lengths, default=0)))
    law = tilted(believed, rates, frequencies)  # [n, V]
    forged: list[NDArray[np.int64]] = []
    for at in range(0, len(lengths), _AT_ONCE):
        some = lengths[at : at + _AT_ONCE]
        letters = draw(np.repeat(law[None, : max(some)], len(some), axis=0), rng)
        forged += [row[:length] for row, length in zip(letters, some, strict=True)]
    return forged


def draw_unmarked(
    lengths: Sequence[int], frequencies: NDArray[np.float64], rng: np.random.Generator
) -> list[NDArray[np.int64]]:
    """Write sequences the same way, without any mark."""
    return [rng.choice(len(frequencies), size=length, p=frequencies) for length in lengths]


def strip(
    sequence: NDArray[np.int64],
    knowledge: Knowledge,
    number: int,
    rates: NDArray[np.float64],
    edits: int,
) -> NDArray[np.int64]:
    """Replace the `edits` letters of seen sequence `number` that speak most for the mark.

    Each is replaced by the letter that speaks most against it. `rates` say how often a letter
    agrees: of letters [V], or of the letters at each position [n, V].
    """
    signs = knowledge.signs_of(number, len(sequence))
    log_agree, log_other = np.log(2.0 * rates), np.log(2.0 * (1.0 - rates))
    agrees = (1.0 + signs) / 2.0  # [n, V] how likely the letter would agree
    evidence = agrees * log_agree + (1.0 - agrees) * log_other
    evidence[:, list(PROTEIN.unscored)] = np.inf  # never written
    place = np.arange(len(sequence))
    gain = evidence[place, sequence] - evidence.min(axis=1)
    gain[sequence == UNREAD] = -np.inf
    chosen = np.argsort(-gain, kind="stable")[: min(edits, np.count_nonzero(sequence != UNREAD))]
    edited = sequence.copy()
    edited[chosen] = evidence[chosen].argmin(axis=1)
    return edited


def random_edits(
    sequence: NDArray[np.int64],
    edits: int,
    frequencies: NDArray[np.float64],
    rng: np.random.Generator,
) -> NDArray[np.int64]:
    """Replace as many letters at random places by other letters, as frequent as they are."""
    readable = np.flatnonzero(sequence != UNREAD)
    chosen = rng.choice(readable, size=min(edits, len(readable)), replace=False)
    law = np.repeat(frequencies[None], len(chosen), axis=0)
    law[np.arange(len(chosen)), sequence[chosen]] = 0.0
    edited = sequence.copy()
    edited[chosen] = draw(law, rng)
    return edited
