"""ProteinMPNN (Dauparas et al., Science 2022): a backbone in, amino acids out, in any order.

Letters in shape comments: L residues, K neighbours of each (48, or all of a smaller protein),
B sequences for one backbone, H = 128 hidden features, 21 amino acids (the last is X).

The encoder reads a backbone once (`encode`). It does not depend on a sequence, so all sequences
designed on the backbone share the result. The decoder then visits the residues in any order.
Residue i gets from each neighbour j the vector

    not yet decoded:   [ h_i, edge_ij, 0,             node_j as encoded   ]
    decoded before i:  [ h_i, edge_ij, letter of j,   node_j at this layer ]

which is multiplied by one matrix W1 of four blocks. The products of edges and of undecoded
neighbours never change, so `prepare` computes them in advance. The product of a decoded neighbour
replaces the undecoded one as soon as it is known. So no causal masks are needed, and the sampler
(sampler.py) has to compute only one small product per residue and layer.
"""

from __future__ import annotations

import copy
import logging
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TypeVar, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import gelu

from patternmark.errors import PatternmarkError
from patternmark.io.structures import Backbone
from patternmark.models.tensor_file import CheckpointError
from patternmark.models.torch_file import TorchFile

_log = logging.getLogger(__name__)

HIDDEN = 128
LETTERS = 21
_GPU_SEQUENCES = 32  # known sequences that a GPU reads at once: about 2 GB for 450 residues
MESSAGE_SCALE = 30.0  # messages are summed over neighbours and divided by this
_ATOM_PAIRS = [
    "Ca-Ca", "N-N", "C-C", "O-O", "Cb-Cb", "Ca-N", "Ca-C", "Ca-O", "Ca-Cb", "N-C", "N-O", "N-Cb",
    "Cb-C", "Cb-O", "O-C", "N-Ca", "C-Ca", "O-Ca", "Cb-Ca", "C-N", "O-N", "Cb-N", "C-Cb", "O-Cb",
    "C-O",
]  # fmt: skip  # in the order of the checkpoint's features


@dataclass(frozen=True, eq=False)
class Encoded:
    """A backbone after the encoder."""

    nodes: Tensor  # [L, H]
    edges: Tensor  # [L, K, H]
    neighbours: Tensor  # [L, K]
    complete: Tensor  # [L] bool: whether all four atoms of a residue are known


class ProteinMPNN(nn.Module):
    """The published network; its parameters have the names of the published checkpoints."""

    def __init__(self, num_neighbours: int = 48, num_layers: int = 3) -> None:
        super().__init__()
        self.features = Features(num_neighbours)
        self.W_e = nn.Linear(HIDDEN, HIDDEN)
        self.W_s = nn.Embedding(LETTERS, HIDDEN)
        self.encoder_layers = nn.ModuleList(EncoderLayer() for _ in range(num_layers))
        self.decoder_layers = nn.ModuleList(DecoderLayer() for _ in range(num_layers))
        self.W_out = nn.Linear(HIDDEN, LETTERS)

    @classmethod
    def load(cls, path: str | Path, device: str = "cpu") -> ProteinMPNN:
        """Read a checkpoint; nothing in it is executed, whatever it claims to hold."""
        try:
            source = TorchFile(Path(path))
            neighbours, stored = source.content["num_edges"], source.content["model_state_dict"]
            if "features.node_embedding.weight" in stored:
                raise ValueError("it is a model for CA atoms only")
            if type(neighbours) is not int:
                raise ValueError("its num_edges is not a number")
            model = cls(neighbours)
            model.load_state_dict(dict(source.tensors(stored)))
            if neighbours < 1 or not all(p.isfinite().all() for p in model.parameters()):
                raise ValueError("no neighbours, or weights that are not numbers")
        except Exception as error:  # a wrong file may raise almost any error
            _log.debug("%s: %r", path, error)
            is_ours = isinstance(error, ValueError | CheckpointError)
            reason = str(error).removeprefix(f"{path}: ") if is_ours else type(error).__name__
            raise PatternmarkError(
                f"{path}: not a ProteinMPNN checkpoint for whole backbones ({reason}): give a .pt "
                "file with num_edges and model_state_dict, such as v_48_020.pt"
            ) from None
        return model.to(device).eval().requires_grad_(False)

    @property
    def device(self) -> torch.device:
        return self.W_s.weight.device

    @torch.no_grad()
    def encode(self, backbone: Backbone) -> Encoded:
        """Run the encoder on a backbone."""
        xyz = np.nan_to_num(backbone.coordinates)
        coordinates = torch.tensor(xyz, dtype=torch.float32, device=self.device)
        complete = torch.tensor(backbone.is_complete, device=self.device)
        chain = torch.tensor(backbone.chain_index, device=self.device)
        edges, neighbours = self.features(coordinates, complete, chain)
        edges = self.W_e(edges)
        nodes = edges.new_zeros(len(edges), HIDDEN)
        for layer in self.encoder_layers:
            nodes, edges = layer(nodes, edges, neighbours, complete)
        return Encoded(nodes, edges, neighbours, complete)

    @torch.no_grad()
    def prepare(self, encoded: Encoded) -> Prepared:
        """Compute all products that do not change during decoding."""
        layers = []
        for module in self.decoder_layers:
            layer = cast(DecoderLayer, module)
            own, edge, letter, node = layer.W1.weight.chunk(4, dim=1)
            layers.append(
                PreparedLayer(
                    edges=encoded.edges @ edge.T + layer.W1.bias,
                    undecoded=encoded.nodes @ node.T,
                    letters=self.W_s.weight @ letter.T,
                    own=own.T.contiguous(),
                    node=node.T.contiguous(),
                    layer=layer,
                )
            )
        return Prepared(encoded, tuple(layers), self.W_out)


@dataclass(frozen=True, eq=False)
class PreparedLayer:
    """One decoder layer for one backbone."""

    edges: Tensor  # [L, K, H] what each edge contributes
    undecoded: Tensor  # [L, H] what a neighbour contributes before it is decoded
    letters: Tensor  # [21, H] what its letter adds after it is decoded
    own: Tensor  # [H, H] the block for the residue itself
    node: Tensor  # [H, H] the block for a decoded neighbour's node
    layer: DecoderLayer


@dataclass(frozen=True, eq=False)
class Prepared:
    """A backbone ready for decoding any number of sequences."""

    encoded: Encoded
    layers: tuple[PreparedLayer, ...]
    W_out: nn.Linear

    def on_cpu(self) -> Prepared:
        """Return a copy in the memory of the CPU, or `self` if it is there already."""
        if not self.encoded.nodes.is_cuda:
            return self
        return Prepared(
            _copy_to_cpu(self.encoded),
            tuple(_copy_to_cpu(layer) for layer in self.layers),
            copy.deepcopy(self.W_out).cpu(),
        )

    @torch.no_grad()
    def log_probabilities(self, sequences: Tensor, ranks: Tensor) -> Tensor:
        """Return log P(letter | backbone, letters decoded before): [B, L, 21].

        `sequences` [B, L] are read in the order of `ranks` [B, L]: a residue knows the letters of
        neighbours with a lower rank.
        """
        return torch.log_softmax(self.logits(sequences, ranks), dim=-1)

    @torch.no_grad()
    def logits(self, sequences: Tensor, ranks: Tensor) -> Tensor:
        """Return the logits of `log_probabilities`, as samplers use them: [B, L, 21]."""
        at_once = _GPU_SEQUENCES if sequences.is_cuda else 1  # the cache of a CPU holds only one
        parts = zip(torch.split(sequences, at_once), torch.split(ranks, at_once), strict=True)
        return cast(Tensor, self.W_out(torch.cat([self.decode_known(s, r)[-1] for s, r in parts])))

    @torch.no_grad()
    def decode_known(self, sequence: Tensor, rank: Tensor) -> list[Tensor]:
        """Decode known sequences [..., L], all residues at once; return the nodes of every level.

        Level 0 is the encoder's, [L, H], for all sequences; the others are [..., L, H].
        """
        neighbours = self.encoded.neighbours
        earlier = (rank[..., neighbours] < rank[..., None])[..., None]  # [..., L, K, 1]
        nodes = [self.encoded.nodes]
        for prepared in self.layers:
            decoded = nodes[-1] @ prepared.node + prepared.letters[sequence]
            known = decoded[..., neighbours, :]
            heard = torch.where(earlier, known, prepared.undecoded[neighbours])
            own = nodes[-1] @ prepared.own
            updated = prepared.layer.update(nodes[-1], prepared.edges + heard + own[..., None, :])
            nodes.append(updated * self.encoded.complete[:, None])
        return nodes


_Parts = TypeVar("_Parts", Encoded, PreparedLayer)


def _copy_to_cpu(parts: _Parts) -> _Parts:
    """Copy all tensors and modules of a dataclass to the CPU."""
    copies = {f.name: copy.deepcopy(getattr(parts, f.name)).cpu() for f in fields(parts)}
    return replace(parts, **copies)


class DecoderLayer(nn.Module):
    """A layer that adds messages from neighbours, then a feed-forward step."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(HIDDEN), nn.LayerNorm(HIDDEN)
        self.W1 = nn.Linear(4 * HIDDEN, HIDDEN)
        self.W2, self.W3 = nn.Linear(HIDDEN, HIDDEN), nn.Linear(HIDDEN, HIDDEN)
        self.dense = FeedForward()

    def update(self, nodes: Tensor, first: Tensor) -> Tensor:
        """Return new nodes [..., H] from the first matrix's sums [..., K, H]."""
        # W3 is linear, so it can be applied after the sum over neighbours.
        summed = gelu(self.W2(gelu(first))).sum(dim=-2)
        messages = summed @ self.W3.weight.T + first.shape[-2] * self.W3.bias
        nodes = self.norm1(nodes + messages / MESSAGE_SCALE)
        return cast(Tensor, self.norm2(nodes + self.dense(nodes)))


class EncoderLayer(nn.Module):
    """Updates nodes from their edges, then edges from their nodes."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(HIDDEN) for _ in range(3))
        self.W1, self.W11 = nn.Linear(3 * HIDDEN, HIDDEN), nn.Linear(3 * HIDDEN, HIDDEN)
        self.W2, self.W3 = nn.Linear(HIDDEN, HIDDEN), nn.Linear(HIDDEN, HIDDEN)
        self.W12, self.W13 = nn.Linear(HIDDEN, HIDDEN), nn.Linear(HIDDEN, HIDDEN)
        self.dense = FeedForward()

    def forward(
        self, nodes: Tensor, edges: Tensor, neighbours: Tensor, complete: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return new nodes [L, H] and edges [L, K, H]."""
        both = (complete[:, None] & complete[neighbours])[..., None]  # [L, K, 1]
        messages = self.W3(gelu(self.W2(gelu(self.W1(_join_ends(nodes, edges, neighbours))))))
        nodes = self.norm1(nodes + (messages * both).sum(dim=1) / MESSAGE_SCALE)
        nodes = self.norm2(nodes + self.dense(nodes)) * complete[:, None]
        messages = self.W13(gelu(self.W12(gelu(self.W11(_join_ends(nodes, edges, neighbours))))))
        return nodes, self.norm3(edges + messages)


def _join_ends(nodes: Tensor, edges: Tensor, neighbours: Tensor) -> Tensor:
    """Join each edge with the nodes at its two ends: [L, K, 3H]."""
    own = nodes[:, None].expand(-1, neighbours.shape[1], -1)
    return torch.cat([own, edges, nodes[neighbours]], dim=-1)


class FeedForward(nn.Module):
    """Two matrices with a GELU between them."""

    def __init__(self) -> None:
        super().__init__()
        self.W_in, self.W_out = nn.Linear(HIDDEN, 4 * HIDDEN), nn.Linear(4 * HIDDEN, HIDDEN)

    def forward(self, nodes: Tensor) -> Tensor:
        return cast(Tensor, self.W_out(gelu(self.W_in(nodes))))


class Features(nn.Module):
    """Edges of the neighbour graph: distances of all atom pairs, and steps along the chain."""

    def __init__(self, num_neighbours: int) -> None:
        super().__init__()
        self.num_neighbours = num_neighbours
        self.embeddings = nn.ModuleDict({"linear": nn.Linear(66, 16)})
        self.edge_embedding = nn.Linear(16 + 16 * len(_ATOM_PAIRS), HIDDEN, bias=False)
        self.norm_edges = nn.LayerNorm(HIDDEN)

    def forward(self, xyz: Tensor, complete: Tensor, chain: Tensor) -> tuple[Tensor, Tensor]:
        """Return edges [L, K, H] and neighbours [L, K] from atoms [L, 4, 3]."""
        n, ca, c, o = xyz.unbind(dim=1)
        b, a = ca - n, c - ca
        normal = torch.linalg.cross(b, a)
        cb = -0.58273431 * normal + 0.56802827 * b - 0.54067466 * a + ca  # ideal CB
        atoms = {"N": n, "Ca": ca, "C": c, "O": o, "Cb": cb}
        nearest, neighbours = self._nearest(ca, complete)
        distances = [nearest]
        for pair in _ATOM_PAIRS[1:]:
            here, there = pair.split("-")
            distances.append(_distance(atoms[here][:, None], atoms[there][neighbours]))
        radial = _radial_basis(torch.stack(distances, dim=-1)).flatten(start_dim=2)
        row = torch.arange(len(xyz), device=xyz.device)
        step = (row[:, None] - row[neighbours] + 32).clip(0, 64)
        step = torch.where(chain[:, None] == chain[neighbours], step, 65)
        linear = cast(nn.Linear, self.embeddings["linear"])
        position = linear.weight.T[step] + linear.bias
        edges = self.edge_embedding(torch.cat([position, radial], dim=-1))
        return self.norm_edges(edges), neighbours

    def _nearest(self, ca: Tensor, complete: Tensor) -> tuple[Tensor, Tensor]:
        """Return distances and rows of the nearest residues [L, K]; incomplete ones come last."""
        both = (complete[:, None] & complete[None, :]).float()
        distance = both * _distance(ca[:, None], ca[None, :])
        farthest = distance.max(dim=-1, keepdim=True).values
        count = min(self.num_neighbours, len(ca))
        nearest = torch.topk(distance + (1.0 - both) * farthest, count, largest=False)
        return nearest.values, nearest.indices


def _distance(a: Tensor, b: Tensor) -> Tensor:
    return ((a - b) ** 2).sum(dim=-1).add(1e-6).sqrt()


def _radial_basis(distance: Tensor) -> Tensor:
    """Sixteen bumps from 2 to 22 Angstrom: [...] -> [..., 16]."""
    centres = torch.linspace(2.0, 22.0, 16, device=distance.device)
    return torch.exp(-(((distance[..., None] - centres) / 1.25) ** 2))
