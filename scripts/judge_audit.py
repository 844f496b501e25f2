"""Judge the answers of vulnerability services: `judge_audit.py PACKAGES [ANSWERS.json ...]`.

PACKAGES has one `name==version` on each line, the answers are JSON of pip-audit. A package is
audited if one service or more knew it. For the exit status see scripts/audit.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

FOUND, NOT_ASKED = 1, 3


def canonical(name: str) -> str:
    """Return the one spelling of a package's name."""
    return re.sub(r"[-_.]+", "-", name).lower()


def main(packages: Path, answers: list[Path]) -> int:
    """Say what is known; return the exit status."""
    lines = packages.read_text(encoding="utf-8").split()
    wanted = {canonical(line.partition("==")[0]): line for line in lines}
    known: dict[str, str] = {}
    asked: set[str] = set()
    for file in answers:
        for package in _dependencies(file):
            name = canonical(package["name"])
            if "skip_reason" in package:
                continue
            asked.add(name)
            for one in package["vulns"]:
                fixed = ", ".join(one.get("fix_versions", [])) or "no version yet"
                known[one["id"]] = f"{name} {package['version']}: {one['id']}, fixed in {fixed}"
    for text in sorted(known.values()):
        print(f"VULNERABLE: {text}", file=sys.stderr)
    missing = [line for name, line in sorted(wanted.items()) if name not in asked]
    print(f"{len(wanted) - len(missing)} of {len(wanted)} packages were audited")
    if missing:
        some = ", ".join(missing[:3]) + (", ..." if len(missing) > 3 else "")
        print(f"NOT AUDITED: nobody could be asked about {some}", file=sys.stderr)
    if known:
        return FOUND
    return NOT_ASKED if missing or not wanted else 0


def _dependencies(file: Path) -> list[dict[str, Any]]:
    """Return what a service said; nothing if it was not reached."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    return list(found.get("dependencies", []))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), [Path(name) for name in sys.argv[2:]]))
