"""Every published page is made from the numbers beside it."""

import json
from pathlib import Path

import pytest

from patternmark_lab.bench import detectors_page
from patternmark_lab.bench.pages import page_of, place_of

RESULTS = Path(__file__).parents[3] / "docs" / "results"
NAMES = sorted(path.stem for path in RESULTS.glob("*.json"))


@pytest.mark.parametrize("name", NAMES)
def test_page_and_numbers_agree(name: str) -> None:
    result, page = page_of(RESULTS / f"{name}.json")
    assert result["benchmark"] == name
    assert place_of(RESULTS / f"{name}.json").read_text() == page


def test_no_page_lacks_its_numbers() -> None:
    assert len(NAMES) >= 10
    places = {place_of(RESULTS / f"{name}.json") for name in NAMES}
    assert {*RESULTS.glob("*.md")} == {place for place in places if place.parent == RESULTS}
    assert places - {*RESULTS.glob("*.md")} == {RESULTS.parent / "scale.md"}


def test_detectors_are_drawn_and_missed_goals_named(tmp_path: Path) -> None:
    result = json.loads((RESULTS / "detectors.json").read_text())
    detectors_page.plot(result, tmp_path / "detectors.png")
    assert (tmp_path / "detectors.png").stat().st_size > 0
    for row in result["rates"]:
        row["tpr"] = row["high"] = 1.0
    assert "All 31 goals are reached." in detectors_page.to_markdown(result)
    for row in result["rates"]:
        row["tpr"] = row["high"] = 0.5
    page = detectors_page.to_markdown(result)
    assert "- paper, none, delta 0.75: 50.0 of 95, **missed**" in page
    assert "150 inside 450, delta 1: 50.0 of 50" not in page  # reached: exactly
