"""The texts of `patternmark bench text-secrecy`: the model's translations, marked or forged.

They take nearly all the time, so they are kept in a file. Judging them again with a changed
detector then takes only minutes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from patternmark.core.key import Key
from patternmark.core.marker import Marker
from patternmark.core.profile import Profile
from patternmark.core.promote import Promotion
from patternmark.core.schemes import Paper, Scheme, Turns
from patternmark.core.secret import Secret
from patternmark.io.kept import Kept
from patternmark.models.mask_predict import mask_predict
from patternmark.translation.decode import Decoding, like_lengths, padded
from patternmark.translation.translator import Translator
from patternmark_lab.bench.translation import cut_paragraphs, is_copy
from patternmark_lab.training.corpus import read_pairs

Symbols = NDArray[np.int64]
SCHEMES: dict[str, Scheme] = {Paper.name: Paper(), Turns.name: Turns()}
FOR_FORGER = 50  # number of sources that only the forger translates
_ALL_PARAGRAPHS = 10**6  # more than any file has
_KEPT_TEXTS = 25  # texts that are translated and kept together
_CPU = torch.device("cpu")


@dataclass(eq=False)
class Texts:
    """Marked texts of fresh keys, forged texts, and natural English."""

    translator: Translator
    sources: Sequence[str]  # German: the forger's own sources, then those that are marked
    natural: Sequence[Symbols]  # English sentences that the attacker has
    delta: float
    seed: int
    kept: Kept
    step: Callable[[str], None]

    def key(self, scheme: str, number: int) -> Key:
        """Return a fresh key, which depends on the seed alone."""
        master = Secret(self.seed.to_bytes(32, "big"))
        secret = Secret(master.subkey(f"bench text-secrecy/{scheme}/{number}"))
        alphabet = self.translator.vocabulary.alphabet()
        return Key.of(secret, Profile(alphabet, SCHEMES[scheme], delta=self.delta))

    def marked(self, scheme: str, number: int, count: int) -> list[Symbols]:
        """Return the tokens of the first marked texts of a key, as a detector reads them."""
        marker = Marker(self.key(scheme, number))
        found: list[str] = []
        for start in range(0, count, _KEPT_TEXTS):
            first = FOR_FORGER + start
            lines = self.sources[first : first + min(_KEPT_TEXTS, count - start)]
            name = f"marked/{scheme}/{number}/{self._about(lines)}"
            found += self._once(name, partial(self._translate, lines, marker))
        return read(self.translator, found)

    def forged(self, signs: NDArray[np.float64], strength: float, most: int) -> list[Symbols]:
        """Translate the forger's own sources, promoting the learned mark.

        Signs [L, V] say how surely a place promotes a token: 1 surely, -1 surely not.
        """
        lines = self.sources[: min(most, FOR_FORGER)]
        digest = sha256(np.ascontiguousarray(signs).tobytes()).hexdigest()[:16]
        name = f"forged/{digest}/{strength:g}/{self._about(lines)}"
        made = self._once(name, partial(self._translate_believed, lines, signs, strength))
        return read(self.translator, made)

    def _about(self, lines: Sequence[str]) -> str:
        digest = sha256("\n".join(lines).encode()).hexdigest()[:16]
        model = self.translator.weights_digest  # texts of another model are not reused
        return f"delta {self.delta:g}/seed {self.seed}/{digest}/{model}"

    def _once(self, name: str, make: Callable[[], list[str]]) -> list[str]:
        found = self.kept.get(name)
        if found is None:
            found = {"job": name, "texts": make()}
            self.kept.add(found)
        self.step(name.partition("/delta")[0])
        return list(found["texts"])

    def _translate(self, lines: Sequence[str], marker: Marker) -> list[str]:
        # sure = 1 takes the likeliest candidate, even if its mark is not clear.
        made = self.translator.translate(lines, Decoding(), marker, seed=self.seed, sure=1.0)
        return [translation.text for translation in made]

    def _translate_believed(
        self, lines: Sequence[str], signs: NDArray[np.float64], strength: float
    ) -> list[str]:
        model, decoding = self.translator.model, Decoding()
        ending = [] if model.config.ends == "none" else [model.config.end]
        believed = torch.from_numpy(signs.astype(np.float32))
        sources = self.translator.codec.encode_batch(lines)
        found: list[str] = [""] * len(lines)
        for rows in like_lengths(sources, decoding.batch_tokens):
            batch = padded([[*sources[i], *ending] for i in rows], model.config.pad, _CPU)
            with torch.inference_mode():
                memory = model.encode(batch)
                lengths = model.likeliest_lengths(memory, decoding.length_beam)
            place = torch.arange(int(lengths.max())) % len(believed)
            promotion = Promotion(believed, place.expand(len(rows), -1), strength)
            made = mask_predict(model, memory, lengths, promotion=promotion).best()
            for row, text in zip(rows, self.translator.codec.decode_batch(made), strict=True):
                found[row] = text.strip()
        return found


def open_texts(
    paragraphs: Path,
    natural: Path,
    *,
    skip: int,
    delta: float,
    seed: int,
    kept: Kept,
    step: Callable[[str], None],
) -> Texts:
    """Read the sources to translate, and the attacker's natural English."""
    translator = Translator.open()
    pairs = cut_paragraphs(paragraphs, translator, _ALL_PARAGRAPHS, skip)
    sources = [pair[0] for pair in pairs if not is_copy(pair)]
    english = read(translator, [pair[1] for pair in read_pairs(natural)])
    return Texts(translator, sources, english, delta, seed, kept, step)


def read(translator: Translator, texts: Sequence[str]) -> list[Symbols]:
    """Return the tokens of texts."""
    return [np.array(row, dtype=np.int64) for row in translator.codec.encode_batch(texts)]
