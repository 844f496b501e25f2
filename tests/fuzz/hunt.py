"""The loop of `scripts/fuzz`: workers for all targets, what they find, and how to see it again."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from tests.fuzz.targets import Target
from tests.fuzz.worker import CURRENT, saved

CLONE = Path(__file__).parent.parent.parent
PATHS = (".", "src", "lab/src", "models/src")
_SILENT = 30  # times its limit, without a word: a worker hangs in code that is not Python
_STARTING = 300.0  # seconds, before the first input
_PROGRESS_EVERY = 30.0  # seconds


@dataclass
class Plan:
    """How long to look, where, and with what."""

    seed: str = field(default_factory=lambda: secrets.token_hex(4))
    processes: int = 1
    engine: str = "plain"
    finds: Path = Path("fuzz-finds")
    minutes: float | None = None
    inputs: int | None = None

    def limits(self, target: Target, targets: list[Target]) -> tuple[int, float]:
        """Return how many inputs a target gets, and how many seconds.

        Inputs are shared out by `share`, as some readers are slow; time is shared out evenly.
        """
        if self.inputs is not None:
            total = sum(one.share for one in targets)
            return -(-self.inputs * target.share // total), float("inf")
        assert self.minutes is not None
        return 2**62, 60.0 * self.minutes * self.processes / len(targets)


@dataclass
class Tally:
    """What happened on one target."""

    inputs: int = 0
    seconds: float = 0.0
    kinds: Counter[str] = field(default_factory=Counter)


class _Worker:
    """A process that tries inputs on a target, until its time or its inputs are used up."""

    def __init__(self, target: Target, plan: Plan, targets: list[Target]) -> None:
        self.target, self._plan, self.tally = target, plan, Tally()
        self._inputs, self._seconds = plan.limits(target, targets)
        place = "/dev/shm" if Path("/dev/shm").is_dir() else None
        self._folder = tempfile.TemporaryDirectory(prefix="patternmark-fuzz-", dir=place)
        self._begin()

    def _begin(self) -> None:
        self._before, self._rest = self.tally.inputs, b""
        self._started: float | None = None
        self._heard = time.monotonic()
        words = [
            *(self.target.name, "--folder", self._folder.name, "--finds", self._plan.finds),
            *("--seed", self._plan.seed, "--first", self.tally.inputs),
            *("--inputs", self._inputs - self.tally.inputs),
            *("--seconds", self._seconds - self.tally.seconds, "--engine", self._plan.engine),
        ]
        paths = [*(str(CLONE / part) for part in PATHS), os.environ.get("PYTHONPATH", "")]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)),
                       "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}  # fmt: skip
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.fuzz.worker", *map(str, words)],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment, cwd=Path.cwd(),
        )  # fmt: skip
        assert self.process.stdout is not None
        os.set_blocking(self.process.stdout.fileno(), False)

    def listen(self) -> None:
        """Take what the worker has said."""
        assert self.process.stdout is not None
        said = self.process.stdout.read() or b""
        if said:
            self._heard = time.monotonic()
        *lines, self._rest = (self._rest + said).split(b"\n")
        for line in lines:
            with contextlib.suppress(ValueError):
                self._take(json.loads(line))

    def _take(self, row: dict[str, object]) -> None:
        if "started" in row:
            self._started = time.monotonic()
        if "done" in row:
            self.tally.inputs = self._before + int(str(row["done"]))
        if "find" in row:
            self._note(str(row["find"]), str(row["details"]), str(row["file"]))

    def _note(self, kind: str, details: str, file: str) -> None:
        self.tally.kinds[kind] += 1
        if self.tally.kinds[kind] == 1:
            again = f"{Path(sys.argv[0])} --target {self.target.name} --replay {file}"
            found = f"FOUND in {self.target.name}: {kind}\n{details.rstrip()}"
            print(f"\n{found}\nagain: {again}\n", flush=True)

    @property
    def is_over(self) -> bool:
        """Whether the target is done; a worker that died or hangs is replaced."""
        silence = time.monotonic() - self._heard
        if self.process.poll() is None and silence > self._patience:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
            self._died(f"hangs: no word for {silence:.0f} s")
        elif self.process.poll() is None:
            return False
        else:
            self.listen()
            if self.process.returncode not in (0, None):
                self._died(f"the process ended with status {self.process.returncode}")
        if self._started is not None:
            self.tally.seconds += time.monotonic() - self._started
        is_done = self.process.returncode == 0
        if is_done or self._started is None or self.tally.inputs >= self._inputs:
            self._folder.cleanup()
            return True
        self.tally.inputs += 1  # the one that it died of
        self._begin()
        return False

    @property
    def _patience(self) -> float:
        return _SILENT * self.target.seconds if self._started else _STARTING

    def _died(self, kind: str) -> None:
        current = Path(self._folder.name) / CURRENT
        content = current.read_bytes() if current.exists() else b""
        self._note(kind, "", str(saved(self._plan.finds, self.target.name, content)))

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
        self._folder.cleanup()


def hunt(targets: list[Target], plan: Plan) -> dict[str, Tally]:
    """Try inputs on all targets; print what is found, and return what was done."""
    waiting, running, over = list(targets), list[_Worker](), dict[str, Tally]()
    said = time.monotonic()
    try:
        while waiting or running:
            while waiting and len(running) < plan.processes:
                running.append(_Worker(waiting.pop(0), plan, targets))
            _wait(running)
            for worker in list(running):
                worker.listen()
                if worker.is_over:
                    running.remove(worker)
                    over[worker.target.name] = worker.tally
                    print(_line(worker.target.name, worker.tally), flush=True)
            if time.monotonic() - said > _PROGRESS_EVERY:
                said = time.monotonic()
                done = sum(t.inputs for t in (*over.values(), *(w.tally for w in running)))
                now = ", ".join(f"{w.target.name} at {w.tally.inputs:,}" for w in running)
                print(f"  {done:,} inputs; {now}", flush=True)
    finally:
        for worker in running:
            worker.stop()
            over[worker.target.name] = worker.tally
    return over


def _wait(running: list[_Worker]) -> None:
    with selectors.DefaultSelector() as selector:
        for worker in running:
            if worker.process.stdout is not None:
                selector.register(worker.process.stdout, selectors.EVENT_READ)
        selector.select(timeout=1.0)
    time.sleep(0.05)


def _line(name: str, tally: Tally) -> str:
    kinds = f"{len(tally.kinds)} kinds of finds" if tally.kinds else "nothing found"
    return f"{name:<20} {tally.inputs:>10,} inputs {tally.seconds:>8.0f} s   {kinds}"


def summary(tallies: dict[str, Tally]) -> str:
    """Return a table of what was done."""
    total = Tally(sum(t.inputs for t in tallies.values()), sum(t.seconds for t in tallies.values()))
    for name, tally in tallies.items():
        total.kinds.update({f"{name}: {kind}": n for kind, n in tally.kinds.items()})
    lines = [_line(name, tally) for name, tally in tallies.items()]
    finds = [f"  {number:,} times  {kind}" for kind, number in total.kinds.most_common()]
    return "\n".join([*lines, _line("all", total), *finds])
