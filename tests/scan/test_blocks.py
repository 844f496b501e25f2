"""Bit-sliced counts are plain counts, and what reaches a level is what a plain look finds."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from patternmark import PROTEIN, Key, Marker, ParameterError, Profile
from patternmark.core.schemes import Blocks
from patternmark.core.secret import Secret
from patternmark.null.binomial import binomial_log_tail

pytest.importorskip("numba")

from patternmark.scan import hardened
from patternmark.scan.hardened import HardenedGroup
from patternmark.scan.screen import AMINO_ACIDS, LEVELS, LONGEST

LENGTHS = (0, 1, 31, 32, 33, 300, 2048)
SYMBOLS = PROTEIN.encode(AMINO_ACIDS)
SHAPES = {
    "keys that leave lanes over": Profile(scheme=Blocks(nonces=24)),
    "a key of two words": Profile(scheme=Blocks(nonces=70)),
    "one start": Profile(scheme=Blocks(nonces=3)),
    "more starts than are abreast": Profile(scheme=Blocks(nonces=2)),
    "starts inside blocks": Profile(scheme=Blocks(nonces=5)),
    "a start at every place": Profile(scheme=Blocks(nonces=1)),
    "a table beyond 16 bits": Profile(scheme=Blocks(nonces=2)),
}


def keys_of(profile: Profile, number: int, name: str = "") -> list[Key]:
    secret = Secret(bytes(range(32)))
    return [Key.of(secret, profile).derive(f"{name}{i}") for i in range(number)]


def segments_of(
    rng: np.random.Generator, lengths: tuple[int, ...] | list[int], unknown: float = 0.05
) -> tuple[np.ndarray, np.ndarray]:
    """Return random segments, some of their letters unknown."""
    begins = np.cumsum([0, *lengths]).astype(np.int64)
    letters = rng.integers(0, 20, size=begins[-1]).astype(np.uint8)
    letters[rng.random(len(letters)) < unknown] = 20
    return letters, begins


def plain_counts(keys: list[Key], letters: np.ndarray, begins: np.ndarray) -> np.ndarray:
    """Look every residue up in every schedule: [segments, keys, R, starts]."""
    profile = keys[0].profile
    shape = (len(begins) - 1, len(keys), profile.nonces, profile.starts)
    counts = np.zeros(shape, dtype=np.int64)
    for k, key in enumerate(keys):
        for nonce in range(profile.nonces):
            promoted = key.schedule.promoted(nonce)
            for s, (begin, end) in enumerate(pairwise(begins.tolist())):
                at = np.flatnonzero(letters[begin:end] < 20)
                symbols = SYMBOLS[letters[begin:end][at]]
                for j, start in enumerate(key.schedule.starts.tolist()):
                    places = (start + at) % profile.period
                    counts[s, k, nonce, j] = promoted[places, symbols].sum()
    return counts


def plain_log_p(counts: np.ndarray, letters: np.ndarray, begins: np.ndarray) -> np.ndarray:
    """Return ln p of every segment and key, from its largest count."""
    scored = [np.sum(letters[a:b] < 20) for a, b in pairwise(begins.tolist())]
    most = counts.max(axis=(2, 3))
    tails = binomial_log_tail(most, np.array(scored, dtype=np.int64)[:, None], 0.5)
    return np.minimum(0.0, np.log(counts.shape[2] * counts.shape[3]) + tails)


def check(keys: list[Key], letters: np.ndarray, begins: np.ndarray, level: int) -> None:
    group = HardenedGroup(keys)
    counts = plain_counts(keys, letters, begins)
    np.testing.assert_array_equal(group.counts(letters, begins), counts)
    log_p = plain_log_p(counts, letters, begins)
    levels = -np.arange(1, LEVELS + 1) * np.log(10.0)
    tally = np.full(LEVELS, 7)
    pairs = group.passing(letters, begins, level, tally)
    np.testing.assert_array_equal(pairs, np.argwhere(log_p <= levels[level - 1]))
    np.testing.assert_array_equal(tally - 7, (log_p[..., None] <= levels).sum(axis=(0, 1)))


@pytest.mark.parametrize(("nonces", "number"), [(1, 70), (2, 33), (64, 2)])
def test_counts_pairs_and_tallies_are_those_of_a_plain_look(
    nonces: int, number: int, rng: np.random.Generator
) -> None:
    keys = keys_of(Profile(scheme=Blocks(nonces=nonces)), number)
    letters, begins = segments_of(rng, LENGTHS)
    check(keys, letters, begins, 1)


@pytest.mark.parametrize("name", SHAPES)
def test_other_shapes_of_schedules(name: str, rng: np.random.Generator) -> None:
    keys = keys_of(SHAPES[name], 5)
    letters, begins = segments_of(rng, [0, 7, 90, 200, 2048])
    check(keys, letters, begins, 1)


@given(
    starts=st.integers(1, 20),
    blocks=st.integers(1, 6),
    block=st.sampled_from([2, 4, 6]),
    nonces=st.integers(1, 66),
    lengths=st.lists(st.integers(0, 150), max_size=4),
    unknown=st.sampled_from([0.0, 0.2, 1.0]),
    level=st.integers(1, LEVELS),
    seed=st.integers(0, 2**32 - 1),
)
@settings(max_examples=25, deadline=None)
def test_any_shape(
    starts: int,
    blocks: int,
    block: int,
    nonces: int,
    lengths: list[int],
    unknown: float,
    level: int,
    seed: int,
) -> None:
    profile = Profile(scheme=Blocks(nonces=nonces))
    letters, begins = segments_of(np.random.default_rng(seed), lengths, unknown)
    check(keys_of(profile, 3, str(seed)), letters, begins, level)


def promoted_letters(key: Key, length: int, seed: int, rng: np.random.Generator) -> np.ndarray:
    """Return a sequence of which each letter is promoted by the key drawn for its position."""
    rows = key.schedule.promoted_rows(Marker(key).key_sequence(length, seed=seed))
    return np.array([rng.choice(np.flatnonzero(row[SYMBOLS])) for row in rows], dtype=np.uint8)


@pytest.mark.parametrize(("nonces", "number"), [(1, 70), (2, 40), (64, 6)])
def test_a_marked_sequence_passes_with_its_key(
    nonces: int, number: int, rng: np.random.Generator
) -> None:
    """Each has a nonce and a start of its own; the longest go around the period four times."""
    keys = keys_of(Profile(scheme=Blocks(nonces=nonces)), number)
    of_segment = [3, number - 1, 5, 1, 1, 0]
    sizes = [60, 300, 512, 513, 100, 2048]
    marked = [
        promoted_letters(keys[k], size, seed, rng)
        for seed, (k, size) in enumerate(zip(of_segment, sizes, strict=True))
    ]
    marked[4][::7] = 20  # unknown letters in between
    letters, begins = np.concatenate(marked), np.cumsum([0, *sizes])
    group, tally = HardenedGroup(keys), np.zeros(LEVELS, dtype=np.int64)
    pairs = group.passing(letters, begins, 10, tally).tolist()
    # Another key's counts spread more than a binomial where the same halves come around again.
    once = [pair for pair in pairs if sizes[pair[0]] <= 513]
    assert once == [[s, k] for s, k in enumerate(of_segment[:-1])]
    assert [5, 0] in pairs
    assert tally[9] == len(pairs)
    most = group.counts(letters, begins).max(axis=(2, 3))
    assert most.argmax(axis=1).tolist() == of_segment
    assert most.max(axis=1).tolist() == [60, 300, 512, 513, 85, 2048]


def test_a_weak_mark_passes_beyond_its_limit(rng: np.random.Generator) -> None:
    """One count more or less decides."""
    key = keys_of(Profile(scheme=Blocks()), 1)[0]
    group = HardenedGroup([key])
    limit = int(group.limits[300, 7])
    whole = promoted_letters(key, 300, 1, rng)
    rows = key.schedule.promoted_rows(Marker(key).key_sequence(300, seed=1))[:, SYMBOLS]
    for agreeing, expected in ((limit, 1), (limit - 1, 0)):
        letters = whole.copy()
        for i in rng.permutation(300)[agreeing:]:
            letters[i] = rng.choice(np.flatnonzero(~rows[i]))
        tally = np.zeros(LEVELS, dtype=np.int64)
        assert len(group.passing(letters, np.array([0, 300]), 8, tally)) == expected
        assert tally[:8].tolist() == [1] * 7 + [expected]


@pytest.mark.parametrize(("nonces", "number"), [(1, 64), (64, 3)])
def test_random_sequences_do_not_pass(nonces: int, number: int, rng: np.random.Generator) -> None:
    keys = keys_of(Profile(scheme=Blocks(nonces=nonces)), number)
    letters, begins = segments_of(rng, [300] * 1000)
    tally = np.zeros(LEVELS, dtype=np.int64)
    pairs = HardenedGroup(keys).passing(letters, begins, 8, tally)
    assert len(pairs) == 0
    tried = 1000 * number
    assert 0 < tally[0] <= 0.1 * tried + 4 * np.sqrt(0.1 * tried)
    assert tally[1] <= 0.01 * tried + 4 * np.sqrt(0.01 * tried)


def test_more_pairs_than_there_is_room_for(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = keys_of(Profile(scheme=Blocks(nonces=2)), 40)
    letters, begins = segments_of(rng, [120] * 60)
    found, tallies = [], []
    for room in (2**16, 0, 5):
        monkeypatch.setattr(hardened, "_PAIRS", room)
        tally = np.zeros(LEVELS, dtype=np.int64)
        found.append(HardenedGroup(keys).passing(letters, begins, 1, tally).tolist())
        tallies.append(tally.tolist())
    assert len(found[0]) > 64
    assert found[0] == found[1] == found[2]
    assert tallies[0] == tallies[1] == tallies[2]


def test_limits_are_the_least_counts() -> None:
    limits = HardenedGroup(keys_of(Profile(scheme=Blocks()), 1)).limits
    assert limits.shape == (LONGEST + 1, LEVELS)
    n = np.arange(LONGEST + 1)[:, None]
    levels = -np.arange(1, LEVELS + 1) * np.log(10.0)
    ways = np.log(64 * 16)
    there = limits <= n
    assert np.all((ways + binomial_log_tail(limits, n, 0.5) <= levels)[there])
    assert np.all(ways + binomial_log_tail(limits - 1, n, 0.5) > levels)
    assert np.all(np.diff(limits, axis=1) >= 0)  # where one level is missed, so are those beyond


def test_what_is_refused(key: Key, rng: np.random.Generator) -> None:
    profile = Profile(scheme=Blocks(nonces=2))
    one = keys_of(profile, 1)[0]
    with pytest.raises(ParameterError, match="no keys"):
        HardenedGroup([])
    with pytest.raises(ParameterError, match="not a hardened key"):
        HardenedGroup([key])
    with pytest.raises(ParameterError, match="alike"):
        HardenedGroup([one, keys_of(Profile(scheme=Blocks()), 1)[0]])
    group, tally = HardenedGroup([one]), np.zeros(LEVELS, dtype=np.int64)
    letters, begins = segments_of(rng, [LONGEST + 1])
    with pytest.raises(ParameterError, match="up to 2048"):
        group.passing(letters, begins, 5, tally)
    for wrong in ([0, LONGEST + 2], [5, 4], [-1, 4], []):
        with pytest.raises(ParameterError, match="one after the other"):
            group.passing(letters, np.array(wrong, dtype=np.int64), 5, tally)
    with pytest.raises(ParameterError, match="level"):
        group.passing(letters, begins, 0, tally)
    with pytest.raises(ParameterError, match="tally"):
        group.passing(letters, begins, 5, tally[:3])


def test_nothing_to_look_at() -> None:
    group = HardenedGroup(keys_of(Profile(scheme=Blocks()), 1))
    tally = np.zeros(LEVELS, dtype=np.int64)
    empty = np.zeros(0, dtype=np.uint8)
    assert group.passing(empty, np.array([0]), 5, tally).shape == (0, 2)
    assert group.passing(empty, np.array([0, 0, 0]), 1, tally).shape == (0, 2)
    assert not tally.any()
