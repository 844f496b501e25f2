"""A warning for keys with few secret coins: what their p-values do not cover."""

from __future__ import annotations

from patternmark.core.profile import Profile


def caution_of(profile: Profile) -> str | None:
    """Return the warning for keys that split a small alphabet; None for other keys.

    A split of 20 amino acids is 20 coins. Small p-values are also given to sequences that were
    written to fit the key, and to designs of another such key with a similar split. So no p-value
    that holds for any sequence can be small.

    >>> caution_of(Profile()) is None
    True
    """
    alphabet = profile.alphabet
    if not profile.scheme.takes_parts or alphabet.has_many_symbols:
        return None
    return (
        f"a key of the scheme {profile.scheme.name!r} has {alphabet.num_scored} secret coins: its "
        "p-value holds for natural sequences, but not for designs of another such key, nor for "
        "sequences that were written to fit the key"
    )
