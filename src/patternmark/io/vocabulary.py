"""Read the vocabularies of tokenizers as alphabets, without any tokenizer library.

These files can be read:

- `tokenizer.json` (tokenizers, transformers) and `vocab.json` (token to id),
- sentencepiece's `.model`, and its `.vocab` with a tab and a score after each token,
- text with one token per line (`vocab.txt`),
- fairseq's `dict*.txt`: a symbol and its count per line; fairseq adds four symbols before them,
- a folder with one of these, as transformers saves it, with the tokens of its configuration.

Special tokens are never scored: those that the file flags, control tokens, and unused ids.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from patternmark.core.alphabet import PROTEIN, Alphabet
from patternmark.errors import InputError, ParameterError
from patternmark.io.bounded import VOCABULARY_BYTES, parse_json, read_bytes, read_json
from patternmark.io.sentencepiece_wire import PieceType, read_pieces
from patternmark.io.shown import printable

TOKENIZER, MASK_PREDICT = "tokenizer", "mask-predict"  # kinds of alphabets that are read from files
CMLM_DE_EN = "cmlm-de-en"  # the tokenizer that comes with the package
_MOST_WORDS = 4  # words in a token
# The first of these files in a folder is read.
FOLDER_FILES = ("tokenizer.json", "vocab.json", "vocab.txt", "spiece.model", "tokenizer.model")
SENTENCEPIECE_SUFFIX = ".model"

# Names in brackets are control tokens, except <0x0A>, which is a byte in sentencepiece.
_CONTROL_TOKEN = re.compile(r"(?!<0x[0-9A-Fa-f]{2}>)(<[^<>\s]+>|\[[A-Za-z0-9_]+\])")
_SCORED_LINE = re.compile(r"(?s:.*)\t-?[0-9.]+(e-?[0-9]+)?")
_FAIRSEQ_OWN = ("<s>", "<pad>", "</s>", "<unk>")
_FAIRSEQ_FILLING = re.compile(r"madeupword\d+")  # padding symbols; never in text
_SAVE_AS_JSON = (
    "load it with transformers and save it with save_pretrained: that writes a tokenizer.json"
)


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """The tokens of a tokenizer by id, and the special ids, which are never scored."""

    name: str  # the name of the alphabet: tokenizer:FILE
    tokens: tuple[str, ...]
    special: frozenset[int]

    def alphabet(self, unscored: Iterable[str] = ()) -> Alphabet:
        """Return the alphabet of the tokens; `unscored` names further tokens not to score."""
        never = set(self.special)
        for token in unscored:
            if token not in self.tokens:
                raise ParameterError(f"{self.name}: there is no token {token!r} to leave unscored")
            never.add(self.tokens.index(token))
        return Alphabet.from_symbols(self.name, self.tokens, never)

    def fits(self, alphabet: Alphabet) -> bool:
        """Tell whether an alphabet has these tokens in this order; unscored ones may differ."""
        if alphabet.size != len(self.tokens):
            return False
        same = Alphabet.from_symbols(alphabet.name, self.tokens, alphabet.unscored)
        return same.sha256 == alphabet.sha256


def shipped_tokenizer() -> Path:
    """Return the file of the tokenizer of the package: byte-level BPE, German and English."""
    return Path(__file__).parent.parent / "data" / CMLM_DE_EN / "tokenizer.json"


def parse_alphabet(text: str, unscored: Iterable[str] = ()) -> Alphabet:
    """Return an alphabet by its name, such as `tokenizer:FILE`.

    `unscored` names further tokens not to score.
    """
    kind, _, file = text.partition(":")
    if text == PROTEIN.name:
        if list(unscored):
            raise ParameterError(
                "the protein alphabet fixes what is unscored: name no unscored tokens"
            )
        return PROTEIN
    if text == CMLM_DE_EN:
        return read_shipped_vocabulary().alphabet(unscored)
    if kind in (TOKENIZER, MASK_PREDICT) and file:
        return read_vocabulary(Path(file), kind).alphabet(unscored)
    raise ParameterError(
        f"an alphabet must be 'protein', '{CMLM_DE_EN}' (the tokenizer of the package) or "
        f"'tokenizer:FILE', not {text!r}"
    )


def read_shipped_vocabulary() -> Vocabulary:
    """Read the vocabulary of the tokenizer in the package."""
    return read_vocabulary(shipped_tokenizer(), name=CMLM_DE_EN)


def read_vocabulary(file: Path, kind: str = TOKENIZER, name: str | None = None) -> Vocabulary:
    """Read the vocabulary of a file or a folder; `mask-predict` adds <mask> to a dictionary."""
    if kind == MASK_PREDICT and not is_fairseq_dictionary(file):
        raise ParameterError(
            f"{file}: '{MASK_PREDICT}:' needs a dictionary of fairseq, named dict*.txt"
        )
    try:
        entries = _of_folder(file) if file.is_dir() else _of_file(file, kind)
        tokens = _tokens_by_id(entries.id_of)
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(f"{file}: not a vocabulary that can be read: {error}") from None
    without_token = set(range(len(tokens))) - set(entries.id_of.values())
    special = {entries.id_of[token] for token in entries.special | _control_tokens(entries.id_of)}
    shown = printable(name or Path(os.path.abspath(file)).name)  # a link keeps its own name
    return Vocabulary(f"{kind}:{shown}", tuple(tokens), frozenset(special | without_token))


def is_fairseq_dictionary(file: Path) -> bool:
    """Tell whether a file has the name of a fairseq dictionary."""
    return file.name.startswith("dict") and file.suffix == ".txt"


@dataclass(frozen=True)
class _Entries:
    """The content of a file: the id of each token, and the tokens that it flags as special."""

    id_of: dict[str, int]
    special: set[str] = field(default_factory=set)


def _of_file(file: Path, kind: str) -> _Entries:
    content = read_bytes(file, VOCABULARY_BYTES)
    if file.suffix == SENTENCEPIECE_SUFFIX and not _is_tiktoken(content):
        return _from_pieces(content)
    try:
        text = content.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError:
        raise ValueError("the file is neither text nor a sentencepiece .model") from None
    if is_fairseq_dictionary(file):
        return _from_dictionary(text, kind)
    if _is_tiktoken(content):
        raise ValueError(f"ranks of tiktoken do not define how text is split: {_SAVE_AS_JSON}")
    if text.lstrip().startswith("{"):
        return _from_json(parse_json(text))
    return _from_lines(text)


def _is_tiktoken(content: bytes) -> bool:
    """Tell whether the first line is a token in base 64 and its rank, 0."""
    token, _, rank = content.partition(b"\n")[0].strip().partition(b" ")
    try:
        return rank == b"0" and bool(base64.b64decode(token, validate=True))
    except binascii.Error:
        return False


def _from_pieces(content: bytes) -> _Entries:
    pieces = read_pieces(content)
    never = (PieceType.UNKNOWN, PieceType.CONTROL, PieceType.UNUSED)
    id_of = _numbered([piece.text for piece in pieces])
    return _Entries(id_of, {piece.text for piece in pieces if piece.type in never})


def _from_json(content: dict[str, Any]) -> _Entries:
    if "model" in content:  # tokenizer.json
        vocab = content["model"]["vocab"]
        if isinstance(vocab, list):  # unigram models: a list of [token, score]
            vocab = {entry[0]: index for index, entry in enumerate(vocab)}
        added = content.get("added_tokens", [])
        id_of = dict(vocab) | {token["content"]: token["id"] for token in added}
        special = {token["content"] for token in added if token.get("special")}
    else:  # vocab.json
        id_of, special = dict(content), set()
    if not all(type(index) is int for index in id_of.values()):
        raise ValueError("token ids must be whole numbers")
    return _Entries(id_of, special)


def _from_lines(text: str) -> _Entries:
    lines = text.split("\n")
    while lines and not lines[-1]:
        lines.pop()
    if all(_SCORED_LINE.fullmatch(line) for line in lines):
        lines = [line.rpartition("\t")[0] for line in lines]  # the last tab: a tab may be a token
    for number, line in enumerate(lines, start=1):
        if len(line.split()) > _MOST_WORDS:
            raise ValueError(f"line {number} is a text, but every line must be one token")
    return _Entries(_numbered(lines))


def _from_dictionary(text: str, kind: str) -> _Entries:
    own = [*_FAIRSEQ_OWN, *(["<mask>"] if kind == MASK_PREDICT else [])]
    tokens = []
    for number, line in enumerate(text.splitlines(), start=1):
        symbol, _, count = line.removesuffix(" #fairseq:overwrite").rpartition(" ")
        if not symbol or not count.isdecimal():
            raise ValueError(f"line {number} is not a symbol and its count")
        tokens.append(symbol)
    filling = {token for token in tokens if _FAIRSEQ_FILLING.fullmatch(token)}
    return _Entries(_numbered([*own, *tokens]), {*own, *filling})


def _numbered(tokens: list[str]) -> dict[str, int]:
    id_of = {token: index for index, token in enumerate(tokens)}
    if len(id_of) != len(tokens):
        raise ValueError("a token occurs twice")
    return id_of


def _of_folder(folder: Path) -> _Entries:
    file = vocabulary_file(folder)
    if file is None:
        raise ValueError(f"the folder has none of {', '.join(FOLDER_FILES)}: {_SAVE_AS_JSON}")
    entries = _of_file(file, TOKENIZER)
    config = _json_object(folder / "tokenizer_config.json")
    added = dict(_json_object(folder / "added_tokens.json"))
    special = set(entries.special)
    for index, token in config.get("added_tokens_decoder", {}).items():
        added[token["content"]] = int(index)
        if token.get("special"):
            special.add(token["content"])
    for token, index in added.items():
        if entries.id_of.get(token, index) != index:
            # An example is XLM-R, whose ids are those of sentencepiece plus one.
            raise ValueError(
                f"{token!r} has the id {entries.id_of[token]} in {file.name}, but {index} in the "
                f"configuration: {_SAVE_AS_JSON}"
            )
    id_of = entries.id_of | added
    named = _named_tokens(config) | _named_tokens(_json_object(folder / "special_tokens_map.json"))
    return _Entries(id_of, special | (named & set(id_of)))


def vocabulary_file(folder: Path) -> Path | None:
    """Return the file of a folder from which the vocabulary is read, or None."""
    return next((folder / name for name in FOLDER_FILES if (folder / name).exists()), None)


def _json_object(file: Path) -> dict[str, Any]:
    """Read a file of the configuration of a folder; a missing file is an empty object."""
    if not file.exists():
        return {}
    content = read_json(file, VOCABULARY_BYTES)
    if not isinstance(content, dict):
        raise ValueError(f"{file.name} is not a JSON object")
    return content


def _named_tokens(config: dict[str, Any]) -> set[str]:
    """Return the tokens that a configuration names: mask_token, additional_special_tokens, ..."""
    values: list[Any] = []
    for name, value in config.items():
        if name.endswith("_token"):
            values.append(value)
        elif name.endswith("special_tokens"):
            values += value.values() if isinstance(value, dict) else value or []
    contents = [value.get("content") if isinstance(value, dict) else value for value in values]
    return {token for token in contents if isinstance(token, str)}


def _control_tokens(tokens: Iterable[str]) -> set[str]:
    return {token for token in tokens if _CONTROL_TOKEN.fullmatch(token)}


def _tokens_by_id(id_of: dict[str, int]) -> list[str]:
    """Return the tokens in the order of ids; unused ids become placeholders."""
    if not id_of:
        raise ValueError("the file has no tokens")
    if min(id_of.values()) < 0 or len(set(id_of.values())) != len(id_of):
        raise ValueError("ids must be 0 or more, and no two tokens may share one")
    size = max(id_of.values()) + 1
    if size > 4 * len(id_of) + 1024:
        raise ValueError(f"ids go up to {size - 1}, which is too high for {len(id_of)} tokens")
    tokens = [f"<unused id {index}>" for index in range(size)]
    for token, index in id_of.items():
        tokens[index] = token
    return tokens


def read_background(file: Path, alphabet: Alphabet) -> tuple[int, ...]:
    """Read weights of symbols: a JSON list in the order of ids, or an object by letter or id.

    Whole numbers (counts) do not change. Fractions are scaled and rounded to whole numbers, so that
    every machine derives the same parts from them.
    """
    try:
        content = read_json(file)
        if isinstance(content, dict):
            weights = [0.0] * alphabet.size
            for symbol, weight in content.items():
                index = int(symbol) if symbol.isdecimal() else int(alphabet.encode(symbol)[0])
                weights[index] = weight
        else:
            weights = list(content)
        if all(float(w).is_integer() for w in weights):
            return tuple(int(w) for w in weights)
        return tuple(round(float(w) / sum(weights) * 1e9) for w in weights)
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror}") from None
    except (ValueError, TypeError, IndexError, ZeroDivisionError) as error:
        raise InputError(f"{file}: not a background of {alphabet.size} weights: {error}") from None
