"""Long benchmarks: jobs shared among processes, and finished ones kept to go on from."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from errno import ENOSPC
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

from patternmark.errors import InputError

Job = TypeVar("Job")
Result = TypeVar("Result")
_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


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


def run_all(work: Callable[[Job], Result], jobs: Iterable[Job], workers: int) -> Iterator[Result]:
    """Yield what `work` makes of jobs, in any order; it is handed to each process once."""
    if workers <= 1:
        yield from map(work, jobs)
        return
    with (
        _one_thread_each(),
        ProcessPoolExecutor(workers, get_context("spawn"), _begin, (work,)) as pool,
    ):
        try:
            for future in as_completed([pool.submit(_do, job) for job in jobs]):
                yield future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)  # or all the others would be done first
            raise


_work: Callable[[Any], Any] | None = None  # of this process


def _begin(work: Callable[[Any], Any]) -> None:
    global _work  # noqa: PLW0603  # it may hold much: handed over once, not with every job
    _work = work


def _do(job: Any) -> Any:
    assert _work is not None  # noqa: S101
    return _work(job)


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Keep the matrix products of processes from fighting for the cores.

    It is set before the children import numpy, which is why they are spawned.
    """
    before = {name: os.environ.get(name) for name in _ONE_THREAD}
    os.environ.update(dict.fromkeys(_ONE_THREAD, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
