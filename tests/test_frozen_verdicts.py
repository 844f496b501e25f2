"""Verdicts of earlier versions are those of this one (see `frozen.make`)."""

import json
from typing import Any

import pytest

from tests.frozen import make

KNOWN: dict[str, Any] = json.loads(make.FILE.read_text())
# Libraries and processors may round exponentials otherwise; `frozen.make --check` allows nothing.
SAME = 1e-9


def flattened(value: Any, name: str = "") -> dict[str, Any]:
    if not isinstance(value, dict):
        return {name: value}
    return {k: v for key, one in value.items() for k, v in flattened(one, f"{name}/{key}").items()}


@pytest.fixture(scope="module")
def made() -> dict[str, Any]:
    return json.loads(json.dumps(make.verdicts()))


@pytest.mark.parametrize("name", make.PROFILES)
def test_verdicts_are_those_that_are_kept(name: str, made: dict[str, Any]) -> None:
    assert made[name]["records"] == KNOWN[name]["records"]
    known, found = (flattened(table[name]["verdicts"]) for table in (KNOWN, made))
    assert found.keys() == known.keys()
    for field, value in known.items():
        same = pytest.approx(value, rel=SAME, abs=SAME) if isinstance(value, float) else value
        assert found[field] == same, field


def test_they_cover_what_can_be_said() -> None:
    said = {value for field, value in flattened(KNOWN).items() if field.endswith("/status")}
    assert said == {"marked", "no_mark", "too_short", "nothing_to_score"}
