"""Attacks with ProteinMPNN, on a real backbone."""

from pathlib import Path

import numpy as np
import pytest

from patternmark import Detector, Key, Marker

torch = pytest.importorskip("torch", reason="pip install 'patternmark[protein]'")
pytest.importorskip("gemmi", reason="pip install 'patternmark[protein]'")

from patternmark.attacks.redesign import Redesigner  # noqa: E402
from patternmark.designing.plan import plan_design  # noqa: E402
from patternmark.designing.run import Designer, DesignOptions  # noqa: E402
from patternmark.errors import ParameterError, SequenceError  # noqa: E402
from patternmark.models.state import State, Task  # noqa: E402
from tests.models.published import network, real_backbone  # noqa: E402

torch.set_num_threads(1)


def redesigner(tmp_path: Path, **layout: str) -> Redesigner:
    plan = plan_design(real_backbone(tmp_path, "A"), **layout)  # type: ignore[arg-type]
    return Redesigner(Designer(network(), DesignOptions()), plan)


def designs(attacker: Redesigner, key: Key, count: int) -> list[np.ndarray]:
    marker = Marker(key, delta=3.0)
    designer = Designer(network(), DesignOptions(seed=3), marker)
    return [design.sequence for design in designer.design(attacker.plan, count)]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["redesign", "rewrite"])
def test_a_share_is_drawn_anew(name: str, tmp_path: Path, key: Key) -> None:
    attacker = redesigner(tmp_path)
    attack = attacker.attack(name)
    own = designs(attacker, key, 3)
    some, more = (attack.attack_all(own, epsilon, seed=1) for epsilon in (0.3, 1.0))
    designed = attacker.plan.designed
    for before, part, whole in zip(own, some, more, strict=True):
        assert np.array_equal(part[~designed], before[~designed])
        changed = np.count_nonzero(part != before)
        assert 0 < changed <= round(0.3 * len(attacker.plan.groups))
        assert changed < np.count_nonzero(whole != before)
        assert 20 not in whole[designed]
    assert np.array_equal(attack.attack_all(own, 0.0, seed=1), own)
    # Its place in a batch does not matter, its letters and the seed do.
    reversed_batch = attack.attack_all(own[::-1], 0.3, seed=1)[::-1]
    assert np.array_equal(reversed_batch, some)
    assert np.array_equal(attack.attack_all(own[:1], 0.3, seed=1), some[:1])
    assert not np.array_equal(attack.attack_all(own, 0.3, seed=2), some)


@pytest.mark.slow
def test_the_mark_goes_and_the_design_stays_good(tmp_path: Path, key: Key) -> None:
    from patternmark.designing.run import score_sequences

    attacker = redesigner(tmp_path)
    # Of 64 designs half a redesign leaves 50 %; means of 24 scatter by 4, of 48 by 3.
    many = designs(attacker, key, 48)
    own = many[:24]
    detector = Detector(key)

    def mean_log_p(sequences: list[np.ndarray]) -> float:
        return float(np.mean([v.log10_p for v in detector.detect_many(sequences)]))

    def nll(sequences: list[np.ndarray]) -> float:
        prepared = attacker.designer.prepare(attacker.plan.backbone)
        found = score_sequences(prepared, attacker.plan, np.array(sequences), seed=0)
        return float(np.mean([design.score for design in found]))

    redesign = attacker.attack("redesign")
    half, redesigned = (
        redesign.attack_all(some, epsilon, seed=1) for some, epsilon in ((many, 0.5), (own, 1.0))
    )
    rewritten = attacker.attack("rewrite").attack_all(own, 1.0, seed=1)
    assert mean_log_p(own) < -10
    assert mean_log_p(half) > 0.6 * mean_log_p(many)
    assert mean_log_p(redesigned) > -2  # written anew: no mark at all
    assert mean_log_p(rewritten) > 0.2 * mean_log_p(own)
    # The unmarked model likes its own letters better than marked ones.
    assert max(nll(redesigned), nll(rewritten)) < nll(own)


def test_fixed_residues_keep_their_letters(tmp_path: Path, key: Key) -> None:
    attacker = redesigner(tmp_path, fixed="A20-30")
    own = designs(attacker, key, 1)
    attacked = attacker.attack("redesign").attack_all(own, 1.0, seed=1)
    assert np.array_equal(attacked[0][~attacker.plan.designed], own[0][~attacker.plan.designed])
    assert np.count_nonzero(~attacker.plan.designed) >= 11


def test_rows_of_their_own_decode_as_alone(tmp_path: Path, key: Key) -> None:
    """A batch of different sequences gives each what it gets by itself, letters and numbers."""
    attacker = redesigner(tmp_path)
    prepared = attacker.designer.prepare(attacker.plan.backbone)
    letters = np.array(designs(attacker, key, 2))
    length = attacker.plan.length
    rng = np.random.default_rng(0)
    steps = np.array([rng.permutation(length)[:9, None] for _ in letters])
    task = Task(
        native=letters,
        steps=steps,
        uniforms=rng.random((2, 9), dtype=np.float32),
        bias=np.zeros((length, 21)),
        temperature=1.0,
    )
    both = State.start(prepared, task)
    assert both.sequences[:, :-1].tolist() == letters.tolist()
    for row in range(2):
        alone = State.start(
            prepared,
            Task(letters[row], steps[row : row + 1], task.uniforms[row : row + 1], task.bias, 1.0),
        )
        for mine, theirs in zip(both.heard, alone.heard, strict=True):
            assert torch.equal(mine.view(2, length + 1, -1)[row], theirs)
        assert torch.equal(both.log_p[row], alone.log_p[0])
    before = [layer.clone() for layer in both.heard]
    for layer in both.heard:
        layer.zero_()
    both.sequences.zero_()
    both.restart()
    assert all(torch.equal(*pair) for pair in zip(before, both.heard, strict=True))
    assert both.sequences[:, :-1].tolist() == letters.tolist()


def test_what_cannot_be_is_refused(tmp_path: Path, key: Key) -> None:
    attacker = redesigner(tmp_path)
    with pytest.raises(SequenceError, match="does not fit"):
        attacker.attack("rewrite").attack_all([np.zeros(7, dtype=np.int64)], 0.5, seed=0)
    with pytest.raises(ParameterError, match="redesign and rewrite"):
        attacker.attack("substitute")
    marked = Designer(network(), DesignOptions(), Marker(key))
    with pytest.raises(ParameterError, match="without a mark"):
        Redesigner(marked, attacker.plan)
