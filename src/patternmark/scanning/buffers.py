"""Memory that is read into and used again.

A scan reads faster than a system hands out fresh memory, page by page and to one thread at a time.
So bytes go from a file into a buffer once, are looked at there, and the buffer takes what comes
next.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from patternmark.scanning import sizes
from patternmark.scanning.segments import kernels

_NEWLINE = 10


class Buffer:
    """Bytes, and the room behind them that the compiled loops need."""

    def __init__(self, room: int) -> None:
        self._bytes = bytearray(room + kernels().SLACK)
        self._array = np.frombuffer(self._bytes, dtype=np.uint8)
        self.size = 0

    @property
    def room(self) -> int:
        """How many bytes fit before it must grow."""
        return len(self._bytes) - int(kernels().SLACK)

    def append(self, more: Any) -> None:
        """Add bytes; other threads go on meanwhile."""
        found = np.frombuffer(more, dtype=np.uint8)
        self._grow(self.size + len(found))
        self._array[self.size : self.size + len(found)] = found
        self.size += len(found)

    def read(self, stream: Any, most: int) -> int:
        """Add what a stream has next, few only at its end; return how many bytes."""
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
        """Return where some bytes are first, from a place on, or -1."""
        return self._bytes.find(what, after, self.size)

    def find_last(self, what: bytes) -> int:
        """Return where some bytes are last, or -1."""
        return self._bytes.rfind(what, 0, self.size)

    def starts_with(self, *any_of: bytes) -> bool:
        """Tell what it begins with."""
        return self._bytes.startswith(any_of, 0, self.size)

    def content(self, begin: int, end: int) -> bytes:
        """Return a copy of some bytes."""
        return bytes(memoryview(self._bytes)[begin:end])

    def view(self, begin: int, end: int) -> NDArray[np.uint8]:
        """Return some bytes as they lie there."""
        return self._array[begin:end]

    def padded(self, begin: int, end: int) -> NDArray[np.uint8]:
        """Return some bytes and newlines behind them; what lay there is lost."""
        behind = end + int(kernels().SLACK)
        self._array[end:behind] = _NEWLINE
        return self._array[begin:behind]

    def drop(self, count: int) -> None:
        """Forget the first bytes."""
        self._array[: self.size - count] = self._array[count : self.size].copy()
        self.size -= count

    def _grow(self, wanted: int) -> None:
        if wanted <= self.room:
            return
        larger = Buffer(max(wanted, 2 * self.room))
        larger.append(self._array[: self.size])
        self._bytes, self._array = larger._bytes, larger._array


class Buffers:
    """Buffers that are free; threads share them, and there are never more than were in use."""

    def __init__(self) -> None:
        self._free: list[Buffer] = []  # its `append` and `pop` need no lock

    def take(self, room: int = 0) -> Buffer:
        """Return an empty buffer that has room for a piece, and for so many bytes."""
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
        """Take a buffer back that nobody looks at any more."""
        if buffer.room <= 2 * _usual():  # one for a very long record is not kept
            self._free.append(buffer)

    def forget(self) -> None:
        """Leave the memory to others."""
        self._free.clear()


def _usual() -> int:
    return sizes.PIECE + 4 * sizes.STREAMED  # streams are read beyond a piece


BUFFERS = Buffers()
