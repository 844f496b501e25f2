"""Keep the finished jobs of a long run in a file, so that the run can be continued."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from errno import ENOSPC
from pathlib import Path
from typing import Any

from patternmark.errors import InputError
from patternmark.io.bounded import parse_json


class Kept:
    """Finished jobs by name, in a file of JSON lines or, without a path, only in memory.

    For jobs in the file, only their places are held in memory. A line that is not whole, or that
    `is_whole` does not accept, is ignored: its job will be repeated.
    """

    def __init__(
        self,
        path: Path | None,
        name_field: str = "job",
        is_whole: Callable[[dict[str, Any]], bool] = lambda row: True,
    ) -> None:
        self._path, self._name_field, self._is_whole = path, name_field, is_whole
        self._rows: dict[str, dict[str, Any]] = {}
        self._places: dict[str, tuple[int, int]] = {}  # first byte and size of each line
        self._end, self._before = 0, b""  # size of the file; bytes to write before a line
        if path is None or not path.exists():
            return
        try:
            with path.open("rb") as stream:
                for line in stream:
                    self._take(line)
        except OSError as error:
            raise InputError(f"{path}: cannot be read: {error.strerror}") from None

    def _take(self, line: bytes) -> None:
        try:
            row = parse_json(line)
            name = row[self._name_field]
            if self._is_whole(row):
                self._places[name] = self._end, len(line)
        except (ValueError, KeyError, TypeError):
            pass  # incomplete, because the run was killed, or damaged later
        self._end += len(line)
        self._before = b"" if line.endswith(b"\n") else b"\n"

    def get(self, name: str) -> dict[str, Any] | None:
        """Return the row of a finished job, or None."""
        if self._path is None:
            return self._rows.get(name)
        if name not in self._places:
            return None
        begin, size = self._places[name]
        try:
            with self._path.open("rb") as stream:
                stream.seek(begin)
                row: dict[str, Any] = parse_json(stream.read(size))
        except (OSError, ValueError) as error:
            raise InputError(f"{self._path}: cannot be read again: {error}") from None
        if not isinstance(row, dict) or row.get(self._name_field) != name:
            raise InputError(f"{self._path}: was written by another run at the same time")
        return row

    def add(self, row: dict[str, Any]) -> None:
        """Keep a job, in one write, so that only the last line can be incomplete.

        If the disk is full, an error is raised; the jobs before remain.
        """
        name = row[self._name_field]
        if self._path is None:
            self._rows[name] = row
            return
        line = self._before + json.dumps(row).encode() + b"\n"
        written = 0
        try:
            with self._path.open("ab", buffering=0) as stream:
                written = stream.write(line)
                if written < len(line):
                    raise OSError(ENOSPC, os.strerror(ENOSPC))
        except OSError as error:
            self._end += written
            self._before = b"\n"  # this line may be incomplete
            raise InputError(
                f"{self._path}: cannot be written: {error.strerror}; what is finished is kept"
            ) from None
        begin = self._end + len(self._before)
        self._places[name] = begin, len(line) - len(self._before)
        self._end, self._before = self._end + len(line), b""
