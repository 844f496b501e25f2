"""What we run of others: locked, pinned, audited; and that our code runs nothing that it reads."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

CLONE = Path(__file__).parent.parent
LOCK = CLONE / "requirements" / "ci.txt"
SOURCES = ("src", "lab/src", "models/src", "scripts", "examples", "vectors")

# Calls that run what they are given. What is allowed stands in HOMES, with how often.
RUNS_CODE = {
    "eval", "exec", "compile", "__import__", "os.system", "os.popen", "code.interact",
    "marshal.load", "marshal.loads", "pickle.load", "pickle.loads", "pickle.Unpickler",
    "cloudpickle.load", "cloudpickle.loads", "dill.load", "dill.loads", "shelve.open",
    "joblib.load", "pandas.read_pickle", "pd.read_pickle",
    "runpy.run_path", "runpy.run_module", "yaml.load", "yaml.unsafe_load",
}  # fmt: skip
HOMES = {
    # From the process that started this one.
    ("src/patternmark/plan/calibrate.py", "pickle.loads"): 1,
    ("lab/src/patternmark_lab/bench/jobs.py", "pickle.loads"): 2,
    # A part of a pickle itself.
    ("src/patternmark/scanning/keyset.py", "pickle.loads"): 1,
    # Modules of the standard library, whose text is judged.
    ("lab/src/patternmark_lab/bench/hard_texts.py", "__import__"): 1,
}
# Arguments that make a harmless call run code, or that must be given to keep it harmless.
FORBIDDEN = {"shell": True, "allow_pickle": True, "trust_remote_code": True}
NEEDED = {"torch.load": ("weights_only", True), "from_pretrained": ("local_files_only", True)}
NETWORK = {"urllib.request", "http.client", "ftplib", "requests", "httpx", "huggingface_hub"}


def trees() -> Iterator[tuple[str, ast.Module]]:
    for folder in SOURCES:
        for file in sorted((CLONE / folder).rglob("*.py")):
            yield file.relative_to(CLONE).as_posix(), ast.parse(file.read_text(encoding="utf-8"))


def calls_in(tree: ast.AST) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the dotted name of every call, with its keywords that are constants."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
            given = {
                one.arg: one.value.value
                for one in node.keywords
                if one.arg and isinstance(one.value, ast.Constant)
            }
            yield ast.unparse(node.func), given


def dangers_in(tree: ast.AST) -> list[str]:
    found = []
    for name, given in calls_in(tree):
        found += [name] if name in RUNS_CODE else []
        found += [
            f"{name}({key}=True)" for key, value in FORBIDDEN.items() if given.get(key) is value
        ]
        for function, (key, value) in NEEDED.items():
            if name == function or name.endswith(f".{function}"):
                found += [] if given.get(key) is value else [f"{name} without {key}={value}"]
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):  # so that `from pickle import loads` does not hide
            found += [
                f"{node.module}.{alias.name}"
                for alias in node.names
                if f"{node.module}.{alias.name}" in RUNS_CODE
            ]
    return found


def test_nothing_that_is_read_is_run() -> None:
    found = Counter((path, danger) for path, tree in trees() for danger in dangers_in(tree))
    assert found == HOMES


@pytest.mark.parametrize(
    ("code", "danger"),
    [
        ("eval(text)", "eval"),
        ("exec(compile(text, '', 'exec'))", "exec"),
        ("os.system(command)", "os.system"),
        ("subprocess.run(command, shell=True)", "subprocess.run(shell=True)"),
        ("from pickle import loads", "pickle.loads"),
        ("np.load(file, allow_pickle=True)", "np.load(allow_pickle=True)"),
        ("torch.load(file)", "torch.load without weights_only=True"),
        ("torch.load(file, weights_only=False)", "torch.load without weights_only=True"),
    ],
)
def test_each_way_to_run_code_is_seen(code: str, danger: str) -> None:
    assert danger in dangers_in(ast.parse(code))


def test_harmless_code_is_not_seen() -> None:
    code = "network.eval(); re.compile(x); torch.load(f, weights_only=True); run(x, shell=False)"
    assert dangers_in(ast.parse(code)) == []


def test_only_pip_fetches_anything() -> None:
    """Every weight that a command fetches goes through `models.weights`, and pip."""
    imports, pips = set(), set()
    for path, tree in trees():
        for node in ast.walk(tree):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            imports |= {(path, name) for name in names if name in NETWORK}
            if isinstance(node, ast.List) and "'pip', 'download'" in ast.unparse(node):
                pips.add(path)
    assert imports == set()
    assert pips == {"src/patternmark/models/weights.py"}


def test_every_weight_that_is_fetched_is_pinned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from patternmark.models import weights

    monkeypatch.setenv(weights.CACHE_VARIABLE, str(tmp_path))
    assert len(weights.MODELS) >= 8
    hashes = [published.sha256 for published in weights.MODELS.values()]
    assert all(re.fullmatch(r"[0-9a-f]{64}", one) for one in hashes)
    assert len(set(hashes)) == len(hashes)
    for name in weights.MODELS:
        place = weights._place(name)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(b"other weights")
        with pytest.raises(weights.WeightsError, match="its hash is wrong"):
            weights.weights_file(name)


def locked(file: Path = LOCK) -> dict[str, str]:
    """Return the version of each locked package, by its canonical name."""
    return dict(re.findall(r"^([a-z0-9-]+)==(\S+) \\$", file.read_text(), re.MULTILINE))


@pytest.mark.parametrize("name", ["ci", "tools"])
def test_every_locked_package_has_hashes(name: str) -> None:
    file = LOCK.with_name(f"{name}.txt")
    head, *entries = re.split(r"^(?=[^\s#])", file.read_text(), flags=re.MULTILINE)
    assert head.startswith("# Made by scripts/lock")
    hashed = re.compile(r"[a-z0-9-]+==\S+( \\\n    --hash=sha256:[0-9a-f]{64})+\n")
    assert [entry for entry in entries if not hashed.fullmatch(entry)] == []
    assert len(entries) == len(locked(file)) > 20


def test_the_lock_has_what_we_ask_for() -> None:
    """If this fails, run scripts/lock."""
    packaging = pytest.importorskip("packaging.requirements", reason="comes with pytest")
    of_project = tomllib.loads((CLONE / "pyproject.toml").read_text())["project"]
    extras = of_project["optional-dependencies"]
    wanted = [packaging.Requirement(text) for text in of_project["dependencies"] + extras["dev"]]
    own = next(one for one in wanted if one.name == "patternmark")
    wanted += [packaging.Requirement(text) for extra in own.extras for text in extras[extra]]
    listed = LOCK.with_name("ci.in").read_text().splitlines()
    wanted += [packaging.Requirement(line) for line in listed if line[0] not in "#."]
    versions = locked()
    left_out = {"patternmark", "torch"}
    assert [str(one) for one in wanted if one.name not in left_out | versions.keys()] == []
    wrong = [
        one for one in wanted if one.name in versions and versions[one.name] not in one.specifier
    ]
    assert [f"{one}, locked {versions[one.name]}" for one in wrong] == []
    assert left_out.isdisjoint(versions)


def audited(tmp_path: Path, *answers: object) -> tuple[int, str]:
    (tmp_path / "packages").write_text("numpy==2.0\ntyping_extensions==4.1\n")
    files = [tmp_path / f"{number}.json" for number, _ in enumerate(answers)]
    for file, answer in zip(files, answers, strict=True):
        file.write_text(answer if isinstance(answer, str) else json.dumps({"dependencies": answer}))
    script = CLONE / "scripts" / "judge_audit.py"
    run = subprocess.run(
        [sys.executable, script, tmp_path / "packages", *files],
        capture_output=True,
        text=True,
        check=False,
    )
    return run.returncode, run.stdout + run.stderr


NUMPY = {"name": "numpy", "version": "2.0", "vulns": []}
TYPING = {"name": "typing-extensions", "version": "4.1", "vulns": []}
SKIPPED = {"name": "typing-extensions", "skip_reason": "not found"}
BAD = {"name": "numpy", "version": "2.0", "vulns": [{"id": "CVE-1", "fix_versions": ["2.1"]}]}


@pytest.mark.parametrize(
    ("answers", "status", "told"),
    [
        ([[NUMPY, TYPING]], 0, "2 of 2 packages were audited"),
        ([[NUMPY, SKIPPED], [NUMPY, TYPING]], 0, "2 of 2"),
        ([[NUMPY, SKIPPED]], 3, "NOT AUDITED: nobody could be asked about typing_extensions==4.1"),
        ([], 3, "0 of 2 packages were audited"),
        (["", "no JSON"], 3, "0 of 2"),
        ([[BAD, SKIPPED]], 1, "VULNERABLE: numpy 2.0: CVE-1, fixed in 2.1"),
        ([[NUMPY, TYPING], [BAD, TYPING]], 1, "VULNERABLE"),
    ],
)
def test_an_audit_says_what_it_could_not_ask(
    tmp_path: Path, answers: list[object], status: int, told: str
) -> None:
    found, text = audited(tmp_path, *answers)
    assert found == status
    assert told in text


def test_ci_fails_by_what_is_found_and_not_by_the_network() -> None:
    last = (CLONE / ".ci" / "run").read_text().splitlines()[-1]
    for status, fails in ((0, False), (1, True), (2, True), (3, False)):
        line = last.replace("scripts/audit", f"(exit {status})")
        run = subprocess.run(["bash", "-euc", line], check=False)
        assert (run.returncode != 0) is fails


def test_every_promise_names_tests_that_exist() -> None:
    text = (CLONE / "SECURITY.md").read_text(encoding="utf-8")
    rows = [line.split("|")[1:-1] for line in text.splitlines() if line.startswith("| ")][1:]
    assert len(rows) > 10
    named = [
        (promise, re.findall(r"`(test_\w+\.py)::(test_\w+)`", tests)) for promise, tests in rows
    ]
    assert [promise for promise, tests in named if not tests] == []
    exist = {
        (file.name, node.name)
        for folder in ("tests", "lab/tests")
        for file in (CLONE / folder).rglob("test_*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef)
    }
    assert [test for _, tests in named for test in tests if test not in exist] == []
