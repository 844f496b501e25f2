"""Byte-level BPE with one vocabulary for both languages: no text has unknown tokens."""

from __future__ import annotations

from collections.abc import Iterable

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from patternmark.errors import ParameterError
from patternmark.translation.bpe import SPECIAL


def train_bpe(texts: Iterable[str], vocab: int) -> Tokenizer:
    """Train a tokenizer on texts."""
    symbols = pre_tokenizers.ByteLevel.alphabet()
    if vocab < len(SPECIAL) + len(symbols):
        raise ParameterError(
            f"a vocabulary needs at least {len(SPECIAL) + len(symbols)} entries, not {vocab}"
        )
    found = Tokenizer(models.BPE())
    found.normalizer = normalizers.NFC()
    found.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    found.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab,
        special_tokens=list(SPECIAL),
        initial_alphabet=symbols,
        show_progress=False,
    )
    found.train_from_iterator(texts, trainer)
    return found
