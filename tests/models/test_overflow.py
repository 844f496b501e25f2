"""Sequences whose numbers overflow: they are sampled again, and cost no other sequence."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from patternmark import Key, Marker
from patternmark.errors import PatternmarkError
from patternmark.io.structures import Backbone
from patternmark.models import cpu, sampler
from patternmark.models.mpnn import ProteinMPNN
from patternmark.models.sampler import Sampled, sample
from tests.models.published import network, real_backbone
from tests.models.test_sampler import prepared_on, task_on

pytest.importorskip("gemmi", reason="pip install 'patternmark[protein]'")
torch.set_num_threads(1)


@pytest.fixture(scope="module")
def backbone(tmp_path_factory: pytest.TempPathFactory) -> Backbone:
    return real_backbone(tmp_path_factory.mktemp("real"), "A", last=60)


class FailingStep(cpu.CpuStep):
    """Loses one sequence of a large batch at its second step, as half precision may."""

    def __call__(self) -> None:
        super().__call__()
        log_p = self._state.log_p
        if len(log_p) > 2 and self._next == 2:
            log_p[1, self._state.steps[1, 0, 1]] = torch.nan


def test_a_sequence_that_overflows_is_sampled_again_and_the_others_stay(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    backbone: Backbone,
    key: Key,
) -> None:
    prepared = prepared_on(backbone)
    keys = Marker(key).key_sequences([len(backbone.sequence)] * 4, seed=0)
    first, last = (Marker(key, delta=delta) for delta in (1.0, 2.0))
    promotions = first.prepare(keys[0], 1.0), last.prepare(keys[1:], 1.0)
    task = task_on(backbone, [[r] for r in range(20, 32)], indices=range(4), temperature=0.5)
    task = replace(task, promotions=promotions, name="7abc")

    check_mended(lambda: sample(prepared, task), monkeypatch, caplog)


def check_mended(
    sampled: Callable[[], Sampled],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Sample four sequences of 7abc twice, of which the second time one overflows."""
    whole = sampled()
    assert not caplog.records
    monkeypatch.setattr(sampler, "CpuStep", FailingStep)
    mended = sampled()
    assert torch.equal(mended.sequences, whole.sequences)
    torch.testing.assert_close(mended.log_p, whole.log_p, rtol=0, atol=1e-4)
    assert [r.getMessage() for r in caplog.records] == [
        "7abc: the network's numbers overflowed in 1 of 4 sequences, which were sampled again in "
        "single precision on the CPU"
    ]


def test_a_network_that_overflows_is_an_error_and_no_design(backbone: Backbone) -> None:
    model = ProteinMPNN()  # another than the tests share
    model.load_state_dict(network().state_dict())
    with torch.no_grad():
        model.W_out.weight.mul_(1e38)
    task = replace(task_on(backbone, [[1], [4, 6], [9]]), name="7abc")
    with pytest.raises(PatternmarkError, match=r"^7abc: .*are meaningless"):
        sample(model.prepare(model.encode(backbone)), task)
