"""Bit-sliced counts are plain counts, and what reaches a level is what a plain look finds."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from patternmark import PROTEIN, Key, ParameterError, Profile
from patternmark.core.schemes import Blocks
from patternmark.core.secret import Secret
from patternmark.null.binomial import binomial_log_tail

pytest.importorskip("numba")

from patternmark.scanning import block_stage as blocks
from patternmark.scanning.block_stage import FIRST_PHASE, PHASES, BlockGroup, letter_codes
from patternmark.scanning.keyset import AMINO_ACIDS, LEVELS, LONGEST

LENGTHS = (0, 1, 31, 32, 33, 300, 2048)
SYMBOLS = np.full(27, -1)  # of letters by their places in the Latin alphabet
SYMBOLS[letter_codes()] = PROTEIN.encode(AMINO_ACIDS)
UNKNOWN = (0, 24)  # no letter, and X
SHAPES = {
    "keys that leave lanes over": Profile(scheme=Blocks(nonces=24)),
    "a key of two words": Profile(scheme=Blocks(nonces=70)),
    "blocks of one": Profile(scheme=Blocks(block=1, nonces=3)),
    "blocks of two": Profile(scheme=Blocks(block=2, nonces=2)),
    "blocks of seven": Profile(scheme=Blocks(block=7, nonces=5)),
    "blocks longer than all phases": Profile(scheme=Blocks(block=64, nonces=1)),
}


def keys_of(profile: Profile, number: int, name: str = "") -> list[Key]:
    secret = Secret(bytes(range(32)))
    return [Key.of(secret, profile).derive(f"{name}{i}") for i in range(number)]


def segments_of(
    rng: np.random.Generator, lengths: tuple[int, ...] | list[int], unknown: float = 0.05
) -> tuple[np.ndarray, np.ndarray]:
    """Return random segments, some of their letters unknown."""
    begins = np.cumsum([0, *lengths]).astype(np.int64)
    letters = rng.choice(letter_codes(), size=begins[-1]).astype(np.uint8)
    is_unknown = rng.random(len(letters)) < unknown
    letters[is_unknown] = rng.choice(UNKNOWN, size=is_unknown.sum())
    return letters, begins


def plain_counts(keys: list[Key], letters: np.ndarray, begins: np.ndarray) -> np.ndarray:
    """Look every residue up in every schedule: [segments, keys, R, phases]."""
    nonces, block = keys[0].schedule.nonces, keys[0].schedule.block
    counts = np.zeros((len(begins) - 1, len(keys), nonces, PHASES), dtype=np.int64)
    for k, key in enumerate(keys):
        halves = key.schedule.halves(0, LONGEST + PHASES)
        for s, (begin, end) in enumerate(pairwise(begins.tolist())):
            symbols = SYMBOLS[letters[begin:end]]
            at = np.flatnonzero(symbols >= 0)
            for number in range(PHASES):
                position = at + FIRST_PHASE + number
                agree = halves[:, np.maximum(position, 0) // block, symbols[at]] > 0  # [R, n]
                # Every second residue before the stream counts as if it agreed.
                agree = np.where(position >= 0, agree, position % 2 == 0)
                counts[s, k, :, number] = agree.sum(axis=1)
    return counts


def plain_log_p(counts: np.ndarray, letters: np.ndarray, begins: np.ndarray) -> np.ndarray:
    """Return ln p of every segment and key, from its largest count."""
    scored = [np.sum(SYMBOLS[letters[a:b]] >= 0) for a, b in pairwise(begins.tolist())]
    most = counts.max(axis=(2, 3))
    tails = binomial_log_tail(most, np.array(scored, dtype=np.int64)[:, None], 0.5)
    return np.minimum(0.0, np.log(counts.shape[2] * counts.shape[3]) + tails)


def check(keys: list[Key], letters: np.ndarray, begins: np.ndarray, level: int) -> None:
    group = BlockGroup(keys)
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


@pytest.mark.slow
@given(
    block=st.integers(1, 9),
    nonces=st.integers(1, 66),
    lengths=st.lists(st.integers(0, 150), max_size=4),
    unknown=st.sampled_from([0.0, 0.2, 1.0]),
    level=st.integers(1, LEVELS),
    is_kept=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_any_shape(
    block: int,
    nonces: int,
    lengths: list[int],
    unknown: float,
    level: int,
    is_kept: bool,
    seed: int,
) -> None:
    profile = Profile(scheme=Blocks(block=block, nonces=nonces))
    letters, begins = segments_of(np.random.default_rng(seed), lengths, unknown)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "_CACHED_BYTES", 2**27 if is_kept else 0)
        check(keys_of(profile, 3, str(seed)), letters, begins, level)


def promoted_letters(
    key: Key, length: int, nonce: int, rng: np.random.Generator, begin: int = 0
) -> np.ndarray:
    """Return a sequence of which each letter is promoted, from a position of the stream on."""
    rows = key.schedule.promoted_rows(key.schedule.keys(0, nonce, begin + length)[begin:])
    codes = letter_codes()
    own = [codes[row[SYMBOLS[codes]]] for row in rows]
    return np.array([rng.choice(some) for some in own], dtype=np.uint8)


@pytest.mark.parametrize(("nonces", "number"), [(1, 70), (2, 40), (64, 6)])
def test_a_marked_sequence_passes_with_its_key(
    nonces: int, number: int, rng: np.random.Generator
) -> None:
    """Each has a nonce of its own."""
    keys = keys_of(Profile(scheme=Blocks(nonces=nonces)), number)
    of_segment = [3, number - 1, 5, 1, 1, 0]
    sizes = [60, 300, 512, 513, 100, 2048]
    marked = [
        promoted_letters(keys[k], size, s % nonces, rng)
        for s, (k, size) in enumerate(zip(of_segment, sizes, strict=True))
    ]
    marked[4][::7] = 0  # unknown letters in between
    letters, begins = np.concatenate(marked), np.cumsum([0, *sizes])
    group, tally = BlockGroup(keys), np.zeros(LEVELS, dtype=np.int64)
    pairs = group.passing(letters, begins, 10, tally).tolist()
    assert pairs == [[s, k] for s, k in enumerate(of_segment)]
    assert tally[9] == len(pairs)
    counts = group.counts(letters, begins)
    best = counts.max(axis=(2, 3))
    assert best.argmax(axis=1).tolist() == of_segment
    assert best.max(axis=1).tolist() == [60, 300, 512, 513, 85, 2048]
    for s, k in enumerate(of_segment):
        nonce, phase = np.unravel_index(counts[s, k].argmax(), counts.shape[2:])
        assert (nonce, phase) == (s % nonces, -FIRST_PHASE)


@pytest.mark.parametrize("moved", [-4, -1, 2, 3])
def test_a_beginning_that_is_lost_or_longer(moved: int, rng: np.random.Generator) -> None:
    """Residues in front of a design move it to another phase; so do those that were lost."""
    key = keys_of(Profile(), 1)[0]
    letters = promoted_letters(key, 120, 5, rng, begin=max(moved, 0))
    letters = np.append(segments_of(rng, [max(-moved, 0)], 0.0)[0], letters)
    begins = np.array([0, len(letters)])
    counts = BlockGroup([key]).counts(letters, begins)[0, 0]
    assert counts[5].argmax() == moved - FIRST_PHASE
    assert counts.max() == 120 + max(-moved, 0) // 2
    assert len(BlockGroup([key]).passing(letters, begins, 10, np.zeros(LEVELS, np.int64))) == 1


def test_a_fixed_half_makes_no_large_count_likelier() -> None:
    """What stands before the stream counts by half, and the limit takes it for coins."""
    n = np.arange(1, LONGEST + 1)
    for ways in (PHASES, 32 * PHASES):
        limits = blocks._limits(ways)[n]
        for before in range(1, 1 - FIRST_PHASE):
            # Of positions -before to -1 the even ones count: before // 2 of them.
            left = np.maximum(n - before, 0)[:, None]
            reach = binomial_log_tail(np.maximum(limits - before // 2, 0), left, 0.5)
            coins = binomial_log_tail(limits, n[:, None], 0.5)
            is_there = limits <= n[:, None]
            assert np.any(is_there)
            assert np.all((reach <= coins + 1e-9)[is_there])


def test_a_weak_mark_passes_beyond_its_limit(rng: np.random.Generator) -> None:
    """One count more or less decides."""
    key = keys_of(Profile(), 1)[0]
    group, codes = BlockGroup([key]), letter_codes()
    limit = int(group.limits[300, 7])
    whole = promoted_letters(key, 300, 1, rng)
    rows = key.schedule.promoted_rows(key.schedule.keys(0, 1, 300))[:, SYMBOLS[codes]]
    for agreeing, expected in ((limit, 1), (limit - 1, 0)):
        letters = whole.copy()
        for i in rng.permutation(300)[agreeing:]:
            letters[i] = rng.choice(codes[~rows[i]])
        tally = np.zeros(LEVELS, dtype=np.int64)
        assert len(group.passing(letters, np.array([0, 300]), 8, tally)) == expected
        assert tally[:8].tolist() == [1] * 7 + [expected]


@pytest.mark.parametrize(("nonces", "number"), [(1, 64), (64, 3)])
def test_random_sequences_do_not_pass(nonces: int, number: int, rng: np.random.Generator) -> None:
    keys = keys_of(Profile(scheme=Blocks(nonces=nonces)), number)
    letters, begins = segments_of(rng, [300] * 1000)
    tally = np.zeros(LEVELS, dtype=np.int64)
    pairs = BlockGroup(keys).passing(letters, begins, 8, tally)
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
        monkeypatch.setattr(blocks, "_HITS_AT_ONCE", room)
        tally = np.zeros(LEVELS, dtype=np.int64)
        found.append(BlockGroup(keys).passing(letters, begins, 1, tally).tolist())
        tallies.append(tally.tolist())
    assert len(found[0]) > 64
    assert found[0] == found[1] == found[2]
    assert tallies[0] == tallies[1] == tallies[2]


def test_limits_are_the_least_counts() -> None:
    limits = BlockGroup(keys_of(Profile(), 1)).limits
    assert limits.shape == (LONGEST + 1, LEVELS)
    n = np.arange(LONGEST + 1)[:, None]
    levels = -np.arange(1, LEVELS + 1) * np.log(10.0)
    ways = np.log(32 * PHASES)
    there = limits <= n
    assert np.all((ways + binomial_log_tail(limits, n, 0.5) <= levels)[there])
    assert np.all(ways + binomial_log_tail(limits - 1, n, 0.5) > levels)
    assert np.all(np.diff(limits, axis=1) >= 0)  # where one level is missed, so are those beyond


def test_what_is_refused(key: Key, rng: np.random.Generator) -> None:
    profile = Profile(scheme=Blocks(nonces=2))
    one = keys_of(profile, 1)[0]
    with pytest.raises(ParameterError, match="no keys"):
        BlockGroup([])
    with pytest.raises(ParameterError, match="is not a block key"):
        BlockGroup([key])
    with pytest.raises(ParameterError, match="alike"):
        BlockGroup([one, keys_of(Profile(), 1)[0]])
    group, tally = BlockGroup([one]), np.zeros(LEVELS, dtype=np.int64)
    letters, begins = segments_of(rng, [LONGEST + 1])
    with pytest.raises(ParameterError, match="up to 2048"):
        group.passing(letters, begins, 5, tally)
    for wrong in ([0, LONGEST + 2], [5, 4], [-1, 4], []):
        with pytest.raises(ParameterError, match="non-decreasing"):
            group.passing(letters, np.array(wrong, dtype=np.int64), 5, tally)
    with pytest.raises(ParameterError, match="from 0 to 26"):
        group.passing(letters + 26, np.array([0, 9]), 5, tally)
    with pytest.raises(ParameterError, match="level"):
        group.passing(letters, begins, 0, tally)
    with pytest.raises(ParameterError, match="tally"):
        group.passing(letters, begins, 5, tally[:3])


def test_nothing_to_look_at() -> None:
    group = BlockGroup(keys_of(Profile(), 1))
    tally = np.zeros(LEVELS, dtype=np.int64)
    empty = np.zeros(0, dtype=np.uint8)
    assert group.passing(empty, np.array([0]), 5, tally).shape == (0, 2)
    assert group.passing(empty, np.array([0, 0, 0]), 1, tally).shape == (0, 2)
    assert not tally.any()
