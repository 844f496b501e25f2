"""Mark what a model generates: draw position keys, then promote their symbols at every step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from patternmark.arrays import Array, Logits
from patternmark.core.alphabet import NO_KEY
from patternmark.core.key import Key
from patternmark.core.promote import Promotion, check_delta, different_keys, strength_of
from patternmark.core.schemes import Draw
from patternmark.core.secret import fresh_seed
from patternmark.errors import ParameterError


class Marker:
    """What a generator does with a key; independent of the model and the order of generation.

    >>> from patternmark import Key, Marker, Profile
    >>> marker = Marker(Key.generate(Profile()))
    >>> keys = marker.key_sequence(6, seed=1)           # one key for each position
    >>> logits = np.zeros((6, 21))                       # from a model, in any order
    >>> int((marker.promote(logits, keys, temperature=0.1) > 0).sum())  # 10 letters each
    60
    """

    def __init__(self, key: Key, *, delta: float | None = None, payload: int | None = None) -> None:
        self.key = key
        self.payload = None if payload is None else _check_payload(key, payload)
        self.delta = check_delta(key.profile.delta if delta is None else delta)
        self._secret = key.require_secret()

    def with_delta(self, delta: float) -> Marker:
        """Return a marker with the same key and payload and this strength."""
        return self if delta == self.delta else Marker(self.key, delta=delta, payload=self.payload)

    def key_sequence(
        self, length: int, seed: int | str | None = None, index: int = 0, *, chain: int = 0
    ) -> NDArray[np.int64]:
        """Draw the keys of one sequence: [length].

        The same secret, seed, index and chain give the same keys on every machine, whatever else is
        in the batch. A longer sequence begins with the keys of a shorter one.
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

        Without a seed, every call draws new keys. `chain` is the number of the chain in its record,
        from 0. All chains of a record share one nonce: that in `nonces`, or else the payload, or
        else the one that the secret draws for the seed and the sequence's index.
        """
        longest = max(lengths, default=0)
        numbers = list(range(len(lengths))) if indices is None else list(indices)
        label = f"{fresh_seed() if seed is None else seed}"
        chosen = self.nonces(label, numbers) if nonces is None else _check_nonces(self.key, nonces)
        draw = Draw(longest, label, numbers, chosen, chain)
        keys = self.key.profile.scheme.draw_keys(self._secret, draw)
        if min(lengths, default=0) < longest:
            keys[np.arange(longest) >= np.array(lengths, dtype=int)[:, None]] = NO_KEY
        return keys

    def nonces(self, seed: int | str, indices: Sequence[int]) -> NDArray[np.int64]:
        """Return the nonces of sequences with these indices under a seed: [batch]."""
        if self.payload is not None:
            return np.full(len(indices), self.payload, dtype=np.int64)
        drawn = self._secret.uniforms(f"nonce/{seed}", indices)
        return (drawn * self.key.profile.scheme.nonces).astype(np.int64)

    def sampler_seed(self, seed: int | str) -> int:
        """Return a seed for the sampler's own randomness that depends on the secret.

        With a public seed anyone could run the sampler again, and then every letter would reveal
        far more about what its key promotes.
        """
        return int.from_bytes(self._secret.subkey(f"sampler/{seed}")[:8], "big") >> 1

    @overload
    def prepare(
        self, keys: Any, temperature: float, *, like: NDArray[Any] | None = None
    ) -> Promotion[NDArray[Any]]: ...
    @overload
    def prepare(self, keys: Any, temperature: float, *, like: Array) -> Promotion[Array]: ...
    def prepare(self, keys: Any, temperature: float, *, like: Any = None) -> Any:
        """Return the bias of positions with these keys [...], to be added at every step.

        `like` is an array of logits, or any tensor on the device that shall store the bias. Only
        the keys that occur are computed, so the size of the schedule matters little.

        >>> from patternmark import Key, Marker, Profile
        >>> marker = Marker(Key.generate(Profile()))
        >>> bias = marker.prepare(marker.key_sequences([6, 4]), temperature=1.0)
        >>> bias.add_to(np.zeros((2, 6, 21))).sum(axis=2).tolist()  # the second is shorter
        [[10.0, 10.0, 10.0, 10.0, 10.0, 10.0], [10.0, 10.0, 10.0, 10.0, 0.0, 0.0]]
        >>> now = np.arange(6) == np.array([[2], [5]])  # the positions of one step
        >>> bias.add_to(np.zeros((2, 21)), now).sum(axis=1).tolist()
        [10.0, 0.0]
        """
        used, row_of = different_keys(keys, self.key.profile.scheme.num_keys)
        promoted = np.zeros((len(used) + 1, self.key.profile.alphabet.size), dtype=bool)
        promoted[:NO_KEY] = self.key.schedule.promoted_rows(used)
        return Promotion(promoted, row_of, self.strength(temperature)).to_device_of(like)

    def bias(self, keys: Any, *, temperature: float) -> NDArray[np.float64]:
        """Return what to add to the raw logits of positions with these keys: [..., V]."""
        prepared = self.prepare(keys, temperature)
        return np.asarray(prepared.strength * prepared.promoted[prepared.row_of])

    def strength(self, temperature: float) -> float:
        """Return what is added to the raw logits of promoted symbols."""
        return strength_of(self.delta, self.key.profile.delta_at, temperature)

    def promote(self, logits: Logits, keys: Any, *, temperature: float) -> Logits:
        """Return raw logits [..., V] with the symbols of `keys` [...] promoted (Eq. 1).

        Divide the result by `temperature` as the sampler always does. Works for numpy and torch.
        For many steps with the same keys, call `prepare` once.
        """
        prepared = self.prepare(keys, temperature, like=logits)
        return prepared.add_to(logits)


def _check_payload(key: Key, payload: int) -> int:
    if isinstance(payload, bool) or not isinstance(payload, int | np.integer):
        raise ParameterError(f"a payload must be a whole number, not {payload!r}")
    nonces = key.profile.scheme.nonces
    if nonces > 1 and 0 <= payload < nonces:
        return int(payload)
    carries = "no payload" if nonces == 1 else f"payloads from 0 to {nonces - 1}"
    advice = "make one with more nonces by 'patternmark keygen' (65536 for 16 bits in text)"
    raise ParameterError(f"key {key.key_id} carries {carries}, not {payload}: {advice}")


def _check_nonces(key: Key, nonces: Sequence[int]) -> NDArray[np.int64]:
    given, last = np.asarray(nonces, dtype=np.int64), key.profile.scheme.nonces - 1
    bad = given[(given < 0) | (given > last)]
    if bad.size:
        raise ParameterError(f"key {key.key_id} has nonces from 0 to {last}, not {bad[0]}")
    return given
