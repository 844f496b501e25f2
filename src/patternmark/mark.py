"""Mark what a model generates: draw the keys, then promote their parts at every step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patternmark.chain import NO_KEY
from patternmark.key import Key
from patternmark.promote import bias_table, check_delta, promote


class Marker:
    """The generator's half of a key: it knows no model and no order of generation.

    >>> from patternmark import Key, Marker, Profile
    >>> marker = Marker(Key.generate(Profile()))
    >>> keys = marker.key_sequence(6, seed=1)           # one key for each position
    >>> logits = np.zeros((6, 21))                       # from a model, in any order
    >>> int((marker.promote(logits, keys, temperature=0.1) > 0).sum())  # 10 letters each
    60
    """

    def __init__(self, key: Key, *, delta: float | None = None) -> None:
        self.key = key
        self.delta = check_delta(key.profile.delta if delta is None else delta)
        self._secret = key.require_secret()
        self._members = key.partition.members

    def key_sequence(self, length: int, seed: int | str = 0, index: int = 0) -> NDArray[np.int64]:
        """Draw the keys of one sequence from the chain: [length].

        The same secret, seed and index give the same keys on every machine, whatever else is in
        the batch, and a longer sequence begins like a shorter one.
        """
        return np.asarray(self.key_sequences([length], seed, [index])[0])

    def key_sequences(
        self,
        lengths: Sequence[int],
        seed: int | str = 0,
        indices: Sequence[int] | None = None,
    ) -> NDArray[np.int64]:
        """Draw the keys of a batch, padded with NO_KEY: [batch, longest]."""
        chain, longest = self.key.profile.chain, max(lengths, default=0)
        numbers = list(range(len(lengths))) if indices is None else list(indices)
        first = chain.draw_first(self._secret.uniforms(f"key start/{seed}", numbers))
        if chain.is_deterministic:  # no further randomness: one look-up for the whole batch
            keys = chain.orbits(longest)[first]
        else:
            keys = np.empty((len(numbers), longest), dtype=np.int64)
            for row, index in enumerate(numbers):
                label = f"key sequence/{seed}/{index}"
                later = self._secret.uniforms(label, max(longest - 1, 0)).tolist()
                keys[row] = chain.follow(int(first[row]), later)[:longest]
        keys[np.arange(longest) >= np.array(lengths, dtype=int)[:, None]] = NO_KEY
        return keys

    def bias(self, keys: Any, *, temperature: float) -> NDArray[np.float64]:
        """Return what to add to the raw logits of positions with these keys: [..., V]."""
        return np.asarray(self.table(temperature)[np.asarray(keys)])

    def promote(self, logits: Any, keys: Any, *, temperature: float) -> Any:
        """Return raw logits [..., V] with the parts of `keys` [...] promoted (Eq. 1).

        Divide the result by `temperature` as the sampler always does. numpy and torch alike.
        """
        return promote(logits, keys, self.table(temperature))

    def table(self, temperature: float) -> NDArray[np.float64]:
        """Return the bias of each key, and last of no key: [l + 1, V]."""
        return bias_table(self._members, self.delta, self.key.profile.delta_at, temperature)
