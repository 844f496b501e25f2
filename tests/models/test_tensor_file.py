"""Configurations and headers that claim sizes: nothing is built before the weights fit them."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("safetensors")

from patternmark.models.cmlm import CMLM, Config  # noqa: E402
from patternmark.models.tensor_file import CheckpointError, build, read_tensors  # noqa: E402
from patternmark.translation.checkpoint import CONFIG, WEIGHTS, load_model, read_config  # noqa: E402

SMALL: dict[str, Any] = {
    "vocab": 30, "width": 8, "hidden": 8, "heads": 2, "encoder_layers": 1, "decoder_layers": 1,
    "lengths": 9, "length_offset": 4,
}  # fmt: skip


def write_model(folder: Path, **changed: Any) -> Path:
    """Write the folder of a small network, whose configuration claims something else."""
    from safetensors.torch import save_file

    save_file(CMLM(Config(**SMALL)).state_dict(), folder / WEIGHTS)
    (folder / CONFIG).write_text(json.dumps(SMALL | changed))
    return folder


def test_a_model_is_read_as_it_was(tmp_path: Path) -> None:
    found = load_model(write_model(tmp_path)).state_dict()
    assert all(torch.equal(found[name], t) for name, t in read_tensors(tmp_path / WEIGHTS).items())


@pytest.mark.parametrize(
    "changed",
    [
        {"vocab": 2**23, "width": 2**13},  # 275 GB
        {"vocab": 10**12},
        {"encoder_layers": 10**6},
        {"learned_positions": 10**9},
        {"width": "8"},
        {"width": 8.0},
        {"heads": 0},
        {"heads": 3},
        {"dropout": float("nan")},
        {"dropout": 10**400},
        {"activation": ["gelu"]},
        {"norm_first": 1},
        {"never": 5},
        {"never": [30]},
        {"mask": 10**6},
        {"mask": None},
    ],
    ids=str,
)
def test_sizes_that_no_weights_have(changed: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=str(tmp_path)):
        load_model(write_model(tmp_path, **changed))


def test_nothing_is_built_before_it_fits(tmp_path: Path) -> None:
    made = []

    def make() -> torch.nn.Linear:
        made.append(torch.nn.Linear(2**16, 2**16))
        return made[-1]

    with pytest.raises(CheckpointError, match="has the shape"):
        build(make, {"weight": torch.zeros(1, 1), "bias": torch.zeros(2**16)}, tmp_path / "x")
    assert [one.weight.device.type for one in made] == ["meta"]


def test_a_header_that_claims_too_much(tmp_path: Path) -> None:
    (tmp_path / "x.safetensors").write_bytes(struct.pack("<Q", 2**40) + b"{}")
    with pytest.raises(CheckpointError, match="its header has more than 4 MiB"):
        read_tensors(tmp_path / "x.safetensors")


@pytest.mark.parametrize("content", ["[" * 100_000, f"[{'9' * 5000}]", "null", "{}"])
def test_configurations_of_any_shape(content: str, tmp_path: Path) -> None:
    (tmp_path / CONFIG).write_text(content)
    with pytest.raises(CheckpointError, match=r"config\.json: "):
        read_config(tmp_path / CONFIG)
