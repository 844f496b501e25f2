"""`alphabet`: the symbols that a model can write, by the name of its tokenizer."""

from __future__ import annotations

from collections.abc import Iterable

from patternmark.core.alphabet import Alphabet
from patternmark.io.vocabulary import parse_alphabet


def alphabet(name: str, unscored: Iterable[str] = ()) -> Alphabet:
    """Return the alphabet of a key: `pm.Profile(alphabet=pm.alphabet("cmlm-de-en"))`.

    `name` is "protein", "cmlm-de-en" (the tokenizer of the package), "tokenizer:FILE" for the
    tokenizer of another model (a file or a folder as transformers saves it), or "mask-predict:FILE"
    for a dictionary of Mask-Predict. `unscored` names tokens that are never scored, besides the
    special ones.

    >>> import patternmark as pm
    >>> pm.alphabet("protein") is pm.PROTEIN
    True
    >>> pm.alphabet("cmlm-de-en").name
    'tokenizer:cmlm-de-en'
    """
    return parse_alphabet(name, unscored)
