"""Natural English for benchmarks: corpora of NLTK and the English side of Europarl.

A folder, or a folder inside it, holds `nltk_brown.zip`, `nltk_inaugural.zip` and
`nltk_state_union.zip` as NLTK ships them, and `europarl.de-en.NAME.tsv` (or `.tsv.xz`) with lines
of source, tab, English. Missing files are named, and the others are used.
"""

from __future__ import annotations

import lzma
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from zipfile import BadZipFile, ZipFile

import numpy as np
from numpy.typing import NDArray

from patternmark.core.alphabet import Alphabet
from patternmark.errors import InputError, PatternmarkError
from patternmark.io.vocabulary import parse_alphabet

BROWN, INAUGURAL, STATE_UNION, EUROPARL = "Brown", "inaugural", "state_union", "Europarl"
_ZIPS = {
    BROWN: "nltk_brown.zip",
    INAUGURAL: "nltk_inaugural.zip",
    STATE_UNION: "nltk_state_union.zip",
}
_EUROPARL_PARTS = ("train", "valid", "test", "longtest")
_MAX_LINES = 100_000  # read from each part of Europarl

Encoder = Callable[[str], Sequence[int]]


def tokens_of(file: Path) -> tuple[Alphabet, Encoder]:
    """Return the alphabet of a tokenizer.json, and a function from text to token ids."""
    alphabet = parse_alphabet(f"tokenizer:{file}")
    try:
        from tokenizers import Tokenizer  # noqa: PLC0415  # an extra
    except ImportError:
        raise PatternmarkError(
            "splitting text needs tokenizers: pip install 'patternmark[text]'"
        ) from None
    tokenizer = Tokenizer.from_file(str(file))
    return alphabet, lambda text: tokenizer.encode(text, add_special_tokens=False).ids


def read_corpora(folder: Path) -> tuple[dict[str, list[str]], list[str]]:
    """Return the documents of each corpus in a folder, and the names of missing files.

    A line of Europarl is too short to be a document, so each part of Europarl is one document.
    """
    found: dict[str, list[str]] = {}
    missing = []
    for corpus, name in _ZIPS.items():
        file = _find(folder, name)
        if file is None:
            missing.append(name)
        else:
            found[corpus] = list(_documents(file, _plain_brown if corpus == BROWN else _plain))
    for part in _EUROPARL_PARTS:
        name = f"europarl.de-en.{part}.tsv"
        file = _find(folder, name) or _find(folder, f"{name}.xz") or _find(folder, f"{part}.tsv")
        if file is None:
            missing.append(name)
        else:
            found.setdefault(EUROPARL, []).append(" ".join(_english(file)))
    if not found:
        raise InputError(
            f"{folder}: holds none of the corpora: {', '.join(missing)} (get them from nltk.org "
            "and from the proceedings of the European Parliament)"
        )
    return found, missing


def _find(folder: Path, name: str) -> Path | None:
    return next((file for file in sorted([*folder.glob(name), *folder.glob(f"*/{name}")])), None)


def _documents(file: Path, plain: Callable[[str], str]) -> Iterator[str]:
    try:
        with ZipFile(file) as archive:
            for name in archive.namelist():
                if not name.endswith("/") and _is_document(Path(name).name):
                    # One of the presidents' addresses is not UTF-8: drop its stray bytes.
                    yield plain(archive.read(name).decode("utf-8", errors="ignore"))
    except (OSError, BadZipFile) as error:
        raise InputError(f"{file}: cannot be read as a zip file: {error}") from None


def _is_document(name: str) -> bool:
    """Tell texts from other files in the archives: README, lists of files."""
    return re.fullmatch(r"c[a-r]\d\d|\d{4}-.*\.txt", name) is not None


def _plain(text: str) -> str:
    return " ".join(text.split())


def _plain_brown(text: str) -> str:
    """Turn words with tags (`The/at jury/nn`) into plain text.

    >>> _plain_brown("He/pps said/vbd ,/, ``/`` no/at ''/'' ;/. ;/. (/( $5/nns )/) ./.")
    'He said, "no"; ($5).'
    """
    words = [word.rsplit("/", 1)[0] for word in text.split()]
    # Semicolons, question and exclamation marks are doubled in this edition.
    kept = [w for w, before in zip(words, ["", *words], strict=False) if not (w == before in ";?!")]
    joined = " ".join(kept)
    joined = re.sub(r"(``|\() ", r"\1", joined)
    joined = re.sub(r" (''|[.,;:?!)])", r"\1", joined)
    return joined.replace("``", '"').replace("''", '"')


def read_sources(folder: Path) -> list[str]:
    """Return source lines of a part of Europarl that no table is made from."""
    name = "europarl.de-en.valid.tsv"
    file = _find(folder, name) or _find(folder, f"{name}.xz")
    return [] if file is None else list(_side(file, 0))


def _english(file: Path) -> Iterator[str]:
    return _side(file, 1)


def _side(file: Path, side: int) -> Iterator[str]:
    try:
        opened = lzma.open if file.suffix == ".xz" else open
        with opened(file, "rt", encoding="utf-8") as lines:
            for number, line in zip(range(_MAX_LINES), lines, strict=False):
                both = str(line).rstrip("\n").split("\t", 1)
                if len(both) < 2:
                    raise InputError(
                        f"{file}, line {number + 1}: there is no tab between the two languages"
                    )
                yield both[side]
    except (OSError, lzma.LZMAError, UnicodeDecodeError) as error:
        raise InputError(f"{file}: cannot be read: {error}") from None


def cut_texts(
    documents: Sequence[str],
    encode: Encoder,
    lengths: tuple[int, int],
    most: int,
    rng: np.random.Generator,
) -> list[NDArray[np.int64]]:
    """Cut the tokens of documents into texts of random lengths, without gaps.

    If there are more than `most` texts, `most` random ones of them are returned, in order.
    """
    low, high = lengths
    texts = []
    for document in documents:
        ids = np.array(encode(document), dtype=np.int64)
        at = 0
        while len(ids) - at >= low:
            size = min(int(rng.integers(low, high + 1)), len(ids) - at)
            texts.append(ids[at : at + size])
            at += size
    chosen = rng.permutation(len(texts))[:most]
    return [texts[i] for i in sorted(chosen.tolist())]
