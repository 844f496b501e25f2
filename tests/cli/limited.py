"""The command line, or a few lines of Python, in a process that may use little memory."""

from __future__ import annotations

import gzip
import subprocess
import sys
from pathlib import Path

import pytest

MIB = 2**20
LIMIT = 2_000 * MIB  # of addresses: what attacked the program took more
LETTERS = b"MKTAYIAKQRQISFVKSHFSRQLEERLGLIEVQAPILSRVGDGTQDNLSGAEKAVQVKVKALPDAQFEVV"


def run_limited(*arguments: object, limit: int = LIMIT) -> subprocess.CompletedProcess[str]:
    """Run `python ARGUMENTS` with at most `limit` bytes of addresses."""
    resource = pytest.importorskip("resource", reason="such limits are those of Unix")
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        check=False,
        capture_output=True,
        text=True,
        timeout=600,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
    )


def write_bomb(file: Path, before: bytes, block: bytes, times: int, after: bytes = b"") -> Path:
    """Write a small gzipped file that unpacks to a block, many times."""
    with gzip.open(file, "wb", compresslevel=1) as stream:
        stream.write(before)
        for _ in range(times):
            stream.write(block)
        stream.write(after)
    return file
