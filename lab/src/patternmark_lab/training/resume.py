"""Save and restore a training: training.json and the checkpoint that it names.

A checkpoint has the step in its name. training.json names it and is written after it, so that
whenever a run is killed, the checkpoint that training.json names is complete.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from patternmark.errors import ParameterError
from patternmark.io.files import write_json, write_text
from patternmark.models.cmlm import CMLM, Config
from patternmark.models.tensor_file import CheckpointError, fill, read_json
from patternmark.translation.checkpoint import CONFIG, load_tensors
from patternmark_lab.training.saving import remove_tensors, save_tensors

STATE, LOG = "training.json", "log.jsonl"
_CHECKPOINT = re.compile(r"checkpoint-\d{8}")
_MAY_DIFFER = ("dropout",)  # settings of a network that its weights do not depend on


@dataclass(frozen=True)
class Progress:
    """The progress of a training."""

    step: int = 0
    epoch: int = 0
    batch: int = 0  # number of the next batch in this epoch
    seconds: float = 0.0  # spent on training alone
    tokens: int = 0  # of targets, seen so far


@dataclass(frozen=True)
class State:
    """The content of training.json."""

    progress: Progress
    network: Mapping[str, Any]
    settings: Mapping[str, Any]
    runs: tuple[Mapping[str, Any], ...] = field(default=())

    @property
    def checkpoint(self) -> str:
        """The name of the file with the weights and the states of the optimizers."""
        return f"checkpoint-{self.progress.step:08d}.safetensors"


def read_state(folder: Path, config: Config) -> State | None:
    """Read training.json, if the folder has one; refuse one of another network."""
    file = folder / STATE
    if not file.exists():
        if (folder / CONFIG).exists():
            raise ParameterError(
                f"{folder}: holds a model but no {STATE}, so its training cannot continue: choose "
                "another folder"
            )
        return None
    content = read_json(file)
    try:
        progress = Progress(**content["progress"])
        state = State(progress, content["network"], content["settings"], tuple(content["runs"]))
        before = dict(state.network)
    except (TypeError, KeyError, ValueError):
        raise CheckpointError(
            f"{file}: was not written by a training of this version of patternmark"
        ) from None
    now = json.loads(json.dumps(asdict(config)))
    differing = [name for name in now if name not in _MAY_DIFFER and before.get(name) != now[name]]
    if differing:
        what = ", ".join(f"{n} was {before.get(n)!r}, now {now[n]!r}" for n in differing)
        raise ParameterError(
            f"{folder}: was started with another network ({what}): use the same network, or choose "
            "another folder"
        )
    return state


def write_state(
    folder: Path, state: State, tensors: Mapping[str, Tensor], shard: int | None
) -> None:
    """Write a checkpoint and training.json, then remove older checkpoints."""
    save_tensors(folder / state.checkpoint, tensors, shard_bytes=shard)
    write_json(folder / STATE, asdict(state))
    found = (_CHECKPOINT.match(file.name) for file in folder.glob("checkpoint-*"))
    for name in {f"{match[0]}.safetensors" for match in found if match} - {state.checkpoint}:
        remove_tensors(folder / name)
    for file in folder.glob(".checkpoint-*.unfinished"):  # of runs that were killed
        file.unlink(missing_ok=True)


def pack(model: CMLM, optimizers: Iterable[Optimizer]) -> dict[str, Tensor]:
    """Return the weights, and the optimizers' states of each weight as `name/what`."""
    tensors = {name: p.detach().contiguous() for name, p in model.named_parameters()}
    name_of: dict[Tensor, str] = {p: name for name, p in model.named_parameters()}
    for optimizer in optimizers:
        for parameter, kept in optimizer.state.items():
            for what, value in kept.items():
                tensors[f"{name_of[parameter]}/{what}"] = torch.as_tensor(value).contiguous()
    return tensors


def unpack(file: Path, model: CMLM, optimizers: Iterable[Optimizer]) -> None:
    """Read what `pack` returned into a network and its optimizers."""
    tensors = load_tensors(file)
    fill(model, {name: t for name, t in tensors.items() if "/" not in name}, file)
    parameters = dict(model.named_parameters())
    owner = {p: o for o in optimizers for group in o.param_groups for p in group["params"]}
    for name, value in tensors.items():
        of, _, what = name.rpartition("/")
        if not what or not of:
            continue
        parameter = parameters.get(of)
        if parameter is None or value.shape not in (parameter.shape, torch.Size()):
            raise CheckpointError(f"{file}: tensor {name!r} does not fit the network")
        owner[parameter].state[parameter][what] = value.to(parameter.device)
    bare = [name for name, parameter in parameters.items() if not owner[parameter].state[parameter]]
    if bare:
        raise CheckpointError(f"{file}: the optimizer's state of {bare[0]!r} is missing")


def changes(before: Mapping[str, Any], settings: Any) -> list[str]:
    """Describe the settings that differ from before, except how long to train."""
    return [
        f"{name} was {before.get(name)!r}, now {getattr(settings, name)!r}"
        for name in (f.name for f in fields(settings))
        if name not in ("steps", "minutes") and before.get(name) != getattr(settings, name)
    ]


def trim_log(folder: Path, step: int) -> None:
    """Remove the log rows that a killed run wrote after its last checkpoint."""
    file = folder / LOG
    if not file.exists():
        return
    kept = []
    for line in file.read_text(encoding="utf-8").splitlines():
        try:
            if json.loads(line)["step"] <= step:
                kept.append(line + "\n")
        except (ValueError, KeyError, TypeError):
            continue  # an incomplete line
    write_text(file, "".join(kept))
