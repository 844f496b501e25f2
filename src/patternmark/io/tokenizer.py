"""Turn text into token ids and back, with the library that the file of a tokenizer needs.

The libraries are optional and loaded when text is read: `tokenizers` for a tokenizer.json,
`sentencepiece` for a .model, `transformers` for a folder that has only a vocabulary. Token ids need
none of them. A text never gives a token that the file flags as special: the characters <mask> are
read like any others.

>>> tokenizer = load_tokenizer(shipped_tokenizer())
>>> tokenizer.decode(tokenizer.encode("A cat sat on the <mask>.")).strip()
'A cat sat on the <mask>.'

A detector folds a text before reading it, so that look-alike characters hide nothing:

>>> ids, folded = tokenizer.read("A c\u200bаt sat.")
>>> tokenizer.decode(ids).strip(), dict(folded.counts)
('A cat sat.', {'invisible': 1, 'look_alikes': 1})
"""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from patternmark.core.alphabet import Alphabet
from patternmark.errors import InputError, ParameterError, PatternmarkError
from patternmark.io.folding import Folded, fold
from patternmark.io.sentencepiece_wire import read_begins
from patternmark.io.subwords import CONTINUED, Merges, find_merges, joined
from patternmark.io.vocabulary import (
    MASK_PREDICT,
    SENTENCEPIECE_SUFFIX,
    TOKENIZER,
    Vocabulary,
    is_fairseq_dictionary,
    read_shipped_vocabulary,
    read_vocabulary,
    shipped_tokenizer,
    vocabulary_file,
)

# A noncharacter of Unicode, which no text has. It replaces the names of special tokens.
_NOWHERE_IN_TEXT = "\ufdd0"
_SYMBOL = re.compile(r"\S+")
_WORD = re.compile(r"[^\W\d_]+")
_LEAST_TOKENS = 2000  # of a vocabulary: smaller ones spell every language out
_LEAST_BYTES = 60  # of words, to recognise a language
# More tokens per byte mean that words are spelled out. The shipped tokenizer has: English 0.2,
# French 0.4, Polish 0.5, Russian 0.7.
_SPELLED_OUT = 0.55


class Backend(Protocol):
    """The tokenizer of a library, set to add and find no special tokens in text."""

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text."""

    def decode(self, ids: list[int]) -> str:
        """Return the text of ids, without special tokens."""

    def begins(self, text: str) -> list[int] | None:
        """Return the character at which each token begins, or None if the library cannot tell."""


class ReadText(NamedTuple):
    """The ids of a text as a detector reads it, and the folded text."""

    ids: NDArray[np.int64]
    folded: Folded


@dataclass(frozen=True, eq=False)
class Tokenizer:
    """The tokenizer of a file, which turns text into symbols of its alphabet and back."""

    file: Path
    vocabulary: Vocabulary
    backend: Backend

    @cached_property
    def alphabet(self) -> Alphabet:
        return self.vocabulary.alphabet()

    def encode(self, text: str) -> NDArray[np.int64]:
        """Return the ids of a text without folding. No special token is added or found in it."""
        return np.array(self.backend.encode(text), dtype=np.int64)

    def read(self, text: str) -> ReadText:
        """Return the ids of a text for a detector, after folding."""
        folded = fold(text)
        return ReadText(self.encode(folded.text), folded)

    def decode(self, ids: ArrayLike) -> str:
        """Return the text of ids, without tokens that the file flags as special."""
        return self.backend.decode(self.alphabet.encode(ids).tolist())

    def knows(self, text: str) -> bool:
        """Tell whether a text is in a language of the tokenizer: see `knows_words`."""
        return knows_words(text, self.backend.encode, len(self.vocabulary.tokens))

    def cuts(self, text: str) -> NDArray[np.int64] | None:
        """Return where each token begins in the text, and the end of the text: [tokens + 1].

        None means that the library cannot tell. Tokens of one character have the same place.
        """
        begins = self.backend.begins(text)
        if not begins:
            return None
        return np.maximum.accumulate([0, *begins[1:], len(text)])

    def cuts_read(self, text: str) -> NDArray[np.int64] | None:
        """Return where each token of `read` begins in the text before folding: [tokens + 1]."""
        folded = fold(text)
        cuts = self.cuts(folded.text)
        return None if cuts is None else folded.places(cuts)


def knows_words(text: str, encode: Callable[[str], list[int]], num_tokens: int) -> bool:
    """Tell whether words have tokens: in an unknown language, a tokenizer spells words out.

    Words in capitals are ignored. With too few words the answer is True.
    """
    words = " ".join(word for word in _WORD.findall(text) if not word.isupper())
    size = len(words.encode("utf-8"))
    if num_tokens < _LEAST_TOKENS or size < _LEAST_BYTES:
        return True
    return len(encode(words)) < _SPELLED_OUT * size


def load_tokenizer(
    file: str | Path, kind: str = TOKENIZER, vocabulary: Vocabulary | None = None
) -> Tokenizer:
    """Load the tokenizer of a file or a folder; if a library is missing, say what to install."""
    path = Path(file)
    if vocabulary is None:
        is_shipped = path == shipped_tokenizer()
        vocabulary = read_shipped_vocabulary() if is_shipped else read_vocabulary(path, kind)
    source = _source(path)
    backend: Backend
    if source.is_dir():
        backend = _Transformers(source, vocabulary)
    elif is_fairseq_dictionary(source):
        backend = _Dictionary(vocabulary, find_merges(source.parent))
    elif source.suffix == SENTENCEPIECE_SUFFIX:
        backend = _SentencePiece(source)
    else:
        backend = _Tokenizers(source)
    return Tokenizer(path, vocabulary, backend)


def find_tokenizer(
    alphabet: Alphabet, file: Path | None = None, beside: Path | None = None
) -> Tokenizer:
    """Find the tokenizer of the alphabet of a key.

    It is `file`, or the tokenizer of the package, or a file with the name of the alphabet in the
    folder `beside`. If it does not fit the alphabet, an error is raised.
    """
    prefix, _, name = alphabet.name.partition(":")
    kind = MASK_PREDICT if prefix == MASK_PREDICT else TOKENIZER
    if file is None:
        shipped = read_shipped_vocabulary()
        if shipped.fits(alphabet):
            return load_tokenizer(shipped_tokenizer(), vocabulary=shipped)
        file = beside / Path(name).name if beside is not None and name else None
        if file is None or not file.exists():
            raise ParameterError(
                f"the key was made for {alphabet.name} (sha256 {alphabet.sha256[:12]}): to read "
                "text, give that tokenizer, or put it next to the key file (token ids in JSON "
                "lines need no tokenizer)"
            )
    found = read_vocabulary(file, kind)
    if not found.fits(alphabet):
        raise ParameterError(
            f"{file}: not the tokenizer of this key: its alphabet is {found.name} (sha256 "
            f"{found.alphabet().sha256[:12]}, {len(found.tokens)} tokens), but the key has "
            f"{alphabet.name} ({alphabet.sha256[:12]}, {alphabet.size}). Give the tokenizer that "
            f"the key was made for, or make a key for this one with the alphabet {kind}:FILE"
        )
    return load_tokenizer(file, kind, found)


def _source(path: Path) -> Path:
    """Return what the library must read: some files have tokens, but not the rules of splitting."""
    if path.is_dir():
        file = vocabulary_file(path)
        is_whole = file is not None and file.name not in ("vocab.json", "vocab.txt")
        return file if file is not None and is_whole else path
    if path.suffix == ".vocab":
        model = path.with_suffix(SENTENCEPIECE_SUFFIX)
        if not model.exists():
            raise InputError(f"{path}: to read text, the sentencepiece model {model} is needed")
        return model
    if path.name in ("vocab.json", "vocab.txt"):
        return path.parent
    return path


def _import(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        extra = "'patternmark[text]'" if name == "tokenizers" else name
        raise PatternmarkError(
            f"reading text with this tokenizer needs {name}: pip install {extra} (token ids in "
            "JSON lines need no library)"
        ) from None


class _Tokenizers:
    """A tokenizer.json."""

    def __init__(self, file: Path) -> None:
        library = _import("tokenizers")
        try:
            content = json.loads(file.read_text(encoding="utf-8"))
            self._tokenizer = library.Tokenizer.from_str(json.dumps(_without_special(content)))
            self._has_text = {
                index
                for token, index in self._tokenizer.get_vocab().items()
                if not token.startswith(_NOWHERE_IN_TEXT)
            }
        # The library raises plain Exception.
        except Exception as error:
            raise InputError(f"{file}: the library tokenizers cannot read it: {error}") from None

    def encode(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    def decode(self, ids: list[int]) -> str:
        text: str = self._tokenizer.decode([index for index in ids if index in self._has_text])
        return text

    def begins(self, text: str) -> list[int] | None:
        encoded = self._tokenizer.encode(text, add_special_tokens=False)
        return [begin for begin, _ in encoded.offsets]


def _without_special(content: dict[str, Any]) -> dict[str, Any]:
    """Remove from a tokenizer.json all that makes special tokens or changes the length of a text.

    It is not enough to switch off the search for special tokens: a unigram model has them among its
    pieces.
    """
    model = content["model"]
    given = content.get("added_tokens", [])
    special = {token["content"] for token in given if token.get("special")}
    if model.get("unk_token") is not None:
        special.add(model["unk_token"])
    merged = {part for merge in model.get("merges", ()) for part in _parts_of_merge(merge)}
    name_of = {token: f"{_NOWHERE_IN_TEXT}{token}" for token in special - merged}
    vocab = model["vocab"]
    if isinstance(vocab, list):
        vocab = [[name_of.get(token, token), score] for token, score in vocab]
    else:
        vocab = {name_of.get(token, token): index for token, index in vocab.items()}
    renamed = dict(model) | {"vocab": vocab}
    if "unk_token" in model:
        renamed["unk_token"] = name_of.get(model["unk_token"], model["unk_token"])
    added = [token for token in given if not token.get("special")]
    nothing = dict.fromkeys(("truncation", "padding", "post_processor"))
    return content | nothing | {"added_tokens": added, "model": renamed}


def _parts_of_merge(merge: str | list[str]) -> tuple[str, ...]:
    first, second = merge.split(" ") if isinstance(merge, str) else merge
    return first, second, first + second


class _SentencePiece:
    """A sentencepiece .model. Its library never finds control symbols in text."""

    def __init__(self, file: Path) -> None:
        library = _import("sentencepiece")
        try:
            self._processor = library.SentencePieceProcessor(model_file=str(file))
        except (OSError, RuntimeError) as error:
            raise InputError(f"{file}: sentencepiece cannot read it: {error}") from None

    def encode(self, text: str) -> list[int]:
        ids: list[int] = self._processor.encode(text, add_bos=False, add_eos=False)
        return ids

    def decode(self, ids: list[int]) -> str:
        text: str = self._processor.decode(ids)
        return text

    def begins(self, text: str) -> list[int] | None:
        split = self._processor.encode(text, out_type="serialized_proto")
        content = np.frombuffer(text.encode("utf-8"), dtype=np.uint8)
        is_first = (content & 0xC0) != 0x80  # the first byte of a character
        character_of = np.append(np.cumsum(is_first) - 1, len(text))  # [bytes + 1]
        return [int(character_of[begin]) for begin in read_begins(split)]


class _Transformers:
    """A folder whose configuration, not its vocabulary, defines how text is split."""

    _NO_SPECIAL: ClassVar = {
        "add_special_tokens": False,
        "split_special_tokens": True,
        "verbose": False,  # no warnings about texts that are longer than a model reads
    }

    def __init__(self, folder: Path, vocabulary: Vocabulary) -> None:
        library = _import("transformers")
        try:
            self._tokenizer = library.AutoTokenizer.from_pretrained(
                str(folder), local_files_only=True, trust_remote_code=False
            )
        # The kinds of errors depend on the class of the tokenizer.
        except Exception as error:
            reason = str(error).strip().partition("\n")[0]
            raise InputError(
                f"{folder}: transformers cannot load a tokenizer from it: {reason}: give a "
                "tokenizer.json, or a tokenizer_config.json that names the tokenizer_class"
            ) from None
        for token, index in self._tokenizer.get_vocab().items():
            if index < len(vocabulary.tokens) and vocabulary.tokens[index] != token:
                raise InputError(
                    f"{folder}: transformers gives the id {index} to {token!r}, but the vocabulary "
                    f"gives it to {vocabulary.tokens[index]!r}: save the tokenizer with "
                    "save_pretrained, and make a key for the saved one"
                )

    def encode(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer.encode(text, **self._NO_SPECIAL)
        return ids

    def decode(self, ids: list[int]) -> str:
        text: str = self._tokenizer.decode(
            ids, skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        return text

    def begins(self, text: str) -> list[int] | None:
        if not self._tokenizer.is_fast:
            return None
        split = self._tokenizer(text, return_offsets_mapping=True, **self._NO_SPECIAL)
        return [begin for begin, _ in split["offset_mapping"]]


class _Dictionary:
    """A dictionary of fairseq: text is symbols between blanks, or words if there are merges."""

    def __init__(self, vocabulary: Vocabulary, merges: Merges | None) -> None:
        self._symbol_of = {
            index: symbol
            for index, symbol in enumerate(vocabulary.tokens)
            if index not in vocabulary.special
        }
        self._id_of = {symbol: index for index, symbol in self._symbol_of.items()}
        self._unknown = vocabulary.tokens.index("<unk>")
        self._merges = merges

    def encode(self, text: str) -> list[int]:
        return [self._id_of.get(symbol, self._unknown) for _, symbol in self._symbols(text)]

    def decode(self, ids: list[int]) -> str:
        text = " ".join(self._symbol_of[index] for index in ids if index in self._symbol_of)
        return text if self._merges is None else joined(text)

    def begins(self, text: str) -> list[int] | None:
        return [begin for begin, _ in self._symbols(text)]

    def _symbols(self, text: str) -> Iterator[tuple[int, str]]:
        """Yield the symbols of a text, and where each begins."""
        for found in _SYMBOL.finditer(text):
            begin, word = found.start(), found.group()
            # A word of the dictionary is not split; neither are the pieces of a split text.
            if self._merges is None or word in self._id_of:
                yield begin, word
                continue
            for piece in self._merges.split(word):
                yield begin, piece
                begin += len(piece.removesuffix(CONTINUED))
