"""Train CMLM, or its autoregressive teacher, on pairs of sentences.

A training lives in a folder and continues from the folder's last checkpoint. Its length is a number
of steps or of minutes. The learning rate rises over the first steps, stays, and falls to 0 over the
last part of the whole training, which may take several runs. The data and random numbers of a step
depend only on the seed and the step: on a CPU, a training in several runs ends with the same
weights as one in a single run.
"""

from __future__ import annotations

import contextlib
import copy
import json
import logging
import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from patternmark.errors import PatternmarkError
from patternmark.io.files import make_folder
from patternmark.models.cmlm import CMLM, Config
from patternmark.translation.decode import MULTIPLE
from patternmark_lab.training.corpus import Corpus, Flat
from patternmark_lab.training.optimizer import optimizers
from patternmark_lab.training.resume import (
    LOG,
    Progress,
    State,
    changes,
    pack,
    read_state,
    trim_log,
    unpack,
    write_state,
)
from patternmark_lab.training.saving import check_shards, save_model

_REPORT_EVERY = 100  # steps

_log = logging.getLogger("patternmark.lab")  # below patternmark: --verbose shows it


@dataclass(frozen=True)
class Settings:
    """How to train a translator."""

    steps: int = 10_000  # in all runs together; 0: as many as fit into `minutes`
    minutes: float = 0.0  # of training, in all runs together
    batch_tokens: int = 32_768  # source or target tokens, whichever is more, padding included
    lr: float = 3e-3
    weight_decay: float = 0.02
    warmup: int = 400
    decay: float = 0.4  # share of the training, at its end, in which the learning rate falls
    label_smoothing: float = 0.1
    length_weight: float = 0.1
    seed: int = 1

    def done(self, step: int, seconds: float) -> float:
        """Return the share of the training that is done after these steps and seconds."""
        return step / self.steps if self.steps else seconds / (60.0 * self.minutes)

    def rate(self, step: int, done: float) -> float:
        """Return the learning rate of a step."""
        rising = min(1.0, (step + 1) / self.warmup)
        falling = min(1.0, max(0.0, 1.0 - done) / self.decay)
        return self.lr * min(rising, falling)


@dataclass(frozen=True)
class Until:
    """When a single run ends, and how often it saves."""

    minutes: float = math.inf
    save_every: float = math.inf  # minutes
    stop: Callable[[], bool] = lambda: False  # called after every step


class Training:
    """A network, its optimizers, and the folder that they are saved in."""

    def __init__(
        self,
        folder: Path,
        config: Config,
        settings: Settings,
        device: str = "cpu",
        shard_bytes: int | None = None,
    ) -> None:
        self.folder, self.settings, self._shard_bytes = folder, settings, shard_bytes
        self.device = torch.device(device)
        state = read_state(folder, config)
        with self._own_chance():
            torch.manual_seed(settings.seed)
            self.model = CMLM(config).to(self.device)
        check_shards(dict(self.model.named_parameters()), shard_bytes)
        self._optimizers = optimizers(self.model, settings.lr, settings.weight_decay)
        self.progress = Progress()
        self.runs: list[dict[str, Any]] = []
        self.changes: list[str] = []  # settings that differ from the run before
        if state is not None:
            unpack(folder / state.checkpoint, self.model, self._optimizers)
            self.progress, self.runs = state.progress, [dict(run) for run in state.runs]
            self.changes = changes(state.settings, settings)
            trim_log(folder, self.step)
        self._loss = self._causal_loss if config.causal else self._masked_loss
        # On a GPU only the weights are kept in full precision, for sums of many small steps. All
        # else is done in half precision, because memory limits the speed of these networks.
        is_gpu = self.device.type == "cuda"
        self._network = copy.deepcopy(self.model).bfloat16() if is_gpu else self.model

    @property
    def step(self) -> int:
        """The number of steps done."""
        return self.progress.step

    @property
    def done(self) -> float:
        """The share of the training that is done."""
        return self.settings.done(self.step, self.progress.seconds)

    def run(
        self,
        corpus: Corpus,
        until: Until = Until(),  # noqa: B008  # frozen
        *,
        about: Mapping[str, Any] | None = None,
        report: Callable[[dict[str, float]], object] = lambda row: None,
        progress: Callable[[float], object] = lambda done: None,
    ) -> bool:
        """Train until the training is done or this run must end, then save; return if it is done.

        `about` is kept in training.json with the run's first and last step.
        """
        source, target = _OnDevice(corpus.source, self), _OnDevice(corpus.target, self)
        lengths = corpus.target.lengths
        batches = self._batches(corpus)
        self.runs.append({"from": self.step, "to": self.step, "minutes": 0.0, **(about or {})})
        sums = _Sums(self.device)
        last = saved = began = time.monotonic()
        self._network.train()
        with self._own_chance():
            while self.done < 1.0 and last - began < 60.0 * until.minutes and not until.stop():
                rows = next(batches)
                losses = self._learn(source.padded(rows), target.padded(rows), lengths[rows])
                sums.add(losses, tokens := int(lengths[rows].sum()))
                now = time.monotonic()
                self._count(tokens, now - last)
                last = now
                progress(self.done)
                if self.step % _REPORT_EVERY == 0:
                    self._report(sums, report)
                # The last save waits for its row of the log: nothing would write it after a kill.
                if now - saved > 60.0 * until.save_every and self.done < 1.0:
                    self.save()
                    last = saved = time.monotonic()
        self._network.eval()
        if sums.steps:
            self._report(sums, report)
        self.save()
        return self.done >= 1.0

    def _count(self, tokens: int, seconds: float) -> None:
        before = self.progress
        self.progress = replace(
            before,
            step=before.step + 1,
            tokens=before.tokens + tokens,
            seconds=before.seconds + seconds,
        )
        run = self.runs[-1]
        run["to"], run["minutes"] = self.step, run["minutes"] + seconds / 60.0

    def _batches(self, corpus: Corpus) -> Iterator[NDArray[np.int64]]:
        """Yield the next batches of the training, and count each one."""
        while True:
            epoch = self.progress.epoch
            rng = np.random.default_rng([self.settings.seed, epoch])
            batches = corpus.batches(self.settings.batch_tokens, rng)
            for number in range(self.progress.batch, len(batches)):
                self.progress = replace(self.progress, batch=number + 1)
                yield batches[number]
            self.progress = replace(self.progress, epoch=epoch + 1, batch=0)

    @contextlib.contextmanager
    def _own_chance(self) -> Iterator[None]:
        """Restore torch's random state afterwards, so that other code is not affected."""
        devices = [torch.cuda.current_device()] if self.device.type == "cuda" else []
        with torch.random.fork_rng(devices=devices):
            yield

    def _learn(self, source: Tensor, target: Tensor, lengths: NDArray[np.int64]) -> Tensor:
        """Take one step; return the loss and the loss of lengths: [2]."""
        torch.manual_seed((self.settings.seed << 32) + self.step)
        rate = self.settings.rate(self.step, self.done)
        loss, length_loss = self._loss(source, target, lengths)
        torch.autograd.backward(loss + self.settings.length_weight * length_loss)
        own = list(self.model.parameters())
        if self._network is not self.model:
            self._take_gradients(own)
        torch.nn.utils.clip_grad_norm_(own, 1.0)
        for optimizer in self._optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate
            optimizer.step()
        self._network.zero_grad(set_to_none=True)
        if self._network is not self.model:
            with torch.no_grad():
                torch._foreach_copy_(tuple(self._network.parameters()), tuple(own))
        return torch.stack([loss.detach(), length_loss.detach()])

    def _take_gradients(self, own: list[nn.Parameter]) -> None:
        """Copy the gradients of the half-precision network, all in one call."""
        halves = zip(own, self._network.parameters(), strict=True)
        learned = [(parameter, half.grad) for parameter, half in halves if half.grad is not None]
        for parameter, _ in learned:
            if parameter.grad is None:
                parameter.grad = torch.empty_like(parameter)
        gradients = [parameter.grad for parameter, _ in learned if parameter.grad is not None]
        torch._foreach_copy_(gradients, [gradient for _, gradient in learned])

    def _masked_loss(
        self, source: Tensor, target: Tensor, lengths: NDArray[np.int64]
    ) -> tuple[Tensor, Tensor]:
        """Return the loss on masked tokens, a random number of them at random places."""
        config = self.model.config
        # The numbers are drawn on the host, which then need not wait for the device.
        rng = np.random.default_rng([self.settings.seed, self.step])
        wanted = 1 + (rng.random(len(lengths)) * lengths).astype(int)
        real = target != config.pad
        rank = torch.rand(target.shape, device=self.device).masked_fill(~real, 2.0).argsort(dim=1)
        limit = torch.from_numpy(wanted[:, None]).to(self.device, non_blocking=True)
        masked = rank.argsort(dim=1) < limit
        at = _places(masked, int(wanted.sum()))
        states, log_lengths = self._network(source, target.masked_fill(masked, config.mask))
        classes = self.model.length_class(real.sum(dim=1), (source != config.pad).sum(dim=1))
        return self._entropy(states[at], target[at]), functional.nll_loss(log_lengths, classes)

    def _causal_loss(
        self, source: Tensor, target: Tensor, lengths: NDArray[np.int64]
    ) -> tuple[Tensor, Tensor]:
        """Return the loss on every token and the end, each predicted from the tokens before."""
        config = self.model.config
        seen = functional.pad(target, (1, 0), value=config.begin)
        real = seen != config.pad
        labels = functional.pad(target, (0, 1), value=config.pad)
        labels = labels.masked_fill(labels == config.pad, config.end)
        at = _places(real, int(lengths.sum()) + len(lengths))
        states, _ = self._network(source, seen)
        return self._entropy(states[at], labels[at]), torch.zeros((), device=self.device)

    def _entropy(self, states: Tensor, labels: Tensor) -> Tensor:
        """Return the loss of the decoder's states [M, D] for `labels` [M]."""
        return functional.cross_entropy(
            self._network.logits(states).float(),
            labels,
            label_smoothing=self.settings.label_smoothing,
        )

    def _report(self, sums: _Sums, report: Callable[[dict[str, float]], object]) -> None:
        row = {"step": self.step, "done": round(self.done, 4), **sums.means()}
        self._check_finite(row["loss"])
        _log.info(", ".join(f"{name} {value:,}" for name, value in row.items()))
        self.log(row)
        report(row)

    def _check_finite(self, *values: float) -> None:
        if not all(map(math.isfinite, values)):
            raise PatternmarkError(
                f"the loss is not a number at step {self.step}: run again with a lower learning "
                "rate, which continues from the last checkpoint"
            )

    def log(self, row: Mapping[str, Any]) -> None:
        """Add a line to the folder's log."""
        make_folder(self.folder)
        with (self.folder / LOG).open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(row) + "\n")

    def save(self) -> None:
        """Write the network for use, and the state that a later run continues from."""
        # Broken weights must not replace good ones.
        norms = torch._foreach_norm([p.detach() for p in self.model.parameters()])
        self._check_finite(*torch.stack(norms).tolist())
        if not self.step:
            return
        make_folder(self.folder)
        network, settings = asdict(self.model.config), asdict(self.settings)
        state = State(self.progress, network, settings, tuple(self.runs))
        # In this order: a folder with a network and no state could not be continued.
        write_state(self.folder, state, pack(self.model, self._optimizers), self._shard_bytes)
        save_model(self.folder, self.model, shard_bytes=self._shard_bytes)
        _log.info("saved step %d in %s", self.step, self.folder)


def _places(marks: Tensor, number: int) -> tuple[Tensor, ...]:
    """Return the index of the `number` marked places of [B, L]."""
    return torch.nonzero_static(marks, size=number).unbind(1)


class _Sums:
    """Losses and tokens since the last report."""

    def __init__(self, device: torch.device) -> None:
        self._losses = torch.zeros(2, device=device)
        self.steps, self._tokens, self._since = 0, 0, time.monotonic()

    def add(self, losses: Tensor, tokens: int) -> None:
        self._losses += losses
        self.steps += 1
        self._tokens += tokens

    def means(self) -> dict[str, float]:
        """Return the means and start new sums; waits for the device."""
        loss, length_loss = (self._losses / self.steps).tolist()
        now = time.monotonic()
        speed = self._tokens / max(now - self._since, 1e-9)
        self._losses.zero_()
        self.steps, self._tokens, self._since = 0, 0, now
        return {
            "loss": round(loss, 4),
            "length_loss": round(length_loss, 4),
            "tokens_per_second": round(speed),
        }


class _OnDevice:
    """Token ids on the device, where batches are put together."""

    def __init__(self, flat: Flat, training: Training) -> None:
        self._device = training.device
        self._ids = torch.from_numpy(flat.ids).to(self._device)
        self._starts, self._lengths = flat.starts, flat.lengths
        self._pad = training.model.config.pad

    def padded(self, rows: NDArray[np.int64]) -> Tensor:
        """Return the ids of rows, padded on the right: [B, L]."""
        lengths = self._lengths[rows]
        longest = -(-int(lengths.max()) // MULTIPLE) * MULTIPLE
        place = self._on_device(self._starts[rows]) + torch.arange(longest, device=self._device)
        inside = torch.arange(longest, device=self._device) < self._on_device(lengths)
        found = self._ids[place.clamp(max=len(self._ids) - 1)]
        return found.masked_fill(~inside, self._pad).long()

    def _on_device(self, column: NDArray[np.int64]) -> Tensor:
        return torch.from_numpy(column[:, None]).to(self._device, non_blocking=True)
