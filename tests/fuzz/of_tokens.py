"""Vocabularies and tokenizers of every kind of file, and weights of symbols."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import partial
from pathlib import Path

import numpy as np

from patternmark.core.alphabet import PROTEIN
from patternmark.io.tokenizer import load_tokenizer
from patternmark.io.vocabulary import MASK_PREDICT, TOKENIZER, read_background, read_vocabulary
from tests.fuzz.targets import WITH_TORCH, Target

TEXT = "the cat <mask> sat[UNK] on\u00e9 the mat"
_WORDS = ["<pad>", "<s>", "</s>", "<unk>", "<mask>", "the", "cat", "sat", "on", "mat", "Ġthe"]


def tokenizer_json() -> dict[str, object]:
    """Return a small tokenizer.json: byte-level BPE with a special token."""
    letters = [chr(c) for c in range(33, 127)] + ["Ġ", "Ã", "©"]
    vocab = {token: i for i, token in enumerate(["<mask>", *letters, "th", "the", "Ġthe"])}
    level = {"add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return {
        "version": "1.0", "truncation": None, "padding": None, "normalizer": None,
        "added_tokens": [{"id": 0, "content": "<mask>", "single_word": False, "lstrip": False,
                          "rstrip": False, "normalized": False, "special": True}],
        "pre_tokenizer": {"type": "ByteLevel", **level},
        "post_processor": None, "decoder": {"type": "ByteLevel", **level},
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "fuse_unk": False,
                  "byte_fallback": False, "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "vocab": vocab,
                  "merges": ["t h", "th e", "Ġ the"]},
    }  # fmt: skip


def _unigram_json() -> dict[str, object]:
    made = tokenizer_json()
    pieces = [["<unk>", 0.0], ["▁the", -1.5], ["▁", -2.0], *([c, -3.0] for c in "thecasomn")]
    blanks = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
    model = {"type": "Unigram", "unk_id": 0, "vocab": pieces, "byte_fallback": False}
    return made | {"model": model, "pre_tokenizer": blanks, "decoder": blanks, "added_tokens": []}


def _jsons() -> list[bytes]:
    whole = [json.dumps(made).encode() for made in (tokenizer_json(), _unigram_json())]
    return [*whole, json.dumps({word: i for i, word in enumerate(_WORDS)}).encode()]


def pieces_model() -> bytes:
    """Return a sentencepiece .model by hand: pieces with a score and a kind."""
    kinds = [2, 3, 3, 3, 4, *[1] * (len(_WORDS) - 5)]
    found = b""
    for word, kind in zip(_WORDS, kinds, strict=True):
        text = word.encode()
        piece = (
            b"\x0a" + bytes([len(text)]) + text + b"\x15" + b"\0\0\x80\xbf" + bytes([0x18, kind])
        )
        found += b"\x0a" + bytes([len(piece)]) + piece
    return found


def _read(name: str, kind: str, content: bytes, folder: Path) -> Iterable[str]:
    file = folder / name
    file.write_bytes(content)
    vocabulary = read_vocabulary(file, kind)
    assert len(vocabulary.tokens) == vocabulary.alphabet().size > 0
    assert all(0 <= index < len(vocabulary.tokens) for index in vocabulary.special)
    assert vocabulary.fits(vocabulary.alphabet())
    return []


def _read_folder(content: bytes, folder: Path) -> Iterable[str]:
    """Read a vocabulary whose configuration is the input."""
    (folder / "vocab.json").write_bytes(_jsons()[2])
    for name in ("tokenizer_config.json", "added_tokens.json", "special_tokens_map.json"):
        (folder / name).write_bytes(content)
    assert read_vocabulary(folder).tokens
    return []


def _read_text(name: str, content: bytes, folder: Path) -> Iterable[str]:
    """Load a tokenizer and read a text with it."""
    file = folder / name
    file.write_bytes(content)
    tokenizer = load_tokenizer(file, TOKENIZER)
    ids = tokenizer.read(TEXT).ids
    assert ((ids >= 0) & (ids < tokenizer.alphabet.size)).all()
    tokenizer.decode(ids[~np.isin(ids, list(tokenizer.vocabulary.special))])
    cuts = tokenizer.cuts_read(TEXT)
    assert cuts is None or (np.diff(cuts) >= 0).all()
    return []


def _read_codec(content: bytes, folder: Path) -> Iterable[str]:
    from patternmark.translation.bpe import TextCodec

    (folder / "tokenizer.json").write_bytes(content)
    codec = TextCodec.load(folder / "tokenizer.json")
    codec.decode_batch(codec.encode_batch([TEXT, ""]))
    return [str(codec.has_our_special)]


def _read_background(content: bytes, folder: Path) -> Iterable[str]:
    (folder / "x.json").write_bytes(content)
    assert all(type(weight) is int for weight in read_background(folder / "x.json", PROTEIN))
    return []


_JSON = (b'"vocab":', b'"model":', b'"added_tokens":', b'"content":', b'"id":', b'"merges":',
         b'"special": true', b'"type":', b'"Unigram"', b'"WordPiece"', b'"WordLevel"', b'"BPE"',
         b'{"type":"Replace","pattern":{"Regex":"(a*)*b"},"content":""}',
         b'"normalizer":')  # fmt: skip
_CONFIG = {"mask_token": "<mask>",
           "added_tokens_decoder": {"11": {"content": "x", "special": True}},
           "additional_special_tokens": ["<pad>", {"content": "the"}]}  # fmt: skip
_LINES = b"\n".join(f"{word} {100 - i}".encode() for i, word in enumerate(_WORDS[5:]))

TARGETS = (
    Target("vocabulary-json", partial(_read, "tokenizer.json", TOKENIZER), _jsons, _JSON, share=30),
    Target("vocabulary-folder", _read_folder,
           lambda: [json.dumps(_CONFIG).encode(), b'{"new": 11}'], _JSON, share=20),
    Target("vocabulary-lines", partial(_read, "vocab.txt", TOKENIZER),
           lambda: ["\n".join(_WORDS).encode(), _LINES.replace(b" ", b"\t-")], (b"\t", b"\t-1.5\n"),
           share=20),
    Target("dictionary", partial(_read, "dict.en.txt", MASK_PREDICT), lambda: [_LINES + b"\n"],
           (b" #fairseq:overwrite", b"madeupword0000 0\n"), share=20),
    Target("pieces-model", partial(_read, "x.model", TOKENIZER), lambda: [pieces_model()],
           (b"\x0a\x05", b"\xff\xff\xff\xff\xff\xff\xff\xff\x7f", b"\x18\x02"), share=20),
    Target("tokenizer", partial(_read_text, "x.json"), lambda: _jsons()[:2], _JSON, share=15,
           needs=("tokenizers",)),
    Target("sentencepiece", partial(_read_text, "x.model"), lambda: [pieces_model()],
           (b"\x0a\x05", b"\x12\x10"), share=5, needs=("sentencepiece",)),
    Target("text-codec", _read_codec, lambda: _jsons()[:2], _JSON, share=10,
           needs=("tokenizers", "torch"), memory=WITH_TORCH),
    Target("background", _read_background,
           lambda: [json.dumps([*range(20), 0]).encode(), b'{"A": 0.5, "C": 1.5, "20": 3}'],
           (b'"A":', b"1e999", b"NaN", b'"99":'), share=20),
)  # fmt: skip
