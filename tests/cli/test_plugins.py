"""Commands that other distributions bring."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint
from types import ModuleType

import pytest
import typer

from patternmark import __version__
from patternmark.cli import plugins
from tests.conftest import Outcome

Run = Callable[..., Outcome]


@pytest.fixture(autouse=True)
def _read_anew() -> Iterator[None]:
    plugins._plugins.cache_clear()
    yield
    plugins._plugins.cache_clear()


def installed(monkeypatch: pytest.MonkeyPatch, **points: str) -> None:
    found = [EntryPoint(name, value, plugins.GROUP) for name, value in points.items()]
    monkeypatch.setattr(plugins, "entry_points", lambda group: found)


@pytest.mark.parametrize("name", ["bench", "train"])
def test_without_the_lab_its_commands_are_refused_with_the_remedy(
    run: Run, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    installed(monkeypatch)
    done = run(name, "null")
    assert (done.status, done.out) == (2, "")
    assert done.err == (
        f"error: '{name}' is a command of patternmark-lab, which is not installed: 'pip install "
        "patternmark-lab', or from a clone of patternmark 'pip install ./lab'\n"
    )
    assert name not in run("--help").out.split()


def test_a_command_of_another_distribution_is_found(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = ModuleType("another_distribution")
    module.app = typer.Typer(help="Count sheep.")  # type: ignore[attr-defined]

    @module.app.command()
    def one() -> None:
        """Count one."""
        typer.echo("one sheep")

    @module.app.command()
    def many() -> None:
        """Count many."""

    monkeypatch.setitem(sys.modules, module.__name__, module)
    installed(monkeypatch, sheep="another_distribution:app", detect="another_distribution:app")
    listed = run("--help").out
    assert "Count sheep." in listed
    assert "sheep " in listed
    assert run("sheep", "one").out == "one sheep\n"
    assert "sheep" not in run("detect", "--help").out  # nobody replaces a command of this one


def test_a_command_that_does_not_load_disturbs_no_other(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(monkeypatch, bench="patternmark.absent:app")
    assert "bench" not in run("--help").out.split()
    done = run("bench", "null")
    assert done.status == 2
    assert "'bench' is a command of patternmark.absent, which cannot be loaded: No mod" in done.err
    assert f"Install the version that fits patternmark {__version__}\n" in done.err


def test_an_unknown_command_is_refused(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch)
    done = run("detekt")
    assert done.status == 2
    assert "No such command 'detekt'" in done.err


def test_help_loads_neither_torch_nor_what_benchmarks_need() -> None:
    code = (
        "import sys\nfrom patternmark.cli import main\n"
        "try: main(['--help'])\nexcept SystemExit: pass\n"
        "sys.exit(any(name in sys.modules for name in ('torch', 'numba', 'tokenizers', 'ray')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert done.returncode == 0
