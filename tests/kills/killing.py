"""Kill a command with SIGKILL at random moments, continue it, and say what was lost.

A command takes seconds to import what it needs, far longer than its work here. So this process
runs it once, whole: that is the run to compare with, and after it everything is imported. Each try
is a fork of this process that runs the command from its first word on.
"""

from __future__ import annotations

import importlib.util
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tests.kills.jobs import Job, Words

_LONGEST = 60.0  # times the whole run: a try that takes longer hangs


@dataclass
class Outcome:
    """What a command was put through, and what came of it."""

    job: str
    kills: int = 0
    resumes: int = 0
    finished: int = 0  # runs that were compared with the whole one
    lost: int = 0
    doubled: int = 0
    different: list[str] = field(default_factory=list)  # files that are not the same
    left: Counter[str] = field(default_factory=Counter)  # files that should not be there
    failed: list[str] = field(default_factory=list)  # what a run said that could not be continued

    @property
    def is_good(self) -> bool:
        """Whether nothing was lost, doubled, changed or left, and every run could be continued."""
        wrong = self.lost or self.doubled or self.different or self.left or self.failed
        return not wrong and self.finished > 0


def can_run(job: Job) -> bool:
    """Tell whether a job can be forked and has the packages that it needs."""
    return hasattr(os, "fork") and all(importlib.util.find_spec(name) for name in job.needs)


def kill(
    job: Job, kills: int, seed: int = 0, say: Callable[[str], object] = lambda text: None
) -> Outcome:
    """Kill a command so many times; compare each run that came to its end."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # its threads would not survive a fork
    if "torch" in job.needs:
        import torch

        torch.set_num_threads(1)
    chance, outcome = Random(seed), Outcome(job.name)
    with tempfile.TemporaryDirectory(prefix="patternmark-kills-") as place:
        folder = Path(place)
        (folder / "in").mkdir()
        job.prepare(folder / "in")
        whole = folder / "whole"
        whole.mkdir()
        _run_here(job.command(folder / "in", whole, False))
        wanted = job.found(whole)
        assert wanted
        pace = _Pace(_time_of(job, folder))
        said = f"takes {pace.seconds:.2f} s and leaves {wanted.total()} records"
        say(f"{job.name}: a whole run {said}")
        while outcome.kills < kills and not outcome.failed:
            out = folder / f"out-{outcome.finished}"
            out.mkdir()
            if _one_run(job, folder / "in", out, chance, pace, kills, outcome):
                compare(job, whole, out, wanted, outcome)
            say(f"{job.name}: {outcome.kills} kills, {outcome.finished} runs finished")
    return outcome


@dataclass
class _Pace:
    """How long a run takes now: other work on the machine changes that."""

    seconds: float


def _one_run(
    job: Job, given: Path, out: Path, chance: Random, pace: _Pace, kills: int, outcome: Outcome
) -> bool:
    """Kill and continue one run until it ends by itself; tell whether it ended well."""
    again = False
    while True:
        is_last = outcome.kills >= kills
        wait = _LONGEST * pace.seconds if is_last else chance.uniform(0.0, 1.1 * pace.seconds)
        began = time.monotonic()
        status, said = _try(job.command(given, out, again), out, wait)
        if status == 0:
            pace.seconds = (pace.seconds + time.monotonic() - began) / 2.0
        outcome.resumes += again
        again = True
        if status is None and not is_last:
            outcome.kills += 1
        elif status == 0:
            outcome.finished += 1
            return True
        else:
            how = "hangs" if status is None else f"status {status}"
            outcome.failed.append(f"{how}: {said.strip()[-500:]}")
            return False


def _try(words: Words, out: Path, wait: float) -> tuple[int | None, str]:
    """Run a command in a fork; kill it after some seconds. Return its status, None if killed."""
    log = out.with_name(f"{out.name}.log")
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        _become(words, log)
    ends = time.monotonic() + wait
    while (left := ends - time.monotonic()) > 0:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status), log.read_text(errors="replace")
        time.sleep(min(0.002, left))
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    return (None if code == -signal.SIGKILL else code), log.read_text(errors="replace")


def _become(words: Words, log: Path) -> None:
    """Be the command: nothing of the process that was forked goes on."""
    status = 70
    try:
        handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(handle, 1)
        os.dup2(handle, 2)
        status = _run(words)
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _run(words: Words) -> int:
    from patternmark.cli import main

    try:
        main([str(word) for word in words])
    except SystemExit as stop:
        return int(stop.code or 0)
    return 0


def _run_here(words: Words) -> None:
    status = _run(words)
    if status:
        raise RuntimeError(f"{words[0]} ended with status {status} without being killed")


def _time_of(job: Job, folder: Path) -> float:
    """Return how long a whole run takes in a fork."""
    out = folder / "timed"
    out.mkdir()
    began = time.monotonic()
    status, said = _try(job.command(folder / "in", out, False), out, 600.0)
    if status != 0:
        raise RuntimeError(f"{job.name} ended with {status} in a fork: {said[-500:]}")
    return time.monotonic() - began


def compare(job: Job, whole: Path, out: Path, wanted: Counter[Hashable], outcome: Outcome) -> None:
    """Add to an outcome in what an output differs from that of the whole run."""
    try:
        found = job.found(out)
    except OSError:
        found = Counter()  # a file is missing: nothing of it can be read
    outcome.lost += (wanted - found).total()
    outcome.doubled += (found - wanted).total()
    for name in job.same:
        mine, theirs = out / name, whole / name
        if not mine.exists() or _neutral(mine, out) != _neutral(theirs, whole):
            outcome.different.append(name)
    there = {str(file.relative_to(out)) for file in out.rglob("*") if file.is_file()}
    known = {str(file.relative_to(whole)) for file in whole.rglob("*") if file.is_file()}
    outcome.left.update(there - known - set(job.same) - set(job.kept))


def _neutral(file: Path, folder: Path) -> bytes:
    """Return the content of a file without the name of the folder of its run."""
    return file.read_bytes().replace(str(folder).encode(), b"OUT")


def table(outcomes: list[Outcome]) -> str:
    """Return what was lost, as a table."""
    names = ("kills", "resumes", "finished", "lost", "doubled")
    lines = [f"{'command':<10}" + "".join(f"{name:>10}" for name in names) + f"{'differ':>10}"
             f"{'left':>10}"]  # fmt: skip
    for one in outcomes:
        cells = "".join(f"{getattr(one, name):>10}" for name in names)
        lines.append(f"{one.job:<10}{cells}{len(one.different):>10}{one.left.total():>10}")
        lines += [f"    differs: {name}" for name in sorted(set(one.different))]
        lines += [f"    left behind {number} times: {name}" for name, number in one.left.items()]
        lines += [f"    could not be continued: {said}" for said in one.failed]
    return "\n".join(lines)
