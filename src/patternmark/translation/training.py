"""Train CMLM, or its autoregressive teacher, on pairs of sentences.

A training is a folder: it begins where the folder's last checkpoint left off. The learning rate
rises over the first steps, stays, and falls to nothing over the last part of the whole training,
however many runs that takes. The whole is a number of steps or of minutes.
"""

from __future__ import annotations

import copy
import json
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from patternmark.errors import ParameterError
from patternmark.models.cmlm import CMLM, Config
from patternmark.translation.checkpoint import (
    fill,
    load_tensors,
    read_json,
    save_model,
    save_tensors,
    write_json,
)
from patternmark.translation.corpus import Corpus, Flat
from patternmark.translation.optimizer import optimizers

STATE, LOG, WEIGHTS, OPTIMIZER = (
    "training.json",
    "log.jsonl",
    "training.safetensors",
    "optimizer.safetensors",
)
_MULTIPLE = 8


@dataclass(frozen=True)
class Settings:
    """How to train."""

    steps: int = 10_000  # in all runs together; 0: as many as fit into `minutes`
    minutes: float = 0.0  # of training, in all runs together
    batch_tokens: int = 32_768  # source or target tokens, whichever are more, padding included
    lr: float = 3e-3
    weight_decay: float = 0.02
    warmup: int = 400
    decay: float = 0.4  # the last part of the steps, over which the rate falls
    label_smoothing: float = 0.1
    length_weight: float = 0.1
    seed: int = 1

    def done(self, step: int, spent: float) -> float:
        """Return which part of the training is behind, after so many steps and seconds."""
        return step / self.steps if self.steps else spent / (60.0 * self.minutes)

    def rate(self, step: int, done: float) -> float:
        """Return the learning rate of a step."""
        rising = min(1.0, (step + 1) / self.warmup)
        falling = min(1.0, max(0.0, 1.0 - done) / self.decay)
        return self.lr * min(rising, falling)


class Training:
    """A network, its optimizers, and the folder they are kept in."""

    def __init__(
        self, folder: Path, config: Config, settings: Settings, device: str = "cpu"
    ) -> None:
        self.folder, self.settings = folder, settings
        self.device = torch.device(device)
        torch.manual_seed(settings.seed)
        self.model = CMLM(config).to(self.device)
        self.step = 0
        self._spent = 0.0  # seconds, in runs before this one
        self._done = 0.0
        self._optimizers = optimizers(self.model, settings.lr, settings.weight_decay)
        self._loss = self._causal_loss if config.causal else self._masked_loss
        if (folder / STATE).exists():
            self._go_on(config)
        # On a GPU all but the sums of many small steps is done in half precision: what these
        # networks wait for is memory.
        is_gpu = self.device.type == "cuda"
        self._network = copy.deepcopy(self.model).bfloat16() if is_gpu else self.model

    def run(
        self,
        corpus: Corpus,
        *,
        minutes: float = math.inf,
        report_every: int = 100,
        report: Callable[[dict[str, float]], None] = lambda row: None,
    ) -> bool:
        """Train until all steps are done (true), or so many minutes have passed."""
        source, target = _OnDevice(corpus.source, self), _OnDevice(corpus.target, self)
        lengths = corpus.target.lengths
        began = time.monotonic()
        since, tokens = began, 0
        sums = torch.zeros(2, device=self.device)
        self._network.train()
        for rows in self._batches(corpus):
            ran = time.monotonic() - began
            self._done = self.settings.done(self.step, self._spent + ran)
            if self._done >= 1.0 or ran > 60.0 * minutes:
                break
            sums += self._learn(source.padded(rows), target.padded(rows), lengths[rows])
            tokens += int(lengths[rows].sum())
            self.step += 1
            if self.step % report_every == 0:
                loss, length_loss = (sums / report_every).tolist()  # waits for the device
                now = time.monotonic()
                row = {
                    "step": self.step,
                    "done": round(self._done, 4),
                    "loss": round(loss, 4),
                    "length_loss": round(length_loss, 4),
                    "tokens_per_second": round(tokens / (now - since)),
                }
                if not math.isfinite(loss):
                    raise ParameterError(f"the loss is no number at step {self.step}: lower --lr")
                self.log(row)
                report(row)
                since, tokens = now, 0
                sums.zero_()
        self._spent += time.monotonic() - began
        self._network.eval()
        return self._done >= 1.0

    def _batches(self, corpus: Corpus) -> Iterator[NDArray[np.int64]]:
        while True:
            # Which batches follow depends on the step alone: a resumed run sees new ones.
            rng = np.random.default_rng([self.settings.seed, self.step])
            yield from corpus.batches(self.settings.batch_tokens, rng)

    def _learn(self, source: Tensor, target: Tensor, lengths: NDArray[np.int64]) -> Tensor:
        for optimizer in self._optimizers:
            for group in optimizer.param_groups:
                group["lr"] = self.settings.rate(self.step, self._done)
        loss, length_loss = self._loss(source, target, lengths)
        (loss + self.settings.length_weight * length_loss).backward()
        own, used = list(self.model.parameters()), list(self._network.parameters())
        if self._network is not self.model:
            for parameter, half in zip(own, used, strict=True):
                parameter.grad, half.grad = None if half.grad is None else half.grad.float(), None
        torch.nn.utils.clip_grad_norm_(own, 1.0)
        for optimizer in self._optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        if self._network is not self.model:
            with torch.no_grad():
                torch._foreach_copy_(used, own)
        return torch.stack([loss.detach(), length_loss.detach()]).float()

    def _masked_loss(
        self, source: Tensor, target: Tensor, lengths: NDArray[np.int64]
    ) -> tuple[Tensor, Tensor]:
        """Mask a random number of random tokens, and ask for them."""
        config = self.model.config
        # The numbers are drawn here, so that the device need not be waited for.
        wanted = 1 + (np.random.default_rng(self.step).random(len(lengths)) * lengths).astype(int)
        real = target != config.pad
        rank = torch.rand(target.shape, device=self.device).masked_fill(~real, 2.0).argsort(dim=1)
        limit = torch.from_numpy(wanted[:, None]).to(self.device, non_blocking=True)
        masked = rank.argsort(dim=1) < limit
        at = _places(masked, int(wanted.sum()))
        states, log_lengths = self._network(source, target.masked_fill(masked, config.mask))
        classes = self.model.length_class(real.sum(dim=1), (source != config.pad).sum(dim=1))
        return self._entropy(states[at], target[at]), F.nll_loss(log_lengths, classes)

    def _causal_loss(
        self, source: Tensor, target: Tensor, lengths: NDArray[np.int64]
    ) -> tuple[Tensor, Tensor]:
        """Ask for every token from those before it, and for the end."""
        config = self.model.config
        seen = F.pad(target, (1, 0), value=config.begin)
        real = seen != config.pad
        labels = F.pad(target, (0, 1), value=config.pad)
        labels = labels.masked_fill(labels == config.pad, config.end)
        at = _places(real, int(lengths.sum()) + len(lengths))
        states, _ = self._network(source, seen)
        return self._entropy(states[at], labels[at]), torch.zeros((), device=self.device)

    def _entropy(self, states: Tensor, labels: Tensor) -> Tensor:
        """Return the loss of the decoder's states [M, D] where `labels` [M] are wanted."""
        return F.cross_entropy(
            self._network.logits(states).float(),
            labels,
            label_smoothing=self.settings.label_smoothing,
        )

    def log(self, row: dict[str, Any]) -> None:
        """Add a line to the folder's log."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / LOG).open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(row) + "\n")

    def save(self, shard_bytes: int | None = None) -> None:
        """Write the network for use, and all that a later run goes on from."""
        save_model(self.folder, self.model, shard_bytes=shard_bytes)
        names = {parameter: name for name, parameter in self.model.named_parameters()}
        kept = {}
        for optimizer in self._optimizers:
            for parameter, state in optimizer.state.items():
                for field, value in state.items():
                    kept[f"{names[parameter]}/{field}"] = torch.as_tensor(value).contiguous()
        weights = {name: p.detach().contiguous() for name, p in self.model.named_parameters()}
        save_tensors(self.folder / OPTIMIZER, kept, shard_bytes=shard_bytes)
        save_tensors(self.folder / WEIGHTS, weights, shard_bytes=shard_bytes)
        content = {
            "step": self.step,
            "seconds": round(self._spent, 1),
            "settings": asdict(self.settings),
        }
        write_json(self.folder / STATE, content)  # last: what it names is there

    def _go_on(self, config: Config) -> None:
        content = read_json(self.folder / STATE)
        self.step, self._spent = int(content["step"]), float(content["seconds"])
        fill(self.model, load_tensors(self.folder / WEIGHTS), self.folder / WEIGHTS)
        if self.model.config != config:
            raise ParameterError(f"{self.folder}: was begun with another network")
        kept = load_tensors(self.folder / OPTIMIZER)
        parameters = dict(self.model.named_parameters())
        where = {p: o for o in self._optimizers for g in o.param_groups for p in g["params"]}
        for name, value in kept.items():
            parameter = parameters[name.rpartition("/")[0]]
            field = name.rpartition("/")[2]
            state = where[parameter].state[parameter]
            state[field] = value.to(self.device)


def _places(marks: Tensor, number: int) -> tuple[Tensor, ...]:
    """Return the index of the `number` marked places of [B, L]."""
    return torch.nonzero_static(marks, size=number).unbind(1)


class _OnDevice:
    """Token ids on the device: batches are put together there."""

    def __init__(self, flat: Flat, training: Training) -> None:
        self._device = training.device
        self._ids = torch.from_numpy(flat.ids).to(self._device)
        self._starts, self._lengths = flat.starts, flat.lengths
        self._pad = training.model.config.pad

    def padded(self, rows: NDArray[np.int64]) -> Tensor:
        """Return the ids of rows, padded on the right: [B, L]."""
        lengths = self._lengths[rows]
        longest = -(-int(lengths.max()) // _MULTIPLE) * _MULTIPLE
        place = self._on_device(self._starts[rows]) + torch.arange(longest, device=self._device)
        inside = torch.arange(longest, device=self._device) < self._on_device(lengths)
        found = self._ids[place.clamp(max=len(self._ids) - 1)]
        return found.masked_fill(~inside, self._pad).long()

    def _on_device(self, column: NDArray[np.int64]) -> Tensor:
        return torch.from_numpy(column[:, None]).to(self._device, non_blocking=True)
