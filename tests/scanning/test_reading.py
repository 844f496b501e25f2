"""The compiled reader gives what plain loops give, for any bytes, and stays in its arrays."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from dataclasses import astuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.scanning import reference

pytest.importorskip("numba")

from patternmark.scanning import record_loops as kernels
from patternmark.scanning import segments as reading
from patternmark.scanning.segments import Counted, padded, read_column, read_fasta

PLAIN = b"ACDEFGHIKLMNPQRSTVWY"
LETTERS = PLAIN + PLAIN.lower() + b"XBZJUO*-.~?xbzjuo"
ODD = b"/: \t\v\f\r>@[\\]^_`{|}\x7f\x00\x01\x1f0;,#\x80\xc3\xa9\xff"
SIZES = st.one_of(
    st.integers(0, 200),
    st.sampled_from([63, 64, 65, 1022, 1023, 1024, 1025, 2047, 2048, 2049, 3071, 3072, 3073, 4200]),
)


@st.composite
def bodies(draw: st.DrawFn) -> bytes:
    """Draw a sequence: long ones are made from a seed, so that drawing them is quick."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    alphabet = draw(st.sampled_from([PLAIN, PLAIN, LETTERS, LETTERS + b"/:", LETTERS + ODD]))
    body = bytearray(rng.choice(np.frombuffer(alphabet, np.uint8), draw(SIZES)).tobytes())
    for place, byte in draw(
        st.lists(st.tuples(st.integers(0, 5000), st.sampled_from(LETTERS + ODD)), max_size=4)
    ):
        body.insert(min(place, len(body)), byte)
    return bytes(body)


@st.composite
def records(draw: st.DrawFn) -> bytes:
    """Draw a record of FASTA in lines of one width, whose ends may differ."""
    head = draw(st.one_of(st.binary(max_size=20), st.sampled_from([b"", b"a>b >c", b"x" * 130])))
    ends = draw(
        st.sampled_from([[b"\n"], [b"\r\n"], [b"\n", b"\r\n"], [b"\n", b"\n\n", b"\r\r\n"]])
    )
    width, body = draw(st.integers(1, 200)), draw(bodies())
    lines = [b">" + head.replace(b"\n", b" ")]
    lines += [body[i : i + width] for i in range(0, len(body), width)]
    return b"".join(line + ends[i % len(ends)] for i, line in enumerate(lines))


@st.composite
def fastas(draw: st.DrawFn) -> bytes:
    content = b"".join(draw(st.lists(records(), max_size=6)))
    return content[: len(content) - draw(st.integers(0, 3))]


def check(parts: Iterable[Counted], expected: reference.Read) -> None:
    """Compare all that was read, as if it had been read at once."""
    found, segments, letters, counts = [], [], [], []
    for part in parts:
        before = len(found)
        assert len(part.segments) == len(part.counts)
        for i, row in enumerate(part.records.tolist()):
            found.append((*row, part.name(i)))
        for i, (record, *row) in enumerate(part.segments.tolist()):
            segments.append((before + record, *row))
            letters.append(next(part.texts([i])))
        counts += part.counts.tolist()
    assert found == [astuple(record) for record in expected.records]
    assert segments == [
        (s.record, s.place, len(s.letters), s.scored, s.at_odd) for s in expected.segments
    ]
    assert letters == [s.letters for s in expected.segments]
    assert counts == [s.counts for s in expected.segments]


def test_constants_of_the_reference() -> None:
    assert reference.HALF == kernels.HALF
    assert reference.AMINO_ACIDS == reading.AMINO_ACIDS


@given(fastas())
def test_fasta(content: bytes) -> None:
    check(read_fasta(padded(content), len(content)), reference.read_fasta(content))


@given(st.one_of(st.binary(max_size=400), st.text(">\n\rA/", max_size=300).map(str.encode)))
def test_any_bytes(content: bytes) -> None:
    check(read_fasta(padded(content), len(content)), reference.read_fasta(content))


@given(st.lists(st.one_of(bodies(), st.binary(max_size=80)), max_size=8))
def test_columns(sequences: list[bytes]) -> None:
    offsets = np.cumsum([0, *map(len, sequences)], dtype=np.int64)
    found = read_column(padded(b"".join(sequences)), offsets, str)
    check(found, reference.read_column(sequences))


@pytest.mark.parametrize("byte", range(256))
def test_every_byte_alone_and_among_letters(byte: int) -> None:
    one = bytes([byte])
    for body in (one, b"A" * 70 + one + b"CD", (b"ACD" + one) * 30):
        content = b">r\n" + body + b"\nWY\n>s\nAC"
        check(read_fasta(padded(content), len(content)), reference.read_fasta(content))


@pytest.mark.parametrize("size", [1023, 1024, 1025, 2048, 2049, 3072, 3073, 5000])
@pytest.mark.parametrize("around", [b"", b"/", b"\r\n", b" ", b"\n\n", b"!"])
def test_around_the_end_of_a_half(size: int, around: bytes) -> None:
    for at in (1023, 1024, 1025, 2048):
        body = bytearray(PLAIN * 300)[:size]
        body[at:at] = around
        content = b">r\n" + bytes(body) + b"\n>s\nACD\n"
        check(read_fasta(padded(content), len(content)), reference.read_fasta(content))


def test_chains_at_every_byte() -> None:
    """More segments than there is room for at first: reading goes on with more."""
    content = b">r\n" + b"A/" * 3000 + b"\n" + b">s\nC\n" * 3
    check(read_fasta(padded(content), len(content)), reference.read_fasta(content))
    sequences = [b"A:" * 2000, b"", b"C", b"/D" * 2000]
    offsets = np.cumsum([0, *map(len, sequences)], dtype=np.int64)
    check(read_column(padded(b"".join(sequences)), offsets, str), reference.read_column(sequences))


UNTOUCHED = -77


@given(fastas(), st.integers(1, 3), st.integers(0, 70), st.booleans())
def test_no_room(content: bytes, most: int, more: int, is_column: bool) -> None:
    """Where arrays are full, reading goes on where it stopped, and writes nothing behind them."""
    raw, at, first, parts = padded(content), 0, 0, []
    offsets = np.zeros(0, dtype=np.int64)
    sequences = content.split(b">")
    expected = reference.read_column(sequences) if is_column else reference.read_fasta(content)
    if is_column:
        raw = padded(b"".join(sequences))
        offsets = np.cumsum([0, *map(len, sequences)], dtype=np.int64)
    while first < len(expected.records):
        rows = most if not is_column else len(offsets) - 1 - first
        arrays = [
            np.full((rows + 5, kernels.RECORD_COLUMNS), UNTOUCHED, dtype=np.int64),
            np.full((kernels.ROOM + more + 5, kernels.SEGMENT_COLUMNS), UNTOUCHED, dtype=np.int64),
            np.full((kernels.ROOM + more + 5, 20), UNTOUCHED, dtype=np.int16),
        ]
        found, segments, counts = (array[:-5] for array in arrays)
        number, given_, after = kernels.read_sequences(
            raw, at, len(content), offsets[first:], *reading.tables(), found, segments, counts
        )
        assert all((array[-5:] == UNTOUCHED).all() for array in arrays)
        assert (segments[given_:] == UNTOUCHED).all() or number < len(expected.records) - first
        if number == 0:  # one record alone needs more: this is what `room *= 4` is for
            more = 4 * (more + 100)
            continue
        assert is_column or after == found[number - 1, kernels.END]
        ids = str if is_column else None
        parts.append(
            Counted(raw, found[:number], segments[:given_], counts[:given_], first * is_column, ids)
        )
        at, first = after, first + number
    check(parts, expected)


GUARDED = """
import ctypes, mmap
import numpy as np
from patternmark.scanning import record_loops as kernels, segments as reading

# What lies directly behind the buffer cannot be read: the process would end by a signal.
page = mmap.PAGESIZE
area = mmap.mmap(-1, 4 * page)
whole = np.frombuffer(area, np.uint8)
libc = ctypes.CDLL(None, use_errno=True)
last = ctypes.c_void_p(whole.ctypes.data + 3 * page)
assert libc.mprotect(last, ctypes.c_size_t(page), 0) == 0
rng = np.random.default_rng(5)
letters = np.frombuffer(b"ACDEFGHIKLMNPQRSTVWY" * 8 + b"\\n\\n\\r>/ -", np.uint8)
for size in [*range(1, 140), *rng.integers(140, 9000, 300).tolist()]:
    for tail in (b"", b">", b"\\n>", b"\\n>a", b"\\n>abc\\n", b"\\r", b"\\n>" + b"h" * 100):
        content = (b">" + rng.choice(letters, size).tobytes() + tail)[-9000:]
        raw = whole[: 3 * page][-len(content) - kernels.SLACK :]
        raw[:] = reading.padded(content)
        for part in reading.read_fasta(raw, len(content)):
            pass
        cuts = np.sort(rng.integers(0, len(content) + 1, 5))
        offsets = np.array([0, *cuts, len(content)], dtype=np.int64)
        for part in reading.read_column(raw, offsets, str):
            pass
print("inside")
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="memory is guarded by mprotect")
def test_nothing_behind_the_buffer_is_read() -> None:
    done = subprocess.run(
        [sys.executable, "-c", GUARDED], capture_output=True, text=True, check=False
    )
    assert done.stdout == "inside\n", (done.returncode, done.stderr)
