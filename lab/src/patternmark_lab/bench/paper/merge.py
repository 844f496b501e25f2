"""Replace the rows of some schemes in a result of `bench paper` by those of a later run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from patternmark.errors import InputError
from patternmark_lab.bench.paper.findings import Row
from patternmark_lab.bench.paper.plan import NONE, judges, selectable
from patternmark_lab.bench.paper.run import LAYOUT, Setup

_ENVIRONMENT = ("version", "python", "numpy", "machine")
_BY_JUDGE = ("thresholds", "reached")
# The fields that identify a row of a table; each table has some of them.
_IDENTITY = ("cell", "judge", "scheme", "what", "delta", "stay", "how", "value")


def check_before(before: dict[str, Any], setup: Setup, tasks: Sequence[str]) -> None:
    """Refuse a result whose rows cannot be compared with those of this setup."""
    wanted = {"layout": LAYOUT, "size": setup.size, "seed": setup.seed}
    wanted |= {"amounts": json.loads(json.dumps(asdict(setup.amounts)))}
    for name, value in wanted.items():
        if before.get(name) != value:
            raise InputError(
                f"it has {name} {before.get(name)}, but this run has {value}, so their rows cannot "
                "be compared: measure all schemes again"
            )
    for task in tasks:
        if task not in before:
            raise InputError(f"it has no rows of {task}: measure all schemes of that task first")


def merge(before: dict[str, Any], rerun: dict[str, Any], schemes: Sequence[str]) -> dict[str, Any]:
    """Return an earlier result with the rows of some schemes replaced by those of a rerun.

    In every task of the rerun, `reruns` says which schemes are from which run.
    """
    environment = {name: rerun[name] for name in _ENVIRONMENT}
    tasks = {
        name: _merge_task(before[name], summary, schemes, environment)
        for name, summary in rerun.items()
        if isinstance(summary, dict) and "task" in summary
    }
    return before | tasks


def _merge_task(
    before: Row, rerun: Row, schemes: Sequence[str], environment: dict[str, str]
) -> Row:
    facts = {
        name for name, value in rerun.items() if not isinstance(value, dict) and name in before
    }
    tables = {name for name in facts if _is_table(rerun[name]) or _is_table(before[name])}
    for name in sorted(facts - tables - {"device"}):
        if json.dumps(before[name]) != json.dumps(rerun[name]):
            raise InputError(
                f"its {rerun['task']} rows were measured on other material ({name} differs), so "
                "the rows of both cannot be compared: measure all schemes again"
            )
    marks_of = dict(judges(rerun["task"], selectable(rerun["task"])))
    result = dict(before)
    for name in tables:
        result[name] = _replace_rows(before[name], rerun[name], schemes, marks_of)
    for name in _BY_JUDGE:
        own = {judge: v for judge, v in rerun[name].items() if marks_of[judge] in schemes}
        result[name] = before[name] | own
    result["marks"] = before.get("marks", {}) | rerun["marks"]
    unmarked = next(row for row in rerun["quality"] if row["cell"] == NONE)
    result["reruns"] = [
        *_remaining(before.get("reruns", ()), schemes),
        {
            "schemes": list(schemes),
            **environment,
            "device": rerun["device"],
            "unmarked": {name: value["mean"] for name, value in unmarked.items() if name != "cell"},
        },
    ]
    return result


def _is_table(value: Any) -> bool:
    return isinstance(value, list) and any(isinstance(row, dict) for row in value)


def _remaining(reruns: Sequence[Row], schemes: Sequence[str]) -> list[Row]:
    """Return earlier reruns whose rows are still in the result."""
    left = [run | {"schemes": [s for s in run["schemes"] if s not in schemes]} for run in reruns]
    return [run for run in left if run["schemes"]]


def _replace_rows(
    before: Sequence[Row], rerun: Sequence[Row], schemes: Sequence[str], marks_of: dict[str, str]
) -> list[Row]:
    """Return the earlier rows in their order, with those of some schemes replaced."""

    def is_rerun(row: Row) -> bool:
        if "cell" in row:
            return row["cell"].split("/")[0] in schemes
        return (row["scheme"] if "scheme" in row else marks_of[row["judge"]]) in schemes

    new = {_identity(row): row for row in rerun if is_rerun(row)}
    kept = [row for row in before if not is_rerun(row) or _identity(row) in new]
    rows = [new.pop(_identity(row), row) for row in kept]
    return [*rows, *new.values()]


def _identity(row: Row) -> tuple[Any, ...]:
    return tuple(row.get(name) for name in _IDENTITY)
