"""Run the jobs of long benchmarks in several processes."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Any, TypeVar

from patternmark.fast.compiled import force_loops
from patternmark.workers import pickle_with_secrets

Job = TypeVar("Job")
Result = TypeVar("Result")
_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def run_all(work: Callable[[Job], Result], jobs: Iterable[Job], workers: int) -> Iterator[Result]:
    """Yield `work(job)` for all jobs, in any order; `work` is sent to each process only once."""
    if workers <= 1:
        yield from map(work, jobs)
        return
    with (
        _one_thread_each(),
        ProcessPoolExecutor(
            workers, get_context("spawn"), _begin, (pickle_with_secrets(work),)
        ) as pool,
    ):
        try:
            for future in as_completed(
                [pool.submit(_do, pickle_with_secrets(job)) for job in jobs]
            ):
                yield future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)  # do not wait for the other jobs
            raise


_work: Callable[[Any], Any] | None = None  # the function that this process runs on jobs


def _begin(work: bytes) -> None:
    global _work  # noqa: PLW0603  # it may be large, so it is sent once and not with every job
    _work = pickle.loads(work)  # noqa: S301  # from the process that started this one


def _do(job: bytes) -> Any:
    assert _work is not None  # noqa: S101
    with force_loops(True):  # a process of its own knows nothing of what its parent said
        return _work(pickle.loads(job))  # noqa: S301


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Give each process one thread for matrix products, so that they do not compete for cores.

    The variables must be set before the child processes import numpy, so these are spawned.
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
