"""Unbiased marks: probability moves to a list so that the mean over keys stays the model's own.

Under the model a list has probability t, and the other scored symbols have u. The list gains

    delta min(t, u)          for delta <= 1
    min(delta t, u)          for delta > 1

and each symbol gains or loses in proportion to its own probability. Under a fair key a list is as
likely as its complement. Up to delta = 1 the one gains what the other loses, so that the mean over
keys is the model's own distribution. Above 1 it is not.
"""

from __future__ import annotations

from typing import Any

from patternmark.models.canvas import library_of

_TINY = 1e-30


def log_factors(law: Any, promoted: Any, scored: Any, delta: Any) -> Any:
    """Return ln of the factor by which each symbol's probability changes: [M, V].

    `law` are logits [M, V], `promoted` the lists [M, V], `scored` the symbols [V] that lists are
    made of, and `delta` the strengths [M]. An empty list changes nothing.

    >>> import numpy as np
    >>> law, promoted = np.log([[0.2, 0.3, 0.5]]), np.array([[True, False, False]])
    >>> moved = np.exp(law + log_factors(law, promoted, np.ones(3, dtype=bool), np.ones(1)))
    >>> moved.round(3).tolist()
    [[0.4, 0.225, 0.375]]
    """
    library = library_of(law)
    p = library.exp(law - library.amax(law, 1)[:, None])
    p = p / p.sum(1)[:, None]
    inside = (p * promoted).sum(1)
    outside = ((p * scored).sum(1) - inside).clip(0.0)
    share = delta.clip(0.0, 1.0)
    moved = share * library.minimum(delta.clip(1.0) * inside, outside)
    up, down = _log_ratio(library, inside, moved), _log_ratio(library, outside, -moved)
    others = library.where(scored, down[:, None], library.zeros_like(law))
    return library.where(promoted, up[:, None], others)


def _log_ratio(library: Any, mass: Any, change: Any) -> Any:
    return library.log((mass + change).clip(_TINY) / mass.clip(_TINY))
