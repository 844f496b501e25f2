"""The GPU's step against the CPU's: same tasks, same letters but for rounding."""

from pathlib import Path

import numpy as np
import pytest
import torch

from patternmark import Key, Marker, Profile
from patternmark.core.schemes import Blocks, Paper
from patternmark.designing.plan import plan_design
from patternmark.designing.run import Designer, DesignOptions
from patternmark.models.mpnn import Prepared, ProteinMPNN
from patternmark.models.sampler import sample
from patternmark.models.state import State
from tests.models.published import random_backbone, weights

torch.set_num_threads(1)
pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")

BACKBONES = {
    "one chain": (random_backbone(1, [90]), {}),
    "few neighbours": (random_backbone(2, [30]), {}),
    "gaps and fixed": (random_backbone(3, [70, 40], missing=[5, 6, 80]), {"fixed": "A1-20 B7"}),
    "tied": (random_backbone(4, [60, 60]), {"tied": "A3-50,B3-50 A55,A57,B58"}),
}


@pytest.mark.parametrize("name", BACKBONES)
def test_samples_are_those_of_the_cpu(name: str) -> None:
    backbone, choices = BACKBONES[name]
    plan = plan_design(backbone, **choices)
    marker = Marker(Key.generate(Profile(scheme=Paper())))
    options = DesignOptions(temperature=0.1, seed=3, omit="C", bias={"A": 0.3})
    found = {}
    for device in ("cpu", "cuda"):
        model = ProteinMPNN.load(Path(weights("v_48_020")), device)
        designs = list(Designer(model, options, marker).design(plan, 30, batch=30))
        found[device] = (
            np.array([d.sequence for d in designs]),
            np.array([d.score for d in designs]),
        )
    same = found["cpu"][0] == found["cuda"][0]
    # Half precision may tip a close draw, and what follows it then differs; most designs agree.
    assert same.all(axis=1).mean() > 0.75
    whole = same.all(axis=1)
    np.testing.assert_allclose(found["cpu"][1][whole], found["cuda"][1][whole], atol=5e-3)


class Overflow:
    """Spoils what one sequence remembers after some steps, as an overflow of half precision."""

    def __init__(self, row: int | None) -> None:
        self._row = row

    def __call__(self, state: State, step: int) -> None:
        if step == 5 and self._row is not None:
            state.heard[1].view(len(state.sequences), -1)[self._row] = torch.inf

    def only(self, prepared: Prepared, rows: np.ndarray) -> "Overflow":
        assert not prepared.encoded.nodes.is_cuda
        assert rows.tolist() == [self._row]
        return Overflow(None)


def test_a_sequence_that_overflows_is_sampled_again_on_the_cpu(
    caplog: pytest.LogCaptureFixture,
) -> None:
    backbone, choices = BACKBONES["gaps and fixed"]
    plan = plan_design(backbone, **choices)
    key = Key.generate(Profile(scheme=Blocks()))
    found = {}
    for device in ("cpu", "cuda"):
        model = ProteinMPNN.load(Path(weights("v_48_020")), device)
        designer = Designer(model, DesignOptions(seed=3), Marker(key))
        task = designer._task(plan, range(20), None, None)
        found[device] = sample(designer.prepare(backbone), task)
    assert not caplog.records
    mended = sample(designer.prepare(backbone), task, before_step=Overflow(7))
    assert "overflowed in 1 of 20 sequences" in caplog.text
    others = [row for row in range(20) if row != 7]
    assert torch.equal(mended.sequences[others], found["cuda"].sequences[others])
    assert torch.equal(mended.sequences[7].cpu(), found["cpu"].sequences[7])
    assert mended.log_p.isfinite().all()
