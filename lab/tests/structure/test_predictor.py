"""The predictor as it is saved, and as it is in patternmark-models."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from lab.tests.structure.test_chains import HELD_OUT
from patternmark.models.shipped import shipped_folder
from patternmark.models.tensor_file import CheckpointError
from patternmark.quality.predictor import StructurePredictor, shipped_predictor
from patternmark.quality.states import three_states
from patternmark_lab.structure.chains import read_chains
from patternmark_lab.structure.training import accuracy, save_network
from tests.quality.test_predictor import small_predictor

SHIPPED = shipped_folder("structure-predictor")


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


def test_a_network_is_saved_and_read(tmp_path: Path) -> None:
    predictor = small_predictor()
    save_network(tmp_path, predictor.network)
    again = StructurePredictor.load(tmp_path)
    one, other = (p.probabilities(["ACDEFGHIKL"])[0] for p in (predictor, again))
    np.testing.assert_allclose(one, other, atol=2e-3)  # half precision


def test_what_is_no_predictor_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"config.json: the file is missing"):
        StructurePredictor.load(tmp_path)
    save_network(tmp_path, small_predictor().network)
    (tmp_path / "config.json").write_text('{"width": 32}')
    with pytest.raises(CheckpointError, match="not the configuration of a structure predictor"):
        StructurePredictor.load(tmp_path)
    save_network(tmp_path, small_predictor().network)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"layers": 3}))
    with pytest.raises(CheckpointError, match="missing"):
        StructurePredictor.load(tmp_path)


@pytest.mark.slow
def test_shipped_predictor_is_as_good_as_its_card_says() -> None:
    """Thirty chains of its held-out part: what the card says of all of them, less three errors."""
    chains = read_chains(HELD_OUT)
    card = json.loads((SHIPPED / "card.json").read_text(encoding="utf-8"))
    found = accuracy(shipped_predictor(), chains)
    per_chain = [
        np.mean([a == b for a, b in zip(p, three_states(c.dssp), strict=True)])
        for p, c in zip(
            shipped_predictor().predict([c.sequence for c in chains]), chains, strict=True
        )
    ]
    error = np.std(per_chain, ddof=1) / np.sqrt(len(chains))
    assert found["q3_per_chain"] == pytest.approx(np.mean(per_chain))
    assert found["q3_per_chain"] > card["test"]["q3_per_chain"] - 3.0 * error
    assert found["q3"] > 0.65  # single windows come to that
    assert card["test"]["q3"] > 0.72


def test_shipped_files_are_small_and_belong_together(tmp_path: Path) -> None:
    from patternmark.models.weights import file_sha256
    from patternmark_lab.structure.card import render

    card = json.loads((SHIPPED / "card.json").read_text(encoding="utf-8"))
    assert sum(file.stat().st_size for file in SHIPPED.iterdir()) < 8_000_000
    assert file_sha256(SHIPPED / "model.safetensors") == card["weights_sha256"]
    assert (SHIPPED / "README.md").read_text(encoding="utf-8") == render(card)
    shutil.copytree(SHIPPED, tmp_path / "copy")
    assert StructurePredictor.load(tmp_path / "copy").predict(["ACDEF"])
