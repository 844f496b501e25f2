"""Memory that is used again: what is read into it is what was there, whatever it held before."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest

pytest.importorskip("numba", reason="pip install 'patternmark[scan]'")

from patternmark.scanning import record_loops as kernels
from patternmark.scanning import sizes
from patternmark.scanning.buffers import Buffer, Buffers


def test_bytes_go_in_and_come_out() -> None:
    buffer = Buffer(4)
    buffer.append(b"ab")
    assert buffer.read(io.BytesIO(b"cdefgh"), 5) == 5  # more than there was room for
    assert buffer.content(0, buffer.size) == b"abcdefg"
    assert (buffer.find(b"c"), buffer.find(b"c", 3), buffer.find_last(b"g")) == (2, -1, 6)
    assert buffer.starts_with(b"x", b"ab")
    assert not buffer.starts_with(b"abcdefgh")
    buffer.drop(3)
    assert buffer.content(0, buffer.size) == b"defg"
    raw = buffer.padded(1, 3)
    assert raw.tobytes() == b"ef" + b"\n" * kernels.SLACK


def test_what_lay_there_before_is_not_seen() -> None:
    buffer = Buffer(10)
    buffer.append(b"\n>old")
    buffer.size = 0
    buffer.append(b"ab")
    assert (buffer.find(b"\n>"), buffer.find_last(b"\n>"), buffer.starts_with(b"ab>")) == (
        -1,
        -1,
        False,
    )


def test_a_stream_that_gives_little_is_read_on() -> None:
    class Slow(io.RawIOBase):
        rest = b"0123456789"

        def readinto(self, buffer: Any) -> int:
            found, self.rest = self.rest[:3], self.rest[3:]
            buffer[: len(found)] = found
            return len(found)

    buffer, stream = Buffer(100), Slow()
    assert buffer.read(stream, 6) == 6
    assert buffer.read(stream, 50) == 4
    assert buffer.content(0, buffer.size) == b"0123456789"


def test_buffers_are_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizes, "PIECE", 100)
    monkeypatch.setattr(sizes, "STREAM_READ", 10)
    buffers = Buffers()
    first = buffers.take()
    first.append(b"abc")
    buffers.give(first)
    again = buffers.take(50)
    assert again is first
    assert again.size == 0
    other = buffers.take()
    assert other is not first
    long = buffers.take(1000)
    assert long.room == 1000
    buffers.give(long)  # it was for one long record, and is not kept
    buffers.give(other)
    assert buffers.take(141) is not other  # too small
    buffers.give(first)
    buffers.forget()
    assert buffers.take() is not first


def test_views_are_of_the_buffer_itself() -> None:
    buffer = Buffer(4)
    buffer.append(b"abc")
    assert np.shares_memory(buffer.view(0, 2), buffer.padded(0, 3))
