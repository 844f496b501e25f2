"""The compiled loops give the very numbers of the numpy code."""

import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
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
from patternmark.detector import Detector
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

PROFILES_OF_BOTH = {"blocks": Profile(), "turns": Profile(TOKENS, Turns())}


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


def test_the_work_at_hand_decides_and_nothing_else() -> None:
    """What came before changes nothing: not that there was much, not that loops are loaded."""
    small, large = 10**8, 10**9
    for _ in range(20):
        assert compiled.kernels(small) is None
    assert isinstance(compiled.kernels(large), ModuleType)
    assert compiled.kernels(small) is None
    with compiled.force_loops(True):
        assert isinstance(compiled.kernels(0), ModuleType)
    assert compiled.kernels(small) is None


def test_work_is_counted_as_often_as_it_is_done() -> None:
    small = 10**8
    with compiled.repeated(5):
        assert compiled.kernels(small) is None
        with compiled.repeated(2):
            assert isinstance(compiled.kernels(small), ModuleType)
        assert compiled.kernels(small) is None
    with compiled.force_loops(False), compiled.repeated(10**6):
        assert compiled.kernels(10**12) is None


def test_one_decision_holds_for_all_parts_of_a_computation() -> None:
    with compiled.together(10**9):
        assert isinstance(compiled.kernels(1), ModuleType)
    with compiled.together(10**8):
        assert compiled.kernels(1) is None
        assert isinstance(compiled.kernels(10**9), ModuleType)  # a part that was not foreseen
    with compiled.repeated(10), compiled.together(10**8):
        assert isinstance(compiled.kernels(1), ModuleType)
    with compiled.force_loops(False), compiled.together(10**12):
        assert compiled.kernels(10**12) is None


def test_other_threads_decide_for_themselves() -> None:
    with compiled.force_loops(True), ThreadPoolExecutor(1) as pool:
        assert pool.submit(compiled.kernels, 1).result() is None


@pytest.mark.parametrize("name", PROFILES_OF_BOTH)
def test_a_batch_is_worth_the_loops_and_a_short_record_is_not(
    name: str, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bool] = []
    load = compiled._module

    def watched(module: str) -> ModuleType | None:
        asked.append(True)
        return load(module)

    monkeypatch.setattr(compiled, "_module", watched)
    detector = Detector(Key.of(Secret(bytes(32)), PROFILES_OF_BOTH[name]))
    detector.detect(rng.integers(0, 20, size=150))
    assert asked == []
    detector.detect_many([rng.integers(0, 20, size=150) for _ in range(400)])
    assert asked


def test_a_detector_that_is_asked_again_and_again_takes_the_loops(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    load, calls = compiled._module, 0

    def watched(module: str) -> ModuleType | None:
        asked.append(calls)
        return load(module)

    monkeypatch.setattr(compiled, "_module", watched)
    detector = Detector(Key.of(Secret(bytes(32)), Profile()))
    sequence = rng.integers(0, 20, size=150)
    for calls in range(1, 41):  # noqa: B007  # `watched` reads it
        detector.detect(sequence)
    assert 1 < asked[0] <= 40
    assert asked[-1] == 40
    assert (
        Detector(detector.key).detect(sequence).prediction == detector.detect(sequence).prediction
    )


def test_without_numba_numpy_does_it() -> None:
    program = (
        "import sys; sys.modules['numba'] = None\n"
        "from patternmark.fast import compiled\n"
        "print(compiled.kernels(10**12))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (0, b"None\n")
