"""Make the page of any benchmark again from its result."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from patternmark.errors import InputError
from patternmark.io.bounded import LONGEST_RECORD, read_json
from patternmark_lab.bench import (
    backbone,
    block_null_page,
    design,
    detectors_page,
    null,
    oracle_page,
    protein,
    scale_page,
    scan_gpu_page,
    scan_page,
    secrecy,
    speed,
    text_edits_page,
    text_message_page,
    text_secrecy_page,
    text_validity_page,
    translation_page,
    translation_speed,
    validity_page,
)
from patternmark_lab.bench.paper import page as paper_page

PAPER = "paper"
_PAGES: dict[str, Callable[[dict[str, Any]], str]] = {
    "null": null.to_markdown,
    "oracle": oracle_page.to_markdown,
    "design-cpu": design.to_markdown,
    "design-cuda": design.to_markdown,
    "protein": protein.to_markdown,
    "detectors": detectors_page.to_markdown,
    "scale": scale_page.to_markdown,
    "scan": scan_page.to_markdown,
    "scan-gpu": scan_gpu_page.to_markdown,
    "secrecy": secrecy.to_markdown,
    "speed": speed.to_markdown,
    "backbone": backbone.to_markdown,
    "block-null": block_null_page.to_markdown,
    "validity": validity_page.to_markdown,
    "text-edits": text_edits_page.to_markdown,
    "text-message": text_message_page.to_markdown,
    "text-secrecy": text_secrecy_page.to_markdown,
    "text-validity": text_validity_page.to_markdown,
    "translation-speed-cpu": translation_speed.to_markdown,
    "translation-speed-cuda": translation_speed.to_markdown,
}
_FOR_USERS = {"scale"}  # pages in the folder of the documentation, above the results
_TRANSLATION = "translation"  # beginning of the names of its results, which --name may extend


def read_result(file: Path) -> dict[str, Any]:
    """Read the result of any benchmark."""
    try:
        result: Any = read_json(file, LONGEST_RECORD)
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise InputError(f"{file}: is not JSON: {error}") from None
    name = result.get("benchmark") if isinstance(result, dict) else None
    if name == PAPER or name in _PAGES or str(name).startswith(_TRANSLATION):
        return dict(result)
    raise InputError(f"{file}: is not a result of `patternmark bench`")


def place_of(file: Path, folder: Path | None = None) -> Path:
    """Return the path of a result's page, beside the result or in another folder."""
    above = file.parent.parent if file.stem in _FOR_USERS else file.parent
    return (folder or above) / f"{file.stem}.md"


def page_of(file: Path) -> tuple[dict[str, Any], str]:
    """Return a result and its page."""
    result = read_result(file)
    try:
        if result["benchmark"] == PAPER:
            return result, paper_page.to_markdown(result, file.parent)
        return result, _PAGES.get(result["benchmark"], translation_page.to_markdown)(result)
    except InputError as error:
        raise InputError(f"{file}: {error}") from None
    except (KeyError, TypeError, ValueError, IndexError, StopIteration) as error:
        raise InputError(
            f"{file}: this result of patternmark {result.get('version', '?')} is incomplete "
            f"({error!r}): make its page with that version, or measure again"
        ) from None
