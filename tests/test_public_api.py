import ast
import re
import subprocess
import sys
from pathlib import Path

import patternmark

LAB = Path(__file__).parent.parent / "lab" / "src"
IMPORT = re.compile(r"^(?:>>> )?from (patternmark[\w.]*) import ([\w, ]+)$", re.MULTILINE)

PUBLIC = [
    "PROTEIN", "Alphabet", "Blocks", "Detector", "InputError", "Key", "KeyFileError", "Marker",
    "Paper", "ParameterError", "PatternmarkError", "PatternmarkWarning", "Profile",
    "SequenceError", "Status", "Turns", "Verdict", "__version__", "alphabet", "attack", "audit",
    "calibrate", "combine", "design", "detect", "detect_stream", "identify", "load_key", "locate",
    "measure_quality", "plot_verdicts", "power", "save_key", "scan", "score", "translate",
    "write_bias", "write_report",
]  # fmt: skip


def test_the_public_names_are_these() -> None:
    assert patternmark.__all__ == PUBLIC
    assert all(hasattr(patternmark, name) for name in PUBLIC)
    assert dir(patternmark) == sorted(PUBLIC)


def test_the_core_imports_numpy_and_the_standard_library_alone() -> None:
    code = (
        "import sys; before = set(sys.modules); import patternmark\n"
        "new = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        "print(*sorted(new - set(sys.stdlib_module_names)))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["numpy", "patternmark"]


def test_errors_share_one_root() -> None:
    for name in ("InputError", "KeyFileError", "ParameterError", "SequenceError"):
        assert issubclass(getattr(patternmark, name), patternmark.PatternmarkError)


def test_pages_use_public_names_alone() -> None:
    """Public is what a module lists in `__all__`; everything else may change without notice."""
    clone = Path(__file__).parent.parent
    used = {
        (page.name, module, name)
        for page in [clone / "README.md", *clone.glob("docs/*.md")]
        for module, names in IMPORT.findall(page.read_text())
        for name in re.findall(r"\w+", names)
    }
    private = {(page, module, name) for page, module, name in used if name not in listed(module)}
    assert len(used) > 20
    assert private == set()


def listed(module: str) -> list[str]:
    """Return the `__all__` of a module, without importing what it needs."""
    parts = Path(*module.split("."))
    roots = [Path(patternmark.__file__).parent.parent, LAB]
    files = [root / end for root in roots for end in (f"{parts}.py", parts / "__init__.py")]
    tree = ast.parse(next(file for file in files if file.exists()).read_text())
    values = [n.value for n in tree.body if isinstance(n, ast.Assign) and is_all(n.targets[0])]
    return list(ast.literal_eval(values[0])) if values else []


def is_all(target: ast.expr) -> bool:
    return isinstance(target, ast.Name) and target.id == "__all__"
