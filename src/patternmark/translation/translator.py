"""Translate lines of text into marked lines of text, in the same order.

A line is one text with one key sequence. A line that is too long for the model is translated in
pieces of whole sentences, one after the other; the key sequence continues from piece to piece.

CMLM offers translations of several lengths. The likeliest one with a clear mark is taken (see
`choice`). So a smaller delta is enough, which costs less quality.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from math import log, log10
from pathlib import Path
from typing import Protocol

import torch

from patternmark.core.marker import Marker
from patternmark.core.secret import fresh_seed
from patternmark.errors import ParameterError
from patternmark.evidence import DEFAULT_FPR
from patternmark.io.folding import fold
from patternmark.io.sentences import sentences
from patternmark.io.vocabulary import (
    CMLM_DE_EN,
    Vocabulary,
    read_shipped_vocabulary,
    read_vocabulary,
    shipped_tokenizer,
)
from patternmark.models.cmlm import CMLM
from patternmark.models.device import device_name
from patternmark.models.shipped import shipped_folder
from patternmark.translation.bpe import TextCodec
from patternmark.translation.checkpoint import TOKENIZER, load_both, load_model
from patternmark.translation.choice import MarkedLines, line_number
from patternmark.translation.decode import Decoding, LineMarks, LinePiece, for_use, translate_ids
from patternmark.translation.published import is_published, open_published

LONGEST_PIECE = 160  # source tokens; the training data is up to twice as long
_CONTROL = {chr(code) for code in (*range(32), 127, 0x85, 0x2028, 0x2029)}


class Codec(Protocol):
    """Turns texts into token ids and back."""

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of texts."""

    def decode_batch(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """Return the texts of ids."""


@dataclass(frozen=True)
class Translation:
    """One translated line: its text, and the tokens that it was made from."""

    text: str
    tokens: tuple[int, ...]
    log10_p: float | None = None  # approximate p-value that a detector will find, if marked
    reads_back: bool = True  # whether the tokenizer splits the text into these tokens again

    def is_clear(self, sure: float) -> bool:
        """Tell whether a detector will find the mark in the text at p <= `sure`."""
        return self.log10_p is not None and self.log10_p <= log10(sure) and self.reads_back


class Translator:
    """A model with its tokenizer, on the device of the model."""

    def __init__(self, model: CMLM, codec: Codec, vocabulary: Vocabulary) -> None:
        self.codec, self.vocabulary = codec, vocabulary
        self._fits = ""  # the hash of the last alphabet that fits
        # Tokens with a line break are never written: they would add lines.
        alone = codec.decode_batch([[i] for i in range(model.config.vocab)])
        breaking = {i for i, text in enumerate(alone) if _CONTROL & set(text)}
        self.model = model
        model.config = replace(
            model.config, never=tuple(sorted(breaking | set(model.config.never)))
        )

    @classmethod
    def open(cls, place: Path | None = None, device: str | torch.device = "cpu") -> Translator:
        """Open the folder of a model or a published checkpoint; by default our de-en model."""
        codec: Codec
        if place is not None and is_published(place):
            model, found, _ = open_published(place, device)
            codec, vocabulary = found, found.tokenizer.vocabulary
        elif place is None:
            model = load_model(shipped_folder(CMLM_DE_EN), device)
            codec, vocabulary = TextCodec.load(shipped_tokenizer()), read_shipped_vocabulary()
        else:
            model, codec = load_both(place, device)
            vocabulary = read_vocabulary(place / TOKENIZER)
        if model.config.causal:
            raise ParameterError(
                f"{place}: this is a teacher, which writes from left to right and cannot be "
                "marked: train a student from its translations ('patternmark train distil')"
            )
        return cls(for_use(model), codec, vocabulary)

    @cached_property
    def weights_digest(self) -> str:
        """A hash of the weights, which does not depend on the device or the file format."""
        found = sha256()
        for name, tensor in sorted(self.model.state_dict().items()):
            found.update(name.encode() + tensor.half().cpu().numpy().tobytes())
        return found.hexdigest()[:12]

    @property
    def device_name(self) -> str:
        """The name of the device of the model."""
        return device_name(self.model.embedding.weight.device)

    def translate(
        self,
        lines: Sequence[str],
        decoding: Decoding,
        marker: Marker | None = None,
        *,
        other: LineMarks | None = None,
        seed: int | None = None,
        sure: float = DEFAULT_FPR,
        passes: int = 1,
        nonces: Sequence[int] | None = None,
    ) -> list[Translation]:
        """Translate lines; an empty line stays empty.

        Of several candidates, the likeliest with a clear mark (p <= `sure`) is taken. The keys of a
        line depend on the seed and its text, not on other lines; without a seed they are random.
        `nonces` gives the nonce of each line; without it, nonces are random. With several passes, a
        line is marked only as strongly as needed: the first pass uses a small delta, later passes
        repeat the lines whose mark is not clear with a larger one, up to the delta of the marker.
        Without a marker, `other` may mark the lines.
        """
        seed = fresh_seed() if seed is None else seed
        if marker is None:
            return self._translate_once(lines, decoding, None, seed, sure, other)
        found = [Translation("", ()) for _ in lines]
        waiting = list(range(len(lines)))
        for number in range(1, passes + 1):
            weaker = marker.with_delta(marker.delta * number / passes)
            some = [lines[i] for i in waiting]
            own = None if nonces is None else [nonces[i] for i in waiting]
            made = self._translate_once(some, decoding, weaker, seed, sure, nonces=own)
            for i, translation in zip(waiting, made, strict=True):
                found[i] = translation
            waiting = [i for i in waiting if not found[i].is_clear(sure)]
        return found

    def _translate_once(
        self,
        lines: Sequence[str],
        decoding: Decoding,
        marker: Marker | None,
        seed: int,
        sure: float,
        other: LineMarks | None = None,
        nonces: Sequence[int] | None = None,
    ) -> list[Translation]:
        marked, sampler_seed = None, seed
        if marker is not None:
            self.check_fit(marker)
            # Greedy decoding has temperature 0: delta is then added unchanged.
            temperature, like = decoding.temperature or 1.0, self.model.embedding.weight
            marked = MarkedLines(
                marker, lines, seed=seed, temperature=temperature, like=like, nonces=nonces
            )
            # The sampler's numbers are secret: with them, each token would reveal what its key
            # promotes.
            sampler_seed = marker.sampler_seed(seed)
        pieces = self._pieces([line.strip() for line in lines])
        tokens: list[list[list[int]]] = [[] for _ in lines]
        generator = torch.Generator(self.model.embedding.weight.device).manual_seed(sampler_seed)
        for number in range(max(map(len, pieces), default=0)):
            rows = [i for i, row in enumerate(pieces) if len(row) > number]
            piece = None
            if other is not None:
                piece = other.piece(f"{seed}/{number}", [line_number(lines[i]) for i in rows])
            found = translate_ids(
                self.model,
                [pieces[i][number] for i in rows],
                decoding,
                marked=None if marked is None else LinePiece(marked, rows, sure, self._reads_back),
                other=piece,
                generator=generator,
            )
            for row, ids in zip(rows, found, strict=True):
                tokens[row].append(ids)
        texts = self._texts(tokens)
        flat = [tuple(token for piece in row for token in piece) for row in tokens]
        if marked is None:
            return [Translation(*both) for both in zip(texts, flat, strict=True)]
        again = self.codec.encode_batch(texts)
        facts = zip(texts, flat, (marked.log_p() / log(10.0)).tolist(), again, strict=True)
        return [Translation(t, ids, p, list(ids) == list(ids2)) for t, ids, p, ids2 in facts]

    def check_fit(self, marker: Marker) -> None:
        """Raise an error if the key of a marker is for another vocabulary."""
        alphabet = marker.key.profile.alphabet
        if alphabet.sha256 == self._fits:
            return
        if not self.vocabulary.fits(alphabet):
            own = self.vocabulary.alphabet()
            raise ParameterError(
                f"key {marker.key.key_id} is for {alphabet.name} (sha256 {alphabet.sha256[:12]}), "
                f"but the model writes {own.name} ({own.sha256[:12]}): make a key of the "
                f"alphabet {own.name.removeprefix('tokenizer:')}, or of tokenizer:FILE with the "
                "model's tokenizer"
            )
        self._fits = alphabet.sha256

    def _reads_back(self, candidates: Sequence[Sequence[int]]) -> list[bool]:
        """Tell for each candidate whether a detector reads the same tokens from its text."""
        texts = self.codec.decode_batch(candidates)
        again = self.codec.encode_batch([fold(text).text for text in texts])
        return [list(a) == list(b) for a, b in zip(again, candidates, strict=True)]

    def _pieces(self, lines: Sequence[str]) -> list[list[list[int]]]:
        """Cut each line into pieces that fit; an empty line has no pieces."""
        whole = self.codec.encode_batch(lines)
        return [
            self._cut(line) if len(ids) > LONGEST_PIECE else [ids] if ids else []
            for line, ids in zip(lines, whole, strict=True)
        ]

    def _cut(self, line: str) -> list[list[int]]:
        """Cut a line into few pieces, between sentences; cut longer sentences at any token."""
        pieces: list[list[int]] = [[]]
        for sentence in self.codec.encode_batch(sentences(line)):
            if len(pieces[-1]) + len(sentence) > LONGEST_PIECE and pieces[-1]:
                pieces.append([])
            pieces[-1].extend(sentence)
        return [
            piece[start : start + LONGEST_PIECE]
            for piece in pieces
            for start in range(0, len(piece), LONGEST_PIECE)
        ]

    def _texts(self, tokens: Sequence[Sequence[Sequence[int]]]) -> list[str]:
        """Return the text of every line from the tokens of its pieces."""
        texts = iter(self.codec.decode_batch([piece for line in tokens for piece in line]))
        rows = ([next(texts).strip() for _ in line] for line in tokens)
        return [" ".join(filter(None, row)) for row in rows]
