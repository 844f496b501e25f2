"""The facts about versions and machine in every benchmark result, and how results are written."""

from __future__ import annotations

import json
import os
import platform
from pathlib import Path
from typing import Any

import numpy as np

from patternmark._version import __version__
from patternmark.io.files import make_folder, write_text


def environment() -> dict[str, str]:
    """Return the versions and the type of machine of a measurement."""
    return {
        "version": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
    }


def keep(result: dict[str, Any], page: str, folder: Path) -> None:
    """Write a result as JSON, and its page."""
    name = result["benchmark"]
    make_folder(folder)
    write_text(folder / f"{name}.json", json.dumps(result, indent=1) + "\n")
    write_text(folder / f"{name}.md", page)
