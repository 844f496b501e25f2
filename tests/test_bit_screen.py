"""Keys are screened from their secret bits: what comes out is the plain sum along a schedule."""

from collections.abc import Callable
from itertools import pairwise
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from patternmark import PROTEIN, Key, Profile, bit_screen, phases
from patternmark.bit_screen import BitScreen, StartWorth
from patternmark.core.alphabet import UNREAD
from patternmark.core.reading import Reading, read
from patternmark.core.schemes import Blocks
from patternmark.core.secret import Secret
from patternmark.identify import Candidate, Identifier
from patternmark.likelihood import Worth
from patternmark.rates import agreement_rates
from patternmark.simulate import marked_sequences, rates_at
from tests.synthetic import letters, marked, plain

SMALL = Profile(scheme=Blocks(nonces=3))
SHAPES = {
    "small": SMALL,
    "bits that fill no word": Profile(scheme=Blocks(nonces=2)),
    "blocks of six": Profile(scheme=Blocks(nonces=2)),
    "blocks of sixteen": Profile(scheme=Blocks(nonces=2)),
    "more starts than lanes": Profile(scheme=Blocks(nonces=2)),
    "one start": Profile(scheme=Blocks(nonces=1)),
}


@pytest.fixture
def engines(monkeypatch: pytest.MonkeyPatch) -> Callable[[ModuleType | None], None]:
    def use(module: ModuleType | None) -> None:
        for user in (bit_screen, phases):
            monkeypatch.setattr(user, "kernels", lambda *_, **__: module)

    return use


def reading(rng: np.random.Generator, *lengths: int) -> Reading:
    """Chains of these lengths, a tenth of them unread."""
    edges = np.cumsum([0, *lengths]).tolist()
    symbols = rng.integers(0, 20, size=edges[-1])
    symbols[rng.random(len(symbols)) < 0.1] = UNREAD
    return Reading(symbols, tuple(slice(a, b) for a, b in pairwise(edges)))


def keys_of(secret: Secret, profile: Profile, number: int) -> list[Key]:
    return [Key.of(secret, profile).derive(str(i)) for i in range(number)]


def plain_sum(key: Key, nonce: int, start: int, symbols: np.ndarray) -> float:
    """What the symbols are worth, one at a time, less the mean of a symbol's two values."""
    promoted = key.schedule.promoted(nonce)
    rates = agreement_rates(PROTEIN, "hardened")[1]
    total = 0.0
    for i, symbol in enumerate(symbols.tolist()):
        if symbol != UNREAD:
            agrees = promoted[(start + i) % key.profile.period, symbol]
            half = np.log(rates[symbol] / (1.0 - rates[symbol])) / 2.0
            total += half if agrees else -half
    return total


@pytest.mark.parametrize("name", SHAPES)
def test_coefficients_of_bits_give_the_sum_along_the_schedule(
    name: str, secret: Secret, rng: np.random.Generator
) -> None:
    """With chains that go around the period several times, and parts that are unread."""
    key = keys_of(secret, SHAPES[name], 1)[0]
    chains = reading(rng, 30, 7, 211)
    coefficients = BitScreen([key]).coefficients(chains)
    for nonce in range(key.profile.nonces):
        bits = np.unpackbits(key.schedule.secret_bits[nonce])[: key.schedule.bits]
        sums = (2.0 * bits - 1.0) @ coefficients  # [chains, starts]
        for chain, of_chain in zip(chains.parts, sums, strict=True):
            expected = [plain_sum(key, nonce, s, chain) for s in key.schedule.starts.tolist()]
            np.testing.assert_allclose(of_chain, expected, atol=1e-9)


def test_long_chains_fit_sixteen_bits(
    rng: np.random.Generator, engines: Callable[[ModuleType | None], None]
) -> None:
    loops = pytest.importorskip("patternmark.kernels")
    one_start = rng.normal(size=1280) * 1000.0
    worth = StartWorth(one_start[None, :, None], 160)
    bits = np.packbits(np.stack([one_start > 0, one_start < 0]), axis=1)
    for module in (loops, None):
        engines(module)
        highest, lowest = worth(bits).tolist()
        assert lowest == 0
        assert 64_000 < highest < 2**16


@pytest.mark.parametrize("name", SHAPES)
def test_scores_are_the_best_of_starts_and_nonces(
    name: str, secret: Secret, rng: np.random.Generator
) -> None:
    keys = keys_of(secret, SHAPES[name], 12)
    readings = [reading(rng, 90, 150), reading(rng, 60)]
    scores = BitScreen(keys).from_starts(readings)
    expected = np.array(
        [
            [
                max(
                    sum(
                        max(plain_sum(key, nonce, s, part) for s in key.schedule.starts.tolist())
                        for part in chains.parts
                    )
                    for nonce in range(key.profile.nonces)
                )
                for key in keys
            ]
            for chains in readings
        ]
    )
    for row, plainly in zip(scores, expected, strict=True):
        slope, offset = np.polyfit(plainly, row, 1)  # whole numbers, on a scale of their own
        np.testing.assert_allclose(row, slope * plainly + offset, atol=0.005 * slope * 90)
        assert slope > 0


@pytest.mark.parametrize("name", SHAPES)
def test_any_phase_is_scored_as_nonces_of_one_key_are(
    name: str, secret: Secret, rng: np.random.Generator
) -> None:
    keys = keys_of(secret, SHAPES[name], 5)
    chains = reading(rng, 90, 200)
    found = BitScreen(keys).anywhere([chains])[0]
    rates = agreement_rates(PROTEIN, "hardened")[1]
    symbols = np.full((2, 200), UNREAD)
    for row, part in zip(symbols, chains.parts, strict=True):
        row[: len(part)] = part
    for key, score in zip(keys, found.tolist(), strict=True):
        promoted = [key.schedule.promoted(n) for n in range(key.profile.nonces)]
        logs = np.zeros((2, 1, PROTEIN.size + 1))
        logs[:, 0, :20] = np.log(2.0 * np.stack([rates, 1.0 - rates]))[:, :20]
        every = [Worth(*logs)] * key.profile.nonces
        best = phases.NonceScreen(promoted, every, key.schedule.starts).best_in_part(symbols)
        assert score == best.sum(axis=0).max()


@pytest.mark.parametrize("name", SHAPES)
def test_numba_and_numpy_give_the_same_scores(
    name: str,
    secret: Secret,
    rng: np.random.Generator,
    engines: Callable[[ModuleType | None], None],
) -> None:
    loops = pytest.importorskip("patternmark.kernels")
    keys = keys_of(secret, SHAPES[name], 40)
    readings = [reading(rng, 90, 150), reading(rng, 700), reading(rng, 0)]
    found: list[Any] = []
    for module in (loops, None):
        engines(module)
        screen = BitScreen(keys)
        found.append([screen.from_starts(readings), screen.anywhere(readings)])
    np.testing.assert_array_equal(found[0], found[1])


def test_bits_that_are_not_kept_give_the_same_scores(
    secret: Secret, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys, readings = keys_of(secret, SMALL, 40), [reading(rng, 100)]
    kept = BitScreen(keys).from_starts(readings), BitScreen(keys).anywhere(readings)
    monkeypatch.setattr(bit_screen, "_KEPT_BYTES", 0)
    monkeypatch.setattr(bit_screen, "_BYTES_AT_ONCE", 500)
    told: list[tuple[int, int]] = []
    anew = BitScreen(keys)
    np.testing.assert_array_equal(anew.from_starts(readings), kept[0])
    np.testing.assert_array_equal(anew.anywhere(readings, lambda *n: told.append(n)), kept[1])
    assert told[-1] == (40, 40)


def searched_thoroughly(search: Identifier, sequence: str) -> tuple[str, bool, bool]:
    """Return the best key's name, whether it is named, and whether any phase was tried."""
    told: list[int] = []
    search._progress = lambda done, _: told.append(done)
    one = search.identify([search.alphabet.encode(sequence)], ["x"])[0]
    return one.best.candidate.name, one.prediction, bool(told)


def test_chains_of_one_nonce_speak_together(secret: Secret, rng: np.random.Generator) -> None:
    keys = keys_of(secret, Profile(scheme=Blocks()), 300)
    rates = rates_at(1.0, PROTEIN, "hardened")
    chains = [
        letters(marked_sequences(keys[7], rates, rng.random((1, 60)), seed=5)[0]) for _ in range(3)
    ]
    together = read(PROTEIN.encode("/".join(chains)), PROTEIN)
    scores = BitScreen(keys).from_starts([together])[0]
    assert np.argmax(scores) == 7


@pytest.mark.slow
def test_the_default_key_is_found_intact_and_damaged(
    secret: Secret, rng: np.random.Generator
) -> None:
    keys = keys_of(secret, Profile(scheme=Blocks()), 200)
    search = Identifier([Candidate(key, str(i)) for i, key in enumerate(keys)])
    whole = marked(keys[123], 400, rng)
    assert searched_thoroughly(search, whole) == ("123", True, False)
    lost = whole[:99] + whole[100:180] + "GG" + whole[180:290] + whole[292:]
    assert searched_thoroughly(search, lost)[:2] == ("123", True)
    window = plain(57, rng) + whole[73:300] + plain(60, rng)
    assert searched_thoroughly(search, window) == ("123", True, True)
    name, prediction, _ = searched_thoroughly(search, plain(400, rng))
    assert not prediction
    assert name


def test_starts_that_lie_inside_blocks_are_found_too(
    secret: Secret, rng: np.random.Generator
) -> None:
    profile = Profile(scheme=Blocks(nonces=2))
    keys = keys_of(secret, profile, 60)
    assert not BitScreen(keys).has_whole_shifts
    search = Identifier([Candidate(key, str(i)) for i, key in enumerate(keys)])
    assert searched_thoroughly(search, marked(keys[31], 400, rng)) == ("31", True, True)


def test_a_sequence_without_symbols_is_given_to_nobody(secret: Secret) -> None:
    keys = keys_of(secret, SMALL, 40)
    search = Identifier([Candidate(key, str(i)) for i, key in enumerate(keys)])
    assert searched_thoroughly(search, "XXXX")[1:] == (False, False)
