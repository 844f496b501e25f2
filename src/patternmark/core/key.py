"""A key: the secret, the public parameters, and the id that stands for both in every output."""

from __future__ import annotations

import hmac
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

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
    # 256 bits of which the id is the beginning: an id of 64 bits can be made to fit two secrets.
    # None in a public half that was written without it.
    commitment: str | None = None

    @classmethod
    def generate(cls, profile: Profile, parts: _GivenParts = None) -> Key:
        """Make a key with a fresh secret."""
        return cls.of(Secret.generate(), profile, parts)

    @classmethod
    def of(cls, secret: Secret, profile: Profile, parts: _GivenParts = None) -> Key:
        """Make a key from its secret, its parameters and, if adopted, its parts."""
        adopted: Parts | None = None
        if parts is not None:
            if not profile.scheme.takes_parts:
                other = f"this profile has the scheme {profile.scheme.name!r}"
                raise ParameterError(f"parts belong to the paper's scheme: {other}")
            adopted = tuple(p if isinstance(p, str) else tuple(p) for p in parts)
        commitment = commitment_to(secret, profile, adopted)
        key = cls(profile, commitment[:KEY_ID_DIGITS], secret, adopted, commitment)
        _ = key.schedule  # refuses parts or a background that do not fit the alphabet
        return key

    @cached_property
    def schedule(self) -> Schedule:
        """Which symbols each key promotes."""
        secret, profile = self.require_secret(), self.profile
        return profile.scheme.schedule(secret, profile.alphabet, self.parts)

    @property
    def circle(self) -> Circle:
        """The schedule of a scheme whose keys come round: that of the paper, or of text."""
        return of_kind(self.profile.scheme, self.schedule, CIRCLES, "keys that come round")

    @property
    def blocks(self) -> BlockSchedule:
        """The schedule of a scheme of blocks."""
        return of_kind(self.profile.scheme, self.schedule, BlockSchedule, "blocks of one half")

    @property
    def partition(self) -> Partition:
        """Which key promotes which symbol, where parts split the alphabet: the paper's scheme."""
        return of_kind(self.profile.scheme, self.schedule, Partition, "parts")

    def require_secret(self) -> Secret:
        """Return the secret, or say that this is only the public half."""
        if self.secret is None:
            need = "marking and detecting need the key file itself"
            raise KeyFileError(f"key {self.key_id} is a public half, without its secret: {need}")
        return self.secret

    def derive(self, id: str) -> Key:
        """Return the sub-key of a name: a secret derived from this one's, the same parameters.

        Who holds this key can derive it again; who holds the sub-key learns nothing of this key
        nor of other sub-keys.

        >>> master = Key.generate(Profile())
        >>> master.derive("team-7").key_id == master.derive("team-7").key_id != master.key_id
        True
        """
        secret = self.require_secret()
        if self.parts is not None:
            raise ParameterError(
                f"key {self.key_id} has adopted parts, which no secret determines: all its "
                "sub-keys would make the same mark. Derive from a key without adopted parts"
            )
        if not id.isprintable() or not id.strip() or id != id.strip():
            advice = "give printable characters, no blanks around them"
            raise ParameterError(f"{id!r} is no name for a sub-key: {advice}")
        return Key.of(Secret(secret.subkey(f"sub-key/{id}")), self.profile)

    def public(self) -> Key:
        """Return the public half: the same id and parameters, neither secret nor parts."""
        return Key(self.profile, self.key_id, commitment=self.commitment)

    def __repr__(self) -> str:
        half = "secret hidden" if self.secret is not None else "public half"
        scheme, alphabet = self.profile.scheme.name, self.profile.alphabet.name
        return f"Key({self.key_id}, {scheme}, {alphabet}, {half})"


def commitment_to(secret: Secret, profile: Profile, parts: Parts | None) -> str:
    """Return the fingerprint of secret and parameters: 256 bits in hexadecimal; the id begins it.

    It is keyed with the secret, so it can be published: nobody else can compute it, and it gives
    no handle on adopted parts, which a bare hash of some 92,378 splits would. Nobody, its owner
    included, finds two secrets with the same one.
    """
    adopted = json.dumps(parts, separators=(",", ":"))
    canonical = f'{{"parts":{adopted},"public":{profile.canonical}}}'
    return hmac.digest(secret.subkey("key id"), canonical.encode(), "sha256").hex()
