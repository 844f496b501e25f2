"""Attacks with the design model itself: ProteinMPNN writes residues anew, without a mark.

`redesign` forgets the letters of some residues and designs these together, given the others.
`rewrite` goes through residues a tenth at a time and draws them again given all others as they
are by then: nearly every residue is drawn once from what the model thinks of it in its place.
Sequences of one backbone are worked on together, each with letters, residues and random numbers
of its own.
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

_AT_A_TIME = 0.1  # share of the residues that a rewriter draws given all others
NAMES = ("redesign", "rewrite")


@dataclass(frozen=True, eq=False)
class Redesigner:
    """Designs parts of sequences on a backbone anew; sequences are as long as the backbone."""

    designer: Designer
    plan: DesignPlan

    def __post_init__(self) -> None:
        if self.designer.marker is not None:
            raise ParameterError("an attacker designs without a mark: give a designer without one")

    def attack(self, name: str) -> Attack:
        """Return `redesign` or `rewrite` on this backbone."""
        if name not in NAMES:
            raise ParameterError(f"with a backbone one can {' or '.join(NAMES)}, not {name!r}")
        many = partial(self._attacked, block=_AT_A_TIME if name == "rewrite" else 1.0)
        return replace(find_attack(name), edit=partial(_alone, many), needs="", edit_many=many)

    def redesign(
        self,
        sequences: NDArray[np.int64],
        epsilon: float,
        rngs: Sequence[np.random.Generator],
    ) -> NDArray[np.int64]:
        """Design a share of the residues of sequences [B, L] anew, given the others."""
        return np.array(self._attacked(list(sequences), epsilon, rngs, block=1.0))

    def rewrite(
        self,
        sequences: NDArray[np.int64],
        epsilon: float,
        rngs: Sequence[np.random.Generator],
    ) -> NDArray[np.int64]:
        """Draw a share of the residues of sequences [B, L] again, a tenth at a time."""
        return np.array(self._attacked(list(sequences), epsilon, rngs, block=_AT_A_TIME))

    def _attacked(
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
                    f"a sequence of {len(sequence)} residues does not fit the {self.plan.length} "
                    f"of {self.plan.backbone.name}"
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
            # One order for all strengths: a greater one redraws what a smaller one does, and more.
            order = np.array([rng.permutation(len(groups)) for rng in own])
            uniforms = np.array([rng.random(len(groups), dtype=np.float32) for rng in own])
            for some in np.array_split(np.arange(count), blocks):
                letters = self._drawn(letters, groups[order[:, some]], uniforms[:, some])
            done += list(letters)
        return done

    def _drawn(
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


def _alone(
    many: partial[list[NDArray[np.int64]]],
    sequence: NDArray[np.int64],
    epsilon: float,
    rng: np.random.Generator,
) -> NDArray[np.int64]:
    return many([sequence], epsilon, [rng])[0]
