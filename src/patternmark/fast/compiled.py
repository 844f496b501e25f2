"""Whether the compiled loops are used: where numba is installed and there is enough to do.

The rule looks at the work at hand and at nothing else: what a process did before changes neither
how long a call takes nor what it loads. A caller that repeats a call declares it with `repeated`;
a caller that knows the size of a whole computation declares it with `together`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from importlib import import_module
from math import inf
from types import ModuleType

RESCALE_EVERY = 8  # steps between rescalings of a sum over paths
NEGLIGIBLE = 1e-24  # relative to the largest state; eight steps later still not a denormal number
LANES = 8  # partial sums of a sum over phases

SECONDS_PER_ADDITION, SECONDS_PER_CALL = 1e-9, 5e-6  # that numpy takes, about
SECONDS_TO_LOAD = 0.7  # that it takes to import numba and the loops
# How often the work inside is done: 0 where numpy must do it, inf where the loops are to be used.
_times: ContextVar[float] = ContextVar("times", default=1.0)


def pays(additions: int, calls: int = 1, times: float = 1.0) -> bool:
    """Return whether numpy would take as long as it takes to load the loops.

    >>> pays(10**8), pays(10**9), pays(10**8, times=10)
    (False, True, True)
    """
    seconds = additions * SECONDS_PER_ADDITION + max(calls, 1) * SECONDS_PER_CALL
    return times * seconds >= SECONDS_TO_LOAD


def kernels(
    additions: int, calls: int = 1, name: str = "patternmark.fast.path_loops"
) -> ModuleType | None:
    """Return the compiled loops of a module, or None: then numpy does the same."""
    return _module(name) if pays(additions, calls, _times.get()) else None


@contextmanager
def repeated(times: float) -> Iterator[None]:
    """Declare that the work inside is one of `times` similar pieces."""
    with _set(_times.get() * times):
        yield


@contextmanager
def together(additions: int, calls: int = 1) -> Iterator[None]:
    """Decide once for all work inside, which takes this many additions and calls in total.

    If that is too little for the loops, each piece inside still decides for itself.
    """
    times = _times.get()
    with _set(inf if pays(additions, calls, times) else times):
        yield


@contextmanager
def force_loops(use: bool) -> Iterator[bool]:
    """Use the loops inside, or do not; the value says whether they are used."""
    with _set(inf if use else 0.0):
        yield kernels(1) is not None


@contextmanager
def _set(times: float) -> Iterator[None]:
    token = _times.set(times)
    try:
        yield
    finally:
        _times.reset(token)


@cache
def _module(name: str) -> ModuleType | None:
    try:
        return import_module(name)  # numba is an extra
    except (ImportError, RuntimeError, OSError):  # numba is absent, or cannot write its cache
        return None
