"""Likelihood, recovery, agreement and pLDDT of sequences on a real backbone."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from patternmark.core.alphabet import PROTEIN
from patternmark.designing.plan import DesignPlan, plan_design
from patternmark.designing.run import random_ranks, score_sequences
from patternmark.io.structures import Backbone, read_backbone
from patternmark.models.mpnn import Prepared, ProteinMPNN
from patternmark.quality.agreement import structure_agreement
from patternmark.quality.design_measures import Judges, differences, measure_designs, summary
from patternmark.quality.dssp import dssp
from patternmark.quality.esmfold import Folder
from patternmark.quality.nll import judge
from patternmark.quality.predictor import PredictorConfig, StructureNet, StructurePredictor
from patternmark.quality.states import STATES
from tests.adapters import write_chains
from tests.quality.test_folding import save_tiny_fold

pytest.importorskip("tmtools", reason="pip install tmtools")


class Told(StructurePredictor):
    """Knows the structure of some sequences, and calls all others coil."""

    def __init__(self, known: dict[str, str]) -> None:
        super().__init__(StructureNet(PredictorConfig(width=32, hidden=32, layers=1)))
        self._known = known

    def probabilities(self, sequences):  # type: ignore[no-untyped-def]
        rows = [self._known.get(text, "L" * len(text)) for text in sequences]
        return [np.eye(8, dtype=np.float32)[[STATES.index(s) for s in row]] for row in rows]


@pytest.fixture(scope="module")
def backbone(tmp_path_factory: pytest.TempPathFactory) -> Backbone:
    """Two chains, one with a gap of three residues."""
    torch.set_num_threads(1)
    numbers = [n for n in range(8, 68) if not 30 <= n <= 32]
    chains = {"A": ("D", numbers), "B": ("A", range(5, 35))}
    return read_backbone(write_chains(tmp_path_factory.mktemp("in") / "pair.pdb", chains))


@pytest.fixture(scope="module")
def plan(backbone: Backbone) -> DesignPlan:
    return plan_design(backbone, chains=["A"])


@pytest.fixture(scope="module")
def prepared(backbone: Backbone) -> Prepared:
    torch.manual_seed(0)
    model = ProteinMPNN().eval().requires_grad_(False)
    return model.prepare(model.encode(backbone))


@pytest.fixture(scope="module")
def sequences(backbone: Backbone) -> np.ndarray:
    rng = np.random.default_rng(0)
    found = np.tile(backbone.sequence, (5, 1))
    for row in found[1:]:
        row[rng.permutation(len(row))[:30]] = rng.integers(0, 20, size=30)
    return found


def test_scores_are_those_of_the_given_orders(
    prepared: Prepared, plan: DesignPlan, sequences: np.ndarray
) -> None:
    ranks = random_ranks(plan, 7, 3)
    found = judge(prepared, plan, sequences, ranks=ranks, batch=2)
    assert [design.index for design in found] == [1, 2, 3, 4, 5]
    for row, design in enumerate(found):
        letters, nll = torch.tensor(sequences[row]), []
        for rank in ranks:
            log_p = prepared.log_probabilities(letters[None], torch.tensor(rank)[None])[0]
            nll.append(-log_p[torch.arange(len(letters)), letters].numpy()[plan.designed].mean())
        assert design.score == pytest.approx(np.mean(nll), rel=1e-5)
        same = sequences[row] == plan.backbone.sequence
        assert design.recovery == pytest.approx(same[plan.designed].mean())
    again = judge(prepared, plan, sequences, seed=7, orders=3)
    assert [d.score for d in again] == pytest.approx([d.score for d in found])
    one = score_sequences(prepared, plan, sequences[:1], 7)[0]
    assert judge(prepared, plan, sequences[:1], seed=7)[0].score == pytest.approx(one.score)


def test_several_sequences_are_read_at_once_as_one_by_one(
    prepared: Prepared, plan: DesignPlan, sequences: np.ndarray
) -> None:
    letters = torch.tensor(sequences)
    ranks = torch.tensor(random_ranks(plan, 1, len(sequences)))
    together = prepared.decode_known(letters, ranks)[-1]
    alone = torch.stack(
        [prepared.decode_known(s, r)[-1] for s, r in zip(letters, ranks, strict=True)]
    )
    torch.testing.assert_close(together, alone, rtol=1e-5, atol=1e-5)


def test_agreement_counts_known_residues(backbone: Backbone, sequences: np.ndarray) -> None:
    native = {backbone.letters(c): dssp(backbone)[backbone.chain(c)] for c in backbone.chain_ids}
    found = structure_agreement(backbone, list(sequences), predictor=Told(native))
    assert found[0].same == found[0].probability == 1.0
    assert found[0].residues == backbone.is_complete.sum()
    coil = np.mean([s in "TSL" for s in np.array(list(dssp(backbone)))[backbone.is_complete]])
    assert found[1].same == pytest.approx(coil)  # what is not known is called coil
    only = np.zeros(len(backbone.sequence), dtype=bool)
    only[backbone.chain("B")] = True
    masked = sequences[0].copy()
    masked[backbone.chain("B").start] = PROTEIN.letters.index("X")
    counted = structure_agreement(backbone, [masked], counted=only, predictor=Told(native))[0]
    assert counted.residues == only.sum() - 1


def test_all_measures_come_together(
    prepared: Prepared, plan: DesignPlan, sequences: np.ndarray, tmp_path: Path
) -> None:
    native = {plan.backbone.letters("A"): dssp(plan.backbone)[plan.backbone.chain("A")]}
    folder = Folder.load(save_tiny_fold(tmp_path))
    judges = Judges({"one": prepared, "two": prepared}, Told(native), folder, seed=7)
    found = measure_designs(plan, list(sequences), judges)
    assert found[0].recovery == found[0].agreement.same == 1.0
    assert found[1].recovery < 1.0
    assert found[0].scores["one"] == found[0].scores["two"]
    assert found[0].plddt is not None
    assert 0.0 < found[0].plddt < 100.0
    names = ["score, one", "score, two", "native recovery", "structure agreement"]
    names += ["structure probability", "pLDDT"]
    means = summary(found)
    assert [m.name for m in means] == names
    assert means[2].value == pytest.approx(np.mean([d.recovery for d in found]))
    apart = {m.name: m for m in differences(found[1:], found[:1] * 2)}
    assert apart["native recovery"].value == pytest.approx(
        np.mean([d.recovery for d in found[1:]]) - 1.0
    )
    without = measure_designs(plan, [sequences[0]], replace(judges, folder=None, prepared={}))
    assert [m.name for m in summary(without)] == names[2:5]
