"""Marks that keep a law in the mean: probability moves to a list, or away from it.

Let a list have the probability t under the model, and the other scored symbols u. What moves to
the list is

    delta min(t, u)          for delta <= 1
    min(delta t, u)          for more

shared in proportion. A list and its complement are as likely under a fair key: up to delta = 1 what
one gains the other loses, so that the mean over keys is the model's own law. Beyond, it is not.
"""

from __future__ import annotations

from typing import Any

from patternmark.models.canvas import library_of

_TINY = 1e-30


def log_factors(law: Any, promoted: Any, scored: Any, delta: Any) -> Any:
    """Return ln of the factor of each symbol's probability: [M, V].

    `law` are logits [M, V], `promoted` the lists [M, V], `scored` the symbols [V] that lists are
    made of, `delta` the strengths [M]. An empty list changes nothing.

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
