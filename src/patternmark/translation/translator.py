"""Lines of text in, marked lines of text out, in the same order.

A line is one text with one sequence of keys. What is too long for the model is translated in
pieces of whole sentences, one after the other: the keys run on from piece to piece.

CMLM offers translations of several lengths. Of those, the likeliest is taken in which the detector
finds the mark: in the text, as a verifier will read it, so that what re-tokenising would lose is
seen in time. A weaker promotion is then enough, and costs less quality.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from math import log10
from pathlib import Path
from typing import Protocol

import numpy as np
import torch

from patternmark.chain import NO_KEY
from patternmark.detect import Detector
from patternmark.errors import ParameterError
from patternmark.io.vocabulary import (
    Vocabulary,
    read_shipped_vocabulary,
    read_vocabulary,
    shipped_tokenizer,
)
from patternmark.mark import Marker
from patternmark.models.cmlm import CMLM, Candidates
from patternmark.promote import Promotion
from patternmark.translation.checkpoint import TOKENIZER, load_both
from patternmark.translation.corpus import sentences
from patternmark.translation.decode import Chooses, Decoding, Promotes, translate_ids
from patternmark.translation.published import is_published, open_published

LONGEST_PIECE = 160  # source tokens; what the model was trained on is up to twice as long
SURE = 1e-4  # a tenth of the usual threshold: some reserve
_CONTROL = {chr(code) for code in (*range(32), 127, 0x85, 0x2028, 0x2029)}


class Codec(Protocol):
    """Text to token ids and back."""

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of texts."""

    def decode_batch(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """Return the texts of ids."""


@dataclass(frozen=True)
class Translation:
    """One line: its text, and the tokens it was made of."""

    text: str
    tokens: tuple[int, ...]
    log10_p: float | None = None  # what the detector says of the text, where it was marked


class Translator:
    """A model with its tokenizer, on the device where the model is."""

    def __init__(self, model: CMLM, codec: Codec, vocabulary: Vocabulary) -> None:
        self.codec, self.vocabulary = codec, vocabulary
        # A token that breaks a line would break the order of lines.
        alone = codec.decode_batch([[i] for i in range(model.config.vocab)])
        breaking = {i for i, text in enumerate(alone) if _CONTROL & set(text)}
        self.model = model
        model.config = replace(
            model.config, never=tuple(sorted(breaking | set(model.config.never)))
        )

    @classmethod
    def open(cls, place: Path | None = None, device: str | torch.device = "cpu") -> Translator:
        """Open a model's folder, or a published checkpoint; by default the package's own, de-en."""
        codec: Codec
        if place is not None and is_published(place):
            model, found, _ = open_published(place, device)
            codec, vocabulary = found, found.tokenizer.vocabulary
        else:
            folder = shipped_model() if place is None else place
            model, codec = load_both(folder, device)
            is_own = place is None
            vocabulary = (
                read_shipped_vocabulary() if is_own else read_vocabulary(folder / TOKENIZER)
            )
        return cls(model.half() if model.embedding.weight.is_cuda else model, codec, vocabulary)

    def translate(
        self,
        lines: Sequence[str],
        decoding: Decoding,
        marker: Marker | None = None,
        *,
        seed: int = 0,
        sure: float = SURE,
    ) -> list[Translation]:
        """Translate lines; an empty one stays empty.

        Of several candidates the likeliest is taken that the detector finds marked at p <= `sure`.
        A line's keys depend on the seed and on what the line says, not on what stands around it.
        """
        if marker is not None:
            self.check_fit(marker)
        pieces = [self._pieces(line) for line in lines]
        tokens: list[list[list[int]]] = [[] for _ in lines]
        generator = torch.Generator(self.model.embedding.weight.device).manual_seed(seed)
        for number in range(max(map(len, pieces), default=0)):
            rows = [i for i, row in enumerate(pieces) if len(row) > number]
            promotes, chooses = None, None
            if marker is not None:
                begun = [tokens[i] for i in rows]
                starts = [sum(map(len, pieces_so_far)) for pieces_so_far in begun]
                promotes = self._promotes(marker, [lines[i] for i in rows], starts, decoding, seed)
                if sure < 1.0:
                    chooses = self._chooses(Detector(marker.key), begun, sure)
            found = translate_ids(
                self.model,
                [pieces[i][number] for i in rows],
                decoding,
                promotes=promotes,
                chooses=chooses,
                generator=generator,
            )
            for row, piece in zip(rows, found, strict=True):
                tokens[row].append(piece)
        texts = [self._text(row) for row in tokens]
        found_p = self._log10_p(None if marker is None else Detector(marker.key), texts)
        every = zip(texts, tokens, found_p, strict=True)
        return [Translation(text, tuple(t for p in row for t in p), p) for text, row, p in every]

    def check_fit(self, marker: Marker) -> None:
        """Refuse a key for another vocabulary."""
        alphabet = marker.key.profile.alphabet
        if not self.vocabulary.fits(alphabet):
            own = self.vocabulary.alphabet()
            raise ParameterError(
                f"key {marker.key.key_id} is for {alphabet.name} (sha256 {alphabet.sha256[:12]}), "
                f"the model writes {own.name} ({own.sha256[:12]}): make a key for it with "
                f"'patternmark keygen --alphabet {own.name.removeprefix('tokenizer:')}', or with "
                "tokenizer:FILE and the model's tokenizer"
            )

    def _promotes(
        self,
        marker: Marker,
        lines: Sequence[str],
        begun: Sequence[int],
        decoding: Decoding,
        seed: int,
    ) -> Promotes:
        """Return what promotes the keys of pieces that begin so many tokens into their lines."""
        temperature = decoding.temperature or 1.0  # greedy: delta is added as it is

        def promotion(rows: Sequence[int], longest: int) -> Promotion:
            keys = np.full((len(rows), longest), NO_KEY)
            for place, row in enumerate(rows):
                label = f"{seed}/{sha256(lines[row].encode()).hexdigest()}"
                keys[place] = marker.key_sequence(begun[row] + longest, label)[begun[row] :]
            return marker.prepare(keys, temperature, like=self.model.embedding.weight)

        return promotion

    def _chooses(
        self, detector: Detector, begun: Sequence[list[list[int]]], sure: float
    ) -> Chooses:
        """Return what takes the likeliest candidate that shows its mark, or the clearest."""

        def choose(rows: Sequence[int], candidates: Candidates) -> list[list[int]]:
            ranked = candidates.ranked()  # [B][beam] tokens
            texts = [
                self._text([*begun[row], tokens])
                for row, several in zip(rows, ranked, strict=True)
                for tokens in several
            ]
            found = np.array(self._log10_p(detector, texts), dtype=float).reshape(len(rows), -1)
            is_sure = found <= log10(sure)
            best = np.where(is_sure.any(axis=1), is_sure.argmax(axis=1), found.argmin(axis=1))
            return [several[i] for several, i in zip(ranked, best.tolist(), strict=True)]

        return choose

    def _log10_p(self, detector: Detector | None, texts: Sequence[str]) -> list[float | None]:
        if detector is None:
            return [None] * len(texts)
        return [v.log10_p for v in detector.detect_many(self.codec.encode_batch(texts))]

    def _pieces(self, line: str) -> list[list[int]]:
        """Cut a line into pieces that fit: sentences as long as possible, then at any token."""
        whole = self.codec.encode_batch([line.strip()])[0] if line.strip() else []
        if len(whole) <= LONGEST_PIECE:
            return [whole] if whole else []
        pieces: list[list[int]] = [[]]
        for sentence in self.codec.encode_batch(sentences(line.strip())):
            if len(pieces[-1]) + len(sentence) > LONGEST_PIECE and pieces[-1]:
                pieces.append([])
            pieces[-1].extend(sentence)
        return [
            piece[start : start + LONGEST_PIECE]
            for piece in pieces
            for start in range(0, len(piece), LONGEST_PIECE)
        ]

    def _text(self, pieces: Sequence[Sequence[int]]) -> str:
        texts = self.codec.decode_batch(pieces) if pieces else []
        return " ".join(filter(None, (text.strip() for text in texts)))


def shipped_model() -> Path:
    """Return the folder of the package's own model."""
    return shipped_tokenizer().parent
