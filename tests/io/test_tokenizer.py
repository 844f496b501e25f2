import json
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from patternmark import InputError, ParameterError, PatternmarkError, SequenceError
from patternmark.core.alphabet import Alphabet
from patternmark.io.tokenizer import find_tokenizer, load_tokenizer
from patternmark.io.vocabulary import parse_alphabet, read_vocabulary, shipped_tokenizer
from tests.made_tokenizers import KINDS, LINES, TRICKY

LOWERS_CASE = ("wordpiece.json", "bert")  # and splits punctuation off


@pytest.mark.parametrize("kind", KINDS)
def test_text_to_ids_and_back(tokenizers_made: Path, kind: str) -> None:
    tokenizer = load_tokenizer(tokenizers_made / kind)
    assert tokenizer.alphabet == parse_alphabet(f"tokenizer:{tokenizers_made / kind}")
    assert tokenizer.alphabet.name == f"tokenizer:{kind}"
    for line in LINES[:40]:
        ids = tokenizer.encode(line)
        assert not set(ids.tolist()) & tokenizer.vocabulary.special
        text = tokenizer.decode(ids).strip()
        np.testing.assert_array_equal(tokenizer.encode(text), ids)
        if kind in LOWERS_CASE:
            assert "".join(text.split()) == "".join(line.lower().split())
        else:
            assert text == line


@pytest.mark.parametrize("kind", KINDS)
def test_no_text_becomes_a_special_token(tokenizers_made: Path, kind: str) -> None:
    tokenizer = load_tokenizer(tokenizers_made / kind)
    tokens = tokenizer.vocabulary.tokens
    special = {tokens[i] for i in tokenizer.encode(TRICKY).tolist()} & {
        tokens[i] for i in tokenizer.vocabulary.special
    }
    assert special <= {"<unk>", "[UNK]"}  # of characters that the licence does not have
    if not special and kind not in LOWERS_CASE:
        assert tokenizer.decode(tokenizer.encode(TRICKY)).strip() == TRICKY


@pytest.mark.parametrize("kind", KINDS)
def test_special_tokens_have_no_text(tokenizers_made: Path, kind: str) -> None:
    tokenizer = load_tokenizer(tokenizers_made / kind)
    tokens, special = tokenizer.vocabulary.tokens, tokenizer.vocabulary.special
    named = [index for index in special if tokens[index].lower() not in ("<unk>", "[unk]")]
    ids = tokenizer.encode("the License").tolist()
    with_special = [named[0], *ids, *named]
    assert tokenizer.decode(with_special).strip() == tokenizer.decode(ids).strip()
    with pytest.raises(SequenceError, match="token id 99999 at position 1"):
        tokenizer.decode([99999])


@pytest.mark.parametrize("kind", [*KINDS, "dict.en.txt"])
def test_where_tokens_begin_in_a_text(tokenizers_made: Path, kind: str) -> None:
    tokenizer = load_tokenizer(tokenizers_made / kind)
    text = f"{LINES[3]} naïve ☃ 𝔘 {TRICKY}\n{LINES[40]}"
    ids, cuts = tokenizer.encode(text), tokenizer.cuts(text)
    assert cuts is not None
    assert (len(cuts), cuts[0], cuts[-1]) == (len(ids) + 1, 0, len(text))
    assert (np.diff(cuts) >= 0).all()
    at = text.index("Licensor")
    first = int(np.searchsorted(cuts, at, side="right")) - 1  # the token that holds its L
    word = text[cuts[first] : cuts[first + 1]].strip()
    shown = tokenizer.decode([ids[first]]).strip()
    assert word.lower() == shown.replace("##", "").lower() != ""


def test_files_beside_a_vocabulary_say_how_text_is_split(tokenizers_made: Path) -> None:
    by_model = load_tokenizer(tokenizers_made / "pieces.model")
    by_vocab = load_tokenizer(tokenizers_made / "pieces.vocab")
    assert by_model.alphabet.sha256 == by_vocab.alphabet.sha256
    folder = load_tokenizer(tokenizers_made / "gpt2")
    file = load_tokenizer(tokenizers_made / "gpt2" / "vocab.json")
    for one, other in ((by_model, by_vocab), (folder, file)):
        np.testing.assert_array_equal(one.encode(TRICKY), other.encode(TRICKY))


@pytest.mark.parametrize("kind", ["tokenizer", "mask-predict"])
def test_a_dictionary_reads_symbols_between_blanks(tokenizers_made: Path, kind: str) -> None:
    tokenizer = load_tokenizer(tokenizers_made / "dict.en.txt", kind)
    own = 4 if kind == "tokenizer" else 5
    ids = tokenizer.encode(f"{LINES[0]} neverseen <mask> <s> madeupword0000")
    assert ids.tolist()[-4:] == [3, 3, 3, 3]
    assert min(ids.tolist()[:-4]) >= own
    assert tokenizer.decode(ids) == " ".join(LINES[0].split())
    assert (tokenizer.vocabulary.tokens[4] == "<mask>") == (kind == "mask-predict")


@given(st.text(max_size=60))
def test_the_shipped_tokenizer_keeps_every_text(text: str) -> None:
    import unicodedata

    tokenizer = _shipped()
    ids = tokenizer.encode(text)
    assert not set(ids.tolist()) & set(tokenizer.alphabet.unscored)
    assert tokenizer.decode(ids).strip() == unicodedata.normalize("NFC", text).strip()


def _shipped(cache: list = []) -> object:  # noqa: B006  # loaded once for many examples
    if not cache:
        cache.append(load_tokenizer(shipped_tokenizer()))
    return cache[0]


def test_what_it_takes_to_read_a_long_text(tokenizers_made: Path) -> None:
    text = (" ".join(LINES) * 200)[:1_000_000]
    for kind in ("bpe.json", "pieces.model"):
        tokenizer = load_tokenizer(tokenizers_made / kind)
        assert tokenizer.decode(tokenizer.encode(text)).strip() == text.strip()


def test_the_tokenizer_of_an_alphabet(tokenizers_made: Path, tmp_path: Path) -> None:
    shipped = parse_alphabet("cmlm-de-en")
    assert find_tokenizer(shipped).file == shipped_tokenizer()
    alphabet = parse_alphabet(f"tokenizer:{tokenizers_made / 'bpe.json'}")
    assert find_tokenizer(alphabet, beside=tokenizers_made).file == tokenizers_made / "bpe.json"
    copy = tmp_path / "renamed.json"
    copy.write_bytes((tokenizers_made / "bpe.json").read_bytes())
    assert find_tokenizer(alphabet, copy).file == copy
    with pytest.raises(
        ParameterError, match=r"made for tokenizer:bpe.json \(sha256 \w{12}\).*give that tokenizer"
    ):
        find_tokenizer(alphabet, beside=tmp_path)
    for wrong in ("unigram.json", "gpt2"):
        file = tokenizers_made / wrong
        with pytest.raises(ParameterError, match="not the tokenizer of this key") as caught:
            find_tokenizer(alphabet, file)
        other = read_vocabulary(file).alphabet()
        for part in (
            str(file),
            alphabet.name,
            alphabet.sha256[:12],
            other.sha256[:12],
            "make a key for this one",
        ):
            assert part in str(caught.value)


def test_a_key_that_leaves_out_more_tokens_fits_all_the_same(tokenizers_made: Path) -> None:
    file = tokenizers_made / "wordpiece.json"
    alphabet = parse_alphabet(f"tokenizer:{file}", ["the", "license"])
    assert alphabet.num_scored == parse_alphabet(f"tokenizer:{file}").num_scored - 2
    assert find_tokenizer(alphabet, file).vocabulary.fits(alphabet)
    tokens = read_vocabulary(file).tokens
    swapped = Alphabet.from_symbols("x", [tokens[1], tokens[0], *tokens[2:]], alphabet.unscored)
    with pytest.raises(ParameterError, match="not the tokenizer"):
        find_tokenizer(swapped, file)


def test_mask_predict_finds_its_dictionary(tokenizers_made: Path) -> None:
    alphabet = parse_alphabet(f"mask-predict:{tokenizers_made / 'dict.en.txt'}")
    found = find_tokenizer(alphabet, beside=tokenizers_made)
    assert found.vocabulary.tokens[3:5] == ("<unk>", "<mask>")


@pytest.mark.parametrize(
    ("kind", "library", "remedy"),
    [
        ("bpe.json", "tokenizers", r"pip install 'patternmark\[text\]'"),
        ("pieces.model", "sentencepiece", "pip install sentencepiece"),
        ("bert", "transformers", "pip install transformers"),
    ],
)
def test_a_missing_library_is_named(
    tokenizers_made: Path, monkeypatch: pytest.MonkeyPatch, kind: str, library: str, remedy: str
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    assert parse_alphabet(f"tokenizer:{tokenizers_made / kind}").num_scored > 400  # needs none
    with pytest.raises(PatternmarkError, match=f"needs {library}: {remedy}"):
        load_tokenizer(tokenizers_made / kind)


def test_what_a_library_cannot_read(tokenizers_made: Path, tmp_path: Path) -> None:
    content = json.loads((tokenizers_made / "bpe.json").read_text())
    content["pre_tokenizer"] = {"type": "Unheard"}
    (tmp_path / "odd.json").write_text(json.dumps(content))
    with pytest.raises(InputError, match=r"odd\.json: the library tokenizers cannot read it"):
        load_tokenizer(tmp_path / "odd.json")
    (tmp_path / "m.vocab").write_bytes((tokenizers_made / "pieces.vocab").read_bytes())
    with pytest.raises(InputError, match=r"the sentencepiece model .*m\.model is needed"):
        load_tokenizer(tmp_path / "m.vocab")
    for name in ("vocab.json", "merges.txt"):
        (tmp_path / name).write_bytes((tokenizers_made / "gpt2" / name).read_bytes())
    (tmp_path / "m.vocab").unlink()
    with pytest.raises(InputError, match="transformers cannot load a tokenizer from it"):
        load_tokenizer(tmp_path)
