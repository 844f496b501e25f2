"""Rows of some schemes take the place of those before; everything else stays as it was."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from patternmark.errors import InputError
from patternmark_lab.bench.paper.merge import merge
from patternmark_lab.bench.paper.page import to_markdown
from patternmark_lab.bench.paper.plan import NONE, OURS, PUBLISHED

PUBLISHED_RESULT = Path(__file__).parents[3] / "docs" / "results" / "paper.json"
Result = dict[str, Any]


@pytest.fixture(scope="module")
def measured() -> Result:
    """The published result, as if no scheme of it had been measured again."""
    result: Result = json.loads(PUBLISHED_RESULT.read_text())
    for task in ("protein", "translation"):
        result[task].pop("reruns", None)
        result[task].setdefault("marks", {})
    return result


def at_both(value: float) -> dict[str, float]:
    return {"0.01": value, "0.001": value}


def rerun_of(result: Result, schemes: tuple[str, ...], shift: float = 0.125) -> Result:
    """A later run of proteins whose every number of some schemes differs by a shift."""
    summary = copy.deepcopy(result["protein"])
    del summary["ablation_m"][:], summary["ablation_stay"][:]
    for row in summary["detection"] + summary["robustness"] + summary["lengths"]:
        row["matched"]["0.001"]["rate"] += shift
    for row in summary["quality"]:
        row["nll"]["mean"] += shift
    for row in summary["false_positives"]:
        row["by_key"] = [shift]
    for table in (summary["thresholds"], summary["reached"]):
        for judge in table:
            table[judge] = at_both(shift)
    summary["marks"] = dict.fromkeys(schemes, "scheme:new")
    summary["device"] = "another device"
    facts = {name: value for name, value in result.items() if not isinstance(value, dict)}
    return facts | {"version": "9.9", "protein": summary}


def test_rows_of_one_scheme_are_replaced(measured: Result) -> None:
    before = copy.deepcopy(measured)
    found = merge(measured, rerun_of(measured, (OURS,)), (OURS,))
    assert measured == before  # nothing of it was changed
    assert found["version"] == before["version"]
    assert found["translation"] == before["translation"]
    for table in ("detection", "robustness", "lengths"):
        pairs = list(zip(before["protein"][table], found["protein"][table], strict=True))
        assert any(old["judge"] == OURS for old, _ in pairs)
        for old, new in pairs:
            rate = old["matched"]["0.001"]["rate"] + (0.125 if old["judge"] == OURS else 0.0)
            assert new["matched"]["0.001"]["rate"] == rate
            assert (new["judge"], new["how"], new["value"]) == (
                old["judge"],
                old["how"],
                old["value"],
            )
    for table in ("ablation_m", "ablation_stay", "diversity"):
        assert found["protein"][table] == before["protein"][table]
    changed = {
        row["judge"] for row in found["protein"]["false_positives"] if len(row["by_key"]) == 1
    }
    assert changed == {OURS}
    for table in ("thresholds", "reached"):
        own = found["protein"][table]
        assert [judge for judge in own if own[judge] == at_both(0.125)] == [OURS]


def test_quality_without_a_mark_stays_and_that_of_the_rerun_is_said(measured: Result) -> None:
    found = merge(measured, rerun_of(measured, (OURS,)), (OURS,))["protein"]
    pairs = zip(measured["protein"]["quality"], found["quality"], strict=True)
    moved = {old["cell"] for old, new in pairs if old != new}
    assert moved == {f"{OURS}/{delta:g}" for delta in (0.5, 0.75, 1, 1.25, 1.5)}
    plain = next(row for row in found["quality"] if row["cell"] == NONE)["nll"]["mean"]
    (run,) = found["reruns"]
    assert run["unmarked"]["nll"] == plain + 0.125
    assert (run["version"], run["device"]) == ("9.9", "another device")


@pytest.mark.slow
def test_the_page_says_which_rows_are_of_a_later_run(measured: Result) -> None:
    assert "from a later run" not in to_markdown(measured)
    page = to_markdown(merge(measured, rerun_of(measured, (OURS,)), (OURS,)))
    assert "**Proteins: rows and curves of `default` are from a later run**" in page
    assert "(marks: `scheme:new`)" in page
    assert "--task protein --schemes default --into docs/results/paper.json" in page
    assert "with patternmark 9.9" in page


def test_a_scheme_takes_its_second_detector_along(measured: Result) -> None:
    found = merge(measured, rerun_of(measured, (PUBLISHED,)), (PUBLISHED,))["protein"]
    changed = {judge for judge, own in found["thresholds"].items() if own == at_both(0.125)}
    assert changed == {PUBLISHED, "pattern-auto"}
    assert found["ablation_m"] == []  # what the rerun did not measure is no longer there


def test_a_second_rerun_takes_the_place_of_the_first(measured: Result) -> None:
    both = (PUBLISHED, OURS)
    first = merge(measured, rerun_of(measured, both), both)
    second = merge(first, rerun_of(measured, (OURS,), 0.25), (OURS,))["protein"]
    assert [run["schemes"] for run in second["reruns"]] == [[PUBLISHED], [OURS]]
    assert second["thresholds"][OURS] == at_both(0.25)
    assert second["thresholds"][PUBLISHED] == at_both(0.125)


@pytest.mark.parametrize("fact", ["backbones", "residues", "model", "keys"])
def test_rows_on_other_material_are_refused(measured: Result, fact: str) -> None:
    rerun = rerun_of(measured, (OURS,))
    rerun["protein"][fact] = [] if fact == "backbones" else 1
    with pytest.raises(InputError, match=rf"\({fact} differs\)"):
        merge(measured, rerun, (OURS,))


@pytest.mark.slow
def test_a_scheme_without_rows_is_named_and_its_first_rows_are_taken_in(measured: Result) -> None:
    new = "denmark-lexical"
    assert (
        f"these schemes were not measured: `umr`, `{new}`; `{new}` is measured only"
        in to_markdown(measured)
    )
    rerun = copy.deepcopy(measured)
    summary = rerun["translation"]
    for table in ("detection", "robustness", "lengths", "false_positives", "quality"):
        rows = summary[table]
        own = [
            row for row in rows if "lr-dwm" in (row.get("judge"), row.get("cell", "").split("/")[0])
        ]
        assert own
        kept = [row for row in rows if row.get("cell") == NONE]
        summary[table] = kept + [json.loads(json.dumps(row).replace("lr-dwm", new)) for row in own]
    for table in ("thresholds", "reached"):
        summary[table] = {new: summary[table]["lr-dwm"]}
    del rerun["protein"]
    found = merge(measured, rerun, (new,))
    before, after = (result["translation"]["detection"] for result in (measured, found))
    assert after[: len(before)] == before
    assert {row["judge"] for row in after[len(before) :]} == {new}
    page = to_markdown(found)
    assert "these schemes were not measured: `umr` (" in page
    assert f"| `{new}`" in page
