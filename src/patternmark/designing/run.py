"""Design sequences on backbones: model, mark and sampler together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from patternmark.core.alphabet import PROTEIN
from patternmark.core.marker import Marker
from patternmark.core.promote import Promotion
from patternmark.core.secret import fresh_seed
from patternmark.designing.plan import DesignPlan
from patternmark.errors import ParameterError
from patternmark.io.structures import Backbone
from patternmark.models.mpnn import LETTERS, Prepared, ProteinMPNN
from patternmark.models.sampler import Sampled, decoding_steps, sample, secret_steps
from patternmark.models.state import Task

_NATIVE_SEED = 0
_UNKNOWN = PROTEIN.letters.index("X")
_MAX_GPU_BATCH = 16384  # sequences
_CPU_BATCH = 96  # sequences; larger batches are hardly faster and take more memory


@dataclass(frozen=True)
class DesignOptions:
    """How to sample. `bias` is added to a letter's logits at all residues, before temperature."""

    temperature: float = 0.1
    seed: int | None = None  # None: every `Designer` draws one
    omit: str = ""  # letters that are never used; X is one of them anyway
    bias: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not 0 < self.temperature < float("inf"):
            raise ParameterError(f"a temperature must be positive, not {self.temperature}")
        if not all(isfinite(value) for value in self.bias.values()):
            raise ParameterError("a bias must be a number; to forbid a letter, omit it")
        if self.seed is not None and self.seed < 0:
            raise ParameterError(f"a seed must be a whole number of at least 0, not {self.seed}")
        if set(PROTEIN.encode(self.omit).tolist()) >= set(PROTEIN.scored.tolist()):
            raise ParameterError("every amino acid is omitted: leave at least one")

    def letter_bias(self) -> NDArray[np.float64]:
        """Return the bias of each letter: [21]."""
        bias = np.zeros(LETTERS)
        for letter, value in self.bias.items():
            bias[PROTEIN.encode(letter)] += value
        bias[PROTEIN.encode(self.omit)] = -np.inf
        bias[_UNKNOWN] = -np.inf
        return bias


@dataclass(frozen=True, eq=False)
class Design:
    """One designed sequence and how likely the model finds it."""

    index: int  # the number of the sample: 1, 2, ...
    sequence: NDArray[np.int64]  # [L]
    score: float  # mean negative log-likelihood of the designed residues
    global_score: float  # ... of all residues with coordinates
    recovery: float  # share of designed residues whose letter is the native one


class Designer:
    """Designs sequences on any number of backbones with one model and at most one mark."""

    def __init__(
        self, model: ProteinMPNN, options: DesignOptions, marker: Marker | None = None
    ) -> None:
        if marker is not None and marker.key.profile.alphabet != PROTEIN:
            raise ParameterError(
                f"key {marker.key.key_id} marks alphabet {marker.key.profile.alphabet.name!r}, "
                "not proteins"
            )
        self.model = model
        self.options = options
        self.marker = marker
        self.seed = fresh_seed() if options.seed is None else options.seed
        self._last: tuple[Backbone, Prepared] | None = None

    def design(
        self,
        plan: DesignPlan,
        count: int,
        *,
        batch: int | None = None,
        progress: Callable[[int], None] = lambda residues: None,
        residue_bias: NDArray[np.float64] | None = None,  # [L, 21]
        nonces: Sequence[int] | None = None,
    ) -> Iterator[Design]:
        """Yield `count` designs; `progress` is called with the number of new residues.

        A design depends on the seed, its number and the backbone, not on its batch. `nonces` has
        one nonce per design; without it the key draws them.
        """
        if batch is not None and batch < 1:
            raise ParameterError(f"a batch must have at least one sequence, not {batch}")
        prepared = self.prepare(plan.backbone)
        size = batch or self.batch_size(plan)
        for start in range(0, count, size):
            indices = range(start, min(start + size, count))
            own = None if nonces is None else nonces[indices.start : indices.stop]
            task = self._task(plan, indices, residue_bias, own)
            sampled = sample(prepared, task, lambda _: progress(len(indices)))  # noqa: B023
            yield from _make_designs(plan, indices, sampled)

    def score_native(self, plan: DesignPlan) -> Design:
        """Score the native sequence as if it had been designed (sample 0).

        The decoding order is the same in all runs, so a published score reveals nothing of a seed.
        """
        prepared = self.prepare(plan.backbone)
        return score_sequences(prepared, plan, plan.backbone.sequence[None], _NATIVE_SEED)[0]

    def prepare(self, backbone: Backbone) -> Prepared:
        """Encode a backbone once for its designs and its native sequence."""
        if self._last is None or self._last[0] is not backbone:
            self._last = (backbone, self.model.prepare(self.model.encode(backbone)))
        return self._last[1]

    def batch_size(self, plan: DesignPlan) -> int:
        """Return how many sequences to sample together; they fit half of a GPU's free memory."""
        if self.model.device.type != "cuda":
            return _CPU_BATCH
        free, _ = torch.cuda.mem_get_info(self.model.device)
        # Three layers of states in half precision, twice (graph and start), and bookkeeping.
        per_sequence = plan.length * (2 * 3 * 128 * 2 + 64) + 2**14
        return int(max(1, min(_MAX_GPU_BATCH, free // 2 // per_sequence)))

    def _task(
        self,
        plan: DesignPlan,
        indices: Sequence[int],
        residue_bias: NDArray[np.float64] | None,
        nonces: Sequence[int] | None,
    ) -> Task:
        options, marker = self.options, self.marker
        promotions: tuple[Promotion[NDArray[Any]], ...] = ()
        if marker is None:
            steps, uniforms = decoding_steps(plan.groups, self.seed, indices, plan.length)
        else:
            secret, label = marker.key.require_secret(), plan.label(self.seed)
            steps, uniforms = secret_steps(plan.groups, secret, label, indices, plan.length)
            keys = plan.keys(marker, self.seed, indices, nonces)
            promotions = (marker.prepare(keys, options.temperature),)
        bias = np.tile(options.letter_bias(), (plan.length, 1))
        if residue_bias is not None:
            bias = bias + residue_bias
        return Task(
            native=plan.backbone.sequence,
            steps=steps,
            uniforms=uniforms,
            bias=bias,
            temperature=options.temperature,
            promotions=promotions,
            name=plan.backbone.name,
        )


def score_sequences(
    prepared: Prepared, plan: DesignPlan, sequences: NDArray[np.int64], seed: int
) -> list[Design]:
    """Score sequences [B, L], each in its own random order."""
    return score_in_order(prepared, plan, sequences, random_ranks(plan, seed, len(sequences)))


def random_ranks(plan: DesignPlan, seed: int, count: int) -> NDArray[np.int64]:
    """Return the ranks of residues in `count` random orders; residues not designed come first."""
    noise = [np.random.default_rng([seed, i]).random(plan.length) for i in range(count)]
    return np.array([np.argsort(np.argsort(row + plan.designed)) for row in noise])


def score_in_order(
    prepared: Prepared, plan: DesignPlan, sequences: NDArray[np.int64], ranks: NDArray[np.int64]
) -> list[Design]:
    """Score sequences [B, L] in given orders: the rank of each residue, [B, L]."""
    device = prepared.encoded.nodes.device
    letters = torch.tensor(sequences, device=device)
    log_p = prepared.log_probabilities(letters, torch.tensor(ranks, device=device))
    chosen = log_p.gather(2, letters[..., None])[..., 0]
    return _make_designs(plan, range(-1, len(sequences) - 1), Sampled(letters, chosen))


def _make_designs(plan: DesignPlan, indices: Sequence[int], sampled: Sampled) -> list[Design]:
    sequences = sampled.sequences.cpu().numpy()
    nll = -sampled.log_p.cpu().numpy().astype(np.float64)
    designed, known = plan.designed, plan.backbone.is_complete
    same = sequences == plan.backbone.sequence
    return [
        Design(
            index=index + 1,
            sequence=sequences[row],
            score=float(nll[row, designed].mean()),
            global_score=float(nll[row, known].mean()),
            recovery=float(same[row, designed].mean()),
        )
        for row, index in enumerate(indices)
    ]
