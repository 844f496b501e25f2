"""What the product's tests translate, as something to learn from in seconds."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from patternmark.translation.bpe import TextCodec
from patternmark_lab.training.corpus import Corpus, Pair, as_lines
from patternmark_lab.training.tokenizer import train_bpe
from patternmark_lab.training.trainer import Settings
from tests.translation.small import PAIRS

PARAGRAPHS: list[Pair] = [
    (" ".join(a for a, _ in PAIRS[i : i + 6]), " ".join(b for _, b in PAIRS[i : i + 6]))
    for i in range(0, 18, 3)
]
SETTINGS = Settings(steps=12, batch_tokens=128, warmup=4, lr=5e-3, seed=3)


@cache
def codec() -> TextCodec:
    """Return a BPE of 320 entries."""
    return TextCodec(train_bpe((text for pair in PAIRS for text in pair), 320))


@cache
def corpus() -> Corpus:
    return Corpus.of(PAIRS, codec(), 64)


def write(file: Path, pairs: list[Pair]) -> Path:
    file.write_text(as_lines(pairs), encoding="utf-8")
    return file
