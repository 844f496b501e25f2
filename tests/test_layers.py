"""Who may import whom, and what stays in one place. Lists of exceptions may only get shorter."""

from __future__ import annotations

import ast
import io
import re
import sys
import tomllib
import zipfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import patternmark
from tests.imports import CLONE, LAB, ROOT, imports_of, modules, part_of

MODELS = CLONE / "models" / "src" / "patternmark_models"
# Tests of the product whose yardsticks are the lab's: the published ProteinMPNN, the paper's
# Algorithm 3, marked proteins for an audit.
WITH_YARDSTICKS = {
    "attacks/test_coins.py",
    "models/published.py",
    "models/test_mpnn.py",
    "models/test_sampler.py",
    "null/test_pattern.py",
}
LARGEST_WHEEL = 1_000_000  # bytes

# A module imports from its own layer and from those before it. What is not named is in the last.
LAYERS = [
    {"errors", "_version", "results", "arrays"},
    {"core"},
    # Nulls and statistics, with the engines that both use.
    {"null", "statistics", "evidence", "intervals", "masks", "fast"},
    {"detector", "signature"},
]
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
NAMES_FLAGS = {"cli", "report"}  # a style sheet has names that look like options

SENTINELS_HOME = "core/alphabet.py"
SENTINEL = re.compile(r"^_?[A-Z][A-Z_]*(?:: \w+)? = -[12]\b", re.MULTILINE)
SENTINELS = {
    "plan/calibrate.py": 1,
    "masks/similar.py": 1,
    "masks/repeats.py": 2,
    "statistics/patterns.py": 1,
    "models/canvas.py": 2,
    "scanning/cluster.py": 1,
}


def layer_of(part: str) -> int:
    return next((i for i, parts in enumerate(LAYERS) if part in parts), len(LAYERS))


def test_few_files_lie_flat_and_every_module_has_a_name_of_its_own() -> None:
    """A command has the name of what it calls."""
    paths = [Path(path) for path, _ in modules() if not path.endswith("__init__.py")]
    assert len([path for path in paths if len(path.parts) == 1]) <= 12
    commands = {path.stem for path in paths if path.parts[0] == "cli"}
    names = Counter(path.stem for path in paths if path.parts[0] != "cli")
    assert [name for name, times in names.items() if times > 1] == []
    assert len(commands) > 10


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


def test_the_product_knows_neither_the_lab_nor_what_it_is_tested_with() -> None:
    for path, file in modules():
        assert "patternmark_lab" not in file.read_text(), path  # not even as a text
        imported = {name.split(".")[0] for name in imports_of(file)}
        assert imported.isdisjoint({"lab", "tests", "patternmark_models"}), path


def test_tests_of_the_product_need_the_lab_for_yardsticks_alone() -> None:
    here = Path(__file__).parent
    found = {
        file.relative_to(here).as_posix()
        for file in here.rglob("*.py")
        if any(re.match(r"patternmark_lab|lab\b", name) for name in imports_of(file))
    }
    assert found == WITH_YARDSTICKS


def test_the_lab_is_whole_without_its_tests() -> None:
    for file in LAB.rglob("*.py"):
        imported = {name.split(".")[0] for name in imports_of(file)}
        assert imported.isdisjoint({"lab", "tests"}), file


def test_the_models_are_files_alone() -> None:
    assert [file.relative_to(MODELS).as_posix() for file in MODELS.rglob("*.py")] == ["__init__.py"]
    assert imports_of(MODELS / "__init__.py") == set()


def test_the_distributions_name_one_version() -> None:
    lab = tomllib.loads((CLONE / "lab" / "pyproject.toml").read_text())["project"]
    assert lab["version"] == patternmark.__version__
    assert f"patternmark=={patternmark.__version__}" in lab["dependencies"]


def test_the_product_needs_numpy_and_a_command_line_alone() -> None:
    product = tomllib.loads((CLONE / "pyproject.toml").read_text())["project"]
    needed = {re.split(r"[^a-z]", text)[0] for text in product["dependencies"]}
    assert needed == {"numpy", "typer", "rich"}


def test_the_wheel_of_the_product_is_small() -> None:
    """A wheel is a zip of the package and a few kilobytes about it."""
    with zipfile.ZipFile(whole := io.BytesIO(), "w", zipfile.ZIP_DEFLATED) as archive:
        for file in ROOT.rglob("*"):
            if file.is_file() and "__pycache__" not in file.parts:
                archive.write(file, file.relative_to(ROOT))
    assert len(whole.getvalue()) < LARGEST_WHEEL


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
