"""The compiled loops give the very numbers of the numpy code."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from patternmark.core.alphabet import UNREAD, Alphabet
from patternmark.core.key import Key
from patternmark.core.profile import Profile
from patternmark.core.reading import read_many
from patternmark.core.schemes import Paper, Turns
from patternmark.core.secret import Secret
from patternmark.fast import compiled
from patternmark.null.local import LocalRules
from patternmark.statistics import best_path as alignment
from patternmark.statistics import make_statistic
from patternmark.statistics import phase_sums as phases

pytest.importorskip("numba")
TOKENS = Alphabet.from_symbols("tokens", [f"t{i}" for i in range(21)], unscored=[20])
PROFILES = {
    "paper": Profile(scheme=Paper()),
    "one nonce": Profile(TOKENS, Turns(starts=16)),
    "five nonces": Profile(TOKENS, Turns(starts=16, nonces=5)),
    "odd period": Profile(TOKENS, Turns(period=36, block=4, starts=3, nonces=3)),
}


@pytest.fixture
def either() -> Callable[[Callable[[], Any]], tuple[Any, Any]]:
    """Run something with the loops and without."""

    def run(what: Callable[[], Any]) -> tuple[Any, Any]:
        results = []
        for use in (True, False):
            with compiled.force_loops(use) as used:
                assert used is use
                results.append(what())
        return results[0], results[1]

    return run


def chains(rng: np.random.Generator) -> list[np.ndarray]:
    found = [rng.integers(0, 20, size=n) for n in (1, 3, 50, 137, 300, 700)]
    found[3][20:40] = 20  # X
    return found


@pytest.mark.parametrize("name", PROFILES)
@pytest.mark.parametrize("detector", ["phase", "slip", "local", "auto"])
def test_every_detector_gives_the_same_numbers(
    name: str,
    detector: str,
    rng: np.random.Generator,
    either: Callable[[Callable[[], Any]], tuple[Any, Any]],
) -> None:
    key = Key.of(Secret(bytes(32)), PROFILES[name])
    readings = read_many(chains(rng), key.profile.alphabet, [None] * 6)

    def measured() -> Any:
        return make_statistic(detector, key).measure(readings)

    fast, plain = either(measured)
    assert fast == plain  # every digit of every field


def test_strong_marks_give_the_same_numbers_too(
    either: Callable[[Callable[[], Any]], tuple[Any, Any]],
) -> None:
    """Where states are rescaled far and most of them are negligible."""
    key = Key.of(Secret(bytes(32)), PROFILES["one nonce"])
    promoted = key.schedule.promoted(0)
    marked = np.array([np.flatnonzero(promoted[i % 512])[i % 5] for i in range(3000)])
    readings = read_many([marked], key.profile.alphabet, [None])
    fast, plain = either(lambda: make_statistic("auto", key).measure(readings))
    assert fast == plain
    assert fast[0].log_p < -1000


def test_stretches_are_the_same_where_scores_are_alike(
    rng: np.random.Generator, either: Callable[[Callable[[], Any]], tuple[Any, Any]]
) -> None:
    """Few phases and cheap slips: many paths score alike, and the same one must be taken."""
    signs = np.append(rng.choice([-1, 1], size=(4, 3)), np.zeros((4, 1)), axis=1)
    symbols = rng.integers(0, 3, size=(30, 60))
    symbols[rng.random(symbols.shape) < 0.2] = UNREAD
    windows = phases.double_period(signs.astype(np.int8))
    for rules in (LocalRules(1, 1, 1), LocalRules(2, 3, 4)):
        fast, plain = either(lambda r=rules: alignment.local_paths(windows, symbols, r))
        np.testing.assert_array_equal(fast, plain)
    fast, plain = either(lambda: alignment.slip_paths(windows, symbols, 2))
    np.testing.assert_array_equal(fast, plain)


@pytest.fixture
def fresh_decision(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(compiled, "_seconds", 0.0)
    compiled._module.cache_clear()
    yield
    compiled._module.cache_clear()


@pytest.mark.usefixtures("fresh_decision")
def test_loops_are_loaded_once_there_was_enough_to_do() -> None:
    assert compiled.kernels(1000) is None
    assert compiled.kernels(10**8) is None
    assert isinstance(compiled.kernels(10**9), ModuleType)
    assert isinstance(compiled.kernels(1), ModuleType)


def test_without_numba_numpy_does_it() -> None:
    program = (
        "import sys; sys.modules['numba'] = None\n"
        "from patternmark.fast import compiled\n"
        "print(compiled.kernels(10**12))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (0, b"None\n")
