"""Every published page is made from the numbers beside it."""

import json
from pathlib import Path

import pytest

from patternmark.bench import (
    backbone,
    design,
    detectors_page,
    null,
    protein,
    secrecy,
    speed,
    text_validity_page,
    translation_page,
    translation_speed,
    validity_page,
)

RESULTS = Path(__file__).parent.parent.parent / "docs" / "results"
PAGES = {
    "null": null.to_markdown,
    "design-cpu": design.to_markdown,
    "design-cuda": design.to_markdown,
    "protein": protein.to_markdown,
    "detectors": detectors_page.to_markdown,
    "secrecy": secrecy.to_markdown,
    "speed": speed.to_markdown,
    "backbone": backbone.to_markdown,
    "validity": validity_page.to_markdown,
    "text-validity": text_validity_page.to_markdown,
    "translation": translation_page.to_markdown,
    "translation-distilled": translation_page.to_markdown,
    "translation-speed-cpu": translation_speed.to_markdown,
    "translation-speed-cuda": translation_speed.to_markdown,
}


@pytest.mark.parametrize("name", PAGES)
def test_page_and_numbers_agree(name: str) -> None:
    result = json.loads((RESULTS / f"{name}.json").read_text())
    assert (RESULTS / f"{name}.md").read_text() == PAGES[name](result)


def test_no_result_lacks_a_page() -> None:
    assert {path.stem for path in RESULTS.glob("*.json")} == set(PAGES)


def test_detectors_are_drawn_and_missed_goals_named(tmp_path: Path) -> None:
    result = json.loads((RESULTS / "detectors.json").read_text())
    detectors_page.plot(result, tmp_path / "detectors.png")
    assert (tmp_path / "detectors.png").stat().st_size > 0
    for row in result["rates"]:
        row["tpr"] = row["high"] = 1.0
    assert "All 19 goals are reached." in detectors_page.to_markdown(result)
    for row in result["rates"]:
        row["tpr"] = row["high"] = 0.5
    page = detectors_page.to_markdown(result)
    assert "- paper, none, delta 0.75: 50.0 of 95, **missed**" in page
    assert "5 % indels, delta 1: 50.0 of 50" not in page  # reached: exactly
