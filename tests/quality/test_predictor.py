import json
import shutil
from importlib import resources
from pathlib import Path

import numpy as np
import pytest
import torch

from patternmark.models.tensor_file import CheckpointError
from patternmark.quality.chains import STATES, read_chains, three_states
from patternmark.quality.predictor import (
    Config,
    StructureNet,
    StructurePredictor,
    batches,
    save_network,
    shipped_predictor,
    three_sums,
)
from patternmark.quality.structure_training import accuracy
from tests.quality.test_chains import HELD_OUT

SMALL = Config(width=32, hidden=32, layers=2)
SHIPPED = Path(str(resources.files("patternmark"))) / "data" / "structure-predictor"


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


def _predictor() -> StructurePredictor:
    torch.manual_seed(0)
    return StructurePredictor(StructureNet(SMALL))


def test_chains_do_not_see_each_other() -> None:
    chains = ["ACDEFGHIKL", "MNPQRSTVWYMNPQRSTVWYAC", "W", "ACXDE"]
    predictor = _predictor()
    together = predictor.probabilities(chains)
    for chain, found in zip(chains, together, strict=True):
        alone = predictor.probabilities([chain])[0]
        assert found.shape == (len(chain), len(STATES))
        np.testing.assert_allclose(found, alone, atol=1e-6)
        np.testing.assert_allclose(found.sum(axis=1), 1.0, atol=1e-5)


def test_the_whole_chain_is_seen() -> None:
    predictor = _predictor()
    one, other = predictor.probabilities(["A" * 40 + "C", "A" * 40 + "W"])
    assert np.abs(one[0] - other[0]).max() > 0.0


def test_three_states_add_up() -> None:
    shares = np.array([[0.2, 0.1, 0.05, 0.15, 0.1, 0.1, 0.1, 0.2]], dtype=np.float32)  # HGIEBTSL
    np.testing.assert_allclose(three_sums(shares), [[0.35, 0.25, 0.4]], atol=1e-6)
    predictor = _predictor()
    eight, three = (predictor.predict(["ACDEFGHIKL"], states=n)[0] for n in (8, 3))
    assert set(eight) <= set(STATES)
    assert set(three) <= set("HEC")
    assert predictor.predict([""]) == [""]


def test_batches_hold_every_chain_once() -> None:
    lengths = np.random.default_rng(0).integers(1, 300, size=200).tolist()
    found = list(batches(lengths, 1000))
    assert sorted(i for batch in found for i in batch) == list(range(200))
    assert all(len(b) * max(lengths[i] for i in b) <= 1000 for b in found if len(b) > 1)


def test_a_network_is_saved_and_read(tmp_path: Path) -> None:
    predictor = _predictor()
    save_network(tmp_path, predictor.network)
    again = StructurePredictor.load(tmp_path)
    one, other = (p.probabilities(["ACDEFGHIKL"])[0] for p in (predictor, again))
    np.testing.assert_allclose(one, other, atol=2e-3)  # half precision


def test_what_is_no_predictor_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"config.json: the file is missing"):
        StructurePredictor.load(tmp_path)
    save_network(tmp_path, _predictor().network)
    (tmp_path / "config.json").write_text('{"width": 32}')
    with pytest.raises(CheckpointError, match="not the configuration of a structure predictor"):
        StructurePredictor.load(tmp_path)
    save_network(tmp_path, _predictor().network)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"layers": 3}))
    with pytest.raises(CheckpointError, match="missing"):
        StructurePredictor.load(tmp_path)


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
    from patternmark.quality.structure_card import render

    card = json.loads((SHIPPED / "card.json").read_text(encoding="utf-8"))
    assert sum(file.stat().st_size for file in SHIPPED.iterdir()) < 8_000_000
    assert file_sha256(SHIPPED / "model.safetensors") == card["weights_sha256"]
    assert (SHIPPED / "README.md").read_text(encoding="utf-8") == render(card)
    shutil.copytree(SHIPPED, tmp_path / "copy")
    assert StructurePredictor.load(tmp_path / "copy").predict(["ACDEF"])
