"""What a long run has finished, kept in a file to go on from."""

from __future__ import annotations

import json
import os
from errno import ENOSPC
from pathlib import Path
from typing import Any

from patternmark.errors import InputError


class Kept:
    """Finished jobs by their name, in a file of JSON lines; without a path, in memory alone."""

    def __init__(self, path: Path | None, name_field: str = "job") -> None:
        self._path, self._name_field = path, name_field
        self._rows: dict[str, dict[str, Any]] = {}
        self._before = b""  # what to write before the next line
        if path is None or not path.exists():
            return
        try:
            content = path.read_bytes()
        except OSError as error:
            raise InputError(f"{path}: cannot be read: {error.strerror}") from None
        self._before = b"" if not content or content.endswith(b"\n") else b"\n"
        for line in content.splitlines():
            try:
                row = json.loads(line)
                self._rows[row[name_field]] = row
            except (ValueError, KeyError, TypeError):
                continue  # cut off as the run was killed: that job is done again

    def get(self, name: str) -> dict[str, Any] | None:
        """Return what a finished job gave, or nothing."""
        return self._rows.get(name)

    def add(self, row: dict[str, Any]) -> None:
        """Keep a job: one write, so that a line is whole or the last.

        What does not fit onto a full disk is an error; all that was kept before stays.
        """
        self._rows[row[self._name_field]] = row
        if self._path is None:
            return
        line = self._before + json.dumps(row).encode() + b"\n"
        self._before = b"\n"  # should this line be cut off
        try:
            with self._path.open("ab", buffering=0) as stream:
                if stream.write(line) < len(line):
                    raise OSError(ENOSPC, os.strerror(ENOSPC))
        except OSError as error:
            raise InputError(
                f"{self._path}: cannot be written: {error.strerror}; what is finished is kept"
            ) from None
        self._before = b""
