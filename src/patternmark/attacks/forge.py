"""Use what was learned: write new sequences with the learned mark, or remove a mark by edits.

No structure model is used. New sequences are drawn letter by letter from a composition, and tilted
by the measured rates as a mark tilts designs. A forger with a model would promote the same letters
in its logits. Anyone can copy a marked sequence unchanged, and no key prevents that: what is
measured are *new* sequences. Promoting more strongly than an honest mark costs the forger's designs
some quality, and more of them are called marked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from patternmark.core.alphabet import PROTEIN, UNREAD

_SEQUENCES_AT_ONCE = 256  # sequences that are drawn together: limits the memory


class Knowledge(Protocol):
    """What an attacker believes after seeing marked sequences.

    Signs are expected values: 1 if a position certainly promotes a letter, -1 if it certainly does
    not, 0 if nothing is known.
    """

    def best_signs(self, length: int) -> NDArray[np.float64]:
        """Return the signs along a new sequence under the best known schedule: [length, V]."""

    def signs_of(self, number: int, length: int) -> NDArray[np.float64]:
        """Return the signs along a seen sequence: [length, V]."""


def composition(sequences: Sequence[NDArray[np.int64]]) -> NDArray[np.float64]:
    """Return the frequencies of letters in sequences, after adding 1 to each count: [V]."""
    letters = np.concatenate([s[s != UNREAD] for s in sequences])
    counts = np.bincount(letters, minlength=PROTEIN.size)[: PROTEIN.size] + 1.0
    counts[list(PROTEIN.unscored)] = 0.0
    return np.asarray(counts / counts.sum())


def tilt(
    signs: NDArray[np.float64], rates: NDArray[np.float64], frequencies: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the law of letters if keys promote them by these signs: [..., V] -> [..., V]."""
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

    Believed signs are treated as certain, however weak the belief is: agreement is linear in the
    tilt, so for this strength no other choice agrees more often on average.
    """
    believed = np.sign(knowledge.best_signs(max(lengths, default=0)))
    law = tilt(believed, rates, frequencies)  # [n, V]
    forged: list[NDArray[np.int64]] = []
    for at in range(0, len(lengths), _SEQUENCES_AT_ONCE):
        some = lengths[at : at + _SEQUENCES_AT_ONCE]
        letters = draw(np.repeat(law[None, : max(some)], len(some), axis=0), rng)
        forged += [row[:length] for row, length in zip(letters, some, strict=True)]
    return forged


def draw_unmarked(
    lengths: Sequence[int], frequencies: NDArray[np.float64], rng: np.random.Generator
) -> list[NDArray[np.int64]]:
    """Write sequences like `forge` does, but without a mark."""
    return [rng.choice(len(frequencies), size=length, p=frequencies) for length in lengths]


def strip(
    sequence: NDArray[np.int64],
    knowledge: Knowledge,
    number: int,
    rates: NDArray[np.float64],
    edits: int,
) -> NDArray[np.int64]:
    """Replace the `edits` letters of seen sequence `number` that are most evidence for the mark.

    Each is replaced by the letter that is most evidence against it. `rates` say how often a letter
    agrees: for each letter [V], or for the letters at each position [n, V].
    """
    signs = knowledge.signs_of(number, len(sequence))
    log_agree, log_other = np.log(2.0 * rates), np.log(2.0 * (1.0 - rates))
    agrees = (1.0 + signs) / 2.0  # [n, V] probability that the letter would agree
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
    """Replace letters at random places by other letters, drawn by their frequencies."""
    readable = np.flatnonzero(sequence != UNREAD)
    chosen = rng.choice(readable, size=min(edits, len(readable)), replace=False)
    law = np.repeat(frequencies[None], len(chosen), axis=0)
    law[np.arange(len(chosen)), sequence[chosen]] = 0.0
    edited = sequence.copy()
    edited[chosen] = draw(law, rng)
    return edited
