"""Read sentence pairs, cut spans of sentences, encode them as token ids, and make batches."""

from __future__ import annotations

import logging
import lzma
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from patternmark.errors import InputError
from patternmark.io.sentences import sentences
from patternmark.translation.decode import MULTIPLE

Pair = tuple[str, str]  # source, target

_BREAKS = re.compile(r"[\t\r\n]+")
_MAX_BAD_SHARE = 0.05  # bad lines for each pair; with more, the file is probably of another kind
_ENCODED_PAIRS = 10_000  # pairs that are encoded in one call
# Share of tokens that both sides have in common, from which a pair is a copy. Of 30,001 pairs of
# Europarl, those with 0.9 or more are English on both sides (6 %); those below 0.8 are
# translations, some of them with many names.
_COPY_SHARE = 0.8
_NAME_TOKENS = 4  # a pair with at most this many tokens on one side may be a name, never a copy

_log = logging.getLogger("patternmark.lab")  # below patternmark: --verbose shows it


class Encodes(Protocol):
    """What this module needs of a tokenizer."""

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of texts."""


def read_pairs(file: Path, warn: Callable[[str], object] = _log.warning) -> list[Pair]:
    """Read lines of source, tab, target (.xz too).

    Blank lines are skipped. Other lines without a pair are skipped with a warning; if there are
    too many of them, the file is refused.
    """
    pairs: list[Pair] = []
    bad: list[str] = []
    try:
        with lzma.open(file) if file.suffix == ".xz" else file.open("rb") as stream:
            for number, line in enumerate(stream, start=1):
                pair, fault = _parse(line)
                if pair is not None:
                    pairs.append(pair)
                elif fault:
                    bad.append(f"line {number} {fault}")
    except (OSError, EOFError, lzma.LZMAError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{file}: cannot be read: {reason}") from None
    if not pairs and not bad:
        raise InputError(f"{file}: the file is empty")
    if len(bad) > _MAX_BAD_SHARE * len(pairs):
        raise InputError(
            f"{file}: {len(bad)} of {len(bad) + len(pairs)} lines are not a source, a tab and its "
            f"translation: {bad[0]}"
        )
    if bad:
        more = f" and {len(bad) - 3} more" if len(bad) > 3 else ""
        warn(f"{file}: skipped: {'; '.join(bad[:3])}{more}")
    return pairs


def _parse(line: bytes) -> tuple[Pair | None, str]:
    """Return the pair of a line, or what is wrong with the line ("" if it is blank)."""
    try:
        fields = line.decode("utf-8-sig").rstrip("\r\n").split("\t")
    except UnicodeDecodeError:
        return None, "is not UTF-8"
    if not any(field.strip() for field in fields):
        return None, ""
    if len(fields) < 2:
        return None, "has no tab"
    if not fields[0].strip() or not fields[1].strip():
        return None, "has an empty side"
    return (fields[0], fields[1]), ""


def as_lines(pairs: Iterable[Pair]) -> str:
    """Return the text that `read_pairs` reads; tabs and line breaks in a side become blanks."""
    return "".join("\t".join(_BREAKS.sub(" ", text) for text in pair) + "\n" for pair in pairs)


def aligned_sentences(pair: Pair) -> list[Pair]:
    """Return the sentence pairs of a paragraph, or the paragraph if the numbers do not match."""
    sources, targets = sentences(pair[0]), sentences(pair[1])
    if len(sources) != len(targets):
        return [pair]
    return list(zip(sources, targets, strict=True))


def join_pairs(pairs: Sequence[Pair]) -> Pair:
    """Join consecutive pairs into one."""
    return " ".join(p[0] for p in pairs), " ".join(p[1] for p in pairs)


def cut_to(pair: Pair, low: int, high: int, count: Callable[[str], int]) -> Pair | None:
    """Return the longest begin of a paragraph whose target has `low` to `high` tokens, or None.

    It is cut only after a sentence.
    """
    parts = aligned_sentences(pair)
    for stop in range(len(parts), 0, -1):
        candidate = join_pairs(parts[:stop])
        if low <= count(candidate[1]) <= high:
            return candidate
    return None


def longer_pairs(
    singles: Sequence[Pair], paragraphs: Sequence[Pair], seed: int, number: int
) -> list[Pair]:
    """Return paragraphs, spans of their sentences, and `number` joins of random sentences.

    Detection needs long texts, which a model does not learn to write from single sentences.
    """
    rng = np.random.default_rng(seed)
    found = list(paragraphs)
    for pair in paragraphs:
        parts = aligned_sentences(pair)
        if len(parts) > 2:
            start = int(rng.integers(len(parts) - 1))
            stop = int(rng.integers(start + 2, len(parts) + 1))
            found.append(join_pairs(parts[start:stop]))
    for _ in range(number):
        chosen = rng.integers(len(singles), size=int(rng.integers(2, 6)))
        found.append(join_pairs([singles[i] for i in chosen]))
    return found


@dataclass(frozen=True, eq=False)
class Flat:
    """Many lists of ids in one array: list i is `ids[starts[i] : starts[i + 1]]`."""

    ids: NDArray[np.int32]
    starts: NDArray[np.int64]

    @classmethod
    def of(cls, lists: Sequence[ArrayLike]) -> Flat:
        """Put lists end to end."""
        rows = [np.asarray(ids, dtype=np.int32) for ids in lists]
        starts = np.cumsum([0, *map(len, rows)], dtype=np.int64)
        return cls(np.concatenate([*rows, np.empty(0, np.int32)]), starts)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """The length of each list."""
        return np.diff(self.starts)


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
        step: Callable[[int], object] = lambda done: None,
    ) -> Corpus:
        """Encode pairs, without those that are not translations or have over `longest` tokens.

        A pair is not a translation if one side has over three times the tokens of the other, or if
        both sides say the same in one language: from copies, a model learns to copy.
        """
        sources: list[NDArray[np.int32]] = []  # arrays, as Python's integers take more memory
        targets: list[NDArray[np.int32]] = []
        for start in range(0, len(pairs), _ENCODED_PAIRS):
            some = pairs[start : start + _ENCODED_PAIRS]
            both = (tokenizer.encode_batch([pair[side] for pair in some]) for side in (0, 1))
            for source, target in zip(*both, strict=True):
                if _is_translation(source, target, longest):
                    sources.append(np.array(source, dtype=np.int32))
                    targets.append(np.array(target, dtype=np.int32))
            step(len(some))
        if not sources:
            raise InputError(
                f"none of the {len(pairs)} pairs is usable for training: each has more than "
                f"{longest} tokens, which is the limit, or is not a translation"
            )
        return cls(Flat.of(sources), Flat.of(targets))

    def batches(self, tokens: int, rng: np.random.Generator) -> list[NDArray[np.int64]]:
        """Return the row numbers of each batch, in random order; each pair is in one batch.

        The pairs of a batch have similar lengths, and up to `tokens` tokens with padding. A pair
        with more tokens is a batch by itself.
        """
        longer = np.maximum(self.source.lengths, self.target.lengths)
        padded = -(-longer // MULTIPLE) * MULTIPLE
        # The longest pairs come first, so that the first pair of a batch decides how many fit.
        # Pairs with the same padded length are in random order.
        order = np.lexsort((rng.random(len(longer)), -padded))
        cuts, start = [], 0
        while start < len(order):
            stop = start + max(1, tokens // int(padded[order[start]]))
            cuts.append(order[start:stop])
            start = stop
        return [cuts[number] for number in rng.permutation(len(cuts))]


def _is_translation(source: list[int], target: list[int], longest: int) -> bool:
    shorter, longer = sorted((len(source), len(target)))
    if not 0 < shorter <= longer <= min(longest, 3 * shorter + 10):
        return False
    return not is_copy(source, target)


def is_copy(source: list[int], target: list[int]) -> bool:
    """Tell whether both sides say the same in one language; short names and numbers may."""
    shorter = min(len(source), len(target))
    shared = (Counter(source) & Counter(target)).total()
    return shorter > _NAME_TOKENS and shared >= _COPY_SHARE * shorter
