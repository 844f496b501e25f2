"""Attacks with the design model itself: ProteinMPNN designs residues again, without a mark.

`redesign` removes the letters of some residues and designs these together, given the others.
`rewrite` draws residues again, a tenth at a time, given the current letters of all others: so
nearly every residue is drawn from the model's law at its place. Sequences of one backbone are
processed together, each with its own letters, residues and random numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import ceil

import numpy as np
from numpy.typing import NDArray

from patternmark.attacks.registry import Attack, check_epsilon, find_attack
from patternmark.designing.plan import DesignPlan
from patternmark.designing.run import Designer
from patternmark.errors import ParameterError, SequenceError
from patternmark.models.sampler import padded_groups, sample
from patternmark.models.state import Task

_REWRITE_SHARE = 0.1  # share of the residues that `rewrite` draws at a time, given all others
NAMES = ("redesign", "rewrite")


@dataclass(frozen=True, eq=False)
class Redesigner:
    """Designs parts of sequences on a backbone again; sequences are as long as the backbone."""

    designer: Designer
    plan: DesignPlan

    def __post_init__(self) -> None:
        if self.designer.marker is not None:
            raise ParameterError("an attacker designs without a mark: give a designer without it")

    def attack(self, name: str) -> Attack:
        """Return `redesign` or `rewrite` on this backbone."""
        if name not in NAMES:
            known = " and ".join(NAMES)
            raise ParameterError(f"the attacks with a backbone are {known}, not {name!r}")
        many = partial(self._attack_all, block=_REWRITE_SHARE if name == "rewrite" else 1.0)
        return replace(find_attack(name), edit=partial(_attack_one, many), needs="", edit_many=many)

    def redesign(
        self,
        sequences: NDArray[np.int64],
        epsilon: float,
        rngs: Sequence[np.random.Generator],
    ) -> NDArray[np.int64]:
        """Design a share of the residues of sequences [B, L] again, given the others."""
        return np.array(self._attack_all(list(sequences), epsilon, rngs, block=1.0))

    def rewrite(
        self,
        sequences: NDArray[np.int64],
        epsilon: float,
        rngs: Sequence[np.random.Generator],
    ) -> NDArray[np.int64]:
        """Draw a share of the residues of sequences [B, L] again, a tenth at a time."""
        return np.array(self._attack_all(list(sequences), epsilon, rngs, block=_REWRITE_SHARE))

    def _attack_all(
        self,
        sequences: Sequence[NDArray[np.int64]],
        epsilon: float,
        rngs: Sequence[np.random.Generator],
        *,
        block: float,
    ) -> list[NDArray[np.int64]]:
        check_epsilon(epsilon)
        for sequence in sequences:
            if len(sequence) != self.plan.length:
                raise SequenceError(
                    f"a sequence of {len(sequence)} residues does not fit the backbone "
                    f"{self.plan.backbone.name}, which has {self.plan.length}"
                )
        groups = padded_groups(self.plan.groups, self.plan.length)  # [groups, widest]
        count = round(epsilon * len(groups))
        if count == 0:
            return list(sequences)
        size = self.designer.batch_size(self.plan)
        blocks = ceil(count / (block * len(groups)))
        done: list[NDArray[np.int64]] = []
        for start in range(0, len(sequences), size):
            letters = np.array(sequences[start : start + size])
            own = rngs[start : start + size]
            # One order for all strengths: a larger one redraws the same residues and more.
            order = np.array([rng.permutation(len(groups)) for rng in own])
            uniforms = np.array([rng.random(len(groups), dtype=np.float32) for rng in own])
            for some in np.array_split(np.arange(count), blocks):
                letters = self._draw(letters, groups[order[:, some]], uniforms[:, some])
            done += list(letters)
        return done

    def _draw(
        self,
        sequences: NDArray[np.int64],
        steps: NDArray[np.int64],
        uniforms: NDArray[np.float32],
    ) -> NDArray[np.int64]:
        """Draw the groups `steps` [B, groups, widest] of sequences [B, L] in their order."""
        options = self.designer.options
        task = Task(
            native=sequences,
            steps=steps,
            uniforms=uniforms,
            bias=np.tile(options.letter_bias(), (self.plan.length, 1)),
            temperature=options.temperature,
            name=self.plan.backbone.name,
        )
        drawn = sample(self.designer.prepare(self.plan.backbone), task)
        return np.asarray(drawn.sequences.cpu().numpy())


def _attack_one(
    many: partial[list[NDArray[np.int64]]],
    sequence: NDArray[np.int64],
    epsilon: float,
    rng: np.random.Generator,
) -> NDArray[np.int64]:
    return many([sequence], epsilon, [rng])[0]
