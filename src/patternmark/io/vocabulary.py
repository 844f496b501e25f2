"""Tokenizer vocabularies as alphabets, read from the file alone: no tokenizer library needed.

Understood are `tokenizer.json` (tokenizers, transformers), `vocab.json` (token to id), and text
with one token per line (`vocab.txt`, or sentencepiece's `.vocab` with a score behind a tab).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from patternmark.alphabet import PROTEIN, Alphabet
from patternmark.errors import InputError, ParameterError

# Names in brackets are control tokens, but <0x0A> is sentencepiece's spelling of a byte.
_CONTROL_TOKEN = re.compile(r"(?!<0x[0-9A-Fa-f]{2}>)(<[^<>\s]+>|\[[A-Za-z0-9_]+\])")


def parse_alphabet(text: str, unscored: Iterable[str] = ()) -> Alphabet:
    """Turn `protein` or `tokenizer:FILE` into an alphabet; `unscored` names further tokens."""
    kind, _, file = text.partition(":")
    if text == PROTEIN.name:
        if list(unscored):
            raise ParameterError("the protein alphabet fixes what is unscored")
        return PROTEIN
    if kind == "tokenizer" and file:
        return read_vocabulary(Path(file), unscored)
    raise ParameterError(f"an alphabet is 'protein' or 'tokenizer:FILE', not {text!r}")


def read_vocabulary(file: Path, unscored: Iterable[str] = ()) -> Alphabet:
    """Read a vocabulary; control tokens and those named in `unscored` are never scored."""
    try:
        text = file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise InputError(
            f"{file}: not text; for a sentencepiece model give the .vocab file beside it"
        ) from None
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror}") from None
    try:
        content = json.loads(text) if text.lstrip().startswith("{") else None
        id_of, special = _from_json(content) if content is not None else _from_lines(text)
        tokens = _in_order(id_of)
        never_generated = set(range(len(tokens))) - set(id_of.values())
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{file}: not a vocabulary this version reads: {error}") from None
    for name in unscored:
        if name not in id_of:
            raise ParameterError(f"{file}: there is no token {name!r} to leave unscored")
        special.add(name)
    return Alphabet.from_symbols(
        f"tokenizer:{_printable(file.name)}",
        tokens,
        never_generated | {id_of[token] for token in special},
    )


def _printable(name: str) -> str:
    """A file name fit for a key file: what cannot be printed becomes a question mark."""
    return "".join(c if c.isprintable() else "?" for c in name)


def _from_json(content: dict[str, Any]) -> tuple[dict[str, int], set[str]]:
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
    return id_of, special | _control_tokens(id_of)


def _from_lines(text: str) -> tuple[dict[str, int], set[str]]:
    tokens = [line.split("\t")[0] for line in text.split("\n")]
    while tokens and not tokens[-1]:
        tokens.pop()
    id_of = {token: index for index, token in enumerate(tokens)}
    if len(id_of) != len(tokens):
        raise ValueError("a token stands on two lines")
    return id_of, _control_tokens(id_of)


def _control_tokens(tokens: Iterable[str]) -> set[str]:
    return {token for token in tokens if _CONTROL_TOKEN.fullmatch(token)}


def _in_order(id_of: dict[str, int]) -> list[str]:
    """List the tokens by id; ids no token uses become placeholders."""
    if not id_of:
        raise ValueError("it holds no token")
    if min(id_of.values()) < 0 or len(set(id_of.values())) != len(id_of):
        raise ValueError("ids must be 0 or more, and no two tokens may share one")
    size = max(id_of.values()) + 1
    if size > 4 * len(id_of) + 1024:
        raise ValueError(f"ids run to {size - 1} for {len(id_of)} tokens")
    tokens = [f"<unused id {index}>" for index in range(size)]
    for token, index in id_of.items():
        tokens[index] = token
    return tokens


def read_background(file: Path, alphabet: Alphabet) -> tuple[int, ...]:
    """Read weights per symbol: a JSON list in id order, or an object from letter or id to weight.

    Whole numbers (counts) are kept; fractions are scaled to whole numbers, so that every machine
    derives the same parts from them.
    """
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
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
