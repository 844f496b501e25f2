"""Every published page is made from the numbers beside it."""

import json
from pathlib import Path

import pytest

from patternmark.bench import backbone, design, detectors, null, protein, secrecy

RESULTS = Path(__file__).parent.parent.parent / "docs" / "results"
PAGES = {
    "null": null.to_markdown,
    "design-cpu": design.to_markdown,
    "design-cuda": design.to_markdown,
    "protein": protein.to_markdown,
    "detectors": detectors.to_markdown,
    "secrecy": secrecy.to_markdown,
    "backbone": backbone.to_markdown,
}


@pytest.mark.parametrize("name", PAGES)
def test_page_and_numbers_agree(name: str) -> None:
    result = json.loads((RESULTS / f"{name}.json").read_text())
    assert (RESULTS / f"{name}.md").read_text() == PAGES[name](result)


def test_no_result_lacks_a_page() -> None:
    assert {path.stem for path in RESULTS.glob("*.json")} == set(PAGES)
