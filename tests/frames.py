"""What a crash report would show of an exception: the local variables of all its frames."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from pathlib import Path

import patternmark

PACKAGE = str(Path(patternmark.__file__).parent)


def shown_by(error: BaseException) -> str:
    """Return the local variables of the package's frames, as `rich` or Sentry write them."""
    return "\n".join(
        f"{frame.f_code.co_name}: {frame.f_locals!r}"
        for one in _chain(error)
        for frame, _ in traceback.walk_tb(one.__traceback__)
        if frame.f_code.co_filename.startswith(PACKAGE)
    )


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an exception and all that it came from, also those that are not printed."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
