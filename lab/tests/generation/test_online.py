"""Marks that follow what was decoded: ProteinMPNN step by step, several schemes in a batch."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from lab.tests.schemes.reference import BY_BIAS, a_secret, plain_bias
from patternmark import PROTEIN, Key, ParameterError
from patternmark.core.alphabet import NO_KEY
from patternmark.designing.plan import DesignPlan, plan_design
from patternmark.io.structures import Backbone
from patternmark.models.mpnn import Prepared, ProteinMPNN
from patternmark.models.sampler import Sampled, sample
from patternmark.models.state import State, Task
from patternmark_lab.generation.batch import design_schemes, unmarked_task
from patternmark_lab.generation.online import OnlineMarks, unconditional_probabilities
from patternmark_lab.schemes import EMPTY, OUTSIDE, Scheme, make_scheme
from tests.models.published import network, random_backbone, real_backbone, weights
from tests.models.test_overflow import check_mended
from tests.models.test_sampler import task_on

pytest.importorskip("gemmi", reason="pip install 'patternmark[protein]'")
torch.set_num_threads(1)

X = 20
ONLINE = [name for name in BY_BIAS if name != "umr"]
TEMPERATURE = 0.3


def a_scheme(name: str, number: int = 1, delta: float = 1.5) -> Scheme:
    return make_scheme(name, a_secret(number), PROTEIN, delta)


def prepared_on(backbone: Backbone) -> Prepared:
    return network().prepare(network().encode(backbone))


class Followed:
    """Sees every bias that is written, and what it should have been by what is decoded so far."""

    def __init__(self, marks: OnlineMarks, plan: DesignPlan, schemes: Sequence[Scheme | None],
                 p: np.ndarray, seed: str) -> None:  # fmt: skip
        self._marks, self._schemes, self._seed = marks, schemes, seed
        self._chain = plan.backbone.chain_index
        known = np.where(plan.designed, EMPTY, plan.backbone.sequence)
        self._tokens = np.tile(known, (len(schemes), 1))
        self._previous = [EMPTY] * len(schemes)
        self._p = p
        self.steps = 0

    def __call__(self, state: State, step: int) -> None:
        self._marks(state, step)
        if step:
            before = state.steps[step - 1].numpy()
            for row, tokens in enumerate(self._tokens):
                decoded = [r for r in before[:, row] if r < len(tokens)]
                tokens[decoded] = state.sequences[row, decoded].numpy()
                self._previous[row] = int(tokens[decoded[0]])
        assert state.step_bias is not None
        for member, group in enumerate(state.steps[step].numpy()):
            for row, residue in enumerate(group):
                if residue < self._tokens.shape[1]:
                    found = state.step_bias[member, row].numpy()
                    np.testing.assert_allclose(found, self.expected(row, residue), atol=1e-5)
        self.steps += 1

    def expected(self, row: int, residue: int) -> np.ndarray:
        scheme = self._schemes[row]
        if scheme is None:
            return np.zeros(21)
        chain = self._chain[residue]
        inside = np.flatnonzero(self._chain == chain)
        tokens = np.where(self._chain == chain, self._tokens[row], OUTSIDE).tolist()
        assert tokens[residue] == EMPTY

        def likeliest(place: int) -> list[tuple[int, float]]:
            order = np.argsort(-self._p[place], kind="stable")
            return [(int(v), float(self._p[place, v])) for v in order if self._p[place, v] > 0]

        place = residue + 2 * chain  # keys run on over chains that stand two places apart
        keys = scheme.keys(len(tokens) + 2 * int(self._chain.max()), self._seed, [row])
        assert inside[0] <= residue <= inside[-1]
        return plain_bias(
            scheme,
            tokens,
            int(residue),
            previous=self._previous[row],
            likeliest=likeliest,
            key=NO_KEY if keys is None else int(keys[0, place]),
        )


def followed(plan: DesignPlan, schemes: Sequence[Scheme | None]) -> tuple[np.ndarray, Task]:
    prepared = prepared_on(plan.backbone)
    task = unmarked_task(plan, 3, range(len(schemes)), TEMPERATURE)
    marks = OnlineMarks(prepared, task, schemes, plan.backbone.chain_index, "s")
    watch = Followed(marks, plan, schemes, unconditional_probabilities(prepared, task).numpy(), "s")
    sampled = sample(prepared, marks.task, before_step=watch)
    assert watch.steps == len(plan.groups)
    return sampled.sequences.numpy(), task


@pytest.mark.parametrize("name", ONLINE)
def test_the_bias_of_every_step_is_as_described(name: str) -> None:
    plan = plan_design(random_backbone(5, [40]))
    schemes = [a_scheme(name), None, a_scheme(name, 2, 0.5), a_scheme(name)]
    sequences, task = followed(plan, schemes)
    plain = sample(prepared_on(plan.backbone), task).sequences.numpy()
    assert (sequences[1] == plain[1]).all()
    assert (sequences[0] != plain[0]).any()


def test_chains_gaps_fixed_and_tied_residues() -> None:
    backbone = random_backbone(7, [30, 25], missing=[4, 40])
    plan = plan_design(backbone, fixed="A10-14 B3", tied="A20,B20 A22,A24,B22")
    sequences, _ = followed(plan, [a_scheme(name) for name in ONLINE])
    assert (sequences[:, ~plan.designed] == backbone.sequence[~plan.designed]).all()
    for group in plan.groups:
        assert (sequences[:, group] == sequences[:, group[:1]]).all()


def test_what_nothing_decoded_leads_to() -> None:
    backbone = random_backbone(5, [20])
    prepared = prepared_on(backbone)
    task = unmarked_task(plan_design(backbone), 0, [0], TEMPERATURE)
    p = unconditional_probabilities(prepared, task)
    other = replace(task, native=(task.native + 3) % 20)  # letters of others are nobody's business
    torch.testing.assert_close(unconditional_probabilities(prepared, other), p)
    for residue in (0, 7, 19):  # a residue that is decoded first
        rank = torch.ones(20, dtype=torch.long)
        rank[residue] = 0
        logits = prepared.logits(torch.tensor(backbone.sequence)[None], rank[None])[0, residue]
        logits[X] = -torch.inf
        torch.testing.assert_close(p[residue], torch.softmax(logits / TEMPERATURE, -1))


def test_a_batch_of_many_schemes_is_each_of_them_alone() -> None:
    backbone = random_backbone(9, [50])
    schemes = [a_scheme(name, number, 1.0 + number) for number in (1, 2) for name in ONLINE]
    unmarked = 8
    together = design_schemes(network(), backbone, [*schemes, *[None] * unmarked], 4)
    for row in (0, 5, 7, 12, 20):
        alone = design_schemes(network(), backbone, [schemes[row]], 4, numbers=[row])
        assert (alone["sequences"][0] == together["sequences"][row]).all()
        assert alone["nll"][0] == pytest.approx(together["nll"][row], abs=1e-4)
    assert together["nll"][:-unmarked].mean() > together["nll"][-unmarked:].mean()


def test_what_needs_another_decoder_is_refused() -> None:
    for name, message in (("umr", "before it marks"), ("denmark-lexical", "choosing among")):
        with pytest.raises(ParameterError, match=message):
            design_schemes(network(), random_backbone(9, [20]), [a_scheme(name)], 4)


def test_marks_are_found_in_real_designs(tmp_path: Path) -> None:
    backbone = real_backbone(tmp_path, "A")
    names = [name for name in ONLINE if name not in ("soft-by-step", "multikey")]
    schemes = [a_scheme(name, delta=3.0) for name in names]
    made = design_schemes(network(), backbone, [*schemes, None], 1)["sequences"]
    for scheme, sequence in zip(schemes, made[:-1], strict=True):
        assert scheme.log10_p(sequence) < -2.0, scheme.name
        assert scheme.log10_p(made[-1]) > -2.0, scheme.name


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_a_gpu_designs_the_same() -> None:
    backbone = random_backbone(9, [50, 30], missing=[12])
    schemes = [a_scheme(name, number) for number in range(4) for name in ONLINE]
    found = [
        design_schemes(ProteinMPNN.load(weights("v_48_020"), device), backbone, schemes, 2)
        for device in ("cpu", "cuda")
    ]
    same = found[0]["sequences"] == found[1]["sequences"]
    # Half precision may tip a close draw, and what follows it then differs; most designs agree.
    assert same.all(axis=1).mean() > 0.75


def test_a_sequence_that_overflows_is_sampled_again_with_its_marks(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    tmp_path: Path,
    key: Key,
) -> None:
    backbone = real_backbone(tmp_path, "A", last=60)
    prepared = prepared_on(backbone)
    task = task_on(backbone, [[r] for r in range(20, 32)], indices=range(4), temperature=0.5)
    task = replace(task, name="7abc")
    schemes = [make_scheme("soft", key.require_secret(), PROTEIN, d) for d in (1, 2, 1, 3)]

    def sampled() -> Sampled:
        online = OnlineMarks(prepared, task, schemes, backbone.chain_index, 5, [3, 9, 4, 1])
        return sample(prepared, online.task, before_step=online)

    check_mended(sampled, monkeypatch, caplog)
