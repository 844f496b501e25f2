"""Fixtures: one fixed key, and the command line as a function."""

from __future__ import annotations

import json
import logging
import os
import random
import secrets
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pytest
from hypothesis import settings

from patternmark import Key, Profile, save_key
from patternmark.cli import main
from patternmark.core.schemes import Paper
from patternmark.core.secret import Secret

SECRET_HEX = "00112233445566778899aabbccddeeff0123456789abcdeffedcba9876543210"

# How many examples a property is tried on. `ci` takes the same ones in every run; `nightly` looks
# for new ones. A busy machine is no failure: neither has a deadline.
settings.register_profile("ci", max_examples=50, deadline=None, derandomize=True)
settings.register_profile("nightly", max_examples=300, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Name bytes by their number: a gzipped file has the time in it, and no two workers agree."""
    return f"{argname} of {len(val)} bytes" if isinstance(val, bytes) else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put files with slow tests first.

    Workers take file after file. The last ones are short, so no worker is left alone for long.
    """
    slow = Counter(item.path for item in items if item.get_closest_marker("slow"))
    items.sort(key=lambda item: -slow[item.path])


@dataclass
class Outcome:
    status: int
    out: str
    err: str

    @property
    def objects(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]


@pytest.fixture(autouse=True)
def _same_keys_in_every_run(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Draw the same secrets, seeds, nonces and tensors for a test in every run.

    How much of a mark is found depends on the key: a test that passes with most keys would fail in
    some runs and tell nobody why. What torch draws must not depend on the tests before this one.
    """
    source = random.Random(request.node.nodeid)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(crc32(request.node.nodeid.encode()))
    monkeypatch.setattr(secrets, "token_bytes", source.randbytes)
    monkeypatch.setattr(secrets, "randbits", source.getrandbits)
    monkeypatch.setattr(secrets, "randbelow", source.randrange)


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    """Run the command line in this process: run("detect", "x.fa") -> status, out, err."""

    def call(*arguments: object) -> Outcome:
        status = 0
        try:
            main([str(a) for a in arguments])
        except SystemExit as stop:
            status = int(stop.code or 0)
        finally:
            logger = logging.getLogger("patternmark")  # what --verbose left behind goes
            logger.handlers.clear()
            logger.setLevel(logging.NOTSET)
        out, err = capfd.readouterr()
        return Outcome(status, out, err)

    return call


@pytest.fixture
def secret() -> Secret:
    return Secret(bytes.fromhex(SECRET_HEX))


@pytest.fixture
def key(secret: Secret) -> Key:
    return Key.of(secret, Profile(scheme=Paper()))


@pytest.fixture
def key_file(key: Key, tmp_path: Path) -> Path:
    path = tmp_path / "lab.key"
    save_key(key, path)
    return path


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20261115)


@pytest.fixture(scope="session")
def tokenizers_made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of small tokenizers, one of each kind."""
    from tests.made_tokenizers import make_tokenizers

    return make_tokenizers(tmp_path_factory.mktemp("tokenizers"))


@contextmanager
def no_file_over(size: int) -> Iterator[None]:
    """A full disk: no file can grow beyond so many bytes."""
    resource = pytest.importorskip("resource", reason="such limits are those of Unix")
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, old[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)


def start(*arguments: object) -> subprocess.Popen[str]:
    """Run the command line in a process of its own, on one core, open to Ctrl-C."""
    return subprocess.Popen(  # a shell's background jobs, and their children, ignore SIGINT
        [sys.executable, "-m", "patternmark", *map(str, arguments)],
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    )
