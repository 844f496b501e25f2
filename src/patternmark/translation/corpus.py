"""Sentence pairs: read, cut into spans of sentences, turned into token ids, put into batches."""

from __future__ import annotations

import lzma
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from patternmark.errors import InputError

Pair = tuple[str, str]  # source, target

# The end of a sentence: a stop, a space, and a capital, digit or quote. Not behind a numeral, a
# single letter or what is usually abbreviated.
_SENTENCE_END = re.compile(
    r"(?<=[.!?])(?<!\b\w\.)(?<!\d\.)(?<!\b(?:Dr|Mr|Ms|Nr|No|St|ca)\.)"
    r"(?<!\b(?:Mrs|Art|Abs|Mio|Mrd|bzw|usw|vgl|etc|inc)\.)(?<!\bProf\.)"
    r"\s+(?=[\"'„“‘(«–-]?\s?[A-ZÀ-Þ0-9])"
)
_AT_ONCE = 10_000
_MULTIPLE = 8  # lengths are padded to it, as GPUs like


class Encodes(Protocol):
    """What is asked of a tokenizer."""

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of texts."""


def read_pairs(file: Path) -> list[Pair]:
    """Read lines of source, tab, target; .xz too."""
    pairs = []
    try:
        opened = (
            lzma.open(file, "rt", encoding="utf-8")
            if file.suffix == ".xz"
            else file.open(encoding="utf-8")
        )
        with opened as stream:
            for number, line in enumerate(stream, start=1):
                fields = line.rstrip("\n").split("\t")
                if len(fields) < 2 or not fields[0].strip() or not fields[1].strip():
                    raise InputError(
                        f"{file}: line {number}: not a source, a tab and its translation"
                    )
                pairs.append((fields[0], fields[1]))
    except (OSError, EOFError, lzma.LZMAError) as error:
        raise InputError(f"{file}: cannot be read: {getattr(error, 'strerror', error)}") from None
    except UnicodeDecodeError:
        raise InputError(f"{file}: line {len(pairs) + 1}: not UTF-8") from None
    if not pairs:
        raise InputError(f"{file}: the file is empty")
    return pairs


def write_pairs(file: Path, pairs: Sequence[Pair]) -> None:
    """Write what `read_pairs` reads."""
    text = "".join(f"{source}\t{target}\n" for source, target in pairs)
    try:
        if file.suffix == ".xz":
            file.write_bytes(lzma.compress(text.encode(), preset=3))
        else:
            file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{file}: cannot be written: {error.strerror}") from None


def sentences(text: str) -> list[str]:
    """Split a paragraph where a sentence ends.

    >>> sentences("It is so. We know that! Do we?")
    ['It is so.', 'We know that!', 'Do we?']
    """
    return [part for part in _SENTENCE_END.split(text) if part]


def aligned_sentences(pair: Pair) -> list[Pair]:
    """Return the pairs of sentences of a paragraph, or the pair itself where they do not match."""
    sources, targets = sentences(pair[0]), sentences(pair[1])
    if len(sources) != len(targets):
        return [pair]
    return list(zip(sources, targets, strict=True))


def joined(pairs: Sequence[Pair]) -> Pair:
    """Return one pair of several that follow each other."""
    return " ".join(p[0] for p in pairs), " ".join(p[1] for p in pairs)


def cut_to(pair: Pair, low: int, high: int, count: Callable[[str], int]) -> Pair | None:
    """Cut a paragraph after a sentence so that its target has `low` to `high` tokens, or nothing.

    The longest such beginning is taken.
    """
    parts = aligned_sentences(pair)
    for stop in range(len(parts), 0, -1):
        candidate = joined(parts[:stop])
        if low <= count(candidate[1]) <= high:
            return candidate
    return None


def longer_pairs(
    singles: Sequence[Pair], paragraphs: Sequence[Pair], seed: int, number: int
) -> list[Pair]:
    """Return paragraphs, spans of their sentences, and `number` of random sentences in a row.

    Detection needs long texts, and sentences alone do not teach a model to write them.
    """
    rng = np.random.default_rng(seed)
    found = list(paragraphs)
    for pair in paragraphs:
        parts = aligned_sentences(pair)
        if len(parts) > 2:
            start = int(rng.integers(len(parts) - 1))
            stop = int(rng.integers(start + 2, len(parts) + 1))
            found.append(joined(parts[start:stop]))
    for _ in range(number):
        chosen = rng.integers(len(singles), size=int(rng.integers(2, 6)))
        found.append(joined([singles[i] for i in chosen]))
    return found


@dataclass(frozen=True, eq=False)
class Flat:
    """Many lists of ids in one array: list i is `ids[starts[i] : starts[i + 1]]`."""

    ids: NDArray[np.int32]
    starts: NDArray[np.int64]

    @classmethod
    def of(cls, lists: Sequence[Sequence[int]]) -> Flat:
        """Lay lists end to end."""
        lengths = np.array([len(ids) for ids in lists], dtype=np.int64)
        starts = np.concatenate(([0], np.cumsum(lengths)))
        ids = np.fromiter((i for ids in lists for i in ids), dtype=np.int32, count=int(starts[-1]))
        return cls(ids, starts)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """How long each list is."""
        return np.diff(self.starts)

    def take(self, rows: NDArray[np.int64]) -> Flat:
        """Return some of the lists."""
        return Flat.of([self.ids[self.starts[i] : self.starts[i + 1]].tolist() for i in rows])


@dataclass(frozen=True, eq=False)
class Corpus:
    """Pairs as token ids."""

    source: Flat
    target: Flat

    def __len__(self) -> int:
        return len(self.source.starts) - 1

    @classmethod
    def of(
        cls,
        pairs: Sequence[Pair],
        tokenizer: Encodes,
        longest: int,
        step: Callable[[int], None] = lambda done: None,
    ) -> Corpus:
        """Encode pairs; those with an empty side, or with more tokens than `longest`, are dropped.

        So are those of which one side has over three times the tokens of the other: no translation.
        """
        sources: list[list[int]] = []
        targets: list[list[int]] = []
        iterator = iter(pairs)
        while some := list(islice(iterator, _AT_ONCE)):
            both = (tokenizer.encode_batch([pair[side] for pair in some]) for side in (0, 1))
            for source, target in zip(*both, strict=True):
                shorter, longer = sorted((len(source), len(target)))
                if shorter and longer <= min(longest, 3 * shorter + 10):
                    sources.append(source)
                    targets.append(target)
            step(len(some))
        return cls(Flat.of(sources), Flat.of(targets))

    def batches(self, tokens: int, rng: np.random.Generator) -> Iterator[NDArray[np.int64]]:
        """Yield rows of pairs of like length, in random order: `tokens` of them in all, padded."""
        longer = np.maximum(self.source.lengths, self.target.lengths)
        # Chance decides among pairs of about the same length.
        order = np.argsort(longer + rng.random(len(longer)) * _MULTIPLE, kind="stable")
        padded = -(-longer[order] // _MULTIPLE) * _MULTIPLE
        cuts, start = [], 0
        while start < len(order):
            rows = max(1, tokens // int(padded[start]))
            stop = min(start + rows, len(order))
            while stop > start + 1 and (stop - start) * padded[start:stop].max() > tokens:
                stop = start + max(1, int(tokens // padded[start:stop].max()))
            cuts.append((start, stop))
            start = stop
        for number in rng.permutation(len(cuts)):
            yield order[slice(*cuts[number])]
