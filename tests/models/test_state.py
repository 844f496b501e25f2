"""What decoding begins with: the promotions of a batch, a bit for each letter."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from patternmark import PROTEIN, Key, Marker, ParameterError, Profile
from patternmark.core.promote import Promotion
from patternmark.core.secret import Secret
from patternmark.models.state import State, Task
from tests.models.published import network, random_backbone
from tests.models.test_sampler import task_on

pytest.importorskip("gemmi", reason="pip install 'patternmark[protein]'")


def started(promotions: tuple[Promotion, ...], sequences: int) -> tuple[Task, State]:
    backbone = random_backbone(1, [12])
    prepared = network().prepare(network().encode(backbone))
    task = replace(task_on(backbone, indices=range(sequences)), promotions=promotions)
    return task, State.start(prepared, task)


def added(state: State) -> np.ndarray:
    """Return what a step reads from the bits and the strengths: [B, L, 21]."""
    assert state.marks is not None
    bits = (state.marks[:, :-1, None] >> torch.arange(PROTEIN.size)) & 1
    return (bits * state.strength[:, None, None]).numpy()


def test_the_bits_of_a_state_say_what_the_promotions_of_its_task_say() -> None:
    """Sequences of one key, of another, and of none may stand in one batch."""
    first, second = (Key.of(Secret(bytes([i]) * 32), Profile()) for i in range(2))
    keys = Marker(first).key_sequences([12, 12, 7], seed=0)
    unmarked = Promotion(np.zeros((1, PROTEIN.size), dtype=bool), np.zeros(12, dtype=int), 0.0)
    promotions = (
        Marker(first, delta=0.5).prepare(keys, 1.0),
        unmarked,
        Marker(second, delta=2.0).prepare(keys[0], 1.0),
    )
    task, state = started(promotions, 5)
    expected = [promotions[0].only(row) for row in range(3)] + list(promotions[1:])
    biases = [own.add_to(np.zeros((12, PROTEIN.size))) for own in expected]
    np.testing.assert_array_equal(added(state), biases)
    assert state.marks is not None
    assert state.marks.dtype == torch.int32
    assert (state.marks[:, -1] == 0).all()  # of the row that fills groups up

    rows = np.array([4, 1, 3])
    some = State.start(
        network().prepare(network().encode(random_backbone(1, [12]))), task.only(rows)
    )
    np.testing.assert_array_equal(added(some), np.array(biases)[rows])


def test_a_task_without_promotions_has_no_mark() -> None:
    _, state = started((), 2)
    assert state.marks is None


def test_a_vocabulary_is_not_what_the_model_writes() -> None:
    other = Promotion(np.zeros((1, 300), dtype=bool), np.zeros((1, 12), dtype=int), 1.0)
    with pytest.raises(ParameterError, match="writes 21 letters, and the key promotes 300"):
        started((other,), 1)
