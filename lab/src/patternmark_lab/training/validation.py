"""BLEU of a network on pairs that it has not seen."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from patternmark.models.cmlm import CMLM
from patternmark.translation.bleu import bleu
from patternmark.translation.bpe import TextCodec
from patternmark.translation.decode import for_use
from patternmark_lab.training.corpus import Pair, cut_to
from patternmark_lab.training.translating import translate_with

_PARAGRAPH_TOKENS = (50, 100)  # smallest and largest number of tokens in a cut paragraph
_CHECK_PAIRS = 500  # of each check
_BATCH_TOKENS = 8192


@dataclass(frozen=True)
class Check:
    """Pairs to translate, and the name of their BLEU."""

    name: str
    file: str  # the file of the pairs
    pairs: Sequence[Pair]


def sentences_check(file: str, pairs: Sequence[Pair]) -> Check:
    """Return the first pairs of a file."""
    return Check("bleu", file, pairs[:_CHECK_PAIRS])


def paragraphs_check(file: str, pairs: Sequence[Pair], codec: TextCodec) -> Check:
    """Return the first paragraphs of a file, cut after a sentence to 50 to 100 tokens."""

    def count(text: str) -> int:
        return len(codec.encode_batch([text])[0])

    cut = (cut_to(pair, *_PARAGRAPH_TOKENS, count) for pair in pairs)
    return Check("bleu_long", file, [pair for pair in cut if pair is not None][:_CHECK_PAIRS])


def measure(model: CMLM, codec: TextCodec, checks: Sequence[Check]) -> list[dict[str, Any]]:
    """Return BLEU on every check that has pairs, with their number and sacrebleu's signature."""
    used = for_use(copy.deepcopy(model))
    rows = []
    for check in checks:
        if not check.pairs:
            continue
        ids = codec.encode_batch([source for source, _ in check.pairs])
        found = translate_with(used, ids, _BATCH_TOKENS)
        score = bleu(codec.decode_batch(found), [target for _, target in check.pairs])
        rows.append(
            {
                "name": check.name,
                "file": check.file,
                "pairs": len(check.pairs),
                "bleu": round(score.score, 2),
                "signature": score.signature,
            }
        )
    return rows
