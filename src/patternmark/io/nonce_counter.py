"""Count marked designs beside a key file, so that no nonce is used twice before all are used once.

Two sequences with the same nonce reveal far more to an attacker than two with different nonces. If
64 designs draw one of 64 nonces at random, about 40 of them share a nonce with another one. So
marked designs are numbered. Each round of R numbers uses each of the R nonces once, in a secret
order of that round. Without the key, the numbers do not tell which designs share a nonce.

The file `KEY.nonces` has the first number, which begins a random round, and the count of numbers
that were taken. If a key file is copied to another machine, it gets its own counter there, which
uses other rounds.
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
from patternmark.io.bounded import parse_json

_MOST_BYTES = 2**12  # of a counter: it has three short fields
_ROUNDS = 2**40  # the first round is drawn from this many
_log = logging.getLogger(__name__)


def counted_nonces(key: Key, first: int, count: int) -> list[int]:
    """Return the nonces of the `count` numbers from `first` on.

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
    """Gives numbers to the sequences that a key marks. Several processes may share a counter."""

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
        """Return the counter of a marker's key, or None if there is no choice of nonces."""
        is_fixed = marker.payload is not None or marker.key.schedule.nonces == 1
        return None if is_fixed else cls(marker.key, key_file, warn)

    def take(self, count: int) -> int:
        """Take `count` numbers that no other process gets; return the first of them.

        If the file cannot be written, the numbers are random, with one warning.
        """
        try:
            with self._locked() as handle:
                first, used = self._read(handle)
                content = {"key_id": self._key.key_id, "first": first, "used": used + count}
                # One write that never shortens the file: after a crash it is still complete.
                os.pwrite(handle, json.dumps(content).encode() + b"\n", 0)
                os.fsync(handle)
        except (OSError, ImportError) as error:
            reason = getattr(error, "strerror", None) or "this system cannot lock files"
            self._warn_once(
                f"{self.path}: cannot be written ({reason}): nonces are drawn at random, so some "
                "sequences will share one earlier"
            )
            return self._random_start()
        size = self._key.schedule.nonces
        if used + count > size:
            self._warn_once(
                f"this key has marked {used + count:,} designs with {size:,} nonces: designs that "
                "share a nonce reveal more of the key: make a sub-key with `patternmark key derive`"
            )
        return first + used

    def nonces(self, first: int, count: int) -> list[int]:
        """Return the nonces of the `count` numbers from `first` on."""
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
        """Return the first number of the counter, and how many numbers were taken."""
        size = os.fstat(handle).st_size
        if size == 0:
            return self._random_start(), 0
        try:
            if size > _MOST_BYTES:
                raise ValueError("too large")
            content = parse_json(os.pread(handle, size, 0))
            owner, first, used = content["key_id"], content["first"], content["used"]
            if not (type(first) is type(used) is int and first >= 0 and used >= 0):
                raise ValueError("no counts")
        except (ValueError, TypeError, KeyError):
            raise InputError(
                f"{self.path}: not a counter of nonces: move it away, then a new one is made"
            ) from None
        if owner != self._key.key_id:
            raise InputError(
                f"{self.path}: counts the nonces of key {owner}, not of {self._key.key_id}: move "
                "it to that key, then a new one is made"
            )
        return first, used

    def _random_start(self) -> int:
        return secrets.randbelow(_ROUNDS) * self._key.schedule.nonces

    def _warn_once(self, message: str) -> None:
        if not self._has_warned:
            self._has_warned = True
            self._warn(message)
