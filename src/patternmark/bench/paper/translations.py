"""The translations of `bench paper`: every scheme and strength, keys taking turns."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from patternmark.bench.jobs import Kept
from patternmark.bench.paper.designs import NONE
from patternmark.bench.paper.material import ByKey, Material
from patternmark.bench.paper.plan import Cell, Size, cells
from patternmark.bench.translation import SKIPPED, TOKENS, cut_paragraphs, is_copy
from patternmark.io.vocabulary import shipped_tokenizer
from patternmark.translation.bleu import bleu, chrf
from patternmark.translation.checkpoint import TOKENIZER
from patternmark.translation.decode import Decoding
from patternmark.translation.translator import Translator

_RESAMPLES = 1000


class TranslationStage:
    """Translates all texts for one scheme after the other, and keeps each."""

    def __init__(self, model: Path | None, size: Size, seed: int, device: str, kept: Kept) -> None:
        self.size, self.seed, self._kept = size, seed, kept
        self.translator = Translator.open(model, device)
        self._tokenizer = shipped_tokenizer() if model is None else model / TOKENIZER
        self.cells = cells("translation", size)

    def run(self, paragraphs: Path, step: Callable[[str], None]) -> Material:
        """Translate; what is English already is left out, as it has no mark to find."""
        every = cut_paragraphs(paragraphs, self.translator, 10**9, SKIPPED)
        pairs = [pair for pair in every if not is_copy(pair)][: self.size.texts]
        sources = [source for source, _ in pairs]
        references = [target for _, target in pairs]
        plain = self._kept_or_made(NONE, lambda: self._translate(sources, None))
        step("translations without a mark")
        found: dict[Cell, list[str]] = {}
        for cell in self.cells:
            found[cell] = self._kept_or_made(cell.name, lambda: self._marked(cell, sources))  # noqa: B023
            step(f"translations: {cell.name}")
        quality = {NONE: plain} | {cell.name: texts for cell, texts in found.items()}
        return Material(
            task="translation",
            marked={cell: self._by_key(texts) for cell, texts in found.items()},
            unmarked=plain,
            natural=references,
            attacked={},
            quality={name: _measured(texts, references) for name, texts in quality.items()},
            about={
                "texts": len(pairs),
                "tokens": list(TOKENS),
                "skipped": SKIPPED,
                "device": self.translator.device_name,
                "bleu_signature": bleu(["a"], ["a"]).signature,
            },
            tokenizer=self._tokenizer,
        )

    def _kept_or_made(self, what: str, make: Callable[[], list[str]]) -> list[str]:
        name = f"{what}/{self.size}/seed {self.seed}"
        row = self._kept.get(name)
        if row is None:
            row = {"job": name, "texts": make()}
            self._kept.add(row)
        return list(row["texts"])

    def _by_key(self, texts: list[str]) -> ByKey:
        return [texts[number :: self.size.text_keys] for number in range(self.size.text_keys)]

    def _marked(self, cell: Cell, sources: list[str]) -> list[str]:
        texts = [""] * len(sources)
        alphabet = self.translator.vocabulary.alphabet()
        for number in range(self.size.text_keys):
            own = range(number, len(sources), self.size.text_keys)
            scheme = cell.of_key(number, self.seed, alphabet)
            made = self._translate([sources[i] for i in own], scheme)
            for i, text in zip(own, made, strict=True):
                texts[i] = text
        return texts

    def _translate(self, sources: list[str], scheme: Any) -> list[str]:
        found = self.translator.translate(sources, Decoding(), scheme=scheme, seed=self.seed)
        return [translation.text for translation in found]


def _measured(texts: list[str], references: list[str]) -> dict[str, list[float]]:
    """Return BLEU and chrF with half of their 95 % intervals."""
    scores = {
        "BLEU": bleu(texts, references, resamples=_RESAMPLES),
        "chrF": chrf(texts, references, resamples=_RESAMPLES),
    }
    return {name: [score.score, score.half or 0.0] for name, score in scores.items()}
