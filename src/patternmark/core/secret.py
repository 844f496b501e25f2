"""Derive every secret choice of a key from its 256-bit secret, the same on every machine.

    extract   master    = HMAC-SHA256("patternmark v1", secret)            (HKDF-Extract)
    expand    subkey    = HMAC-SHA256(master, label || 0x01)               (HKDF-Expand, one block)
    stream    block[i]  = HMAC-SHA256(subkey, i as 8 bytes, big-endian)    four 64-bit words a block
    octets              = SHAKE256(subkey)         for schedules, which need many bytes: far faster

Every use has its own label, so no two uses share words. A permutation is the order in which a
stable sort puts such words. No random generator of a library or a device is used: a port to any
language needs HMAC-SHA256, SHAKE256 and a stable sort (see ``vectors/``).
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Iterable, Sequence
from hashlib import sha256, shake_256
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from patternmark.errors import ParameterError

SECRET_BYTES = 32
_EXTRACT_SALT = b"patternmark v1"
_WORDS_PER_BLOCK = 4
_HASH_BLOCK = 64  # bytes in an input block of SHA-256
_SEED_BITS = 63  # so that a seed fits the signed 64-bit numbers of torch, numpy and JSON readers


def fresh_seed() -> int:
    """Draw a seed from the operating system, for runs that need not be repeatable."""
    return secrets.randbits(_SEED_BITS)


class Secret:
    """A 256-bit secret that does not print itself.

    >>> Secret(bytes(32))
    Secret(hidden)
    >>> Secret(bytes(32)).permutation("example", 5).tolist()
    [1, 0, 4, 3, 2]
    """

    __slots__ = ("_master", "_raw")

    def __init__(self, raw: bytes) -> None:
        if len(raw) != SECRET_BYTES:
            raise ParameterError(f"a secret has {SECRET_BYTES} bytes, not {len(raw)}")
        self._raw = bytes(raw)
        self._master = hmac.digest(_EXTRACT_SALT, self._raw, "sha256")

    @classmethod
    def generate(cls) -> Secret:
        """Draw a fresh secret from the operating system's generator."""
        return cls(secrets.token_bytes(SECRET_BYTES))

    def reveal_hex(self) -> str:
        """Return the secret itself; only code that writes key files may call this."""
        return self._raw.hex()

    def subkey(self, label: str) -> bytes:
        """Return 32 bytes bound to `label`."""
        return hmac.digest(self._master, label.encode() + b"\x01", "sha256")

    def words(self, label: str, which: int | Sequence[int]) -> NDArray[np.uint64]:
        """Return 64-bit words of the stream `label`: the first `which`, or those numbered so."""
        subkey = self.subkey(label)
        if isinstance(which, int):
            return _words(subkey, range(-(-which // _WORDS_PER_BLOCK)))[:which]
        places = np.asarray(which, dtype=np.int64)
        blocks, block_of = np.unique(places // _WORDS_PER_BLOCK, return_inverse=True)
        words = _words(subkey, blocks.tolist())
        return np.take(words, block_of * _WORDS_PER_BLOCK + places % _WORDS_PER_BLOCK)

    def octets(self, label: str, count: int) -> NDArray[np.uint8]:
        """Return the first `count` bytes of SHAKE256 of the subkey `label`."""
        return np.frombuffer(shake_256(self.subkey(label)).digest(count), dtype=np.uint8)

    def uniforms(self, label: str, which: int | Sequence[int]) -> NDArray[np.float64]:
        """Return the upper 53 bits of each of these `words` as a number in [0, 1)."""
        return (self.words(label, which) >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def permutation(self, label: str, size: int) -> NDArray[np.intp]:
        """Return 0..size-1 shuffled: the order in which a stable sort puts `size` words."""
        return np.argsort(self.words(label, size), kind="stable")

    def __repr__(self) -> str:
        return "Secret(hidden)"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and hmac.compare_digest(self._raw, other._raw)

    __hash__ = None  # type: ignore[assignment]  # a secret has no business in a set

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a secret is not pickled: caches and crash reports would keep it. To send keys to "
            "workers of your own, use patternmark.workers.pickle_with_secrets"
        )

    def __copy__(self) -> Secret:
        return self  # it cannot change

    def __deepcopy__(self, memo: object) -> Secret:
        return self


def _words(subkey: bytes, blocks: Iterable[int]) -> NDArray[np.uint64]:
    """Return the words of these blocks of a stream, four for each block.

    HMAC hashes the padded key before every message. This function hashes it once, so a shuffle of
    262,144 tokens takes a third of the time.
    """
    padded = subkey.ljust(_HASH_BLOCK, b"\0")
    inner, outer = (sha256(bytes(octet ^ pad for octet in padded)) for pad in (0x36, 0x5C))
    stream = []
    for number in blocks:
        message, tag = inner.copy(), outer.copy()
        message.update(number.to_bytes(8, "big"))
        tag.update(message.digest())
        stream.append(tag.digest())
    return np.frombuffer(b"".join(stream), dtype=">u8").astype(np.uint64)
