"""Who imports whom, read from the source: for the tests of the layers and the picture of them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

CLONE = Path(__file__).parent.parent
ROOT = CLONE / "src" / "patternmark"
LAB = CLONE / "lab" / "src" / "patternmark_lab"


def modules() -> Iterator[tuple[str, Path]]:
    """Yield all modules with their paths in the package."""
    for file in sorted(ROOT.rglob("*.py")):
        yield file.relative_to(ROOT).as_posix(), file


@cache
def imports_of(file: Path) -> frozenset[str]:
    """Return the full names of all modules that a file imports, at its head or later."""
    names = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
            if node.module == "patternmark":
                names |= {f"patternmark.{alias.name}" for alias in node.names}
    return frozenset(names)


def part_of(module: str) -> str:
    """Return the part of the package that a path or a full name belongs to."""
    return re.split(r"[./]", module.removeprefix("patternmark.").removesuffix(".py"))[0]
