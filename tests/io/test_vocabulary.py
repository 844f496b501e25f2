import json
from pathlib import Path

import pytest

from patternmark import PROTEIN, InputError, ParameterError
from patternmark.io.vocabulary import parse_alphabet, read_background, read_vocabulary

TOKENIZER = {
    "added_tokens": [
        {"id": 0, "content": "<s>", "special": True},
        {"id": 5, "content": "\n\n", "special": False},
    ],
    "model": {"type": "BPE", "vocab": {"<s>": 0, "a": 1, "b": 2, "<0x0A>": 3, "<mask>": 4}},
}


def write(path: Path, content: object) -> Path:
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def test_tokenizer_json(tmp_path: Path) -> None:
    alphabet = read_vocabulary(write(tmp_path / "tokenizer.json", TOKENIZER)).alphabet()
    assert (alphabet.name, alphabet.size) == ("tokenizer:tokenizer.json", 6)
    assert alphabet.unscored == (0, 4)  # special, and named like one; a byte is neither


def test_the_same_vocabulary_has_the_same_hash_in_every_file(tmp_path: Path) -> None:
    tokens = ["<pad>", "[MASK]", "▁the", "cat", "<0xFF>", "x y"]
    files = [
        write(tmp_path / "vocab.json", {t: i for i, t in enumerate(tokens)}),
        write(tmp_path / "vocab.txt", "\n".join(tokens) + "\n"),
        write(tmp_path / "m.vocab", "".join(f"{t}\t-{i}.5\n" for i, t in enumerate(tokens))),
        write(tmp_path / "u.json", {"model": {"vocab": [[t, -1.5] for t in tokens]}}),
    ]
    alphabets = [read_vocabulary(file).alphabet() for file in files]
    assert len({a.sha256 for a in alphabets}) == 1
    assert alphabets[0].unscored == (0, 1)


def test_ids_no_token_uses_are_never_scored(tmp_path: Path) -> None:
    alphabet = read_vocabulary(write(tmp_path / "vocab.json", {"a": 0, "b": 3})).alphabet()
    assert (alphabet.size, alphabet.unscored) == (4, (1, 2))


def test_further_tokens_can_be_left_unscored(tmp_path: Path) -> None:
    file = write(tmp_path / "vocab.txt", "a\nb\nc\n")
    assert parse_alphabet(f"tokenizer:{file}", ["b"]).unscored == (1,)
    with pytest.raises(ParameterError, match="no token 'z'"):
        parse_alphabet(f"tokenizer:{file}", ["z"])


@pytest.mark.parametrize(
    "content", ["", "a\na\n", "{}", '{"a": "x"}', '{"a": 0, "b": 999999}', '{"model": {}}', "{bad"]
)
def test_what_is_no_vocabulary_is_refused(tmp_path: Path, content: str) -> None:
    with pytest.raises(InputError, match="not a vocabulary"):
        read_vocabulary(write(tmp_path / "vocab.json", content))


def test_files_that_are_no_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / "spm.model").write_bytes(b"\n\xff\xfe\0")
    with pytest.raises(InputError, match=r"spm\.model: not a vocabulary this version reads"):
        read_vocabulary(tmp_path / "spm.model")
    (tmp_path / "vocab.txt").write_bytes(b"a\n\xff\xfe\n")
    with pytest.raises(InputError, match=r"neither text nor a sentencepiece \.model"):
        read_vocabulary(tmp_path / "vocab.txt")
    with pytest.raises(InputError, match="cannot be read"):
        read_vocabulary(tmp_path / "absent")


def test_alphabets_by_name() -> None:
    assert parse_alphabet("protein") is PROTEIN
    for text in ("dna", "tokenizer:", "protein:x"):
        with pytest.raises(ParameterError, match=r"'protein', 'cmlm-de-en' .* or 'tokenizer:FILE'"):
            parse_alphabet(text)
    with pytest.raises(ParameterError, match="fixes what is unscored"):
        parse_alphabet("protein", ["A"])


def test_backgrounds(tmp_path: Path) -> None:
    counts = list(range(21))
    assert read_background(write(tmp_path / "list.json", counts), PROTEIN) == tuple(counts)
    by_letter = read_background(write(tmp_path / "letters.json", {"A": 3, "w": 4}), PROTEIN)
    assert (by_letter[0], by_letter[18], sum(by_letter)) == (3, 4, 7)
    shares = read_background(write(tmp_path / "shares.json", {"0": 0.25, "1": 0.75}), PROTEIN)
    assert shares[:2] == (250_000_000, 750_000_000)
    for content in ([0.5, "x"], {"A": None}, {"%": 1}, 3, "[", {"99": 1}):
        with pytest.raises(InputError, match="not a background of 21 weights"):
            read_background(write(tmp_path / "bad.json", content), PROTEIN)
