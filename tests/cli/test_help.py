"""What --help shows: panels, examples that work, and columns that can be read at 80."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import typer

from patternmark.cli.app import app
from patternmark.cli.options import EXPERT, PANELS, TO_MARK, TO_SEARCH, TO_STUDY, TO_VERIFY
from patternmark.cli.output import for_command_line
from tests.conftest import Outcome

Run = Callable[..., Outcome]
WIDTH, LEAST_COLUMN = 80, 30
LAB = {"bench", "train"}  # for developers of the package
ESCAPES = re.compile(r"\x1b\[[0-9;]*m")
EXAMPLE = re.compile(r"^Example: (patternmark .*)$", re.MULTILINE)


def commands(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            if name not in LAB:
                yield from commands(command, (*path, name))
        else:
            yield (*path, name), command


ROOT: Any = typer.main.get_command(app)
COMMANDS = dict(commands(ROOT))
each = pytest.mark.parametrize("path", COMMANDS, ids=" ".join)


def options_of(path: tuple[str, ...]) -> list[Any]:
    return [p for p in COMMANDS[path].params if p.param_type_name == "option"]


def long_name(option: Any) -> str:
    return max(option.opts, key=len)


@pytest.fixture(autouse=True)
def _narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(WIDTH))


def help_of(run: Run, *path: str, flag: str = "--help") -> str:
    shown = run(*path, flag)
    assert (shown.status, shown.err) == (0, "")
    return ESCAPES.sub("", shown.out)


@each
def test_no_column_is_too_narrow(run: Run, path: tuple[str, ...]) -> None:
    lines = help_of(run, *path).splitlines()
    assert max(map(len, lines)) <= WIDTH
    for option in options_of(path):
        name = re.escape(long_name(option))
        line = next(line for line in lines if re.match(rf"│ \*? *{name} ", line))
        first_word = re.escape(option.help.split()[0])
        begins = re.search(rf" {{2}}{first_word}( |$)", line)
        assert begins is not None, line
        assert len(line) - 2 - (begins.start() + 2) >= LEAST_COLUMN, line


@each
def test_options_are_in_panels_experts_last(run: Run, path: tuple[str, ...]) -> None:
    shown = re.findall(r"^╭─ ([\w ]+) ─+╮$", help_of(run, *path), re.MULTILINE)
    panels = [panel for panel in shown if panel != "Arguments"]
    assert panels == [panel for panel in PANELS if panel in panels]
    assert shown[-1] == EXPERT or EXPERT not in {o.rich_help_panel for o in options_of(path)}


@each
def test_one_example_that_the_command_takes(path: tuple[str, ...]) -> None:
    (example,) = EXAMPLE.findall(COMMANDS[path].help)
    assert len(f"Example: {example}") <= WIDTH - 2  # stands in one line, to be copied
    words = shlex.split(example)[1:]
    assert tuple(words[: len(path)]) == path
    given = words[len(path) :]
    with COMMANDS[path].make_context(path[-1], given) as context:  # refuses what it does not know
        unset = [p.name for p in COMMANDS[path].params if p.required and not context.params[p.name]]
    assert unset == []
    known = {name for option in options_of(path) for name in option.opts}
    assert {word for word in given if word.startswith("-")} <= known


def test_an_option_is_the_same_everywhere() -> None:
    """One name has one place, and takes the same kind of thing, in all commands."""
    panels: dict[str, set[str]] = {}
    for path in COMMANDS:
        for option in options_of(path):
            panels.setdefault(long_name(option), set()).add(option.rich_help_panel)
    assert {name: where for name, where in panels.items() if len(where) > 1} == {}
    values: dict[str, set[str]] = {}
    for path in COMMANDS:
        for option in options_of(path):
            if option.metavar is not None:
                values.setdefault(long_name(option), set()).add(option.metavar)
    # A model of ProteinMPNN is a file, one that translates a folder.
    assert {name for name, kinds in values.items() if len(kinds) > 1} <= {"--weights"}


@each
def test_all_options_say_what_they_do(path: tuple[str, ...]) -> None:
    for option in options_of(path):
        assert option.help, option.opts
        assert option.help[-1] in ".:", option.help
        assert not re.search(r"\b(is no|are no|so many|anew|who has|is told)\b", option.help)


def test_commands_are_grouped_by_reader(run: Run) -> None:
    shown = re.findall(r"^╭─ ([\w ]+) ─+╮$", help_of(run), re.MULTILINE)
    groups = [panel for panel in shown if panel != "Options"]
    assert groups == [TO_MARK, TO_VERIFY, TO_SEARCH, TO_STUDY]
    for name, command in ROOT.commands.items():
        if name not in LAB:
            assert command.rich_help_panel in groups, name


@pytest.mark.parametrize("path", [(), ("key",), ("detect",), ("key", "show")], ids=" ".join)
def test_h_is_help(run: Run, path: tuple[str, ...]) -> None:
    assert help_of(run, *path, flag="-h") == help_of(run, *path)


def test_parameters_become_options() -> None:
    shown = for_command_line("x: exists: pass overwrite=True, or resume=True to continue")
    assert shown == "x: exists: pass --overwrite, or --resume to continue"
    own = "x=True.fa: temperature=True"  # neither of them is a parameter that messages speak of
    assert for_command_line(own) == own
