"""Whether the compiled loops are used: where numba is installed and there is enough to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from types import ModuleType

RESCALE = 8  # steps between rescalings of a sum over paths
NEGLIGIBLE = 1e-24  # beside the largest state; eight steps later it is still no denormal number
LANES = 8  # in which a sum over phases runs

_PER_ADDITION, _PER_CALL = 1e-9, 5e-6  # seconds that numpy takes, about
_TO_LOAD = 0.7  # seconds that it takes to import numba and the loops
_seconds = 0.0  # that numpy took for what the loops could have done
_forced: bool | None = None  # whether they are used, whatever there is to do


def kernels(
    additions: int, calls: int = 1, name: str = "patternmark.fast.path_loops"
) -> ModuleType | None:
    """Return the compiled loops of a module, or None: then numpy does the same.

    They are loaded once numpy has spent as long on such work as it takes to load them.
    """
    global _seconds  # noqa: PLW0603  # one process, one decision
    if _forced is not None:
        return _module(name) if _forced else None
    if _module.cache_info().currsize == 0:
        _seconds += additions * _PER_ADDITION + calls * _PER_CALL
        if _seconds < _TO_LOAD:
            return None
    return _module(name)


@contextmanager
def forced(use: bool) -> Iterator[bool]:
    """Use the loops from now on, or do not; the value says whether they are used."""
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
    except (ImportError, RuntimeError, OSError):  # absent, or no place for what it compiles
        return None
