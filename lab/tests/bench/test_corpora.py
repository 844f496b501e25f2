"""Corpora are read as their archives hold them, and cut into texts without gaps."""

from __future__ import annotations

import lzma
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pytest

from patternmark.errors import InputError
from patternmark_lab.bench.corpora import BROWN, EUROPARL, INAUGURAL, cut_texts, read_corpora


def write_zip(file: Path, content: dict[str, bytes]) -> None:
    with ZipFile(file, "w") as archive:
        for name, text in content.items():
            archive.writestr(name, text)


def test_documents_come_out_as_printed(tmp_path: Path) -> None:
    tagged = (
        b"\n\tThe/at jury/nn said/vbd ,/, ``/`` no/at evidence/nn ''/'' ;/. ;/. it/pps (/( or/cc "
        b"24/cd-1/2/nn )/) asked/vbd ?/. ?/.\n"
    )
    content = {"brown/ca01": tagged, "brown/README": b"x", "brown/cats.txt": b"ca01 news"}
    write_zip(tmp_path / "nltk_brown.zip", content)
    speech = {"inaugural/2005-Bush.txt": b"Fellow\n\ncitizens\xa1:", "inaugural/README": b"x"}
    write_zip(tmp_path / "nltk_inaugural.zip", speech)
    (tmp_path / "parallel").mkdir()
    with lzma.open(tmp_path / "parallel" / "europarl.de-en.test.tsv.xz", "wt") as stream:
        stream.write("Ja.\tYes.\nNein.\tNo.\n")
    found, missing = read_corpora(tmp_path)
    assert found[BROWN] == ['The jury said, "no evidence"; it (or 24/cd-1/2) asked?']
    assert found[INAUGURAL] == ["Fellow citizens:"]
    assert found[EUROPARL] == ["Yes. No."]
    assert "nltk_state_union.zip" in missing
    assert "europarl.de-en.test.tsv" not in missing


def test_what_is_wrong_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nltk_brown\.zip.*europarl\.de-en\.train\.tsv"):
        read_corpora(tmp_path)
    (tmp_path / "europarl.de-en.test.tsv").write_text("Ja.\tYes.\nNein. No.\n")
    with pytest.raises(InputError, match="line 2: there is no tab"):
        read_corpora(tmp_path)
    (tmp_path / "nltk_brown.zip").write_bytes(b"no zip")
    with pytest.raises(InputError, match=r"nltk_brown\.zip: cannot be read as a zip file"):
        read_corpora(tmp_path)


def test_texts_follow_each_other(rng: np.random.Generator) -> None:
    def encode(text: str) -> list[int]:
        return [int(word) for word in text.split()]

    documents = [" ".join(map(str, range(start, start + 205))) for start in (0, 1000)]
    documents.append("5 6 7")  # shorter than any text
    texts = cut_texts(documents, encode, (20, 30), 100, rng)
    assert all(20 <= len(text) <= 30 for text in texts)
    for start in (0, 1000):
        own = np.concatenate([text for text in texts if text[0] // 1000 == start // 1000])
        assert np.array_equal(own, np.arange(start, start + len(own)))
        assert 205 - 20 < len(own) <= 205
    assert len(cut_texts(documents, encode, (20, 30), 3, rng)) == 3
