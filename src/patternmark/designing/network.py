"""Load ProteinMPNN by the name of its weights or from a checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from patternmark.errors import InputError, PatternmarkError
from patternmark.io.items import Warn

if TYPE_CHECKING:
    from patternmark.models.mpnn import ProteinMPNN

DEFAULT_WEIGHTS = "v_48_020"


def load_network(
    model: str = DEFAULT_WEIGHTS,
    weights: Path | None = None,
    device: str = "auto",
    report: Warn = lambda message: None,
) -> tuple[ProteinMPNN, dict[str, str]]:
    """Return the network, with the name and the hash of its weights.

    `weights` is a checkpoint of your own; otherwise the published weights `model` are downloaded at
    the first use, and `report` is called with a message.
    """
    try:
        from patternmark.models.device import pick_device  # noqa: PLC0415  # needs torch
    except ImportError:
        raise PatternmarkError(
            "designing needs torch: pip install 'patternmark[protein]'"
        ) from None
    from patternmark.models.mpnn import ProteinMPNN  # noqa: PLC0415
    from patternmark.models.weights import (  # noqa: PLC0415
        WeightsError,
        file_sha256,
        weights_file,
    )

    place = pick_device(device)
    try:
        path = weights if weights is not None else weights_file(model, report=report)
    except WeightsError as error:
        raise WeightsError(f"{error} (or give weights=FILE)") from None
    if not path.is_file():
        raise InputError(
            f"{path}: this checkpoint does not exist: name a .pt file with weights=FILE"
        )
    name = model if weights is None else path.name
    return ProteinMPNN.load(path, place), {"name": name, "sha256": file_sha256(path)}
