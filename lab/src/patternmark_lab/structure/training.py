"""Train the predictor of secondary structure, and measure it on families that it never saw.

The settings suit a few minutes on a GPU. The folder holds the network (a running mean of its
weights) with the best accuracy on the validation chains so far.
"""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from patternmark import __version__
from patternmark.core.alphabet import PROTEIN
from patternmark.errors import InputError
from patternmark.io.files import make_folder, write_json
from patternmark.models.device import device_name
from patternmark.models.weights import file_sha256
from patternmark.quality.predictor import (
    CONFIG,
    PAD,
    WEIGHTS,
    PredictorConfig,
    StructureNet,
    StructurePredictor,
    batches,
    three_sums,
)
from patternmark.quality.states import STATES, THREE_STATES, three_states
from patternmark_lab.structure.chains import PARTS, Chain
from patternmark_lab.training.optimizer import optimizers
from patternmark_lab.training.saving import put_tensors

LOG = "log.jsonl"
_RESAMPLES = 1000
_UNKNOWN = PROTEIN.size - 1
_IGNORED = -100  # label for places after the end of a chain, which cross_entropy ignores
_LENGTH_MULTIPLE = 32  # residues; batches are padded to it, so that few shapes occur


@dataclass(frozen=True)
class Settings:
    """How to train the predictor."""

    minutes: float = 1.4
    batch_residues: int = 65_536  # padding included
    lr: float = 3e-3
    weight_decay: float = 0.05
    warmup: int = 100  # steps
    decay: float = 0.6  # share of the training, at its end, in which the learning rate falls
    masked: float = 0.1  # share of letters that are hidden, so that no single letter decides
    longest: int = 768  # residues; longer chains are cut, at a new place each time
    mean_steps: int = 200  # steps over which the weights are averaged
    checks: int = 12  # measurements on the validation chains, at equal intervals
    seed: int = 1
    steps: int = 0  # if not 0, train this many steps, whatever time they take

    def done(self, step: int, seconds: float) -> float:
        """Return the share of the training that is done after these steps and seconds."""
        return step / self.steps if self.steps else seconds / (60.0 * self.minutes)

    def rate(self, step: int, done: float) -> float:
        """Return the learning rate of a step; `done` is the share of the training before it."""
        return self.lr * min(1.0, (step + 1) / self.warmup, max(0.0, 1.0 - done) / self.decay)


def train(
    folder: Path,
    chains: Sequence[Chain],
    config: PredictorConfig,
    settings: Settings,
    device: str,
    report: Callable[[dict[str, Any], float], object] = lambda row, done: None,
) -> StructurePredictor:
    """Train as long as the settings say; return the best network, which is also in the folder."""
    learned = [chain for chain in chains if chain.part == "train"]
    kept = [chain for chain in chains if chain.part == "valid"]
    if not learned or not kept:
        raise InputError(
            "training needs chains of both parts 'train' and 'valid': prepare the data"
        )
    make_folder(folder)
    (folder / LOG).unlink(missing_ok=True)
    torch.manual_seed(settings.seed)
    network = StructureNet(config).to(device)
    run = _Run(network, settings)
    data = _OnDevice(learned, device)
    rng = np.random.default_rng(settings.seed)
    began, best, checked = time.monotonic(), -1.0, 0
    losses: list[Tensor] = []
    for batch in data.batches(settings, rng):
        losses.append(run.learn(*batch, settings.done(run.step, time.monotonic() - began)))
        done = settings.done(run.step, time.monotonic() - began)
        over = done >= 1.0
        if over or done * settings.checks >= checked + 1:
            checked += 1
            q3 = accuracy(StructurePredictor(run.mean), kept)["q3"]
            row = {
                "step": run.step,
                "seconds": round(time.monotonic() - began, 1),
                "loss": round(float(torch.stack(losses).mean()), 4),
                "valid_q3": round(q3, 4),
            }
            losses = []
            with (folder / LOG).open("a", encoding="utf-8") as stream:
                stream.write(json.dumps(row) + "\n")
            report(row, min(1.0, done))
            if q3 > best:
                best = q3
                save_network(folder, run.mean)
        if over:
            break
    return StructurePredictor.load(folder, device)


class _Run:
    """A network, its optimizers, and the running mean of its weights."""

    def __init__(self, network: StructureNet, settings: Settings) -> None:
        self._network, self._settings, self.step = network.train(), settings, 0
        self.mean = copy.deepcopy(network).eval()
        self._optimizers = optimizers(network, settings.lr, settings.weight_decay)
        self._is_gpu = network.output.weight.is_cuda

    def learn(self, letters: Tensor, states: Tensor, done: float) -> Tensor:
        """Take one step; return its loss as a tensor, without waiting for the device."""
        hidden = torch.rand(letters.shape, device=letters.device) < self._settings.masked
        seen = letters.masked_fill(hidden & (letters != PAD), _UNKNOWN)
        with torch.autocast(letters.device.type, torch.bfloat16, enabled=self._is_gpu):
            logits = self._network(seen)
        loss = functional.cross_entropy(
            logits.float().flatten(0, 1), states.flatten(), ignore_index=_IGNORED
        )
        torch.autograd.backward(loss)
        torch.nn.utils.clip_grad_norm_(self._network.parameters(), 1.0)
        for optimizer in self._optimizers:
            for group in optimizer.param_groups:
                group["lr"] = self._settings.rate(self.step, done)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        self.step += 1
        share = 1.0 / min(self.step, self._settings.mean_steps)
        with torch.no_grad():
            means, own = tuple(self.mean.parameters()), tuple(self._network.parameters())
            torch._foreach_lerp_(means, own, share)
        return loss.detach()


class _OnDevice:
    """All chains on the device, where batches are put together."""

    def __init__(self, chains: Sequence[Chain], device: str) -> None:
        lengths = np.array([len(chain.sequence) for chain in chains])
        self._starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
        self._lengths = lengths
        letters = PROTEIN.encode("".join(chain.sequence for chain in chains))
        number = np.full(128, 0, dtype=np.int64)
        number[[ord(state) for state in STATES]] = np.arange(len(STATES))
        dssp = "".join(chain.dssp for chain in chains)
        states = number[np.frombuffer(dssp.encode("ascii"), dtype=np.uint8)]
        self._letters = torch.from_numpy(letters.astype(np.int16)).to(device)
        self._states = torch.from_numpy(states.astype(np.int16)).to(device)
        self._device = device

    def batches(
        self, settings: Settings, rng: np.random.Generator
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield letters and states [B, L] without end, all chains once in each round."""
        lengths = np.minimum(self._lengths, settings.longest)
        while True:
            # Noise on the lengths puts a chain together with other chains in each round.
            order = np.argsort(lengths * rng.uniform(0.95, 1.05, len(lengths)))
            found = [order[b] for b in batches(lengths[order].tolist(), settings.batch_residues)]
            for i in rng.permutation(len(found)):
                yield self._batch(found[i], lengths[found[i]], rng)

    def _batch(
        self, rows: NDArray[np.int64], lengths: NDArray[np.int64], rng: np.random.Generator
    ) -> tuple[Tensor, Tensor]:
        cut = rng.integers(0, self._lengths[rows] - lengths + 1)
        longest = -(-int(lengths.max()) // _LENGTH_MULTIPLE) * _LENGTH_MULTIPLE
        starts = torch.from_numpy((self._starts[rows] + cut)[:, None]).to(self._device)
        steps = torch.arange(longest, device=self._device)
        inside = steps < torch.from_numpy(lengths[:, None]).to(self._device)
        place = (starts + steps).clamp(max=len(self._letters) - 1)
        letters = self._letters[place].long().masked_fill(~inside, PAD)
        return letters, self._states[place].long().masked_fill(~inside, _IGNORED)


def accuracy(
    predictor: StructurePredictor, chains: Sequence[Chain], *, resamples: int = 0, seed: int = 0
) -> dict[str, Any]:
    """Return the share of residues with the right state, of three (Q3) and of eight (Q8).

    `per_chain` is the mean over chains of each chain's share. `inner` leaves out the coil at both
    ends of each chain, because residues that were not seen in the crystal are called coil. The
    95 % intervals come from a bootstrap over families.
    """
    found = predictor.probabilities([chain.sequence for chain in chains])
    counts = np.array(
        [_counts(chain, shares) for chain, shares in zip(chains, found, strict=True)]
    )  # [n, 5]: residues, right of three, right of eight, inner residues, of these right of three
    per_chain = counts[:, 1] / counts[:, 0]

    def figures(rows: NDArray[np.int64]) -> dict[str, float]:
        total = counts[rows].sum(axis=0)
        return {
            "q3": float(total[1] / total[0]),
            "q3_per_chain": float(per_chain[rows].mean()),
            "q3_inner": float(total[4] / max(1, total[3])),
            "q8": float(total[2] / total[0]),
        }

    result: dict[str, Any] = figures(np.arange(len(chains)))
    families = np.array([chain.family for chain in chains])
    result |= {
        "chains": len(chains),
        "residues": int(counts[:, 0].sum()),
        "families": len(set(families.tolist())),
    }
    if resamples:
        result["intervals"] = _bootstrap(families, figures, resamples, seed)
    return result


def _counts(chain: Chain, shares: NDArray[np.float32]) -> list[int]:
    eight = np.array([STATES.index(state) for state in chain.dssp])
    three = np.array([THREE_STATES.index(state) for state in three_states(chain.dssp)])
    right = three_sums(shares).argmax(axis=-1) == three
    structured = np.flatnonzero(eight != STATES.index("L"))
    inner = slice(structured[0], structured[-1] + 1) if structured.size else slice(0, 0)
    right_of_eight = int((shares.argmax(axis=-1) == eight).sum())
    return [
        len(right),
        int(right.sum()),
        right_of_eight,
        len(right[inner]),
        int(right[inner].sum()),
    ]


def _bootstrap(
    families: NDArray[np.int64],
    figures: Callable[[NDArray[np.int64]], dict[str, float]],
    resamples: int,
    seed: int,
) -> dict[str, list[float]]:
    rng = np.random.default_rng(seed)
    members = [np.flatnonzero(families == family) for family in np.unique(families)]
    drawn = [
        figures(np.concatenate([members[i] for i in rng.integers(0, len(members), len(members))]))
        for _ in range(resamples)
    ]
    return {
        name: [round(float(q), 4) for q in np.quantile([d[name] for d in drawn], [0.025, 0.975])]
        for name in drawn[0]
    }


def card_facts(
    chains: Sequence[Chain], settings: Settings, predictor: StructurePredictor, folder: Path
) -> dict[str, Any]:
    """Return the facts of the model card: the network, its training and its test."""
    parts = {
        part: {
            "chains": sum(c.part == part for c in chains),
            "families": len({c.family for c in chains if c.part == part}),
            "residues": sum(len(c.sequence) for c in chains if c.part == part),
        }
        for part in PARTS
    }
    test = [chain for chain in chains if chain.part == "test"]
    rows = (folder / LOG).read_text(encoding="utf-8").splitlines()
    return {
        "patternmark": __version__,
        "weights_sha256": file_sha256(folder / WEIGHTS),
        "network": asdict(predictor.network.config),
        "parameters": sum(p.numel() for p in predictor.network.parameters()),
        "settings": asdict(settings),
        "steps": json.loads(rows[-1])["step"],
        "device": device_name(predictor.network.output.weight.device),
        "parts": parts,
        "test": accuracy(predictor, test, resamples=_RESAMPLES) if test else None,
    }


def save_network(folder: Path, network: StructureNet) -> None:
    """Write a network's sizes and its weights in half precision."""
    make_folder(folder)
    write_json(folder / CONFIG, asdict(network.config))
    halves = {name: part.half().contiguous() for name, part in network.state_dict().items()}
    put_tensors(folder / WEIGHTS, halves)
