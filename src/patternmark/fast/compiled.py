"""Decide whether compiled loops are used: only if numba is installed and there is enough work."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from types import ModuleType

RESCALE_EVERY = 8  # steps between rescalings of a sum over paths
NEGLIGIBLE = 1e-24  # relative to the largest state; eight steps later still not a denormal number
LANES = 8  # partial sums of a sum over phases

_SECONDS_PER_ADDITION, _SECONDS_PER_CALL = 1e-9, 5e-6  # rough times of numpy
_SECONDS_TO_LOAD = 0.7  # time to import numba and the loops
_seconds = 0.0  # estimated time of numpy for work that the loops could have done
_forced: bool | None = None  # True or False: use the loops or not, however much work there is


def kernels(
    additions: int, calls: int = 1, name: str = "patternmark.fast.path_loops"
) -> ModuleType | None:
    """Return the module of compiled loops, or None if numpy must do the work.

    The loops are loaded once numpy has spent as much time on such work as loading them takes.
    """
    global _seconds  # noqa: PLW0603  # one process, one decision
    if _forced is not None:
        return _module(name) if _forced else None
    if _module.cache_info().currsize == 0:
        _seconds += additions * _SECONDS_PER_ADDITION + calls * _SECONDS_PER_CALL
        if _seconds < _SECONDS_TO_LOAD:
            return None
    return _module(name)


@contextmanager
def force_loops(use: bool) -> Iterator[bool]:
    """Use the loops within this context, or do not; the value says whether they are used."""
    global _forced  # noqa: PLW0603
    before, _forced = _forced, use
    try:
        yield kernels(1) is not None
    finally:
        _forced = before


@cache
def _module(name: str) -> ModuleType | None:
    try:
        return import_module(name)  # numba is an extra
    except (ImportError, RuntimeError, OSError):  # numba is absent, or cannot write its cache
        return None
