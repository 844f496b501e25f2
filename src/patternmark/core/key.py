"""A key: the secret, the public parameters, and the id that stands for both in every output."""

from __future__ import annotations

import hmac
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from unicodedata import normalize

from patternmark.core.blocks import BlockSchedule
from patternmark.core.partition import Partition, Parts
from patternmark.core.profile import Profile
from patternmark.core.schemes import CIRCLES, Circle, Schedule, of_kind
from patternmark.core.secret import Secret
from patternmark.errors import KeyFileError, ParameterError

KEY_ID_DIGITS = 16
_GivenParts = Sequence[str | Sequence[int]] | None


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
    # 256 bits that begin with the key id. Two secrets can be made to share 64 bits, but not 256.
    # None in a public half that was written without it.
    commitment: str | None = None

    @classmethod
    def generate(cls, profile: Profile, parts: _GivenParts = None) -> Key:
        """Make a key with a fresh secret."""
        return cls.of(Secret.generate(), profile, parts)

    @classmethod
    def of(cls, secret: Secret, profile: Profile, parts: _GivenParts = None) -> Key:
        """Make a key from a secret, its parameters and, if they were adopted, its parts."""
        adopted: Parts | None = None
        if parts is not None:
            if not profile.scheme.takes_parts:
                other = f"this profile has the scheme {profile.scheme.name!r}"
                raise ParameterError(f"parts belong to the paper's scheme: {other}")
            adopted = tuple(p if isinstance(p, str) else tuple(p) for p in parts)
        commitment = commitment_to(secret, profile, adopted)
        key = cls(profile, commitment[:KEY_ID_DIGITS], secret, adopted, commitment)
        _ = key.schedule  # raises if the parts or the background do not fit the alphabet
        return key

    @cached_property
    def schedule(self) -> Schedule:
        """Which symbols each key promotes."""
        secret, profile = self.require_secret(), self.profile
        return profile.scheme.schedule(secret, profile.alphabet, self.parts)

    @property
    def circle(self) -> Circle:
        """The schedule of a scheme whose position keys repeat in a circle: `paper` or `turns`."""
        return of_kind(self.profile.scheme, self.schedule, CIRCLES, "keys that repeat in a circle")

    @property
    def blocks(self) -> BlockSchedule:
        """The schedule of the scheme `blocks`."""
        return of_kind(self.profile.scheme, self.schedule, BlockSchedule, "blocks of one half")

    @property
    def partition(self) -> Partition:
        """The schedule of the paper's scheme, in which parts split the alphabet."""
        return of_kind(self.profile.scheme, self.schedule, Partition, "parts")

    def require_secret(self) -> Secret:
        """Return the secret; raise KeyFileError if this is only the public half."""
        if self.secret is None:
            need = "marking and detecting need the key file with the secret"
            raise KeyFileError(f"key {self.key_id} is only a public half: {need}")
        return self.secret

    def derive(self, id: str) -> Key:
        """Return the sub-key `id`: a key with the same parameters and a derived secret.

        Anyone who has this key can derive the sub-key again. The sub-key reveals nothing about this
        key or about other sub-keys.

        >>> master = Key.generate(Profile())
        >>> master.derive("team-7").key_id == master.derive("team-7").key_id != master.key_id
        True
        """
        secret = self.require_secret()
        if self.parts is not None:
            raise ParameterError(
                f"key {self.key_id} has adopted parts, which do not depend on the secret: all its "
                "sub-keys would make the same mark. Derive from a key without adopted parts"
            )
        id = normalize("NFC", id)  # a name may be typed in one way and stored in another
        if not id.isprintable() or not id.strip() or id != id.strip():
            advice = "use printable characters, without blanks at either end"
            raise ParameterError(f"{id!r} cannot be the name of a sub-key: {advice}")
        return Key.of(Secret(secret.subkey(f"sub-key/{id}")), self.profile)

    def public(self) -> Key:
        """Return the public half: the same id and parameters, without secret and parts."""
        return Key(self.profile, self.key_id, commitment=self.commitment)

    def __repr__(self) -> str:
        half = "secret hidden" if self.secret is not None else "public half"
        scheme, alphabet = self.profile.scheme.name, self.profile.alphabet.name
        return f"Key({self.key_id}, {scheme}, {alphabet}, {half})"


def commitment_to(secret: Secret, profile: Profile, parts: Parts | None) -> str:
    """Return a fingerprint of secret and parameters: 256 bits in hexadecimal, first the key id.

    It may be published, because it is keyed with the secret: nobody else can compute it. So nobody
    can guess adopted parts from it; with a bare hash, trying 92,378 splits would be enough. Not
    even the owner can find two secrets with the same fingerprint.
    """
    adopted = json.dumps(parts, separators=(",", ":"))
    canonical = f'{{"parts":{adopted},"public":{profile.canonical}}}'
    return hmac.digest(secret.subkey("key id"), canonical.encode(), "sha256").hex()
