"""What the first bytes of a file tell: text, UTF-16, binary, FASTA."""

from __future__ import annotations

from pathlib import Path

import pytest

from patternmark.errors import InputError
from patternmark.io.first_bytes import looks_like_fasta, refuse_what_is_no_text
from patternmark.io.records import Problem, Record, read_records

PROSE = "A man is walking his dog along the river, and it rains on both of them.\n"


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("of_text", [True, False])
def test_utf_16_is_named_with_and_without_a_mark(encoding: str, *, of_text: bool) -> None:
    with pytest.raises(InputError, match="x: this is UTF-16; save the text as UTF-8"):
        refuse_what_is_no_text(PROSE.encode(encoding), "x", of_text=of_text)


def test_a_nul_in_a_text_hides_no_other_line(tmp_path: Path) -> None:
    file = tmp_path / "x.txt"
    file.write_text(PROSE + PROSE.replace("dog", "d\0og") + PROSE)
    found = list(read_records(str(file), of_text=True))
    assert [one.id for one in found if isinstance(one, Record)] == ["line-1", "line-2", "line-3"]
    with pytest.raises(InputError, match="binary file"):
        list(read_records(str(file)))  # no letter of a sequence


@pytest.mark.parametrize(
    "content", [bytes(range(256)) * 4, b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", b"\0" * 50 + b"text"]
)
def test_binary_files_are_no_text(content: bytes) -> None:
    with pytest.raises(InputError, match="binary file"):
        refuse_what_is_no_text(content, "x", of_text=True)


@pytest.mark.parametrize(
    ("start", "is_fasta"),
    [
        (b">a\nMKVLAAGIVGLLLAQWERTYIP\n", True),
        (b"\xef\xbb\xbf>a\r\n\r\nMKVLAAGIVGLLLAQWERTYIP*\r\n", True),
        (b"> he wrote\n> this to me\n", False),
        (b"MKVLAAGIVGLLLAQWERTYIP\n", False),
        (b">", False),
        (b"", False),
    ],
)
def test_fasta_is_told_from_quotations(start: bytes, *, is_fasta: bool) -> None:
    assert looks_like_fasta(start) is is_fasta


def test_fasta_for_a_key_of_text_is_read_and_named(tmp_path: Path) -> None:
    file = tmp_path / "x.fa"
    file.write_text(">a\nMKVLAAGIVGLLLAQWERTYIP\n")
    problem, *records = read_records(str(file), of_text=True)
    assert isinstance(problem, Problem)
    assert "this looks like FASTA, and the key is for text" in str(problem)
    assert not problem.skipped
    assert [one.id for one in records if isinstance(one, Record)] == ["line-1", "line-2"]
