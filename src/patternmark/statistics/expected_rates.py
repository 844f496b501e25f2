"""How often each position of a given sequence should agree with its key, if a model wrote it.

Where a model leaves a position no choice, a mark hardly shows; where it wavers between letters,
the mark decides. Who has the model can tell one from the other. With p the model's law at a
position (as sampled, without a mark), a key that promotes the half H makes the letter x likelier by

    e^d / (1 + (e^d - 1) p(H))   where x is in H,       1 / (1 + (e^d - 1) p(H))   where it is not.

Averaged over random halves these are a and b, and a / (a + b) is the rate of agreement. The halves
are public and have nothing to do with the key's: rates depend on the sequence alone, never on the
key, and agreement with the key stays as fair a coin as it was. Wrong rates (another temperature,
other weights) make a detector weaker, never invalid.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from patternmark.core.alphabet import PROTEIN
from patternmark.core.blocks import PROTEIN_PAIRS, halves_of
from patternmark.core.profile import Profile
from patternmark.core.schemes import Blocks, Paper
from patternmark.errors import ParameterError

STRENGTHS = (0.25, 0.5, 1.0)  # the deltas that are looked for; what lies between is found as well
_HALVES = 64  # each with its complement
_SEED = 20261115  # of the halves
_DOUBT = 0.02  # the share of positions that were not written as expected: no rate is near 1
_SMALLEST = 1e-300  # where neither delta nor the model leaves a half any mass
_LEAST = 1e-6  # a decoding order in which a letter was unlikely counts for little, not for nothing


def level_of(delta: float) -> int:
    """Return which of the levels of rates is nearest to a strength."""
    return int(np.argmin(np.abs(np.array(STRENGTHS) - delta)))


def position_rates(
    laws: NDArray[np.float64], symbols: NDArray[np.int64], profile: Profile, temperature: float
) -> NDArray[np.float64]:
    """Return the rate of every position at every strength: [levels, n].

    `laws` [orders, n, V] are the model's probabilities as sampled at `temperature`, in several
    orders of decoding; `symbols` [n] the letters that were chosen.
    """
    if profile.alphabet != PROTEIN:
        raise ParameterError("rates of positions are known for proteins alone")
    halves = random_halves(profile)
    contained = halves[:, symbols].T  # [n, halves]
    masses = laws @ halves.T.astype(np.float64)  # [orders, n, halves]
    chosen = laws[:, np.arange(len(symbols)), symbols] + _LEAST  # [orders, n]
    trust = chosen / chosen.sum(axis=0)
    rates = []
    for delta in STRENGTHS:
        # Divided by e^delta on both sides: at a low temperature that is more than floats hold.
        lowered = np.exp(-(delta / temperature if profile.delta_at == "logits" else delta))
        share = np.maximum(lowered + (1.0 - lowered) * masses, _SMALLEST)
        odds = np.einsum("on,onh->nh", trust, 1.0 / share)
        inside = np.where(contained, odds, 0.0).sum(axis=1)
        outside = lowered * np.where(contained, 0.0, odds).sum(axis=1)
        rates.append(inside / (inside + outside))
    return np.asarray((1.0 - _DOUBT) * np.array(rates) + _DOUBT / 2)


def random_halves(profile: Profile) -> NDArray[np.bool_]:
    """Draw halves as keys of the scheme have them, each with its complement: [halves, V].

    >>> halves = random_halves(Profile(scheme=Paper()))
    >>> len(halves), set(halves.sum(axis=1).tolist()), float(halves[:, 0].mean())
    (128, {10}, 0.5)
    """
    halves = _DRAWN_BY[profile.scheme.name](np.random.default_rng(_SEED))
    others = np.zeros_like(halves)
    others[:, PROTEIN.scored] = ~halves[:, PROTEIN.scored]
    return np.concatenate([halves, others])


def _halves_of_parts(rng: np.random.Generator) -> NDArray[np.bool_]:
    """Draw any half of the letters: [_HALVES, V]."""
    size = PROTEIN.num_scored
    ranks = np.argsort(rng.random((_HALVES, size)), axis=1)
    halves = np.zeros((_HALVES, PROTEIN.size), dtype=bool)
    halves[:, PROTEIN.scored] = ranks < size // 2
    return halves


def _halves_of_blocks(rng: np.random.Generator) -> NDArray[np.bool_]:
    """Draw the coins of blocks: one letter of each pair: [_HALVES, V]."""
    return halves_of(rng.integers(2 ** len(PROTEIN_PAIRS), size=_HALVES, dtype=np.uint16)) > 0


_DRAWN_BY = {Paper.name: _halves_of_parts, Blocks.name: _halves_of_blocks}
