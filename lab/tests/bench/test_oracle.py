"""What answers give away: counted right, and told by a page."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from patternmark import Detector
from patternmark.attacks.oracle import token_edits
from patternmark.fast.compiled import force_loops
from patternmark_lab.bench import oracle
from patternmark_lab.bench.oracle import Size, Target, block_target, run_oracle_benchmark
from patternmark_lab.bench.oracle_page import to_markdown
from patternmark_lab.bench.pages import page_of
from tests.conftest import Outcome

TINY = Size(keys=2, sequences=2, strip=(10, 100), forge=100)


@pytest.fixture(autouse=True, scope="module")
def _many_questions() -> Iterator[None]:
    with force_loops(True):  # each question is judged alone
        yield


@pytest.fixture(scope="module")
def result() -> dict[str, Any]:
    return run_oracle_benchmark(size=TINY)


def cell(result: dict[str, Any], attack: str, answers: str, questions: int) -> dict[str, Any]:
    (scheme,) = result["schemes"]
    rows = [r for r in scheme[attack] if (r["answers"], r["questions"]) == (answers, questions)]
    assert len(rows) == 1
    return dict(rows[0])


def test_numbers_forge_and_verdicts_hardly_do(result: dict[str, Any]) -> None:
    assert cell(result, "forge", "statistic", 100)["passed"]["hits"] == 4
    assert cell(result, "forge", "statistic", 10)["passed"]["hits"] == 0
    # 400 random variants at an FPR of 0.1 %: a few may pass, and hardly ever most of the four.
    assert cell(result, "forge", "verdict", 100)["passed"]["hits"] <= 2
    assert cell(result, "forge", "verdict", 10)["changed"] is None
    changed = cell(result, "forge", "statistic", 100)["changed"]
    assert changed["n"] == 4
    assert 0.02 < changed["mean"] < 0.3


def test_all_answers_strip(result: dict[str, Any]) -> None:
    for answers in ("statistic", "p", "verdict"):
        few, many = (cell(result, "strip", answers, questions) for questions in (10, 100))
        assert many["fell"]["hits"] == many["fell"]["n"] == 4
        assert few["cheaply"]["hits"] <= few["fell"]["hits"]
        assert many["cheaply"]["hits"] >= few["cheaply"]["hits"]


def test_what_is_attacked_is_found_first() -> None:
    target = block_target(1, 0, Size(keys=1, sequences=3))
    again = block_target(1, 0, Size(keys=1, sequences=3))
    other = block_target(1, 1, Size(keys=1, sequences=3))
    assert all(answer.is_marked for answer in target.ask(list(target.marked)))
    assert not any(answer.is_marked for answer in target.ask(list(target.own)))
    assert np.array_equal(target.marked, again.marked)
    assert other.detector.key.key_id != target.detector.key.key_id


def test_texts_are_attacked_by_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    block = block_target(1, 0, Size(keys=1, sequences=2))
    letters = np.arange(20)

    def target(number: int, size: Size) -> Target:
        return Target(
            Detector(block.detector.key),
            block.marked,
            block.own,
            lambda ids, rng: token_edits(ids, letters, 1, rng),
            lambda ids, rng: token_edits(ids, letters, 8, rng),
        )

    monkeypatch.setattr(oracle, "text_targets", lambda *_: target)
    size = Size(keys=1, sequences=2, strip=(50,), forge=400)
    found = run_oracle_benchmark(Path("x"), Path("y"), size=TINY, text_size=size)
    blocks, turns = found["schemes"]
    assert (blocks["scheme"], turns["scheme"]) == ("blocks", "turns")
    rows = {(r["answers"], r["questions"]): r["passed"]["hits"] for r in turns["forge"]}
    assert rows["statistic", 400] == 2
    page = to_markdown(found)
    assert "bench oracle --paragraphs PARAGRAPHS --natural SENTENCES --seed 1" in page
    assert "| Keys for text | forge |" in page


def test_the_command_writes_numbers_and_page(
    run: Callable[..., Outcome], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(oracle, "SIZE", TINY)
    done = run("bench", "oracle", "--json", "-o", tmp_path)
    assert done.status == 0, done.err
    written = json.loads((tmp_path / "oracle.json").read_text())
    assert json.loads(done.out) == written
    assert page_of(tmp_path / "oracle.json")[1] == (tmp_path / "oracle.md").read_text()
    assert "| Block keys, the default for proteins | forge |" in to_markdown(written)
    alone = run("bench", "oracle", "--natural", tmp_path / "x.tsv")
    assert alone.status == 2
    assert "--paragraphs and --natural belong together" in alone.err
