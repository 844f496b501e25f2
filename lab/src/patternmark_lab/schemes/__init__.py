"""Marks for sequences that are generated in any order, all with one interface.

    scheme = make_scheme("tango", secret, alphabet, delta=1.5)
    scheme.bias(canvas)           bias for the logits, from the tokens known so far
    scheme.judge(sequences)       score and p-value of each sequence

`baselines` has the paper's baselines, `peers` and `rivals` have later schemes, and `pattern` has
the paper's own scheme and this package's default. docs/schemes.md lists their constants.
"""

from __future__ import annotations

from typing import Any

from patternmark.core.alphabet import Alphabet
from patternmark.core.secret import Secret
from patternmark.errors import ParameterError
from patternmark.models.canvas import EMPTY, OUTSIDE, Canvas
from patternmark_lab.schemes.base import Judgements, Scheme
from patternmark_lab.schemes.baselines import Multikey, Soft, SoftByStep, Unigram
from patternmark_lab.schemes.marks import Marks, Stack
from patternmark_lab.schemes.pattern import (
    ByKey,
    Default,
    DefaultLikeliest,
    PatternAuto,
    PatternMark,
)
from patternmark_lab.schemes.peers import DMark, Expected, LeftRight, Tango
from patternmark_lab.schemes.rivals import UMR, DenMarkLexical

__all__ = [
    "EMPTY",
    "OUTSIDE",
    "SCHEMES",
    "ByKey",
    "Canvas",
    "Judgements",
    "Marks",
    "Scheme",
    "Stack",
    "make_scheme",
]

_KINDS: tuple[type[Scheme], ...] = (
    Soft,
    SoftByStep,
    Unigram,
    Multikey,
    Tango,
    Expected,
    DMark,
    LeftRight,
    UMR,
    DenMarkLexical,
    PatternMark,
    PatternAuto,
    Default,
    DefaultLikeliest,
)
SCHEMES: dict[str, type[Scheme]] = {kind.name: kind for kind in _KINDS}


def make_scheme(
    name: str, secret: Secret, alphabet: Alphabet, delta: float, **options: Any
) -> Scheme:
    """Return the scheme with this name; `options` are fields of that scheme, such as `gamma`.

    >>> from patternmark import PROTEIN
    >>> scheme = make_scheme("unigram", Secret(bytes(32)), PROTEIN, delta=1.5)
    >>> listed = "".join(PROTEIN.letters[i] for i in scheme.table()[0].nonzero()[0])
    >>> len(listed), round(scheme.log10_p(4 * listed), 2)  # 40 of 40 letters are in the list
    (10, -12.04)
    """
    if name not in SCHEMES:
        raise ParameterError(f"unknown scheme {name!r}: choose one of {', '.join(SCHEMES)}")
    return SCHEMES[name](secret, alphabet, delta, **options)
