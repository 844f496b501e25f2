"""Write a teacher's translations as new pairs, whose targets are easier to learn.

They are appended to the output piece by piece, in the order of the sources. A file beside it says
how many sources are done, so that a stopped run can continue.
"""

from __future__ import annotations

import lzma
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from patternmark.errors import InputError
from patternmark.io.files import make_folder, write_json
from patternmark.io.sentences import sentences
from patternmark.models.cmlm import CMLM
from patternmark.models.tensor_file import CheckpointError, read_json
from patternmark.translation.bpe import TextCodec
from patternmark_lab.training.corpus import Pair, as_lines, is_copy
from patternmark_lab.training.translating import most_tokens, translate_with

_WHOLE_TEXT_TOKENS = 100  # longer texts are translated sentence by sentence
_PIECE_BATCHES = 8  # batches in a piece: enough to sort by length, few enough to lose in a stop
_TOKEN_CHARACTERS = 4  # approximate number of characters in a token


@dataclass(frozen=True)
class Distilled:
    """The facts in the file beside the output: teacher, sources, and how far the run is."""

    teacher: str  # SHA-256 of its weights
    data: str  # SHA-256 of the file with the sources
    sources: int  # number of all sources
    done: int = 0  # number of sources done
    dropped: int = 0  # of those done: copies, and sources whose translation did not end
    bytes: int = 0  # size of the output


class DistilledFile:
    """The output file; to a .xz file each piece is appended as a stream of its own."""

    def __init__(self, path: Path, wanted: Distilled, *, overwrite: bool) -> None:
        self.path = path
        self._facts_path = path.with_name(f"{path.name}.json")
        make_folder(path.parent)
        self.facts = wanted if overwrite else self._continued(wanted)
        try:
            write_json(self._facts_path, asdict(self.facts))
            with path.open("ab"):
                os.truncate(path, self.facts.bytes)  # removes an incomplete piece
        except OSError as error:
            raise InputError(f"{path}: cannot be written: {error.strerror}") from None

    def _continued(self, wanted: Distilled) -> Distilled:
        size = self.path.stat().st_size if self.path.exists() else 0
        remedy = "choose another file, or pass overwrite=True"
        if not self._facts_path.exists():
            if size:
                raise InputError(
                    f"{self.path}: exists but was not written by 'train distil': {remedy}"
                )
            return wanted
        try:
            found = Distilled(**read_json(self._facts_path))
        except TypeError:
            raise CheckpointError(f"{self._facts_path}: not what 'train distil' wrote") from None
        for name, what in (("teacher", "another teacher"), ("data", "other sources")):
            if found.done and getattr(found, name) != getattr(wanted, name):
                raise InputError(f"{self.path}: was started with {what}: {remedy}")
        if size < found.bytes:
            raise InputError(f"{self.path}: has become shorter since the last run: {remedy}")
        return found if found.done else wanted

    def append(self, pairs: Sequence[Pair]) -> None:
        """Write the pairs of the next sources; pairs with an empty side are dropped."""
        kept = [pair for pair in pairs if all(text.strip() for text in pair)]
        text = as_lines(kept).encode()
        content = lzma.compress(text, preset=3) if self.path.suffix == ".xz" and text else text
        try:
            with self.path.open("ab") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
        except OSError as error:
            with suppress(OSError):
                os.truncate(self.path, self.facts.bytes)
            raise InputError(
                f"{self.path}: cannot be written: {error.strerror}; {self.facts.done} sources are "
                "done, and the same command continues after them"
            ) from None
        self.facts = replace(
            self.facts,
            done=self.facts.done + len(pairs),
            dropped=self.facts.dropped + len(pairs) - len(kept),
            bytes=self.facts.bytes + len(content),
        )
        write_json(self._facts_path, asdict(self.facts))


def distil(
    model: CMLM,
    codec: TextCodec,
    pairs: Sequence[Pair],
    output: DistilledFile,
    batch_tokens: int,
    step: Callable[[int], object] = lambda done: None,
) -> None:
    """Translate the sources of all pairs that are not in the output yet.

    A source that is already in the target's language is dropped, because the teacher would
    translate it to nonsense.
    """
    step(output.facts.done)
    for piece in _pieces(pairs[output.facts.done :], batch_tokens):
        both = (codec.encode_batch([pair[side] for pair in piece]) for side in (0, 1))
        foreign = [not is_copy(*ids) for ids in zip(*both, strict=True)]
        sources = [source for (source, _), wanted in zip(piece, foreign, strict=True) if wanted]
        targets = iter(translate_texts(model, codec, sources, batch_tokens))
        output.append(
            [
                (source, next(targets) if wanted else "")
                for (source, _), wanted in zip(piece, foreign, strict=True)
            ]
        )
        step(len(piece))


def _pieces(pairs: Sequence[Pair], batch_tokens: int) -> Iterator[list[Pair]]:
    """Yield pairs in their order, a few batches at a time."""
    piece: list[Pair] = []
    size = 0
    for pair in pairs:
        piece.append(pair)
        size += len(pair[0])
        if size >= _TOKEN_CHARACTERS * _PIECE_BATCHES * batch_tokens:
            yield piece
            piece, size = [], 0
    if piece:
        yield piece


def translate_texts(
    model: CMLM, codec: TextCodec, texts: Sequence[str], batch_tokens: int
) -> list[str]:
    """Translate texts, long ones sentence by sentence; "" if a sentence has no translation."""
    ids = codec.encode_batch(texts)
    parts: list[list[list[int]]] = [
        codec.encode_batch(sentences(text)) if len(whole) > _WHOLE_TEXT_TOKENS else [whole]
        for text, whole in zip(texts, ids, strict=True)
    ]
    flat = [part for row in parts for part in row]
    found = translate_with(model, flat, batch_tokens)
    for number, source in enumerate(flat):
        if len(found[number]) >= most_tokens(len(source)):
            found[number] = []  # it did not end
    texts_found = iter(codec.decode_batch(found))
    rows = ([next(texts_found) for _ in row] for row in parts)
    return [" ".join(row) if all(row) else "" for row in rows]
