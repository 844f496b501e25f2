"""The sampler against the published one, replayed letter by letter, and the letters it draws."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from patternmark import Key, Marker
from patternmark.core.secret import Secret
from patternmark.io.structures import Backbone
from patternmark.models import cpu
from patternmark.models.cpu import draw
from patternmark.models.mpnn import Prepared
from patternmark.models.sampler import decoding_steps, sample, secret_steps
from patternmark.models.state import Task
from patternmark_lab.bench.published import features_of
from tests.models.published import (
    network,
    published_samples,
    random_backbone,
    real_backbone,
)

pytest.importorskip("gemmi", reason="pip install 'patternmark[protein]'")
torch.set_num_threads(1)

TOLERANCE = 1e-4
X = 20
CHI_SQUARED_20 = 45.3  # exceeded with probability 0.001 at 20 degrees of freedom


@cache
def prepared_on(backbone: Backbone) -> Prepared:
    return network().prepare(network().encode(backbone))


def task_on(
    backbone: Backbone,
    groups: Sequence[Sequence[int]] | None = None,
    *,
    indices: Sequence[int] = (0,),
    seed: int = 1,
    temperature: float = 1.0,
) -> Task:
    """Groups in random orders without keys or bias; X is forbidden."""
    length = len(backbone.sequence)
    if groups is None:
        groups = [[r] for r in range(length) if backbone.is_complete[r]]
    steps, uniforms = decoding_steps(groups, seed, indices, length)
    bias = np.zeros((length, 21))
    bias[:, X] = -np.inf
    return Task(
        native=backbone.sequence,
        steps=steps,
        uniforms=uniforms,
        bias=bias,
        temperature=temperature,
    )


def ranks_of_task(task: Task, row: int) -> torch.Tensor:
    """Residues that are not designed in the order of the chain, then the groups."""
    length = len(task.native)
    order = [r for r in task.steps[row].ravel().tolist() if r < length]
    before = sorted(set(range(length)) - set(order))
    return torch.argsort(torch.tensor(before + order))


def replayed(
    monkeypatch: pytest.MonkeyPatch, prepared: Prepared, task: Task, letters: Sequence[int]
) -> torch.Tensor:
    """Have given letters drawn; return what they would have been drawn from: [groups, 21]."""
    seen = []
    forced = iter(letters)

    def follow(logits: torch.Tensor, uniforms: torch.Tensor) -> torch.Tensor:
        seen.append(torch.softmax(logits, dim=-1)[0])
        return torch.tensor([next(forced)])

    with monkeypatch.context() as patch:
        patch.setattr(cpu, "draw", follow)
        drawn = sample(prepared, task).sequences[0]
    for group, letter in zip(task.steps[0], letters, strict=True):
        assert {int(drawn[r]) for r in group if r < len(drawn)} == {letter}
    return torch.stack(seen)


def assert_replays(
    monkeypatch: pytest.MonkeyPatch,
    backbone: Backbone,
    *,
    designed: Iterable[int] | None = None,
    tied: Sequence[Sequence[int]] | None = None,
    temperature: float = 1.0,
    bias: np.ndarray | None = None,
    omit: str = "X",
    seed: int = 0,
) -> None:
    """Sample with the published code, then have ours give each letter's distribution."""
    length = len(backbone.sequence)
    is_designed = torch.tensor(backbone.is_complete)
    if designed is not None:
        is_designed &= torch.isin(torch.arange(length), torch.tensor(list(designed)))
    generator = torch.Generator().manual_seed(seed)
    # The residues that are not designed come first, and here in the order of the chain, as ours.
    randn = torch.rand(length, generator=generator) + 0.5
    randn[~is_designed] = torch.linspace(0.1, 1.0, int((~is_designed).sum()))
    torch.manual_seed(seed)
    theirs = published_samples(
        features_of(backbone),
        randn,
        designed=is_designed,
        tied=tied,
        temperature=temperature,
        bias=None if bias is None else torch.tensor(bias),
        omit=omit,
    )
    group_of = {r: list(g) for g in tied or [] for r in g}
    groups: list[list[int]] = []
    for r in theirs["decoding_order"].tolist():
        if is_designed[r] and not any(r in g for g in groups):
            groups.append(group_of.get(r, [r]))
    task = task_on(backbone, groups, temperature=temperature)
    widest = task.steps.shape[2]
    steps = [g + [length] * (widest - len(g)) for g in groups]
    forbidden = np.zeros((length, 21))
    forbidden[:, ["ACDEFGHIKLMNPQRSTVWYX".index(letter) for letter in omit]] = -np.inf
    task = replace(
        task, steps=np.array([steps]), bias=forbidden if bias is None else forbidden + bias
    )
    firsts = [g[0] for g in groups]
    letters = theirs["S"][firsts].tolist()
    ours = replayed(monkeypatch, prepared_on(backbone), task, letters)
    torch.testing.assert_close(ours, theirs["probs"][firsts], rtol=0, atol=TOLERANCE)
    assert len(set(letters)) > 5  # else little was tried


@pytest.fixture(scope="module")
def backbone(tmp_path_factory: pytest.TempPathFactory) -> Backbone:
    return real_backbone(tmp_path_factory.mktemp("real"), "A", last=60)


def test_the_law_of_the_published_sampler(
    monkeypatch: pytest.MonkeyPatch, backbone: Backbone
) -> None:
    assert_replays(monkeypatch, backbone)


def test_the_law_with_gaps_bias_and_omitted_letters(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, rng: np.random.Generator
) -> None:
    backbone = real_backbone(tmp_path, "AB", last=40, without=[20, 21])
    bias = rng.normal(size=(len(backbone.sequence), 21))
    assert_replays(monkeypatch, backbone, bias=bias, omit="CWX", temperature=0.5)


def test_the_law_with_fixed_residues(monkeypatch: pytest.MonkeyPatch, backbone: Backbone) -> None:
    assert_replays(monkeypatch, backbone, designed=range(20, 50), seed=1)


def test_the_law_with_a_mark(monkeypatch: pytest.MonkeyPatch, backbone: Backbone, key: Key) -> None:
    marker = Marker(key, delta=1.5)
    keys = marker.key_sequence(len(backbone.sequence), seed=1)
    bias = marker.bias(keys, temperature=0.7)
    assert bias.max() == 1.5
    assert_replays(monkeypatch, backbone, bias=bias, temperature=0.7, seed=2)
    # ... and the promotion of its keys says the same as that bias.
    task = task_on(backbone, temperature=0.7)
    marked = replace(task, promotions=(marker.prepare(keys[None], 0.7),))
    biased = replace(task, bias=task.bias + bias)
    letters = backbone.sequence[task.steps[0, :, 0]].tolist()
    one, two = (replayed(monkeypatch, prepared_on(backbone), t, letters) for t in (marked, biased))
    assert torch.equal(one, two)
    plain = replayed(monkeypatch, prepared_on(backbone), task, letters)
    assert (one - plain).abs().max() > 0.1


def test_the_law_with_ties(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    backbone = real_backbone(tmp_path, "AE", last=34)
    half = len(backbone.sequence) // 2
    assert backbone.letters("A") == backbone.letters("E")
    assert_replays(monkeypatch, backbone, tied=[(r, r + half) for r in range(half)])


def test_the_law_with_ties_of_any_width_fixed_residues_and_a_gap(
    monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    backbone = random_backbone(11, [50, 12], missing=[30])
    tied = [(0, 1, 2, 55), (7, 40), (20, 10), (57, 58, 59)]
    bias = rng.normal(size=(62, 21))
    for group in tied:
        bias[list(group)] = bias[group[0]]  # theirs takes the last one's
    designed = set(range(62)) - {15, 16, 60}
    assert_replays(monkeypatch, backbone, designed=designed, tied=tied, bias=bias, seed=3)


def test_biases_of_tied_residues_are_averaged(
    monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    backbone = random_backbone(12, [20])
    groups = [[3, 4, 9], [0, 1], [7]]
    prepared, task = prepared_on(backbone), task_on(backbone, groups)
    different = rng.normal(size=(20, 21))
    same = different.copy()
    for group in groups:
        same[group] = different[group].mean(axis=0)
    one, two = (
        replayed(monkeypatch, prepared, replace(task, bias=task.bias + bias), [5, 6, 7])
        for bias in (different, same)
    )
    torch.testing.assert_close(one, two, rtol=0, atol=1e-6)
    different[4, 2] = -np.inf  # forbidden for one is forbidden for its group
    third = replayed(monkeypatch, prepared, replace(task, bias=task.bias + different), [5, 6, 7])
    at = [9 in step for step in task.steps[0].tolist()].index(True)
    assert third[at, 2] == 0
    assert (third[[i for i in range(3) if i != at], 2] > 0).all()


@pytest.mark.parametrize("designed", [range(56), range(10, 56, 2)])
def test_recorded_log_p_is_that_of_the_finished_sequence(
    backbone: Backbone, designed: range
) -> None:
    prepared = prepared_on(backbone)
    task = task_on(backbone, [[r] for r in designed], indices=[0, 1, 2], temperature=0.3)
    drawn = sample(prepared, task)
    ranks = torch.stack([ranks_of_task(task, i) for i in range(3)])
    log_p = prepared.log_probabilities(drawn.sequences, ranks)
    expected = log_p.gather(2, drawn.sequences[..., None])[..., 0]
    torch.testing.assert_close(drawn.log_p, expected, rtol=0, atol=TOLERANCE)
    assert len({tuple(s) for s in drawn.sequences.tolist()}) == 3


def test_recorded_log_p_is_without_bias(backbone: Backbone, rng: np.random.Generator) -> None:
    prepared, task = prepared_on(backbone), task_on(backbone)
    task = replace(task, bias=task.bias + rng.normal(scale=3.0, size=task.bias.shape))
    drawn = sample(prepared, task)
    log_p = prepared.log_probabilities(drawn.sequences, ranks_of_task(task, 0)[None])
    expected = log_p.gather(2, drawn.sequences[..., None])[..., 0]
    torch.testing.assert_close(drawn.log_p, expected, rtol=0, atol=TOLERANCE)


def test_fixed_residues_keep_their_letters_and_others_hear_of_them(backbone: Backbone) -> None:
    groups = [[r] for r in range(20, 40)]
    task = task_on(backbone, groups, indices=range(4))
    drawn = sample(prepared_on(backbone), task).sequences.numpy()
    fixed = np.ones(len(backbone.sequence), dtype=bool)
    fixed[20:40] = False
    assert (drawn[:, fixed] == backbone.sequence[fixed]).all()
    assert (drawn[:, ~fixed] != backbone.sequence[~fixed]).any()
    other = np.where(fixed, (backbone.sequence + 7) % 20, backbone.sequence)
    changed = sample(prepared_on(backbone), replace(task, native=other)).sequences.numpy()
    assert (changed[:, fixed] == other[fixed]).all()
    assert (changed[:, ~fixed] != drawn[:, ~fixed]).any()
    # The designed residues' native letters are nobody's business.
    other = np.where(fixed, backbone.sequence, 0)
    again = sample(prepared_on(backbone), replace(task, native=other)).sequences.numpy()
    assert (again == drawn).all()


def test_forbidden_letters_never_appear(backbone: Backbone) -> None:
    task = task_on(backbone, indices=range(20), temperature=5.0)
    task.bias[:, :10] = -np.inf
    task.bias[::2, 10:15] = -np.inf
    drawn = sample(prepared_on(backbone), task).sequences.numpy()
    assert set(drawn.ravel().tolist()) == set(range(10, 20))
    assert set(drawn[:, ::2].ravel().tolist()) == set(range(15, 20))


def test_letters_follow_the_softmax_of_logits_plus_bias_over_temperature(
    rng: np.random.Generator,
) -> None:
    backbone = random_backbone(13, [15])
    prepared = prepared_on(backbone)
    number, T = 4000, 0.6
    task = task_on(backbone, [[6]], indices=range(number), temperature=T)
    bias = rng.normal(size=21)
    bias[[3, X]] = -np.inf
    task.bias[6] = bias
    drawn = sample(prepared, task).sequences[:, 6].numpy()
    ranks = ranks_of_task(task, 0)
    log_p = prepared.log_probabilities(torch.tensor(backbone.sequence)[None], ranks[None])[0, 6]
    p = np.exp((log_p.double().numpy() + bias) / T)
    assert chi_squared(drawn, p / p.sum()) < CHI_SQUARED_20
    wrong = np.exp(log_p.double().numpy() / T + bias)  # bias after the division
    assert chi_squared(drawn, wrong / wrong.sum()) > 10 * CHI_SQUARED_20


def chi_squared(drawn: np.ndarray, p: np.ndarray) -> float:
    """Letters expected fewer than five times count as one."""
    observed, expected = np.bincount(drawn, minlength=21), p * len(drawn)
    assert observed[p == 0].sum() == 0
    often = expected >= 5
    cells = [*zip(observed[often], expected[often], strict=True)]
    if expected[~often].sum() > 0:
        cells.append((observed[~often].sum(), expected[~often].sum()))
    return float(sum((o - e) ** 2 / e for o, e in cells))


def test_draw_follows_the_distribution(rng: np.random.Generator) -> None:
    for _ in range(5):
        logits = rng.normal(scale=2.0, size=21)
        logits[rng.choice(21, size=4, replace=False)] = -np.inf
        p = np.exp(logits) / np.exp(logits).sum()
        rows = torch.tensor(logits, dtype=torch.float32).expand(20000, -1)
        uniforms = torch.tensor(rng.random(20000, dtype=np.float32))
        assert chi_squared(draw(rows, uniforms).numpy(), p) < CHI_SQUARED_20


def test_draw_inverts_the_cumulative_distribution() -> None:
    logits = torch.log(torch.tensor([[0.0, 0.5, 0.0, 0.25, 0.25] + [0.0] * 16]))
    uniforms = torch.tensor([0.0, 0.25, 0.499, 0.501, 0.74, 0.76, 0.999])
    assert draw(logits.expand(7, -1), uniforms).tolist() == [1, 1, 1, 3, 3, 4, 4]


@pytest.mark.parametrize("uniform", [0.0, np.nextafter(np.float32(1), np.float32(0))])
def test_draw_never_picks_an_impossible_letter(uniform: float, rng: np.random.Generator) -> None:
    assert uniform < 1.0
    logits = rng.normal(scale=5.0, size=(20000, 21)).astype(np.float32)
    logits[rng.random(logits.shape) < 0.6] = -np.inf
    logits[np.arange(20000), rng.integers(0, 21, size=20000)] = 1.0  # one letter at least
    rows = torch.tensor(logits)
    drawn = draw(rows, torch.full((20000,), float(uniform)))
    p = torch.softmax(rows, dim=-1).gather(1, drawn[:, None])
    assert (p > 0).all()


def test_orders_and_uniforms_depend_on_seed_and_index_alone() -> None:
    groups = [[0], [1, 5], [2], [3, 4, 6]]
    steps, uniforms = decoding_steps(groups, 7, [4, 9, 2], 10)
    assert steps.shape == (3, 4, 3)
    assert uniforms.dtype == np.float32
    for row, index in enumerate([4, 9, 2]):
        alone = decoding_steps(groups, 7, [index], 10)
        assert (alone[0][0] == steps[row]).all()
        assert (alone[1][0] == uniforms[row]).all()
        members = sorted(tuple(r for r in group if r < 10) for group in steps[row].tolist())
        assert members == [(0,), (1, 5), (2,), (3, 4, 6)]
    assert (decoding_steps(groups, 8, [4], 10)[1] != uniforms[0]).any()
    first = decoding_steps([[r] for r in range(8)], 0, range(4000), 8)[0][:, 0, 0]
    assert np.bincount(first).min() > 420  # 500 each


@pytest.mark.parametrize("tied", [False, True])
def test_sequences_are_the_same_in_any_batch(backbone: Backbone, tied: bool, key: Key) -> None:
    length = len(backbone.sequence)
    groups = [[r] for r in range(25, length)]
    if tied:
        groups = [[r, r + 20] for r in range(15, 35)] + [[r] for r in range(5)]
    prepared, marker = prepared_on(backbone), Marker(key)
    promotion = marker.prepare(marker.key_sequences([length] * 7, seed=0), 0.5)

    def sampled(indices: range) -> Any:
        task = task_on(backbone, groups, indices=indices, temperature=0.5)
        task = replace(task, promotions=(promotion.only(list(indices)),))
        return sample(prepared, task)

    together = sampled(range(7))
    for size in (1, 3):
        for start in range(0, 7, size):
            indices = range(start, min(start + size, 7))
            part = sampled(indices)
            rows = slice(indices.start, indices.stop)
            assert torch.equal(part.sequences, together.sequences[rows])
            torch.testing.assert_close(part.log_p, together.log_p[rows], rtol=0, atol=1e-4)
    assert len({tuple(s) for s in together.sequences.tolist()}) == 7


def test_secret_orders_and_uniforms_depend_on_secret_label_and_index(secret: Secret) -> None:
    groups = [[r] for r in range(8)]
    steps, uniforms = secret_steps(groups, secret, "1/x", range(4000), 8)
    assert (steps.shape, uniforms.shape, uniforms.dtype) == ((4000, 8, 1), (4000, 8), np.float32)
    alone = secret_steps(groups, secret, "1/x", [7], 8)
    assert (alone[0][0] == steps[7]).all()
    assert (alone[1][0] == uniforms[7]).all()
    assert (np.sort(steps[:, :, 0], axis=1) == np.arange(8)).all()
    assert np.bincount(steps[:, 0, 0]).min() > 420  # 500 each
    assert 0.0 <= uniforms.min() <= uniforms.max() < 1.0
    assert abs(uniforms.mean() - 0.5) < 0.01  # 0.0016 is one standard deviation
    for others in ((Secret(bytes(32)), "1/x"), (secret, "2/x")):
        assert (secret_steps(groups, *others, [7], 8)[1] != uniforms[7]).any()


def test_progress_hears_of_every_group(backbone: Backbone) -> None:
    heard: list[int] = []
    sample(prepared_on(backbone), task_on(backbone, [[1], [4, 6], [9]]), heard.append)
    assert heard == [1, 2, 3]
