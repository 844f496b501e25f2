"""Every text has tokens and comes back; nothing in it becomes a special one."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.tests.training.small import codec
from patternmark.errors import InputError, ParameterError
from patternmark.io.tokenizer import load_tokenizer
from patternmark.translation.bpe import SPECIAL, TextCodec
from patternmark_lab.training.tokenizer import train_bpe
from tests.translation.small import PAIRS

TRICKY = "<s> a <mask> in </s> the <pad> middle <length>"


def test_special_tokens_have_the_first_ids() -> None:
    assert codec().has_our_special
    assert codec().size == 320


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=40).map(str.strip))
def test_text_comes_back_in_normal_form(text: str) -> None:
    import unicodedata

    ids = codec().encode_batch([text])
    assert min(ids[0], default=99) >= len(SPECIAL)
    assert codec().decode_batch(ids) == [unicodedata.normalize("NFC", text).strip()]


def test_the_same_ids_as_detection_reads(tmp_path: Path) -> None:
    codec().save(tmp_path / "made" / "tokenizer.json")
    detection = load_tokenizer(tmp_path / "made" / "tokenizer.json")
    texts = [TRICKY, *(text for pair in PAIRS for text in pair)]
    assert codec().encode_batch(texts) == [detection.encode(text).tolist() for text in texts]


def test_saved_and_loaded_it_is_the_same(tmp_path: Path) -> None:
    codec().save(tmp_path / "tokenizer.json")
    assert TextCodec.load(tmp_path / "tokenizer.json").content == codec().content


def test_errors_name_the_file(tmp_path: Path) -> None:
    file = tmp_path / "tokenizer.json"
    with pytest.raises(InputError, match=r"tokenizer\.json: cannot be read: No such file"):
        TextCodec.load(file)
    file.write_text("{}")
    with pytest.raises(InputError, match=r"tokenizer\.json: not a tokenizer\.json"):
        TextCodec.load(file)
    with pytest.raises(ParameterError, match="at least 261 entries, not 100"):
        train_bpe(["a text"], 100)
