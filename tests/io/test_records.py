import gzip
import io
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patternmark import InputError
from patternmark.io.records import Problem, Record, read_records


def read(path: Path | str, content: bytes | None = None, **kwargs: object) -> tuple[list, list]:
    if content is not None:
        Path(path).write_bytes(content)
    items = list(read_records(str(path), **kwargs))  # type: ignore[arg-type]
    records = [(i.id, i.sequence) for i in items if isinstance(i, Record)]
    return records, [i for i in items if isinstance(i, Problem)]


FASTA = b">one first record\nMKV\nLLA\n\n>two\nAAA BBB\tC\n"
EXPECTED = [("one", "MKVLLA"), ("two", "AAABBBC")]


@pytest.mark.parametrize(
    "content",
    [
        FASTA,
        FASTA.replace(b"\n", b"\r\n"),
        FASTA.replace(b"\n", b"\r"),
        b"\xef\xbb\xbf" + FASTA,
        b"\n\n" + FASTA,
        b"; a comment\n" + FASTA,
        FASTA.rstrip(),
        gzip.compress(FASTA),
        gzip.compress(FASTA[:30]) + gzip.compress(FASTA[30:]),
    ],
    ids=["plain", "crlf", "cr", "bom", "blank", "comment", "no last newline", "gz", "two members"],
)
def test_fasta_in_all_its_clothes(tmp_path: Path, content: bytes) -> None:
    assert read(tmp_path / "x.fa", content) == (EXPECTED, [])


def test_lines_and_json_lines(tmp_path: Path) -> None:
    records, problems = read(tmp_path / "x.txt", b"MKV\n\nLLA\n")
    assert records == [("line-1", "MKV"), ("line-3", "LLA")]
    assert problems == []
    lines = (
        b'[1, 2, 3]\n{"id": "a", "tokens": [4]}\n\n{"sequence": "MKV", "id": 7}\n'
        b'{"input_ids": [5, 6]}\n{"id": "b"}\n{broken\n[1.5]\n[true]\n[]\n"MKV"\n3\n'
    )
    records, problems = read(tmp_path / "x.jsonl", lines)
    assert records == [
        ("line-1", [1, 2, 3]),
        ("a", [4]),
        ("7", "MKV"),
        ("line-5", [5, 6]),
        ("line-11", "MKV"),
    ]
    assert [p.place for p in problems] == [f"line {i}" for i in (6, 7, 8, 9, 10, 12)]
    assert "not valid JSON" in str(problems[1])


@pytest.mark.parametrize("content", [FASTA, gzip.compress(FASTA)])
def test_standard_input(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    stdin = io.TextIOWrapper(io.BufferedReader(io.BytesIO(content)))  # type: ignore[arg-type]
    monkeypatch.setattr(sys, "stdin", stdin)
    assert read("-") == (EXPECTED, [])
    assert not stdin.buffer.closed


def test_problems_name_file_and_record_and_cost_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "x.fa"
    records, problems = read(path, b">a\nMKV\n>empty\n>a\nLLA\n>\nMMM\n")
    assert records == [("a", "MKV"), ("a", "LLA"), ("record-4", "MMM")]
    assert [str(p) for p in problems] == [
        f"{path}: record 2 (empty): the record has no sequence",
        f"{path}: record 3: the id 'a' occurs more than once",
    ]
    assert [p.skipped for p in problems] == [True, False]


def test_a_truncated_gz_keeps_what_is_complete(tmp_path: Path) -> None:
    import random

    letters = random.Random(1)
    text = "".join(
        f">r{i}\n{''.join(letters.choices('ACDEFGHIKLMNPQRSTVWY', k=300))}\n" for i in range(400)
    )
    whole = gzip.compress(text.encode())
    records, problems = read(tmp_path / "x.fa.gz", whole[: len(whole) // 2])
    assert 100 < len(records) < 300
    assert all(len(sequence) == 300 for _, sequence in records)
    assert [p.message for p in problems] == [
        "the gzip data is damaged or ends early: the rest is lost"
    ]
    assert problems[0].place == f"after record {len(records)}"
    damaged = bytearray(whole)
    damaged[len(whole) // 2] ^= 0xFF
    records, problems = read(tmp_path / "y.fa.gz", bytes(damaged))
    assert len(problems) == 1
    assert 0 < len(records) < 400


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.fa", b"", "the file is empty"),
        ("x.fa", b" \n\n", "the file is empty"),
        ("x.fa.gz", gzip.compress(b""), "the file is empty"),
        ("x.fa", b"MKV\nLLA\n", "not FASTA: it starts with 'M' instead of '>'"),
        ("x.fasta.gz", gzip.compress(b"MKV\n"), "not FASTA"),
        ("x.fa", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "binary file"),
        ("x.txt", b"MKV\0LLA", "binary file"),
        ("x.fa", b"; only a comment\n", "no FASTA record"),
        ("x.fa", b";comment\nMKV\n>a\nMKV\n", "text before the first '>'"),
    ],
)
def test_files_with_nothing_to_read_are_refused(
    tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    with pytest.raises(InputError, match=message) as caught:
        read(tmp_path / name, content)
    assert name in str(caught.value)


def test_missing_files_and_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        read(tmp_path / "absent.fa")
    with pytest.raises(InputError, match="Is a directory"):
        read(tmp_path)


def test_the_format_can_be_forced(tmp_path: Path) -> None:
    assert read(tmp_path / "x.fa", b"MKV\n", format="lines") == ([("line-1", "MKV")], [])
    with pytest.raises(InputError, match="text before"):
        read(tmp_path / "x.txt", b"MKV\n>a\nMKV\n", format="fasta")


@pytest.mark.parametrize(
    ("name", "content", "first"),
    [
        ("x.txt", b"> a quote\nMKV\n", ("line-1", "> a quote")),
        ("x.txt", b"{braces} first\n", ("line-1", "{braces} first")),
        ("x.txt", b"[1] a reference\n[2] more\n", ("line-1", "[1] a reference")),
        ("x.fa", b"no FASTA\n", ("line-1", "no FASTA")),
        ("x.txt", b"[1, 2]\n[3]\n", ("line-1", [1, 2])),
        ("x.txt", b"[1, 2]\n[3] is no JSON\n", ("line-1", "[1, 2]")),
        ("x.txt", b'{"text": "words", "id": "a"}\n', ("a", "words")),
        ("x.jsonl", b'{"tokens": ["words"], "text": "words"}\n', ("line-1", "words")),
        ("x.txt", b"[" + b"1, " * 3000 + b"1]\n[2]\n", ("line-1", [1] * 3001)),
        ("x.txt", b"[" + b"1 of " * 3000 + b"1]\n", ("line-1", "[" + "1 of " * 3000 + "1]")),
        ("x.txt", b'{"id": "a", "text": "' + b"w " * 3000 + b'w"}\n', ("a", "w " * 3000 + "w")),
        ("x.txt", b"{" + b"w " * 3000 + b"w}", ("line-1", "{" + "w " * 3000 + "w}")),
    ],
)
def test_what_a_file_of_text_is(
    tmp_path: Path, name: str, content: bytes, first: tuple[str, object]
) -> None:
    records, problems = read(tmp_path / name, content, of_text=True)
    assert records[0] == first
    assert problems == []


def test_json_by_its_suffix(tmp_path: Path) -> None:
    records, problems = read(tmp_path / "x.json", b'words\n{"text": "words"}\n', of_text=True)
    assert records == [("line-2", "words")]
    assert [p.place for p in problems] == ["line 1"]


def test_what_copying_does_to_a_text_is_undone(tmp_path: Path) -> None:
    content = "\ufeff  cafe\u0301 \t\r\n\r\nsecond  line\u00a0\r\n".encode()
    path = tmp_path / "x.txt"
    assert read(path, content, of_text=True)[0] == [("line-1", "café"), ("line-3", "second  line")]
    whole = [("x.txt", "café \t\n\nsecond  line")]
    assert read(path, content, format="text", of_text=True)[0] == whole
    paragraphs = [("line-1", "café"), ("line-3", "second  line wraps")]
    assert read(path, content + b"wraps", format="paragraphs", of_text=True)[0] == paragraphs


def test_a_text_of_one_long_line(tmp_path: Path) -> None:
    line = "word " * 200_000 + "end"
    assert read(tmp_path / "x.txt", line.encode(), of_text=True) == ([("line-1", line)], [])


@given(st.binary(max_size=300), st.sampled_from(["auto", "lines", "jsonl", "paragraphs", "text"]))
def test_any_bytes_are_text_or_refused(content: bytes, format: str) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.txt"
        records, problems = [], []
        with suppress(InputError):
            records, problems = read(path, content, format=format, of_text=True)
        for _, sequence in records:
            assert sequence if isinstance(sequence, list) else sequence.strip().encode()
        assert all("x.txt" in str(problem) for problem in problems)


names = st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "S"]), min_size=1)
letters = st.text("ACDEFGHIKLMNPQRSTVWYX*-", min_size=1)


@given(st.lists(st.tuples(names, letters), min_size=1, max_size=8), st.integers(1, 70))
def test_any_fasta_round_trips(records: list[tuple[str, str]], width: int) -> None:
    import tempfile

    with tempfile.NamedTemporaryFile(suffix=".fa") as file:
        for name, sequence in records:
            rows = [sequence[i : i + width] for i in range(0, len(sequence), width)]
            file.write(f">{name} text\n".encode() + "\n".join(rows).encode() + b"\n")
        file.flush()
        found, problems = read(file.name)
    assert found == records
    assert len(problems) == len(records) - len({name for name, _ in records})


@given(st.binary(max_size=300), st.sampled_from(["x.fa", "x.txt", "x.fa.gz"]), st.booleans())
def test_any_bytes_are_read_or_refused(content: bytes, name: str, zipped: bool) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        records, problems = [], []
        with suppress(InputError):
            path.write_bytes(gzip.compress(content)[: 15 + len(content)] if zipped else content)
            records, problems = read(path)
        assert all(sequence for _, sequence in records)
        assert all(name in str(problem) for problem in problems)
