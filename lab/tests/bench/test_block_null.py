"""The table of C: measured as brute force would, shipped for the mixture that is in use."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.resources import files
from math import log
from pathlib import Path

import numpy as np
import pytest

from patternmark import PROTEIN
from patternmark.core.blocks import pair_of_letter
from patternmark.core.schemes import DEFAULT_BLOCK
from patternmark.null import block_bound as null_blocks
from patternmark.null.block_bound import log_c
from patternmark.statistics.block_draws import random_words
from patternmark.statistics.block_paths import num_blocks
from patternmark.statistics.block_ratio import BACKBONE_MIXTURE, MIXTURE
from patternmark_lab.bench.block_batch import likely_words, mixed_log_ratios
from patternmark_lab.bench.block_null import Job, grid, jobs_of, measure_jobs, raised_c, table_of
from patternmark_lab.bench.block_null_page import to_markdown
from patternmark_lab.bench.hard_sequences import CLASSES, make_sequences, windows
from tests.conftest import Outcome
from tests.synthetic import plain, write_fasta


def shipped() -> dict:
    return json.loads(files("patternmark").joinpath("data/block_null.json").read_text())


def test_the_shipped_table_is_about_the_mixture_in_use() -> None:
    table = shipped()
    assert (table["block"], table["mixture"]) == (DEFAULT_BLOCK, MIXTURE.digest)
    assert len(table["lengths"]) == len(table["c"])
    assert all(0.0 < c <= 1.0 for c in table["c"])


def test_a_table_about_something_else_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    table = {"block": 3, "mixture": MIXTURE.digest, "lengths": [40, 60], "c": [0.5, 0.25]}
    monkeypatch.setattr(null_blocks, "_table", lambda: table)
    assert log_c.at(3, MIXTURE.digest, 39) == 0.0
    assert log_c.at(3, MIXTURE.digest, 50) == log(0.5)  # the larger of both
    assert log_c.at(3, MIXTURE.digest, 1000) == log(0.25)
    for block, mixture in ((4, MIXTURE.digest), (3, BACKBONE_MIXTURE.digest), (3, "")):
        assert log_c.at(block, mixture, 50) == 0.0  # Markov's bound
        assert log_c.digest(block, mixture) == "1"
    del table["mixture"]
    assert log_c.at(3, MIXTURE.digest, 50) == 0.0


@pytest.mark.slow
@pytest.mark.parametrize("letters", ["MKTAYIAKQRQISFVKSHFS", "AXAXAXAXAXAXAXAXAXAX"])
def test_likely_keys_show_what_fair_keys_show(letters: str, rng: np.random.Generator) -> None:
    """E has mean 1 under fair keys, and C(t) is the same by both ways of drawing."""
    keys = 1200
    batch = np.repeat(PROTEIN.encode(letters)[None], keys, axis=0)
    blocks = num_blocks(len(letters), DEFAULT_BLOCK, MIXTURE.components)
    fair = mixed_log_ratios(batch, random_words(keys, blocks, rng), DEFAULT_BLOCK)
    likely = mixed_log_ratios(batch, likely_words(batch, DEFAULT_BLOCK, rng), DEFAULT_BLOCK)
    error = np.exp(fair).std() / keys**0.5
    assert np.exp(fair).mean() == pytest.approx(1.0, abs=4 * error + 0.02)
    for at in np.quantile(fair, [0.5, 0.95]):
        terms = np.where(likely >= at, np.exp(-likely), 0.0)
        share = np.mean(fair >= at)
        spread = np.hypot(terms.std(), (share * (1 - share)) ** 0.5) / keys**0.5
        assert terms.mean() == pytest.approx(share, abs=4 * spread)


def test_classes_have_as_many_scored_letters_as_asked_for(rng: np.random.Generator) -> None:
    for name in CLASSES:
        for n in (30, 60, 101):
            letters = make_sequences(name, n, 2, rng)
            assert ((pair_of_letter()[letters] >= 0).sum(axis=1) == n).all(), name
    chains = [PROTEIN.encode(plain(50, rng)), PROTEIN.encode(plain(20, rng))]
    texts = PROTEIN.decode(chains[0])
    assert all(PROTEIN.decode(row) in texts for row in windows(chains, 30, 5, rng))


def test_the_table_is_the_largest_raised_c_of_any_length() -> None:
    rows = [
        {"length": 400, "largest": 0.3, "largest_error": 0.01},
        {"length": 40, "largest": 0.2, "largest_error": 0.2},
    ]
    assert raised_c(rows[0]) == pytest.approx(0.32)
    table = table_of(rows)
    assert (table["lengths"], table["c"]) == ([40], [0.66])  # and a tenth


def test_the_largest_c_is_found_between_the_values_that_are_shown(rng: np.random.Generator) -> None:
    """One letter has few values of E: the largest C is at one of them."""
    job = Job("R alone", 60, np.repeat(PROTEIN.encode("R" * 60)[None], 200, axis=0), 1, grid(60))
    (row,) = measure_jobs([job], 1, lambda what: None)
    assert row["largest"] > max(row["c"])
    log_e = mixed_log_ratios(job.letters, likely_words(job.letters, 3, rng), 3)
    at = row["largest_at"]
    again = np.where(log_e >= at, np.exp(at - log_e), 0.0).mean()
    assert again == pytest.approx(row["largest"], abs=6 * row["largest_error"])


def test_grids_reach_what_strong_letters_show() -> None:
    assert grid(40)[-1] == 16.0
    assert grid(100)[-1] == 40.0  # one strong letter over and over shows 18 there


def test_the_command_writes_page_picture_and_table(
    run: Callable[..., Outcome],
    tmp_path: Path,
    rng: np.random.Generator,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    few = {name: CLASSES[name] for name in ("one strong letter", "A and X in turn")}
    monkeypatch.setattr("patternmark_lab.bench.block_null.CLASSES", few)
    monkeypatch.setattr("patternmark_lab.bench.block_null.LENGTHS", (30, 40))
    file = write_fasta(tmp_path / "n.fa", {"a": plain(35, rng)})
    data, folder = tmp_path / "table.json", tmp_path / "out"
    size = ("--draws", 6, "--data", data, "-o", folder)
    done = run("bench", "block-null", file, *size, "--json")
    assert done.status == 0, done.err
    result = json.loads(done.out)
    assert {(row["class"], row["length"]) for row in result["rows"]} == {
        ("natural chains", 30),  # the only chain has 35 residues
        *((name, n) for name in few for n in (30, 40)),
    }
    assert json.loads(data.read_text()) == result["table"]
    page = (folder / "block-null.md").read_text()
    assert page == to_markdown(result)
    assert "| one strong letter | 6 |" in page
    assert (folder / "block-null.png").stat().st_size > 0


def test_jobs_repeat_and_seeds_differ(rng: np.random.Generator) -> None:
    natural = [PROTEIN.encode(plain(60, rng))]

    def rows(seed: int) -> list[dict]:
        jobs = jobs_of(natural, [30], 4, seed, lambda n: np.array([0.0, 4.0]))[:3]
        return measure_jobs(jobs, 1, lambda what: None)

    assert rows(1) == rows(1) != rows(2)
