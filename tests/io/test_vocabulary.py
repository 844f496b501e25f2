import json
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patternmark import PROTEIN, InputError, ParameterError
from patternmark.io.sentencepiece_wire import read_pieces
from patternmark.io.vocabulary import (
    parse_alphabet,
    read_background,
    read_vocabulary,
    shipped_tokenizer,
)

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
    with pytest.raises(InputError, match=r"spm\.model: not a vocabulary that can be read"):
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


def test_the_tokenizer_of_the_package() -> None:
    alphabet = parse_alphabet("cmlm-de-en")
    assert alphabet.name == "tokenizer:cmlm-de-en"
    content = json.loads(shipped_tokenizer().read_text(encoding="utf-8"))
    assert set(alphabet.unscored) >= {t["id"] for t in content["added_tokens"] if t["special"]}
    assert alphabet.num_scored > 4000


def test_a_sentencepiece_model_is_read_without_its_library(
    tokenizers_made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sentencepiece

    file = tokenizers_made / "pieces.model"
    library = sentencepiece.SentencePieceProcessor(model_file=str(file))
    ids = range(library.vocab_size())
    monkeypatch.setitem(sys.modules, "sentencepiece", None)
    found = read_vocabulary(file)
    assert found.tokens == tuple(library.id_to_piece(i) for i in ids)
    assert found.special == {
        i for i in ids if library.is_control(i) or library.is_unknown(i) or library.is_unused(i)
    }
    assert found.alphabet().sha256 == read_vocabulary(file.with_suffix(".vocab")).alphabet().sha256


@pytest.mark.parametrize("length", [0, 1, 2, 3, 11, 499, 500, 501, -1])
def test_a_sentencepiece_model_that_was_cut(
    tokenizers_made: Path, tmp_path: Path, length: int
) -> None:
    whole = (tokenizers_made / "pieces.model").read_bytes()
    (tmp_path / "cut.model").write_bytes(whole[:length])
    with pytest.raises(InputError, match=r"cut\.model: not a vocabulary"):
        read_vocabulary(tmp_path / "cut.model")


@given(st.binary(max_size=60))
def test_any_bytes_are_pieces_or_refused(content: bytes) -> None:
    with suppress(ValueError):
        assert read_pieces(content)


def test_a_dictionary_of_fairseq(tmp_path: Path) -> None:
    text = "than 0\n, 80\ncat@@ 7 #fairseq:overwrite\nmadeupword0000 0\n"
    file = write(tmp_path / "dict.en.txt", text)
    plain = read_vocabulary(file)
    assert plain.tokens == ("<s>", "<pad>", "</s>", "<unk>", "than", ",", "cat@@", "madeupword0000")
    assert plain.special == {0, 1, 2, 3, 7}
    masked = parse_alphabet(f"mask-predict:{file}")
    assert (masked.name, masked.size) == ("mask-predict:dict.en.txt", 9)
    assert masked.unscored == (0, 1, 2, 3, 4, 8)
    assert not plain.fits(masked)
    with pytest.raises(InputError, match="line 2 is not a symbol and its count"):
        read_vocabulary(write(tmp_path / "dict.de.txt", "the 90\ncat\n"))
    with pytest.raises(ParameterError, match=r"named dict\*\.txt"):
        read_vocabulary(write(tmp_path / "vocab.txt", "the\n"), "mask-predict")


def test_a_folder_of_transformers(tmp_path: Path) -> None:
    write(tmp_path / "vocab.json", {"a": 0, "b": 1, "pad": 2})
    write(tmp_path / "added_tokens.json", {"mask": 3})
    configuration = {
        "added_tokens_decoder": {
            "4": {"content": "end", "special": True},
            "5": {"content": "more", "special": False},
        },
        "pad_token": "pad",
        "mask_token": {"content": "mask"},
        "bos_token": None,
        "additional_special_tokens": ["b", "absent"],
    }
    write(tmp_path / "tokenizer_config.json", configuration)
    found = read_vocabulary(tmp_path)
    assert found.name == f"tokenizer:{tmp_path.name}"
    assert found.tokens == ("a", "b", "pad", "mask", "end", "more")
    assert found.special == {1, 2, 3, 4}
    write(tmp_path / "tokenizer.json", TOKENIZER)  # this one says it all
    configuration["added_tokens_decoder"] = {}
    write(tmp_path / "tokenizer_config.json", configuration)
    (tmp_path / "added_tokens.json").unlink()
    assert read_vocabulary(tmp_path).special == {0, 2, 4}


def test_folders_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"has none of tokenizer\.json, .* save_pretrained"):
        read_vocabulary(tmp_path)
    write(tmp_path / "vocab.txt", "<unk>\n<s>\na\n")
    shifted = {"added_tokens_decoder": {"0": {"content": "<s>", "special": True}}}
    write(tmp_path / "tokenizer_config.json", shifted)
    with pytest.raises(InputError, match=r"'<s>' has the id 1 in vocab\.txt, but 0 in the config"):
        read_vocabulary(tmp_path)
    write(tmp_path / "tokenizer_config.json", "[]")
    with pytest.raises(InputError, match=r"tokenizer_config\.json is not a JSON object"):
        read_vocabulary(tmp_path)


def test_ranks_of_tiktoken_are_refused_with_a_remedy(tmp_path: Path) -> None:
    for name in ("cl100k.tiktoken", "tokenizer.model"):
        file = write(tmp_path / name, "IQ== 0\nIg== 1\nIw== 2\n")
        with pytest.raises(InputError, match="save_pretrained"):
            read_vocabulary(file)


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
