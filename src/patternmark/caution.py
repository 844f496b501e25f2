"""What a p-value of few secret coins does not cover, in words for people."""

from __future__ import annotations

from patternmark.core.profile import Profile


def caution_of(profile: Profile) -> str | None:
    """Say what to mind about p-values of keys that split a small alphabet; None for others.

    A split of 20 amino acids is 20 coins. Sequences that are written to fit, and designs of
    another such key whose split is similar, have small p-values too; no p-value that holds for any
    sequence can be small.

    >>> caution_of(Profile()) is None
    True
    """
    alphabet = profile.alphabet
    if not profile.scheme.takes_parts or alphabet.has_many_symbols:
        return None
    return (
        f"a key of the scheme {profile.scheme.name!r} has {alphabet.num_scored} secret coins: its "
        "p-value holds for natural sequences, not for designs of another such key nor for what was "
        "written to fit"
    )
