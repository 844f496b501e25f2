"""Designs in a file between designing and judging, and the page of what is found in them."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from patternmark.errors import InputError
from patternmark_lab.bench import detector_designs, detectors, detectors_page
from patternmark_lab.bench.detector_designs import SCHEMES, UNMARKED, case_name
from tests.conftest import Outcome
from tests.synthetic import marked, plain

Run = Callable[..., Outcome]


def synthetic(rng: np.random.Generator, length: int = 160) -> dict:
    """What `make_designs` makes, without a model: one key for each of two backbones."""
    rows = []
    for name in ("one", "two"):
        keys = detector_designs.fresh_keys(name, 1, 1)
        designs = {
            case_name(scheme, delta): [marked(keys[scheme][0], length, rng, delta)]
            for scheme in SCHEMES
            for delta in detectors.DELTAS
        }
        designs[UNMARKED] = [plain(450, rng)]
        rows.append({"name": name, "designs": designs, "nll": dict.fromkeys(designs, 1.0)})
    return {
        "format": 1,
        "schemes": detector_designs._digests(),
        "model": "none",
        "temperature": 0.1,
        "seed": 1,
        "num_keys": 1,
        "backbones": rows,
    }


@pytest.fixture(autouse=True)
def _few_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = tuple(
        c for c in detectors.CASES if c.attack in ("none", "10 % indels", "window of 50")
    )
    for module in (detectors, detectors_page):
        monkeypatch.setattr(module, "CASES", chosen)


def test_kept_designs_are_judged_by_the_command(
    run: Run, rng: np.random.Generator, tmp_path: Path
) -> None:
    file = tmp_path / "designs.json"
    detector_designs.write_designs(synthetic(rng), file)
    found = run("bench", "detectors", "--designs", file, "--json", "-o", tmp_path / "out")
    assert found.status == 0, found.err
    result = found.objects[0]
    rates = {
        (r["scheme"], r["attack"], r["delta"], r["detector"]): r
        for r in result["rates"]
        if r["fpr"] == 1e-2
    }
    for scheme in SCHEMES:
        assert rates[scheme, "none", 1.0, "auto"]["trials"] == 2
        assert rates[scheme, "none", 1.0, "auto"]["hits"] >= 1
    page = (tmp_path / "out" / "detectors.md").read_text()
    assert page == detectors_page.to_markdown(result)
    assert "| 10 % indels | 1 |  | " in page  # the paper's scheme has no goal there
    assert "## Every detector: blocks R=1" in page


def test_designs_of_other_parameters_are_refused(
    run: Run, rng: np.random.Generator, tmp_path: Path
) -> None:
    file = tmp_path / "designs.json"
    detector_designs.write_designs(synthetic(rng) | {"schemes": {"paper": "0"}}, file)
    with pytest.raises(InputError, match="marked with other parameters"):
        detector_designs.read_designs(file)
    file.write_text("[]")
    with pytest.raises(InputError, match=r"designs\.json: cannot be read as designs"):
        detector_designs.read_designs(file)
    assert "give structures to design on" in run("bench", "detectors").err
    refused = run("bench", "detectors", tmp_path, "--designs", file)
    assert "exists already" in refused.err
    assert "--designs FILE" in run("bench", "detectors", tmp_path, "--design-only").err


def test_windows_are_cut_to_their_name(rng: np.random.Generator) -> None:
    ids, host = np.arange(300) % 20, np.zeros(500, dtype=int)
    for length in (50, 100):
        assert len(detectors.attack_design(f"window of {length}", ids, host, rng)) == length
    assert len(detectors.attack_design("150 inside 450", ids, host, rng)) == 450
    assert not np.array_equal(detectors.attack_design("10 % indels", ids, host, rng), ids)
