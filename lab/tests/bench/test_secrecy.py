import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from patternmark import Key, Profile
from patternmark.core.alphabet import PROTEIN
from patternmark.core.schemes import Blocks, Paper
from patternmark.core.secret import Secret
from patternmark.plan.simulate import rates_at
from patternmark_lab.bench import secrecy
from patternmark_lab.bench.protein import suitable_chains
from patternmark_lab.bench.secrecy import Size, hardiness, secrecy_curve, to_markdown, trials_of
from patternmark_lab.bench.secrecy_judge import agreement_with_detector, is_found, log_e_of_nonces
from patternmark_lab.bench.secrecy_trials import Trial, block_marked
from tests.conftest import Outcome

TINY = Size((3,), (1, 2), (1.0,), (1, 3), 2, 2, 2, 2, paper_counts=(1, 8))


def trials(nonces: int, draw: secrecy.Draw) -> list[Trial]:
    return [Trial(Blocks(3, nonces), 1.0, (1, 3), draw, 2, 2, i, 7) for i in range(2)]


def test_the_curve_has_a_row_for_every_setting(tmp_path: Path) -> None:
    kept = tmp_path / "kept.jsonl"
    work = [*trials(1, "in turn"), *trials(2, "at random")]
    found = secrecy_curve(work, partial=kept)
    rows = [(r["nonces"], r["sequences"], r["keys"], r["forged"]["n"]) for r in found]
    assert rows == [(1, 1, 2, 4), (1, 3, 2, 4), (2, 1, 2, 4), (2, 3, 2, 4)]
    assert [row["stripped"]["n"] for row in found] == [2, 4, 2, 4]
    assert found[1]["largest"] == 3  # one nonce: all share it
    assert found[1]["bits"] > found[0]["bits"] > 30
    assert len(kept.read_text().splitlines()) == 4
    again: list[str] = []
    assert secrecy_curve(work, partial=kept, step=again.append) == found
    assert again == []  # nothing was left to do


def test_every_key_has_a_trial_of_its_own() -> None:
    work = trials_of(secrecy.SIZES["full"], 1)
    assert (
        len({trial.name for trial in work})
        == len(work)
        == secrecy.num_trials(secrecy.SIZES["full"])
    )
    largest = {max(trial.counts) for trial in work if trial.scheme == Blocks()}
    assert largest == {32, 256, 10_000}


def test_nonces_in_turn_are_not_shared(rng: np.random.Generator) -> None:
    (row,) = secrecy_curve([Trial(Blocks(3, 8), 1.0, (8,), "in turn", 2, 2, 0, 7)])
    assert (row["largest"], row["pure"]) == (1.0, 1.0)


def test_few_nonces_give_the_verdict_of_all(rng: np.random.Generator) -> None:
    key = Key.of(Secret(bytes(32)), Profile(scheme=Blocks(nonces=4)))
    rates = rates_at(1.0, PROTEIN, Blocks.name)
    marked = block_marked(key, np.full(3, 2), rates, rng)
    plain = block_marked(key, np.full(3, 2), np.full(21, 0.5), rng)
    found = agreement_with_detector(key, [*marked, *plain], [2])
    assert found == {"n": 6, "same": 6, "fast": 3, "detector": 3}
    by_nonce = log_e_of_nonces(key, marked, [0, 1, 2, 3])
    assert by_nonce.argmax(axis=1).tolist() == [2, 2, 2]


def test_more_nonces_ask_for_more_evidence() -> None:
    log_e = np.array([6.5])
    assert [is_found(log_e, r, 400) for r in (1, 1000)] == [True, False]


def test_hardiness_falls_with_indels_and_nonces() -> None:
    rows = hardiness(3, 0.5, (1, 256), 12, 1)
    assert [row["nonces"] for row in rows] == [1, 256]
    assert rows[0]["intact"]["n"] == 12
    for row in rows:
        assert row["intact"]["hits"] >= row["indels"]["hits"]
    assert rows[0]["intact"]["hits"] >= rows[1]["intact"]["hits"]


def test_the_command_writes_numbers_page_and_picture(
    run: Callable[..., Outcome], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(secrecy.SIZES, "smoke", TINY)
    done = run("bench", "secrecy", "--json", "-o", tmp_path)
    assert done.status == 0
    result = json.loads(done.out)
    assert result == json.loads((tmp_path / "secrecy.json").read_text())
    assert (tmp_path / "secrecy.md").read_text() == to_markdown(result)
    assert (tmp_path / "secrecy.png").stat().st_size > 0
    paper = [row for row in result["curve"] if row["scheme"] == Paper.name]
    assert paper[-1]["forged"]["hits"] == paper[-1]["forged"]["n"] == 4
    assert result["trials"] == {"planned": 8, "measured": 8}
    assert result["check"]["same"] == result["check"]["n"] > 0


@pytest.mark.slow
def test_with_structures_the_attacker_has_the_model(
    run: Callable[..., Outcome], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch", reason="pip install 'patternmark[protein]'")
    pytest.importorskip("gemmi", reason="pip install 'patternmark[protein]'")
    pytest.importorskip("tmtools", reason="pip install tmtools")
    from patternmark_lab.bench import secrecy_model
    from tests.adapters import write_chains

    monkeypatch.setitem(secrecy.SIZES, "smoke", TINY)
    for name in "ABC":
        write_chains(tmp_path / f"{name}.pdb", {"A": (name, range(1, 60))})
    options = ("bench", "secrecy", "--structures", tmp_path, "--json")
    none = run(*options)  # their chains are too short
    assert none.status == 2
    assert "3 structures or more" in none.err
    assert "0 of the 3 given structures have such a chain" in none.err
    monkeypatch.setattr(
        secrecy_model, "suitable_chains", lambda files, most: suitable_chains(files, most, 40)
    )
    done = run(*options, "-o", tmp_path)
    assert done.status == 0, done.err
    result = json.loads(done.out)
    assert result == json.loads((tmp_path / "secrecy.json").read_text())
    model = result["model"]
    assert (model["backbones"], model["designs"]) == (["B", "C"], 2)
    found = {(row["source"], row["kind"]): row["found"]["n"] for row in model["forged"]}
    assert found[("one", "honest")] == found[("one", "forced")] == 2
    learned = model["learned"]
    assert learned["with_model"]["bits"]["mean"] > learned["without"]["bits"]["mean"] > 0
    assert "## With ProteinMPNN" in (tmp_path / "secrecy.md").read_text()


def test_an_unknown_size_is_named(run: Callable[..., Outcome]) -> None:
    done = run("bench", "secrecy", "--size", "enormous")
    assert done.status == 2
    assert "smoke, full" in done.err
