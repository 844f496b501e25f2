from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from patternmark.errors import InputError
from patternmark.io.subwords import Merges, find_merges, joined
from patternmark.io.tokenizer import load_tokenizer
from tests.made_tokenizers import LINES

WORDS = sorted({word for line in LINES for word in line.split()})


def _trained() -> tuple[Tokenizer, list[tuple[str, str]]]:
    """Learn merges with the library tokenizers, which can mark the ends of words too."""
    made = Tokenizer(models.BPE(end_of_word_suffix="</w>"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    trainer = trainers.BpeTrainer(
        vocab_size=500, end_of_word_suffix="</w>", show_progress=False, special_tokens=[]
    )
    made.train_from_iterator(LINES, trainer)
    merges = json.loads(made.to_str())["model"]["merges"]
    return made, [(first, second) for first, second in merges]


TOKENIZER, PAIRS = _trained()


def write(file: Path, pairs: list[tuple[str, str]], version: str = "#version: 0.2\n") -> Path:
    lines = "".join(f"{first} {second}\n" for first, second in pairs)
    file.write_text(version + lines, encoding="utf-8")
    return file


def test_words_are_split_as_another_library_does(tmp_path: Path) -> None:
    merges = Merges.read(write(tmp_path / "codes", PAIRS))
    assert len(PAIRS) > 300
    mixed = [first + second for first, second in pairwise(WORDS)]
    for word in [*WORDS, *mixed]:
        pieces = merges.split(word)
        assert [piece.removesuffix("@@") for piece in pieces] == [
            token.removesuffix("</w>") for token in TOKENIZER.encode(word).tokens
        ]
        assert all(piece.endswith("@@") for piece in pieces[:-1])
        assert joined(" ".join(pieces)) == word


@given(st.text(st.characters(exclude_categories=["Z", "C"], exclude_characters="@"), min_size=1))
def test_what_is_split_can_be_joined(word: str) -> None:
    assert joined(" ".join(Merges(PAIRS).split(word))) == word


def test_pairs_that_overlap_are_joined_from_the_left() -> None:
    assert Merges([("a", "a")]).split("aaaaab") == ["aa@@", "aa@@", "a@@", "b"]
    assert Merges([("a", "a")]).split("aaa") == ["aa@@", "a"]
    # The first of two equal lines counts.
    assert Merges([("b", "c"), ("a", "b"), ("b", "c")]).split("abcd") == ["a@@", "bc@@", "d"]


def test_in_version_0_1_the_end_is_a_symbol(tmp_path: Path) -> None:
    for version in ("", "#version: 0.1\n"):
        old = Merges.read(write(tmp_path / "codes", [("e", "r"), ("er", "</w>")], version))
        assert old.split("lower") == ["l@@", "o@@", "w@@", "er"]
        assert old.split("erer") == ["er@@", "er"]
    new = Merges.read(write(tmp_path / "codes", [("e", "r"), ("l", "o")], "#version: 0.2.0\n"))
    assert new.split("lower") == ["lo@@", "w@@", "e@@", "r"]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"#version: 0.3\na b\n", "line 1: only merges of version 0.1 and 0.2"),
        (b"#version: 0.2\na b\nabc\n", "line 3: not two symbols"),
        (b"a b\n\nc d\n", "line 2: not two symbols"),
        (b"\xff\xfe", "not UTF-8"),
    ],
)
def test_a_damaged_file_is_named(tmp_path: Path, content: bytes, says: str) -> None:
    (file := tmp_path / "codes").write_bytes(content)
    with pytest.raises(InputError, match=re.escape(str(file)) + ".*" + says):
        Merges.read(file)


def test_a_folder_has_one_file_of_merges(tmp_path: Path) -> None:
    assert find_merges(tmp_path) is None
    write(tmp_path / "bpecodes", PAIRS)
    write(tmp_path / "ende.codes", PAIRS)
    assert find_merges(tmp_path) is not None
    write(tmp_path / "code", PAIRS[1:])
    with pytest.raises(InputError, match=r"several files of merges \(bpecodes, code, ende.codes\)"):
        find_merges(tmp_path)
    with pytest.raises(InputError, match="cannot be read"):
        find_merges(tmp_path / "nowhere")


def test_a_dictionary_with_merges_reads_text(tmp_path: Path) -> None:
    merges = Merges.read(write(tmp_path / "codes", PAIRS))
    symbols = sorted({piece for word in WORDS for piece in merges.split(word)})
    dictionary = tmp_path / "dict.en.txt"
    dictionary.write_text("".join(f"{s} 1\n" for s in symbols), encoding="utf-8")
    tokenizer = load_tokenizer(dictionary)
    for line in LINES:
        split = " ".join(piece for word in line.split() for piece in merges.split(word))
        ids = tokenizer.encode(line)
        assert ids.tolist() == tokenizer.encode(split).tolist()
        assert tokenizer.decode(ids) == line
        cuts = tokenizer.cuts(line)
        assert cuts is not None
        for begin, end, index in zip(cuts[:-1], cuts[1:], ids, strict=True):
            symbol = tokenizer.vocabulary.tokens[index].removesuffix("@@")
            assert line[begin:end].strip() == symbol
