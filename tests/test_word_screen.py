"""Block keys are screened from the coins of their blocks: what comes out is the plain sum."""

from itertools import pairwise

import numpy as np
import pytest

from patternmark import PROTEIN, Key, Profile, word_screen
from patternmark.core.alphabet import UNREAD
from patternmark.core.reading import Reading
from patternmark.core.schemes import Blocks
from patternmark.core.secret import Secret
from patternmark.identify import Candidate, Identifier
from patternmark.masks import read
from patternmark.rates import agreement_rates
from patternmark.statistics.block_best import spoken_chains
from patternmark.statistics.block_paths import Component, log_ratios
from patternmark.word_screen import WordScreen, added_up
from tests.synthetic import marked, plain

SCHEMES = [Blocks(nonces=1), Blocks(nonces=3), Blocks(block=5, nonces=2)]


def reading(rng: np.random.Generator, *lengths: int) -> Reading:
    """Chains of these lengths, a tenth of them unread."""
    edges = np.cumsum([0, *lengths]).tolist()
    symbols = rng.integers(0, 20, size=edges[-1])
    symbols[rng.random(len(symbols)) < 0.1] = UNREAD
    return Reading(symbols, tuple(slice(a, b) for a, b in pairwise(edges)))


def keys_of(secret: Secret, scheme: Blocks, number: int) -> list[Key]:
    return [Key.of(secret, Profile(scheme=scheme)).derive(str(i)) for i in range(number)]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_intact_scores_are_exact_ratios_without_slips(
    scheme: Blocks, secret: Secret, rng: np.random.Generator
) -> None:
    keys = keys_of(secret, scheme, 4)
    records = [reading(rng, 70, 0, 31), reading(rng, 1), reading(rng, 100)]
    found = WordScreen(keys).intact(records)[..., 0]
    for record, scores in zip(records, found, strict=True):
        for key, score in zip(keys, scores.tolist(), strict=True):
            total = np.zeros(scheme.nonces)
            for number, chain in spoken_chains(record).items():
                halves = key.schedule.halves(number, 60)
                component = Component(word_screen.LEVEL, 0.0)
                total += log_ratios(chain, halves, scheme.block, [component])[:, 0]
            assert score == pytest.approx(total.max(), abs=1e-4)


def gain(key: Key, nonce: int, symbols: np.ndarray, shift: int) -> int:
    """What letters are worth under one shift, one at a time."""
    halves = key.schedule.halves(0, 200)[nonce]
    rates = agreement_rates(PROTEIN, "blocks")[word_screen.LEVEL]
    worth = 0
    for i, symbol in enumerate(symbols.tolist()):
        if symbol != UNREAD and rates[symbol] >= word_screen._LEAST_RATE and i + shift >= 0:
            agrees = halves[(i + shift) // key.profile.scheme.block, symbol] > 0
            worth += word_screen._AGREES * agrees - word_screen._SCORED
    return worth


@pytest.mark.parametrize("scheme", SCHEMES)
def test_scores_of_one_segment_are_the_best_of_shifts_and_nonces(
    scheme: Blocks, secret: Secret, rng: np.random.Generator
) -> None:
    keys, record = keys_of(secret, scheme, 3), reading(rng, word_screen._SEGMENT)
    screen = WordScreen(keys)
    nonces, near = range(scheme.nonces), range(-word_screen._DRIFT, word_screen._DRIFT + 1)
    for key, slipped, elsewhere in zip(
        keys, screen.slipped([record])[0, :, 0], screen.elsewhere([record])[0, :, 0], strict=True
    ):
        # The path starts unshifted, at a cost for each position, and may move once by up to two.
        one, two = word_screen._SLIP[1:]
        best = max(
            gain(key, n, record.symbols, s) - one * abs(s) + (2 * one - two) * (abs(s) >= 2)
            for n in nonces
            for s in near
        )
        assert slipped == max(best, 0)
        every = range(0, 384, word_screen._STEP)
        assert elsewhere == max(
            0, *(gain(key, n, record.symbols, s) for n in nonces for s in every)
        )


@pytest.mark.parametrize("number", [0, 1, 2, 3, 4, 17, 32])
def test_adders_count_bits(number: int, rng: np.random.Generator) -> None:
    bits = rng.integers(0, 2, size=(number, 192), dtype=np.uint8)
    planes = np.packbits(bits, axis=1, bitorder="little").view(np.uint64)
    assert added_up(planes).tolist() == bits.sum(axis=0).tolist()


def test_coins_that_are_not_kept_give_the_same_scores(
    secret: Secret, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys, records = keys_of(secret, Blocks(nonces=3), 40), [reading(rng, 100), reading(rng, 50, 90)]
    kept = WordScreen(keys)
    expected = [stage.scores(records, None) for stage in kept.stages]
    monkeypatch.setattr(word_screen, "_KEPT_BYTES", 0)
    monkeypatch.setattr(word_screen, "_LANES", 20)
    done: list[tuple[int, int]] = []
    for stage, scores in zip(WordScreen(keys).stages, expected, strict=True):
        np.testing.assert_array_equal(stage.scores(records, lambda *n: done.append(n)), scores)
    assert done[-1] == (40, 40)


def searched(search: Identifier, sequence: str) -> tuple[str, bool, bool]:
    """Return the best key's name, whether it is named, and whether a further stage was needed."""
    told: list[int] = []
    search._progress = lambda done, _: told.append(done)
    one = search.identify([search.alphabet.encode(sequence)], ["x"])[0]
    return one.best.candidate.name, one.prediction, bool(told)


def test_the_key_is_found_intact_damaged_and_in_pieces(
    secret: Secret, rng: np.random.Generator
) -> None:
    keys = keys_of(secret, Blocks(nonces=4), 100)
    search = Identifier([Candidate(key, str(i)) for i, key in enumerate(keys)])
    whole = marked(keys[63], 300, rng)
    assert searched(search, whole) == ("63", True, False)
    lost = "".join(letter for i, letter in enumerate(whole) if i % 25 != 9)
    assert searched(search, lost) == ("63", True, True)
    assert searched(search, whole[73:250]) == ("63", True, True)
    assert searched(search, plain(80, rng) + whole[:180] + plain(40, rng)) == ("63", True, True)
    assert searched(search, plain(300, rng))[1] is False


def test_chains_of_one_nonce_speak_together(secret: Secret, rng: np.random.Generator) -> None:
    keys = keys_of(secret, Blocks(), 60)
    schedule, chains = keys[7].schedule, []
    for number in range(3):
        promoted = schedule.promoted_rows(schedule.keys(number, 5, 60))[:, :20]
        law = np.cumsum(np.where(promoted, 0.75, 0.25), axis=1)
        drawn = rng.random(60) * law[:, -1]
        chains.append("".join(PROTEIN.letters[i] for i in (drawn[:, None] > law).sum(axis=1)))
    together = read(PROTEIN.encode("/".join(chains)), PROTEIN, mask_repeats=False)
    assert np.argmax(WordScreen(keys).intact([together])[0, :, 0]) == 7


def test_a_sequence_without_symbols_is_given_to_nobody(secret: Secret) -> None:
    keys = keys_of(secret, Blocks(nonces=3), 40)
    search = Identifier([Candidate(key, str(i)) for i, key in enumerate(keys)])
    assert searched(search, "XXXX")[1:] == (False, False)
