"""The translations of `bench paper`: every scheme and strength, with keys in turn."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product, zip_longest
from pathlib import Path
from typing import Any

from patternmark.io.kept import Kept
from patternmark.io.vocabulary import shipped_tokenizer
from patternmark.translation.bleu import bleu, resampled_scores
from patternmark.translation.checkpoint import TOKENIZER
from patternmark.translation.decode import Decoding
from patternmark.translation.translator import Translator
from patternmark_lab.bench.paper.material import ByKey, Material, devices_of
from patternmark_lab.bench.paper.plan import NONE, Cell, Size, cells
from patternmark_lab.bench.translation import SKIPPED, TOKENS, cut_paragraphs, is_copy
from patternmark_lab.generation.translate import SchemeTranslator

_RESAMPLES = 1000


class TranslationStage:
    """Translates all texts for one scheme after the other, and keeps the texts of each."""

    def __init__(
        self,
        model: Path | None,
        size: Size,
        seed: int,
        device: str,
        kept: Kept,
        schemes: Sequence[str] = (),
    ) -> None:
        """Load the model; `schemes` names the schemes that mark (empty: all of them)."""
        self.size, self.seed, self._kept = size, seed, kept
        self.translator = Translator.open(model, device)
        self._marking = SchemeTranslator(self.translator)
        self._tokenizer = shipped_tokenizer() if model is None else model / TOKENIZER
        self.cells = cells("translation", size, schemes)
        self._used: list[dict[str, Any]] = []  # rows that the material is made from

    def run(self, paragraphs: Path, step: Callable[[str], None]) -> Material:
        """Translate all texts, without sources that are English already: they get no mark."""
        every = cut_paragraphs(paragraphs, self.translator, 10**9, SKIPPED)
        pairs = [pair for pair in every if not is_copy(pair)][: self.size.texts]
        sources = [source for source, _ in pairs]
        references = [target for _, target in pairs]
        plain = self._kept_or_made(NONE, lambda: self._translate(sources, None))
        step("translations without a mark")
        found: dict[Cell, ByKey] = {}
        # The strengths of a key come one after the other, because they share the lists.
        for cell, number in sorted(self._parts(), key=self._place):
            own = sources[number :: self.size.text_keys]
            name = f"{cell.name}/key {number}"
            texts = self._kept_or_made(name, lambda: self._mark(cell, number, own))  # noqa: B023
            found.setdefault(cell, []).append(texts)
            step(f"translations: {cell.name}")
        every_text = {NONE: plain} | {cell.name: self._in_order(found[cell]) for cell in self.cells}
        return Material(
            task="translation",
            marked={cell: found[cell] for cell in self.cells},
            unmarked=plain,
            natural=references,
            attacked={},
            quality=_measure(every_text, references),
            about={
                "texts": len(pairs),
                "tokens": list(TOKENS),
                "skipped": SKIPPED,
                "device": devices_of(self._used),
                "bleu_signature": bleu(["a"], ["a"]).signature,
            },
            tokenizer=self._tokenizer,
        )

    def _kept_or_made(self, what: str, make: Callable[[], list[str]]) -> list[str]:
        name = f"{what}/{self.size}/seed {self.seed}/{self.translator.weights_digest}"
        row = self._kept.get(name)
        if row is None:
            row = {"job": name, "device": self.translator.device_name, "texts": make()}
            self._kept.add(row)
        self._used.append(row)
        return list(row["texts"])

    def _parts(self) -> Iterator[tuple[Cell, int]]:
        """Yield every cell with the number of every key that marks."""
        return product(self.cells, range(self.size.text_keys))

    def _place(self, part: tuple[Cell, int]) -> tuple[int, int, int]:
        """Return the sort key of a part: its scheme, then its key, then its strength."""
        cell, number = part
        own = self.cells.index(cell)
        first = [other.scheme for other in self.cells].index(cell.scheme)
        return first, number, own

    def _in_order(self, by_key: ByKey) -> list[str]:
        """Return texts in the order of their sources, where keys are used in turn."""
        rounds = zip_longest(*by_key)
        return [text for texts in rounds for text in texts if text is not None]

    def _mark(self, cell: Cell, number: int, sources: list[str]) -> list[str]:
        alphabet = self.translator.vocabulary.alphabet()
        return self._translate(sources, cell.of_key(number, self.seed, alphabet))

    def _translate(self, sources: list[str], scheme: Any) -> list[str]:
        found = self._marking.translate(sources, Decoding(), scheme, self.seed)
        return [translation.text for translation in found]


def _measure(
    every_text: dict[str, list[str]], references: list[str]
) -> dict[str, dict[str, list[float]]]:
    """Return BLEU and chrF of all texts of a cell, then of resamples, the same for all cells."""
    return {
        name: {
            measure: resampled_scores(measure, texts, references, _RESAMPLES).tolist()
            for measure in ("BLEU", "chrF")
        }
        for name, texts in every_text.items()
    }
