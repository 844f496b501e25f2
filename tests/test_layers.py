"""Who may import whom, and what stays in one place. Lists of exceptions may only get shorter."""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import patternmark

ROOT = Path(patternmark.__file__).parent

# A module imports from its own layer and from those before it. What is not named is in the last.
LAYERS = [
    {"errors", "_version"},
    {"core"},
    # Nulls and statistics, with the engines that both use.
    {
        "null", "statistics", "evidence", "intervals", "rates", "likelihood", "cyclic", "phases",
        "alignment", "patterns", "recover", "compiled", "kernels", "lanes", "masks",
    },
    {"detect", "signature"},
]  # fmt: skip
LARGEST_CORE = 1999  # lines

SCHEME_ROOM = "core/schemes.py"
QUESTIONS = re.compile(
    r"is_hardened"
    r"|isinstance\([^)]*\b(Blocks|Paper|Turns|Partition|\w*Schedule)\b"
    r"|scheme\.name\s*(==|!=|in\b)"
)
OLD_NAME = re.compile("hardened", re.IGNORECASE)  # of schemes that were in no release

# Texts that name options of other programs, as pip's: how many in each file.
FLAGS = {"adapters/bias_files.py": 9, "models/weights.py": 5}
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
# `bench` writes pages that say how they were made; a style sheet has names that look like options.
NAMES_FLAGS = {"cli", "bench", "report"}

SENTINELS_HOME = "core/alphabet.py"
SENTINEL = re.compile(r"^_?[A-Z][A-Z_]*(?:: \w+)? = -[12]\b", re.MULTILINE)
SENTINELS = {
    "calibrate.py": 1,
    "combine.py": 1,
    "masks/repeats.py": 2,
    "patterns.py": 1,
    "scan/cluster.py": 1,
    "schemes/canvas.py": 2,
    "schemes/rules.py": 1,
}


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


def layer_of(part: str) -> int:
    return next((i for i, parts in enumerate(LAYERS) if part in parts), len(LAYERS))


def part_of(module: str) -> str:
    """Return the part of the package that a path or a full name belongs to."""
    return re.split(r"[./]", module.removeprefix("patternmark.").removesuffix(".py"))[0]


def test_nothing_is_imported_from_a_layer_above() -> None:
    upward = set()
    for path, file in modules():
        if path == "__init__.py":  # shows the public names
            continue
        for name in imports_of(file):
            if not name.startswith("patternmark."):
                continue
            imported = part_of(name)
            if layer_of(imported) > layer_of(part_of(path)):
                upward.add((path, imported))
    assert upward == set()


def test_the_core_needs_numpy_alone() -> None:
    for path, file in modules():
        if part_of(path) == "core":
            others = {name.split(".")[0] for name in imports_of(file)} - {"patternmark", "numpy"}
            assert others <= set(sys.stdlib_module_names), path


def test_the_core_is_read_in_one_sitting() -> None:
    lines = sum(len(f.read_text().splitlines()) for path, f in modules() if part_of(path) == "core")
    assert lines <= LARGEST_CORE


def test_no_code_asks_which_scheme_it_has() -> None:
    check(found_in(QUESTIONS, but=SCHEME_ROOM), {})


def test_the_old_name_of_the_schemes_is_gone() -> None:
    check(found_in(OLD_NAME, but=SCHEME_ROOM), {})


def test_texts_of_the_library_name_no_option_of_the_command_line() -> None:
    found: Counter[str] = Counter()
    for path, file in modules():
        if part_of(path) not in NAMES_FLAGS:
            found[path] += sum(len(FLAG.findall(text)) for text in texts_of(file))
    check(found, FLAGS)


def test_errors_of_the_library_name_no_option() -> None:
    """Python users have no options; `cli.output` puts them in place of some parameters."""
    named = [
        (path, text)
        for path, file in modules()
        if part_of(path) not in {"cli", "bench"}
        for text in raised_texts(file)
        if FLAG.search(text)
    ]
    assert named == []


def test_sentinels_stand_in_one_table() -> None:
    check(found_in(SENTINEL, but=SENTINELS_HOME), SENTINELS)
    assert len(SENTINEL.findall((ROOT / SENTINELS_HOME).read_text())) >= 4


def found_in(pattern: re.Pattern[str], but: str) -> Counter[str]:
    """Count a pattern in every module but one."""
    found = Counter({path: len(pattern.findall(file.read_text())) for path, file in modules()})
    del found[but]
    return found


def texts_of(file: Path) -> Iterator[str]:
    """Yield the strings of a module, without those that document it."""
    tree = ast.parse(file.read_text())
    documents = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
        if is_text and id(node) not in documents:
            yield node.value


def raised_texts(file: Path) -> Iterator[str]:
    """Yield the strings in what a module raises."""
    for raised in ast.walk(ast.parse(file.read_text())):
        if isinstance(raised, ast.Raise):
            for node in ast.walk(raised):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield node.value


def check(found: Counter[str], allowed: dict[str, int]) -> None:
    """Refuse more than is allowed, and an exception that nothing needs any longer."""
    assert {path: n for path, n in found.items() if n > allowed.get(path, 0)} == {}
    assert {path for path in allowed if not found[path]} == set()
