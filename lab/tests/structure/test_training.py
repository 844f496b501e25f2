import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from patternmark.core.alphabet import PROTEIN
from patternmark.errors import InputError
from patternmark.quality.predictor import PredictorConfig, StructureNet, StructurePredictor
from patternmark_lab.structure.card import render
from patternmark_lab.structure.chains import Chain, write_chains
from patternmark_lab.structure.training import Settings, accuracy, card_facts, train
from tests.conftest import Outcome

SMALL = PredictorConfig(width=32, hidden=32, layers=1, dropout=0.0)
QUICK = Settings(batch_residues=2048, warmup=5, masked=0.0, mean_steps=5, checks=3, steps=150)


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def chains() -> list[Chain]:
    """Chains whose structure follows from the letter before: helix after A to F, strand after L."""
    rng = np.random.default_rng(0)
    found = []
    for number in range(240):
        ids = rng.integers(0, 20, size=int(rng.integers(40, 90)))
        before = np.concatenate([[19], ids[:-1]])
        dssp = np.where(before < 7, "H", np.where(before < 13, "E", "L"))
        part = "test" if number % 10 == 0 else "valid" if number % 10 == 1 else "train"
        text = "".join(PROTEIN.letters[i] for i in ids)
        found.append(Chain(str(number), text, "".join(dssp), number, part))
    return found


@pytest.mark.slow
def test_it_learns_from_the_residues_nearby(chains: list[Chain], tmp_path: Path) -> None:
    rows: list[dict[str, float]] = []
    predictor = train(tmp_path, chains, SMALL, QUICK, "cpu", lambda row, done: rows.append(row))
    test = [chain for chain in chains if chain.part == "test"]
    assert accuracy(predictor, test)["q3"] > 0.9
    log = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert log == rows
    assert len(log) == QUICK.checks
    facts = card_facts(chains, QUICK, predictor, tmp_path)
    data = {"file": "made.tsv", "sha256": "0" * 64, "excluded": []}
    card = render(facts | {"data": data, "command": "x", "notes": []})
    assert f"Q3, all residues | {facts['test']['q3']:.4f}" in card
    low, high = facts["test"]["intervals"]["q3"]
    assert low <= facts["test"]["q3"] <= high
    assert facts["parts"]["train"]["chains"] == 192


def test_accuracy_counts_what_it_says() -> None:
    class Always(StructurePredictor):
        """Says helix of every residue."""

        def probabilities(self, sequences: list[str]) -> list[np.ndarray]:  # type: ignore[override]
            return [np.eye(8, dtype=np.float32)[np.zeros(len(s), int)] for s in sequences]

    predictor = Always(StructureNet(SMALL))
    chains = [Chain("a", "A" * 8, "LLHGELLL", 0), Chain("b", "A" * 2, "HH", 1)]
    found = accuracy(predictor, chains, resamples=50)
    assert found["q3"] == pytest.approx(4 / 10)  # H, G; H, H
    assert found["q8"] == pytest.approx(3 / 10)
    assert found["q3_per_chain"] == pytest.approx((2 / 8 + 1) / 2)
    assert found["q3_inner"] == pytest.approx(4 / 5)  # HGE and HH
    assert found["intervals"]["q3"] == [0.25, 1.0]


def test_data_without_parts_is_refused(chains: list[Chain], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="prepare the data"):
        train(tmp_path, [replace(c, part="train") for c in chains], SMALL, QUICK, "cpu")


@pytest.mark.slow
def test_command_trains_from_a_prepared_table(
    run: Callable[..., Outcome], chains: list[Chain], tmp_path: Path
) -> None:
    write_chains(tmp_path / "chains.tsv.xz", chains)
    out = tmp_path / "model"
    options = ["-o", out, "--minutes", 0.02, "--device", "cpu", "--batch-residues", 512]
    options += ["--data-note", "Made up."]
    done = run("train", "structure", tmp_path / "chains.tsv.xz", *options)
    assert done.status == 0
    assert "Q3 0." in done.err
    card = (out / "README.md").read_text()
    assert "patternmark train structure" in card
    assert "Made up." in card
    assert StructurePredictor.load(out).predict(["ACDEF"])
    refused = run("train", "structure", tmp_path / "chains.tsv.xz", "-o", out, "--minutes", 0)
    assert (refused.status, "--minutes" in refused.err) == (2, True)
    refused = run("train", "structure", tmp_path / "chains.tsv.xz", "-o", out, "--exclude", out)
    assert "is prepared already" in refused.err
