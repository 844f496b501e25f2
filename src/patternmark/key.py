"""A key: the secret, the public parameters, and the id that stands for both in every output."""

from __future__ import annotations

import hmac
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from patternmark.derive import Secret
from patternmark.errors import KeyFileError, ParameterError
from patternmark.partition import Partition, adopt_partition, derive_partition
from patternmark.profile import Profile

Parts = tuple[str | tuple[int, ...], ...]  # letters, or token ids

_KEY_ID_DIGITS = 16


@dataclass(frozen=True)
class Key:
    """Everything that generator and detector share.

    A key without a secret is the public half: it names a mark but can neither make nor find it.

    >>> key = Key.generate(Profile(delta=0.75))
    >>> key.public().key_id == key.key_id
    True
    """

    profile: Profile
    key_id: str
    secret: Secret | None = None
    parts: Parts | None = None  # a partition adopted from elsewhere: as secret as the secret

    @classmethod
    def generate(cls, profile: Profile, parts: Sequence[str | Sequence[int]] | None = None) -> Key:
        """Make a key with a fresh secret."""
        return cls.of(Secret.generate(), profile, parts)

    @classmethod
    def of(
        cls,
        secret: Secret,
        profile: Profile,
        parts: Sequence[str | Sequence[int]] | None = None,
    ) -> Key:
        """Make a key from its secret, its parameters and, if adopted, its parts."""
        adopted: Parts | None = None
        if parts is not None:
            adopted = tuple(p if isinstance(p, str) else tuple(p) for p in parts)
            if len(parts) != profile.num_keys:
                raise ParameterError(f"{len(parts)} parts were given for {profile.num_keys} keys")
        key = cls(profile, key_id(secret, profile, adopted), secret, adopted)
        _ = key.partition  # refuses parts or a background that do not fit the alphabet
        return key

    @cached_property
    def partition(self) -> Partition:
        """Which key promotes which symbol."""
        if self.parts is not None:
            return adopt_partition(self.parts, self.profile.alphabet)
        return derive_partition(
            self.require_secret(),
            self.profile.alphabet,
            self.profile.num_keys,
            self.profile.background,
        )

    def require_secret(self) -> Secret:
        """Return the secret, or say that this is only the public half."""
        if self.secret is None:
            raise KeyFileError(
                f"key {self.key_id} is a public half, without its secret: "
                "marking and detecting need the key file itself"
            )
        return self.secret

    def public(self) -> Key:
        """Return the public half: the same id and parameters, neither secret nor parts."""
        return Key(self.profile, self.key_id)

    def __repr__(self) -> str:
        half = "secret hidden" if self.secret is not None else "public half"
        return f"Key({self.key_id}, {self.profile.scheme}, {self.profile.alphabet.name}, {half})"


def key_id(secret: Secret, profile: Profile, parts: Parts | None) -> str:
    """Return the fingerprint of secret and parameters: 64 bits in hexadecimal.

    It is keyed with the secret, so it can be published: nobody else can compute it, and it gives
    no handle on adopted parts, which a bare hash of some 92,378 splits would.
    """
    content = {"public": profile.to_tables(), "parts": parts}
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
    digest = hmac.digest(secret.subkey("key id"), canonical.encode(), "sha256")
    return digest.hex()[:_KEY_ID_DIGITS]
