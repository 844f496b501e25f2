"""A teacher's translations as new pairs: easier targets to learn from.

They are appended to the output piece by piece, in the order of the sources; a file beside it says
how many sources are behind, so that a stopped run goes on from there.
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

_LONG = 100  # tokens: what is longer is translated sentence by sentence
_BATCHES = 8  # of a piece: enough to find sentences of like length, few enough to lose
_CHARACTERS = 4  # of a token, about


@dataclass(frozen=True)
class Distilled:
    """What stands beside the output: whose translations they are, and how many there are."""

    teacher: str  # SHA-256 of its weights
    data: str  # SHA-256 of the file with the sources
    sources: int  # in all
    done: int = 0  # of the sources
    dropped: int = 0  # of these: copies, and those without a translation that ends
    bytes: int = 0  # of the output


class DistilledFile:
    """The output; .xz is appended to as well, stream by stream."""

    def __init__(self, path: Path, wanted: Distilled, *, overwrite: bool) -> None:
        self.path = path
        self._facts_path = path.with_name(f"{path.name}.json")
        make_folder(path.parent)
        self.facts = wanted if overwrite else self._continued(wanted)
        try:
            write_json(self._facts_path, asdict(self.facts))
            with path.open("ab"):
                os.truncate(path, self.facts.bytes)  # half a piece is no piece
        except OSError as error:
            raise InputError(f"{path}: cannot be written: {error.strerror}") from None

    def _continued(self, wanted: Distilled) -> Distilled:
        size = self.path.stat().st_size if self.path.exists() else 0
        remedy = "choose another file, or pass overwrite=True"
        if not self._facts_path.exists():
            if size:
                raise InputError(f"{self.path}: exists and is not a teacher's: {remedy}")
            return wanted
        try:
            found = Distilled(**read_json(self._facts_path))
        except TypeError:
            raise CheckpointError(f"{self._facts_path}: not what 'train distil' wrote") from None
        for name, what in (("teacher", "another teacher"), ("data", "other sources")):
            if found.done and getattr(found, name) != getattr(wanted, name):
                raise InputError(f"{self.path}: was begun with {what}: {remedy}")
        if size < found.bytes:
            raise InputError(f"{self.path}: is shorter than it was left: {remedy}")
        return found if found.done else wanted

    def append(self, pairs: Sequence[Pair]) -> None:
        """Write the pairs of the next sources; those with an empty side are dropped."""
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
                "kept, and the same command goes on from there"
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
    """Translate the sources of the pairs that are not in the output yet.

    A source that is in the target's language already is dropped: a teacher that learned to
    translate says nonsense there.
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
        if size >= _CHARACTERS * _BATCHES * batch_tokens:
            yield piece
            piece, size = [], 0
    if piece:
        yield piece


def translate_texts(
    model: CMLM, codec: TextCodec, texts: Sequence[str], batch_tokens: int
) -> list[str]:
    """Translate texts, long ones by sentence: all sentences of a text, or none."""
    ids = codec.encode_batch(texts)
    parts: list[list[list[int]]] = [
        codec.encode_batch(sentences(text)) if len(whole) > _LONG else [whole]
        for text, whole in zip(texts, ids, strict=True)
    ]
    flat = [part for row in parts for part in row]
    found = translate_with(model, flat, batch_tokens)
    for number, source in enumerate(flat):
        if len(found[number]) >= most_tokens(len(source)):
            found[number] = []  # without an end
    texts_found = iter(codec.decode_batch(found))
    rows = ([next(texts_found) for _ in row] for row in parts)
    return [" ".join(row) if all(row) else "" for row in rows]
