"""The command line in a process of its own, which a signal stops at a known point.

A test that watches a process from outside and sends it a signal depends on who is faster. Here the
process sends itself the signal, so every run stops at the same place, however busy the machine is.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

# A shell's background jobs, and their children, ignore SIGINT unless they ask for it.
_PROGRAM = """
import importlib, signal, sys
from patternmark.cli import main

module, owner, name, at, number = sys.argv[1:6]
del sys.argv[1:6]
signal.signal(signal.SIGINT, signal.default_int_handler)
place = getattr(importlib.import_module(module), owner)
method, calls = getattr(place, name), 0

def counted(*arguments, **more):
    global calls
    found = method(*arguments, **more)
    calls += 1
    if calls == int(at):
        signal.raise_signal(int(number))
    return found

setattr(place, name, counted)
main()
"""


def run_stopped(
    how: signal.Signals, method: str, at: int, *arguments: object, first: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run a command that gets a signal when a method has returned for the `at`-th time.

    The method is written as "module:Class.method"; `first` is Python code that runs before all.
    """
    return subprocess.run(
        _command(how, method, at, *arguments, first=first),
        check=False,
        capture_output=True,
        text=True,
        timeout=600,
    )


@contextmanager
def run_paused(method: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """Run a command until a method has returned for the first time; the caller sends SIGCONT."""
    running = subprocess.Popen(
        _command(signal.SIGSTOP, method, 1, *arguments),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        _, status = os.waitpid(running.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status), running.communicate()
        yield running
    finally:
        if running.returncode is None:
            running.kill()
        running.communicate()


def _command(
    how: signal.Signals, method: str, at: int, *arguments: object, first: str = ""
) -> list[str]:
    module, place = method.split(":")
    words = [module, *place.split("."), at, int(how), *arguments]
    return [sys.executable, "-c", first + _PROGRAM, *map(str, words)]
