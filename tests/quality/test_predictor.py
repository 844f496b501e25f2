import numpy as np
import pytest
import torch

from patternmark.quality.predictor import (
    PredictorConfig,
    StructureNet,
    StructurePredictor,
    batches,
    three_sums,
)
from patternmark.quality.states import STATES

SMALL = PredictorConfig(width=32, hidden=32, layers=2)


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


def small_predictor() -> StructurePredictor:
    torch.manual_seed(0)
    return StructurePredictor(StructureNet(SMALL))


def test_chains_do_not_see_each_other() -> None:
    chains = ["ACDEFGHIKL", "MNPQRSTVWYMNPQRSTVWYAC", "W", "ACXDE"]
    predictor = small_predictor()
    together = predictor.probabilities(chains)
    for chain, found in zip(chains, together, strict=True):
        alone = predictor.probabilities([chain])[0]
        assert found.shape == (len(chain), len(STATES))
        np.testing.assert_allclose(found, alone, atol=1e-6)
        np.testing.assert_allclose(found.sum(axis=1), 1.0, atol=1e-5)


def test_the_whole_chain_is_seen() -> None:
    predictor = small_predictor()
    one, other = predictor.probabilities(["A" * 40 + "C", "A" * 40 + "W"])
    assert np.abs(one[0] - other[0]).max() > 0.0


def test_three_states_add_up() -> None:
    shares = np.array([[0.2, 0.1, 0.05, 0.15, 0.1, 0.1, 0.1, 0.2]], dtype=np.float32)  # HGIEBTSL
    np.testing.assert_allclose(three_sums(shares), [[0.35, 0.25, 0.4]], atol=1e-6)
    predictor = small_predictor()
    eight, three = (predictor.predict(["ACDEFGHIKL"], states=n)[0] for n in (8, 3))
    assert set(eight) <= set(STATES)
    assert set(three) <= set("HEC")
    assert predictor.predict([""]) == [""]


def test_batches_hold_every_chain_once() -> None:
    lengths = np.random.default_rng(0).integers(1, 300, size=200).tolist()
    found = list(batches(lengths, 1000))
    assert sorted(i for batch in found for i in batch) == list(range(200))
    assert all(len(b) * max(lengths[i] for i in b) <= 1000 for b in found if len(b) > 1)
