"""A counter beside a key file: no nonce is used again before all have been used.

Two sequences that share a nonce teach an attacker far more than two that do not. Of 64 designs that
draw one of 64 nonces at random, 40 share theirs with another in the mean. So marked designs are
numbered, and each round of R numbers has every one of the R nonces once, in a secret order of that
round. Who reads numbers without the key cannot tell which designs share a nonce.

The file `KEY.nonces` says how many numbers were taken, and with which it began: a random round. A
key file that is copied to another machine has a counter of its own there, in rounds of its own.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from patternmark.core.key import Key
from patternmark.core.marker import Marker
from patternmark.errors import InputError

_ROUNDS = 2**40  # from which the first is drawn
_log = logging.getLogger(__name__)


def counted_nonces(key: Key, first: int, count: int) -> list[int]:
    """Return the nonces that stand for numbers from `first` on.

    >>> from patternmark import Key, Profile
    >>> from patternmark.core.schemes import Blocks
    >>> key = Key.generate(Profile(scheme=Blocks(nonces=4)))
    >>> sorted(counted_nonces(key, 8, 4))  # a whole round
    [0, 1, 2, 3]
    """
    size, secret = key.schedule.nonces, key.require_secret()
    rounds = range(first // size, -(-(first + count) // size))
    orders = [secret.permutation(f"nonces/{number}", size).tolist() for number in rounds]
    skipped = first % size
    return [nonce for order in orders for nonce in order][skipped : skipped + count]


class NonceCounter:
    """Hands out numbers for the sequences that a key marks; several processes may share it."""

    def __init__(
        self, key: Key, key_file: Path, warn: Callable[[str], object] = _log.warning
    ) -> None:
        self.path = Path(f"{key_file}.nonces")
        self._key, self._warn = key, warn
        self._has_warned = False

    @classmethod
    def needed_for(
        cls, marker: Marker, key_file: Path, warn: Callable[[str], object] = _log.warning
    ) -> NonceCounter | None:
        """Return the counter of a marker's key, or None where there is no nonce to choose."""
        is_fixed = marker.payload is not None or marker.key.schedule.nonces == 1
        return None if is_fixed else cls(marker.key, key_file, warn)

    def take(self, count: int) -> int:
        """Return the first of `count` numbers that nobody else gets.

        Where the file cannot be written they are random instead, with one warning.
        """
        try:
            with self._locked() as handle:
                first, used = self._read(handle)
                content = {"key_id": self._key.key_id, "first": first, "used": used + count}
                # In one piece, and never shorter than before: a crash leaves a whole file.
                os.pwrite(handle, json.dumps(content).encode() + b"\n", 0)
                os.fsync(handle)
        except (OSError, ImportError) as error:
            reason = getattr(error, "strerror", None) or "this system cannot lock files"
            self._warn_once(
                f"{self.path}: cannot be kept ({reason}): nonces are drawn at random, and some "
                "sequences will share one sooner"
            )
            return self._random_start()
        size = self._key.schedule.nonces
        if used + count > size:
            self._warn_once(
                f"this key has marked {used + count:,} designs with {size:,} nonces: designs that "
                "share a nonce betray more of the key; make a sub-key with `patternmark key derive`"
            )
        return first + used

    def nonces(self, first: int, count: int) -> list[int]:
        """Return the nonces of numbers that were taken."""
        return counted_nonces(self._key, first, count)

    @contextmanager
    def _locked(self) -> Iterator[int]:
        import fcntl  # noqa: PLC0415  # not on Windows

        handle = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield handle
        finally:
            os.close(handle)

    def _read(self, handle: int) -> tuple[int, int]:
        """Return the first number of all, and how many were taken."""
        size = os.fstat(handle).st_size
        if size == 0:
            return self._random_start(), 0
        try:
            content = json.loads(os.pread(handle, size, 0))
            owner, first, used = content["key_id"], content["first"], content["used"]
            if not (type(first) is type(used) is int and first >= 0 and used >= 0):
                raise ValueError("no counts")
        except (ValueError, TypeError, KeyError):
            raise InputError(
                f"{self.path}: not a counter of nonces: move it away, and a new one is begun"
            ) from None
        if owner != self._key.key_id:
            raise InputError(
                f"{self.path}: counts the nonces of key {owner}, not of {self._key.key_id}: move "
                "it to that key, and a new one is begun"
            )
        return first, used

    def _random_start(self) -> int:
        return secrets.randbelow(_ROUNDS) * self._key.schedule.nonces

    def _warn_once(self, message: str) -> None:
        if not self._has_warned:
            self._has_warned = True
            self._warn(message)
