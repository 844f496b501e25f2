"""Reusable memory that files are read into.

A scan reads faster than the operating system provides new memory, which it does page by page and
for one thread at a time. So bytes are read from a file into a buffer, used there without a copy,
and then the buffer is reused.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from patternmark.scanning import sizes
from patternmark.scanning.segments import kernels

_NEWLINE = 10


class Buffer:
    """Bytes, followed by the padding that the compiled loops need."""

    def __init__(self, room: int) -> None:
        self._bytes = bytearray(room + kernels().SLACK)
        self._array = np.frombuffer(self._bytes, dtype=np.uint8)
        self.size = 0

    @property
    def room(self) -> int:
        """How many bytes fit before the buffer must grow."""
        return len(self._bytes) - int(kernels().SLACK)

    def append(self, more: Any) -> None:
        """Add bytes; other threads can run meanwhile."""
        found = np.frombuffer(more, dtype=np.uint8)
        self._grow(self.size + len(found))
        self._array[self.size : self.size + len(found)] = found
        self.size += len(found)

    def read(self, stream: Any, most: int) -> int:
        """Add the next `most` bytes of a stream, or fewer at its end; return how many."""
        self._grow(self.size + most)
        before = self.size
        with memoryview(self._bytes) as view:
            while self.size < before + most:
                with view[self.size : before + most] as free:
                    found = stream.readinto(free)
                if not found:
                    break
                self.size += found
        return self.size - before

    def find(self, what: bytes, after: int = 0) -> int:
        """Return where some bytes first occur at or after a place, or -1."""
        return self._bytes.find(what, after, self.size)

    def find_last(self, what: bytes) -> int:
        """Return where some bytes last occur, or -1."""
        return self._bytes.rfind(what, 0, self.size)

    def starts_with(self, *any_of: bytes) -> bool:
        """Tell whether the buffer starts with any of these bytes."""
        return self._bytes.startswith(any_of, 0, self.size)

    def content(self, begin: int, end: int) -> bytes:
        """Return a copy of some bytes."""
        return bytes(memoryview(self._bytes)[begin:end])

    def view(self, begin: int, end: int) -> NDArray[np.uint8]:
        """Return some bytes without a copy."""
        return self._array[begin:end]

    def padded(self, begin: int, end: int) -> NDArray[np.uint8]:
        """Return some bytes followed by newlines, which overwrite what was there."""
        behind = end + int(kernels().SLACK)
        self._array[end:behind] = _NEWLINE
        return self._array[begin:behind]

    def drop(self, count: int) -> None:
        """Remove the first bytes."""
        self._array[: self.size - count] = self._array[count : self.size].copy()
        self.size -= count

    def _grow(self, wanted: int) -> None:
        if wanted <= self.room:
            return
        larger = Buffer(max(wanted, 2 * self.room))
        larger.append(self._array[: self.size])
        self._bytes, self._array = larger._bytes, larger._array


class Buffers:
    """The free buffers, shared by all threads. There are never more than were in use at once."""

    def __init__(self) -> None:
        self._free: list[Buffer] = []  # its `append` and `pop` need no lock

    def take(self, room: int = 0) -> Buffer:
        """Return an empty buffer with room for a piece and for at least `room` bytes."""
        room = max(room, _usual())
        while self._free:
            try:
                found = self._free.pop()
            except IndexError:  # another thread was faster
                break
            if found.room >= room:
                found.size = 0
                return found
        return Buffer(room)

    def give(self, buffer: Buffer) -> None:
        """Give back a buffer that is not used any more."""
        if buffer.room <= 2 * _usual():  # buffers of very long records are not kept
            self._free.append(buffer)

    def forget(self) -> None:
        """Free the memory."""
        self._free.clear()


def _usual() -> int:
    return sizes.PIECE + 4 * sizes.STREAM_READ  # reads from streams may end after a piece


BUFFERS = Buffers()
