"""The designs of `patternmark bench detectors`, and the file that keeps them until they are judged.

Designing is fast on a GPU and judging needs none, so the two may run on different machines. The
keys are not secret: they are made again from the seed, the scheme's name and the backbone's name.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patternmark._version import __version__
from patternmark.core.alphabet import PROTEIN
from patternmark.core.key import Key
from patternmark.core.profile import Profile
from patternmark.core.schemes import Blocks, Paper
from patternmark.errors import InputError
from patternmark.io.bounded import LONGEST_RECORD, read_json
from patternmark.io.files import write_text
from patternmark.io.structures import Backbone
from patternmark_lab.bench.protein import TEMPERATURE, design_all, numbered_keys, visible

SCHEMES = {
    "paper": Profile(scheme=Paper()),
    "blocks R=1": Profile(scheme=Blocks(nonces=1)),
    "blocks": Profile(),  # the default of keygen
}
UNMARKED = "unmarked"
_FORMAT = 1


def fresh_keys(backbone: str, num_keys: int, seed: int) -> dict[str, list[Key]]:
    """Return the keys of a backbone. Other backbones have other keys, because keys differ much."""
    return {
        name: numbered_keys(f"bench detectors {seed} {name} {backbone}", profile, num_keys)
        for name, profile in SCHEMES.items()
    }


def case_name(scheme: str, delta: float) -> str:
    """Return the name of designs with one scheme and delta.

    >>> case_name("paper", 0.5), case_name(UNMARKED, 0.0)
    ('paper, delta 0.5', 'unmarked')
    """
    return f"{scheme}, delta {delta:g}" if delta else scheme


def make_designs(
    weights: Path,
    backbones: Sequence[Backbone],
    deltas: Sequence[float],
    *,
    num_keys: int = 6,
    seed: int = 1,
    device: str = "cpu",
    step: Callable[[str], None] = lambda what: None,
) -> dict[str, Any]:
    """Return designs on backbones, for `write_designs`; `step` is called for each backbone."""
    from patternmark.models.mpnn import ProteinMPNN  # noqa: PLC0415  # torch is an extra

    model = ProteinMPNN.load(weights, device)
    rows = []
    for backbone in backbones:
        keys = fresh_keys(backbone.name, num_keys, seed)
        rows.append({"name": backbone.name, **_designs(model, backbone, keys, deltas, seed)})
        step(backbone.name)
    return {
        "format": _FORMAT,
        "version": __version__,
        "schemes": _digests(),
        "model": weights.stem,
        "temperature": TEMPERATURE,
        "device": device,
        "seed": seed,
        "num_keys": num_keys,
        "backbones": rows,
    }


def _designs(
    model: Any,
    backbone: Backbone,
    keys: dict[str, list[Key]],
    deltas: Sequence[float],
    seed: int,
) -> dict[str, Any]:
    """Return the designs of each case as letters, and their mean negative log-likelihood."""
    conditions: list[tuple[Key | None, float]] = []
    places: dict[str, list[int]] = {}
    for name, own in keys.items():
        for key in own:
            for delta in deltas:
                places.setdefault(case_name(name, delta), []).append(len(conditions))
                conditions.append((key, delta))
    hosts = len(next(iter(keys.values())))
    places[UNMARKED] = list(range(len(conditions), len(conditions) + hosts))
    made = design_all(model, backbone, [*conditions, *[(None, 0.0)] * hosts], seed)
    shown = [_letters(visible(row, backbone)) for row in made["sequences"]]
    return {
        "designs": {case: [shown[at] for at in where] for case, where in places.items()},
        "nll": {case: float(np.mean(made["nll"][where])) for case, where in places.items()},
    }


def _letters(symbols: NDArray[np.int64]) -> str:
    return "".join(PROTEIN.letters[symbol] for symbol in symbols)


def _digests() -> dict[str, str]:
    """Return a hash of the parameters of each scheme."""
    return {
        name: sha256(profile.canonical.encode()).hexdigest()[:16]
        for name, profile in SCHEMES.items()
    }


def write_designs(made: dict[str, Any], file: Path) -> None:
    """Write designs to a file."""
    write_text(file, json.dumps(made, indent=1) + "\n")


def read_designs(file: Path) -> dict[str, Any]:
    """Read the file of `write_designs`; refuse designs with other parameters than this version."""
    try:
        made = read_json(file, LONGEST_RECORD)
        is_known, schemes = made["format"] == _FORMAT, made["schemes"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{file}: cannot be read as designs: {error}") from None
    if not is_known or schemes != _digests():
        raise InputError(
            f"{file}: these designs were marked with other parameters than this version has: "
            "design again into a new file"
        )
    return dict(made)
