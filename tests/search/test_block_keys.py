"""Many block keys are screened at once: scores are those of each key alone, and marks are found."""

from itertools import pairwise

import numpy as np
import pytest

from patternmark import PROTEIN, Key, Profile
from patternmark.core.alphabet import UNREAD
from patternmark.core.reading import Reading
from patternmark.core.schemes import Blocks
from patternmark.core.secret import Secret
from patternmark.masks import read
from patternmark.search import block_keys
from patternmark.search.block_keys import BlockKeyScreen
from patternmark.search.candidates import Candidate
from patternmark.search.identify import Identifier
from patternmark.statistics.block_paths import Look, log_ratios
from patternmark.statistics.block_ratio import MIXTURE, BlockStatistic
from patternmark.statistics.block_screen import best_paths, best_stretches, pack
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
def test_scores_from_the_start_are_those_of_each_key_alone(
    scheme: Blocks, secret: Secret, rng: np.random.Generator
) -> None:
    keys = keys_of(secret, scheme, 70)
    records = [reading(rng, 70, 0, 31), reading(rng, 1), reading(rng, 100)]
    found = BlockKeyScreen(keys).from_start(records)[..., 0]
    for key, scores in zip(keys, found.T, strict=True):
        for record, score in zip(records, scores.tolist(), strict=True):
            total = np.zeros(scheme.nonces)
            for number, chain in BlockStatistic.of(key).pieces(record):
                coins = key.schedule.words(number, 400)
                total += best_paths(chain, pack(coins, scheme.block, 100))
            assert score == total.max()


@pytest.mark.parametrize("scheme", SCHEMES)
def test_scores_of_pieces_are_exact_ratios_at_the_shift_of_the_best_stretch(
    scheme: Blocks, secret: Secret, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(block_keys, "_EXACT_KEYS", 3)
    keys, record = keys_of(secret, scheme, 70), reading(rng, 80, 50)
    found = BlockKeyScreen(keys).pieces([record])[0, :, 0]
    stretches = []
    for key, score in zip(keys, found.tolist(), strict=True):
        chains = [piece.chain for piece in BlockStatistic.of(key).pieces(record)]
        halves = [key.schedule.halves(number, 400) for number in (0, 1)]
        coins = [key.schedule.words(number, 400) for number in (0, 1)]
        each = [
            best_stretches(chain, pack(own, scheme.block, 80))
            for chain, own in zip(chains, coins, strict=True)
        ]
        total = each[0][0] + each[1][0]
        nonce = np.array([total.argmax()])
        stretches.append(int(total.max()))
        wanted = 0.0
        for chain, own, (_, shifts) in zip(chains, halves, each, strict=True):
            looks = [Look(c, nonce, int(shifts[nonce[0]])) for c in (0, 1)]
            ratios = log_ratios(chain, own, scheme.block, block_keys._PIECE_COMPONENTS, looks)
            wanted += max(ratios[nonce[0]].max(), 0.0)
        assert score == -np.inf or score == pytest.approx(wanted, abs=1e-4)
    looked_at = np.flatnonzero(found > -np.inf)
    assert len(looked_at) == 3
    assert min(stretches[k] for k in looked_at) >= sorted(stretches)[-3]


def test_coins_that_are_not_kept_give_the_same_scores(
    secret: Secret, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys, records = keys_of(secret, Blocks(nonces=3), 40), [reading(rng, 100), reading(rng, 50, 90)]
    kept = BlockKeyScreen(keys)
    expected = [stage.scores(records, None) for stage in kept.stages]
    monkeypatch.setattr(block_keys, "_MAX_CACHED_BYTES", 0)
    monkeypatch.setattr(block_keys, "_BATCH_LANES", 64)
    done: list[tuple[int, int]] = []
    for stage, scores in zip(BlockKeyScreen(keys).stages, expected, strict=True):
        np.testing.assert_array_equal(stage.scores(records, lambda *n: done.append(n)), scores)
    assert done[-1] == (40, 40)


def searched(search: Identifier, sequence: str) -> tuple[str, bool, int]:
    """Return the best key's name, whether it is named, and how many stages went over all keys."""
    told: list[int] = []
    search.progress = lambda done, _: told.append(done)
    one = search.identify([search.alphabet.encode(sequence)], ["x"])[0]
    return one.best.candidate.name, one.prediction, told.count(len(search.candidates))


def test_the_key_is_found_intact_damaged_and_in_pieces(
    secret: Secret, rng: np.random.Generator
) -> None:
    keys = keys_of(secret, Blocks(nonces=4), 100)
    search = Identifier([Candidate(key, str(i)) for i, key in enumerate(keys)])
    whole = marked(keys[63], 300, rng)
    assert searched(search, whole) == ("63", True, 1)
    lost = "".join(letter for i, letter in enumerate(whole) if i % 25 != 9)
    assert searched(search, lost) == ("63", True, 1)
    assert searched(search, whole[73:250]) == ("63", True, 2)
    assert searched(search, plain(80, rng) + whole[:180] + plain(40, rng)) == ("63", True, 2)
    assert searched(search, plain(300, rng))[1:] == (False, 3)


@pytest.mark.parametrize("share", [0.1, 0.2, 0.3])
@pytest.mark.parametrize("kind", ["lost", "inserted"])
def test_the_key_is_found_after_edits_of_one_kind(kind: str, share: float, secret: Secret) -> None:
    rng = np.random.default_rng(5)
    keys = keys_of(secret, Blocks(nonces=4), 100)
    search = Identifier([Candidate(key, str(i)) for i, key in enumerate(keys)])
    whole, hit = marked(keys[63], 500, rng), rng.random(500) < share
    if kind == "lost":
        edited = "".join(letter for letter, gone in zip(whole, hit, strict=True) if not gone)
    else:
        edited = "".join(
            letter + (plain(1, rng) if more else "")
            for letter, more in zip(whole, hit, strict=True)
        )
    assert searched(search, edited)[:2] == ("63", True)
    screen = BlockKeyScreen(keys)
    readings = [read(PROTEIN.encode(edited), PROTEIN, mask_repeats=False)]
    found = screen.other_branches(readings)[0]  # [K, kinds]: the paces come first
    assert 63 in found[:, : len(MIXTURE.unusual)].argmax(axis=0)


@pytest.mark.parametrize("missing", [1, 3])
def test_a_record_that_lacks_the_first_chains_is_found(missing: int, secret: Secret) -> None:
    rng = np.random.default_rng(6)
    keys = keys_of(secret, Blocks(nonces=4), 100)
    search = Identifier([Candidate(key, str(i)) for i, key in enumerate(keys)])
    record = "/".join(chain_of(keys[63], missing + number, 2, 150, rng) for number in (0, 1))
    assert searched(search, record) == ("63", True, 3)


def test_a_record_that_begins_with_another_chain_is_found(secret: Secret) -> None:
    rng = np.random.default_rng(7)
    keys = keys_of(secret, Blocks(nonces=4), 100)
    search = Identifier([Candidate(key, str(i)) for i, key in enumerate(keys)])
    record = f"{plain(90, rng)}/{chain_of(keys[63], 0, 1, 200, rng)}"
    assert searched(search, record) == ("63", True, 3)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_scores_of_other_branches_are_best_paths_of_whole_chains(
    scheme: Blocks, secret: Secret, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(block_keys, "_WHOLE_CHAIN_KEYS", 3)
    monkeypatch.setattr(block_keys, "_PREFIX", 40)
    monkeypatch.setattr(block_keys, "_PREFIX_EDITED", 50)
    keys, records = keys_of(secret, scheme, 70), [reading(rng, 100), reading(rng, 80, 0, 50)]
    found = BlockKeyScreen(keys).other_branches(records)
    for record, scores in zip(records, found, strict=True):
        _, *branches = BlockStatistic.of(keys[0]).branches(record)
        for kind, branch in enumerate(branches):
            pieces = branch.chains_in_design(BlockStatistic.of(keys[0]).pieces(record))
            looked_at = np.flatnonzero(scores[:, kind] > -np.inf)
            assert len(looked_at) == (3 if pieces else 0)
            for k in looked_at.tolist():
                total = np.zeros(scheme.nonces)
                for number, chain in pieces:
                    coins = keys[k].schedule.words(number + branch.shift, 400)
                    packed = pack(coins, scheme.block, 100)
                    total += best_paths(chain, packed, branch.components[0].pace)
                assert scores[k, kind] == total.max()
        assert not np.any(scores[:, len(branches) :] > -np.inf)


def chain_of(key: Key, number: int, nonce: int, length: int, rng: np.random.Generator) -> str:
    """Draw one chain of a design with a nonce; promoted letters are three times as frequent."""
    schedule = key.schedule
    promoted = schedule.promoted_rows(schedule.keys(number, nonce, length))[:, :20]
    law = np.cumsum(np.where(promoted, 0.75, 0.25), axis=1)
    drawn = rng.random(length) * law[:, -1]
    return "".join(PROTEIN.letters[i] for i in (drawn[:, None] > law).sum(axis=1))


def test_chains_of_one_nonce_speak_together(secret: Secret, rng: np.random.Generator) -> None:
    keys = keys_of(secret, Blocks(), 60)
    chains = [chain_of(keys[7], number, 5, 60, rng) for number in range(3)]
    together = read(PROTEIN.encode("/".join(chains)), PROTEIN, mask_repeats=False)
    assert np.argmax(BlockKeyScreen(keys).from_start([together])[0, :, 0]) == 7


def test_a_sequence_without_symbols_is_given_to_nobody(secret: Secret) -> None:
    keys = keys_of(secret, Blocks(nonces=3), 40)
    search = Identifier([Candidate(key, str(i)) for i, key in enumerate(keys)])
    assert searched(search, "XXXX")[1:] == (False, 1)
