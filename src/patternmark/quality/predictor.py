"""A small network that predicts secondary structure from a sequence.

Letters in shape comments: B chains, L residues of the longest chain, W width, 8 states of DSSP.
Each layer has attention along the whole chain (with rotary positions), then one matrix over the
neighbouring residues, then a gated step for each residue.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from patternmark.core.alphabet import PROTEIN
from patternmark.models.shipped import shipped_folder
from patternmark.models.tensor_file import (
    CheckpointError,
    build,
    is_size,
    read_json,
    read_tensors,
)
from patternmark.quality.states import STATES, THREE, THREE_STATES

__all__ = ["shipped_predictor"]

CONFIG, WEIGHTS = "config.json", "model.safetensors"
PAD = PROTEIN.size  # fills rows after the end of a chain
_HEAD_WIDTH = 32
_RESIDUES_AT_ONCE = 8_192  # residues in a batch for prediction

_THREE_OF = torch.tensor([THREE_STATES.index(THREE[state]) for state in STATES])


@dataclass(frozen=True)
class PredictorConfig:
    """The sizes of a network."""

    width: int = 192
    hidden: int = 384
    layers: int = 6
    reach: int = 2  # neighbouring residues on either side
    dropout: float = 0.2


class StructureNet(nn.Module):
    """Maps the letters of chains to logits of each residue's state."""

    def __init__(self, config: PredictorConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(PAD + 1, config.width)
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.layers))
        self.norm = nn.RMSNorm(config.width)
        self.output = nn.Linear(config.width, len(STATES))

    def forward(self, letters: Tensor) -> Tensor:
        """Return the logits of the states [B, L, 8] of padded chains [B, L]."""
        inside = letters != PAD
        turns = _turns(letters.shape[1], letters.device)
        x = self.embedding(letters)
        for layer in self.layers:
            x = layer(x, inside, turns)
        return cast(Tensor, self.output(self.norm(x)))


class Layer(nn.Module):
    """Attention, a step over neighbours, and a gated step for each residue, with residual sums."""

    def __init__(self, config: PredictorConfig) -> None:
        super().__init__()
        width, span = config.width, 2 * config.reach + 1
        self.heads, self.reach = width // _HEAD_WIDTH, config.reach
        self.norms = nn.ModuleList(nn.RMSNorm(width) for _ in range(3))
        self.queries, self.keys, self.values, self.mixed = (
            nn.Linear(width, width, bias=False) for _ in range(4)
        )
        self.nearby = nn.Linear(span * width, width)
        self.gate, self.up = (nn.Linear(width, config.hidden, bias=False) for _ in range(2))
        self.down = nn.Linear(config.hidden, width, bias=False)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor, inside: Tensor, turns: tuple[Tensor, Tensor]) -> Tensor:
        """Return the next x [B, L, W]; `inside` [B, L] is True for residues, False for padding."""
        x = x + self.dropout(self._attend(self.norms[0](x), inside, turns))
        neighbours = self._neighbours(self.norms[1](x), inside)
        x = x + self.dropout(functional.silu(self.nearby(neighbours)))
        alone = self.norms[2](x)
        return cast(
            Tensor,
            x + self.dropout(self.down(functional.silu(self.gate(alone)) * self.up(alone))),
        )

    def _neighbours(self, x: Tensor, inside: Tensor) -> Tensor:
        """Return each residue with its neighbours, 0 beyond the ends: [B, L, span * W]."""
        length = x.shape[1]
        seen = functional.pad(x * inside[..., None], (0, 0, self.reach, self.reach))
        steps = range(2 * self.reach + 1)
        return torch.cat([seen[:, step : step + length] for step in steps], dim=-1)

    def _attend(self, x: Tensor, inside: Tensor, turns: tuple[Tensor, Tensor]) -> Tensor:
        split = (*x.shape[:2], self.heads, _HEAD_WIDTH)
        q, k, v = (
            part(x).view(split).transpose(1, 2) for part in (self.queries, self.keys, self.values)
        )  # [B, heads, L, 32]
        mask = inside[:, None, None, :]
        found = functional.scaled_dot_product_attention(
            _rotate(q, turns), _rotate(k, turns), v, attn_mask=mask
        )
        return cast(Tensor, self.mixed(found.transpose(1, 2).flatten(2)))


def _turns(length: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return cosines and sines of the angles of each position: [L, 16]."""
    half = _HEAD_WIDTH // 2
    # The slowest angle makes one turn in some two thousand residues, the fastest one in six.
    speed = 300.0 ** (-torch.arange(half, device=device) / (half - 1))
    angles = torch.arange(length, device=device)[:, None] * speed
    return angles.cos(), angles.sin()


def _rotate(x: Tensor, turns: tuple[Tensor, Tensor]) -> Tensor:
    """Rotate pairs of features by the angles of their position: products depend on distances."""
    cos, sin = (part.to(x.dtype) for part in turns)
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)


def to_three(probabilities: Tensor) -> Tensor:
    """Add up the probabilities of helix, strand and coil: [..., 8] -> [..., 3]."""
    sums = probabilities.new_zeros(*probabilities.shape[:-1], len(THREE_STATES))
    return sums.index_add(-1, _THREE_OF.to(sums.device), probabilities)


def padded(rows: Sequence[NDArray[np.int64]]) -> Tensor:
    """Return chains of letters as rows, padded with PAD: [B, L]."""
    longest = max(map(len, rows))
    return torch.tensor(
        np.array([np.pad(row, (0, longest - len(row)), constant_values=PAD) for row in rows])
    )


class StructurePredictor:
    """A trained network, ready for prediction."""

    def __init__(self, network: StructureNet) -> None:
        self.network = network.eval()

    @classmethod
    def load(cls, folder: Path, device: str = "cpu") -> StructurePredictor:
        """Read the folder of a trained network."""
        content = read_json(folder / CONFIG)
        known = {field.name for field in fields(PredictorConfig)}
        if not isinstance(content, dict) or set(content) != known:
            raise CheckpointError(
                f"{folder / CONFIG}: not the configuration of a structure predictor"
            )
        if not all(is_size(value) for name, value in content.items() if name != "dropout"):
            raise CheckpointError(f"{folder / CONFIG}: a size in it is not a number that fits")
        config, tensors = PredictorConfig(**content), read_tensors(folder / WEIGHTS)
        if config.layers > len(tensors):
            raise CheckpointError(f"{folder / CONFIG}: has more layers than the weights")
        network = build(lambda: StructureNet(config), tensors, folder / WEIGHTS)
        return cls(network.to(device))

    def probabilities(self, sequences: Iterable[str]) -> list[NDArray[np.float32]]:
        """Return the probabilities of DSSP's states for each chain: [L, 8], in order of STATES."""
        rows = [PROTEIN.encode(sequence) for sequence in sequences]
        found: list[NDArray[np.float32]] = [np.empty((0, len(STATES)), np.float32)] * len(rows)
        device = self.network.output.weight.device
        with torch.inference_mode():
            for batch in batches([len(row) for row in rows], _RESIDUES_AT_ONCE):
                logits = self.network(padded([rows[i] for i in batch]).to(device))
                shares = logits.float().softmax(dim=-1).cpu().numpy()
                for row, i in zip(shares, batch, strict=True):
                    found[i] = row[: len(rows[i])]
        return found

    def predict(self, sequences: Iterable[str], states: int = 3) -> list[str]:
        """Return the most probable state of each residue: of three (H, E, C) or DSSP's eight."""
        letters = np.array(list(THREE_STATES if states == 3 else STATES))
        return [
            "".join(letters[(three_sums(found) if states == 3 else found).argmax(axis=-1)])
            for found in self.probabilities(sequences)
        ]


def three_sums(probabilities: NDArray[np.float32]) -> NDArray[np.float32]:
    """Add up the probabilities of helix, strand and coil: [L, 8] -> [L, 3]."""
    return np.asarray(to_three(torch.from_numpy(probabilities)).numpy())


@cache
def shipped_predictor(device: str = "cpu") -> StructurePredictor:
    """Return the predictor of patternmark-models."""
    return StructurePredictor.load(shipped_folder("structure-predictor"), device)


def batches(lengths: Sequence[int], residues: int) -> Iterator[list[int]]:
    """Yield batches of chains of similar length: their indices, at most `residues` with padding."""
    batch: list[int] = []
    for i in sorted(range(len(lengths)), key=lambda i: lengths[i]):
        if batch and lengths[i] * (len(batch) + 1) > residues:
            yield batch
            batch = []
        if lengths[i]:
            batch.append(i)
    if batch:
        yield batch
