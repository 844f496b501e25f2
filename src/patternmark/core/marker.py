"""Mark what a model generates: draw the keys, then promote their parts at every step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patternmark.core.alphabet import NO_KEY
from patternmark.core.key import Key
from patternmark.core.promote import (
    Promotion,
    check_delta,
    different_keys,
    strength_of,
)
from patternmark.core.secret import fresh_seed
from patternmark.errors import ParameterError

_MOST_BITS = 31  # of a signed 32-bit number


class Marker:
    """The generator's half of a key: it knows no model and no order of generation.

    >>> from patternmark import Key, Marker, Profile
    >>> marker = Marker(Key.generate(Profile()))
    >>> keys = marker.key_sequence(6, seed=1)           # one key for each position
    >>> logits = np.zeros((6, 21))                       # from a model, in any order
    >>> int((marker.promote(logits, keys, temperature=0.1) > 0).sum())  # 10 letters each
    60
    """

    def __init__(self, key: Key, *, delta: float | None = None, payload: int | None = None) -> None:
        self.key = key
        self.payload = _checked_payload(key, payload)
        self.delta = check_delta(key.profile.delta if delta is None else delta)
        self._secret = key.require_secret()

    def with_delta(self, delta: float) -> Marker:
        """Return one of another strength."""
        return self if delta == self.delta else Marker(self.key, delta=delta, payload=self.payload)

    def key_sequence(
        self, length: int, seed: int | str | None = None, index: int = 0, *, chain: int = 0
    ) -> NDArray[np.int64]:
        """Draw the keys of one sequence: [length].

        Without a seed they are drawn afresh at every call. The same secret, seed, index and chain
        give the same keys on every machine, whatever else is in the batch, and a longer sequence
        begins like a shorter one.
        """
        return np.asarray(self.key_sequences([length], seed, [index], chain=chain)[0])

    def key_sequences(
        self,
        lengths: Sequence[int],
        seed: int | str | None = None,
        indices: Sequence[int] | None = None,
        *,
        chain: int = 0,
        nonces: Sequence[int] | None = None,
    ) -> NDArray[np.int64]:
        """Draw the keys of a batch, padded with NO_KEY: [batch, longest].

        Without a seed they are drawn afresh at every call. `chain` is the number of the chain in
        its record, from 0. All chains of a record have one nonce: that in `nonces`, or else the
        payload, or else the one that the secret draws for the seed and the sequence's index.
        """
        longest = max(lengths, default=0)
        numbers = list(range(len(lengths))) if indices is None else list(indices)
        label = f"{fresh_seed() if seed is None else seed}"
        chosen = self.nonces(label, numbers) if nonces is None else self._checked(nonces)
        scheme = self.key.profile.scheme
        keys = scheme.draw_keys(self._secret, longest, label, numbers, chosen, chain)
        if min(lengths, default=0) < longest:
            keys[np.arange(longest) >= np.array(lengths, dtype=int)[:, None]] = NO_KEY
        return keys

    def nonces(self, seed: int | str, indices: Sequence[int]) -> NDArray[np.int64]:
        """Return the nonces of sequences of a seed, whatever their chains: [batch]."""
        if self.payload is not None:
            return np.full(len(indices), self.payload, dtype=np.int64)
        number = self.key.profile.scheme.nonces
        if number == 1:
            return np.zeros(len(indices), dtype=np.int64)
        return (self._secret.uniforms(f"nonce/{seed}", indices) * number).astype(np.int64)

    def sampler_seed(self, seed: int | str) -> int:
        """Return a seed for a sampler's own randomness that only who has the secret can work out.

        A sampler with a public seed can be run again, and then every letter tells far more of
        what its key promotes.
        """
        return int.from_bytes(self._secret.subkey(f"sampler/{seed}")[:8], "big") >> 1

    def _checked(self, nonces: Sequence[int]) -> NDArray[np.int64]:
        given, number = np.asarray(nonces, dtype=np.int64), self.key.profile.scheme.nonces
        if given.size and not 0 <= given.min() <= given.max() < number:
            raise ParameterError(f"key {self.key.key_id} has nonces from 0 to {number - 1}")
        return given

    def prepare(self, keys: Any, temperature: float, *, like: Any = None) -> Promotion:
        """Return the bias of positions with these keys [...], to be added at every step.

        `like` are logits (or any tensor) on the device where it is to be kept. Only the keys that
        occur are worked out, so that the size of the vocabulary matters little.

        >>> from patternmark import Key, Marker, Profile
        >>> marker = Marker(Key.generate(Profile()))
        >>> bias = marker.prepare(marker.key_sequences([6, 4]), temperature=1.0)
        >>> logits = np.zeros((2, 6, 21))
        >>> bias.add_to(logits).sum(axis=2).tolist()  # the second is shorter
        [[10.0, 10.0, 10.0, 10.0, 10.0, 10.0], [10.0, 10.0, 10.0, 10.0, 0.0, 0.0]]
        >>> mask = np.arange(6) == np.array([[2], [5]])  # the positions of one step
        >>> bias.add_to(logits[mask], mask).sum(axis=1).tolist()
        [10.0, 0.0]
        """
        used, row_of = different_keys(keys, self.key.profile.scheme.num_keys)
        promoted = np.zeros((len(used) + 1, self.key.profile.alphabet.size), dtype=bool)
        promoted[:NO_KEY] = self.key.schedule.promoted_rows(used)
        return Promotion(promoted, row_of, self.strength(temperature)).beside(like)

    def bias(self, keys: Any, *, temperature: float) -> NDArray[np.float64]:
        """Return what to add to the raw logits of positions with these keys: [..., V]."""
        prepared = self.prepare(keys, temperature)
        return np.asarray(prepared.strength * prepared.promoted[prepared.row_of])

    def strength(self, temperature: float) -> float:
        """Return what is added to the raw logits of promoted symbols."""
        return strength_of(self.delta, self.key.profile.delta_at, temperature)

    def promoted_bits(self, keys: NDArray[np.int64]) -> NDArray[np.int32]:
        """Return the promoted symbols of positions [...], bit i for symbol i; 0 without a key.

        For alphabets of up to 31 symbols: a sampler then reads one number for each position.

        >>> from patternmark import Key, Marker, Profile
        >>> marker = Marker(Key.generate(Profile()))
        >>> [int(bits).bit_count() for bits in marker.promoted_bits(np.array([0, 1, -1]))]
        [10, 10, 0]
        """
        size = self.key.profile.alphabet.size
        if size > _MOST_BITS:
            raise ParameterError(f"{size} symbols do not fit into the bits of one number")
        if keys.ndim == 2 and keys.size:  # sequences of one nonce have the same keys
            whole = np.ascontiguousarray(keys).view((np.void, keys.shape[1] * keys.itemsize))
            first, own = np.unique(whole[:, 0], return_index=True, return_inverse=True)[1:]
            return self.promoted_bits(keys[first].ravel()).reshape(len(first), -1)[own]
        prepared = self.prepare(keys, 1.0)
        bits = prepared.promoted @ (1 << np.arange(size, dtype=np.int32))
        return np.asarray(np.take(bits.astype(np.int32), prepared.row_of))

    def promote(self, logits: Any, keys: Any, *, temperature: float) -> Any:
        """Return raw logits [..., V] with the parts of `keys` [...] promoted (Eq. 1).

        Divide the result by `temperature` as the sampler always does. numpy and torch alike. To
        do this again and again with the same keys, `prepare` them once.
        """
        return self.prepare(keys, temperature, like=logits).add_to(logits)


def _checked_payload(key: Key, payload: int | None) -> int | None:
    if payload is None:
        return None
    nonces = key.profile.scheme.nonces
    if nonces == 1:
        raise ParameterError(
            f"key {key.key_id} has one nonce and carries no payload: make a key with more nonces"
        )
    if not 0 <= payload < nonces:
        raise ParameterError(
            f"key {key.key_id} carries payloads from 0 to {nonces - 1}, not {payload}"
        )
    return payload
