import json
from collections.abc import Callable
from pathlib import Path

import pytest

from patternmark import Profile
from patternmark.bench import secrecy
from patternmark.bench.secrecy import Size, secrecy_curve, to_markdown
from patternmark.core.schemes import Blocks
from tests.conftest import Outcome


def test_the_curve_has_a_row_for_every_setting(tmp_path: Path) -> None:
    arguments = (Profile(scheme=Blocks()), (1.0,), (1, 2), (1, 2), 2, 7)
    kept = tmp_path / "kept.jsonl"
    found = secrecy_curve(*arguments, tries=2, strips=2, partial=kept)
    rows = [(r["nonces"], r["sequences"], r["keys"], r["forged"]["n"]) for r in found["curve"]]
    assert rows == [(1, 1, 2, 4), (1, 2, 2, 4), (2, 1, 2, 4), (2, 2, 2, 4)]
    assert [row["unmarked"]["n"] for row in found["unmarked"]] == [8, 8]
    assert len(kept.read_text().splitlines()) == 4
    again: list[str] = []
    more = secrecy_curve(*arguments, tries=2, strips=2, most=(3, 1), partial=kept)
    assert [(r["sequences"], r["keys"]) for r in more["curve"]][:3] == [(1, 2), (2, 2), (3, 1)]
    assert secrecy_curve(*arguments, tries=2, strips=2, partial=kept, step=again.append) == found
    assert again == []  # nothing was left to do


def test_the_command_writes_numbers_page_and_picture(
    run: Callable[..., Outcome], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(secrecy.SIZES, "smoke", Size(1, 2, 1, (1.0,), (1,), (1, 8)))
    done = run("bench", "secrecy", "--json", "-o", tmp_path)
    assert done.status == 0
    result = json.loads(done.out)
    assert result == json.loads((tmp_path / "secrecy.json").read_text())
    assert (tmp_path / "secrecy.md").read_text() == to_markdown(result)
    assert (tmp_path / "secrecy.png").stat().st_size > 0
    paper = [row for row in result["curve"] if row["scheme"] == "paper"]
    assert paper[-1]["forged"]["hits"] == paper[-1]["forged"]["n"] == 2
    assert {row["period"] for row in result["curve"]} == {2, 16, 512}


def test_an_unknown_size_is_named(run: Callable[..., Outcome]) -> None:
    done = run("bench", "secrecy", "--size", "enormous")
    assert done.status == 2
    assert "smoke, full" in done.err
