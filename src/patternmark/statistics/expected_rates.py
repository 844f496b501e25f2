"""Expected rates: how often each position of a sequence agrees with its key if a model wrote it.

Where a model allows only one letter, a mark hardly shows; where it hesitates between letters, the
mark decides. With the model we can tell such positions apart. Let p be the model's law at a
position (as sampled, without a mark). A key that promotes the half H multiplies the probability of
the letter x by

    e^d / (1 + (e^d - 1) p(H))   if x is in H,       1 / (1 + (e^d - 1) p(H))   if it is not.

Averaged over random halves these are a and b, and a / (a + b) is the rate of agreement. The halves
are public and independent of the key: rates depend only on the sequence, so agreement with the key
remains a fair coin. Wrong rates (another temperature, other weights) make a detector weaker, never
invalid.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from patternmark.core.alphabet import PROTEIN
from patternmark.core.blocks import PROTEIN_PAIRS, halves_of
from patternmark.core.profile import Profile
from patternmark.core.schemes import Blocks, Paper
from patternmark.errors import ParameterError

STRENGTHS = (0.25, 0.5, 1.0)  # the deltas that are tested; marks in between are found too
_NUM_HALVES = 64  # random halves; each is used with its complement
_SEED = 20261115  # of the halves
_UNEXPECTED_SHARE = 0.02  # assumed share of positions written otherwise: keeps rates away from 1
_MIN_MASS = 1e-300  # avoids division by 0 if a half has no mass
_MIN_TRUST = 1e-6  # weight of a decoding order, even if the letter was impossible in it


def level_of(delta: float) -> int:
    """Return the level whose strength is nearest to delta."""
    return int(np.argmin(np.abs(np.array(STRENGTHS) - delta)))


def position_rates(
    laws: NDArray[np.float64], symbols: NDArray[np.int64], profile: Profile, temperature: float
) -> NDArray[np.float64]:
    """Return the rate of every position at every strength: [levels, n].

    `laws` [orders, n, V] are the model's probabilities as sampled at `temperature`, in several
    orders of decoding; `symbols` [n] are the letters of the sequence.
    """
    if profile.alphabet != PROTEIN:
        raise ParameterError(
            f"rates of positions exist only for proteins, not for {profile.alphabet.name!r}"
        )
    halves = random_halves(profile)
    contained = halves[:, symbols].T  # [n, halves]
    masses = laws @ halves.T.astype(np.float64)  # [orders, n, halves]
    chosen = laws[:, np.arange(len(symbols)), symbols] + _MIN_TRUST  # [orders, n]
    trust = chosen / chosen.sum(axis=0)
    rates = []
    for delta in STRENGTHS:
        # Both sides are divided by e^delta, which overflows at a low temperature.
        lowered = np.exp(-(delta / temperature if profile.delta_at == "logits" else delta))
        share = np.maximum(lowered + (1.0 - lowered) * masses, _MIN_MASS)
        odds = np.einsum("on,onh->nh", trust, 1.0 / share)
        inside = np.where(contained, odds, 0.0).sum(axis=1)
        outside = lowered * np.where(contained, 0.0, odds).sum(axis=1)
        rates.append(inside / (inside + outside))
    return np.asarray((1.0 - _UNEXPECTED_SHARE) * np.array(rates) + _UNEXPECTED_SHARE / 2)


def random_halves(profile: Profile) -> NDArray[np.bool_]:
    """Draw halves like those of the scheme's keys, each with its complement: [halves, V].

    >>> halves = random_halves(Profile(scheme=Paper()))
    >>> len(halves), set(halves.sum(axis=1).tolist()), float(halves[:, 0].mean())
    (128, {10}, 0.5)
    """
    halves = _DRAWN_BY[profile.scheme.name](np.random.default_rng(_SEED))
    others = np.zeros_like(halves)
    others[:, PROTEIN.scored] = ~halves[:, PROTEIN.scored]
    return np.concatenate([halves, others])


def _halves_of_parts(rng: np.random.Generator) -> NDArray[np.bool_]:
    """Draw any halves of the letters: [_NUM_HALVES, V]."""
    size = PROTEIN.num_scored
    ranks = np.argsort(rng.random((_NUM_HALVES, size)), axis=1)
    halves = np.zeros((_NUM_HALVES, PROTEIN.size), dtype=bool)
    halves[:, PROTEIN.scored] = ranks < size // 2
    return halves


def _halves_of_blocks(rng: np.random.Generator) -> NDArray[np.bool_]:
    """Draw one letter of each pair by coins, like blocks do: [_NUM_HALVES, V]."""
    return halves_of(rng.integers(2 ** len(PROTEIN_PAIRS), size=_NUM_HALVES, dtype=np.uint16)) > 0


_DRAWN_BY = {Paper.name: _halves_of_parts, Blocks.name: _halves_of_blocks}
