"""The sequences that verdicts are about: marked, unmarked and natural ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from patternmark.core.alphabet import PROTEIN, Alphabet
from patternmark.io.folding import fold
from patternmark_lab.bench.paper.plan import Cell

ByKey = list[list[str]]  # for each key that marks, its sequences


@dataclass(frozen=True, eq=False)
class Material:
    """The sequences of one task: letters of proteins, or texts."""

    task: str
    marked: dict[Cell, ByKey]
    unmarked: list[str]  # by the same model
    natural: list[str]
    attacked: dict[tuple[str, float], dict[Cell, ByKey]]  # by attack (with a model) and epsilon
    quality: dict[str, dict[str, list[float]]]  # by cell ("none": no mark) and measure
    about: dict[str, Any] = field(default_factory=dict)  # facts for the result
    tokenizer: Path | None = None  # None: proteins

    def alphabet(self) -> Alphabet:
        """Return the symbols that schemes mark."""
        if self.tokenizer is None:
            return PROTEIN
        from patternmark.io.vocabulary import read_vocabulary  # noqa: PLC0415  # the text extra

        return read_vocabulary(self.tokenizer).alphabet()

    def reader(self) -> Callable[[Sequence[str]], list[Any]]:
        """Return a function that turns sequences into symbols, as a verifier does."""
        if self.tokenizer is None:
            return _letters
        from patternmark.translation.bpe import TextCodec  # noqa: PLC0415

        encode = TextCodec.load(self.tokenizer).encode_batch
        return lambda texts: encode([fold(text).text for text in texts])


def devices_of(rows: Iterable[dict[str, Any]]) -> str:
    """Name the devices on which kept rows were made; a run may continue on another device."""
    return " and ".join(sorted({row["device"] for row in rows}))


def _letters(sequences: Sequence[str]) -> list[Any]:
    return [np.asarray(PROTEIN.encode(sequence), dtype=np.int64) for sequence in sequences]
