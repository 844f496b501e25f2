"""Repeats are found wherever they lie, and what does not repeat is left alone."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from patternmark.core.alphabet import PROTEIN, PROTEIN_BACKGROUND, SEPARATOR, Alphabet
from patternmark.masks.repeats import find_repeats, find_repeats_many

Ids = NDArray[np.int64]

X = 20
FREQUENCY = np.array(PROTEIN_BACKGROUND[:20]) / sum(PROTEIN_BACKGROUND)
TEXT = Alphabet("tokens", 200_000, (0,), hashlib.sha256(b"tokens").hexdigest())
DNA = Alphabet.from_symbols("dna", "ACGT", (), written_in_letters=True)


def protein(rng: np.random.Generator, length: int) -> Ids:
    return rng.choice(20, length, p=FREQUENCY)


def mutated(rng: np.random.Generator, ids: Ids, share: float) -> Ids:
    """Replace exactly this share of the symbols, each by another one."""
    copy = ids.copy()
    places = rng.choice(len(ids), round(share * len(ids)), replace=False)
    copy[places] = (copy[places] + rng.integers(1, 20, len(places))) % 20
    return copy


def rng_of(*seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


# What repeats


@pytest.mark.parametrize("period", [1, 2, 3, 7, 11, 24, 33, 60])
def test_all_but_the_first_copy_of_an_exact_tandem_repeat_is_marked(period: int) -> None:
    unit = rng_of(1).permutation(20)[:period] if period <= 20 else protein(rng_of(2), period)
    mask = find_repeats(np.tile(unit, 12))
    np.testing.assert_array_equal(mask, np.arange(12 * period) >= period)


@pytest.mark.parametrize("period", [7, 12, 24, 33, 61])
def test_tandem_copies_that_drifted_apart_are_marked(period: int) -> None:
    """Each copy keeps 70 % of the unit, so that two copies agree in about half."""
    rng = rng_of(3, period)
    unit = protein(rng, period)
    before, after = protein(rng, 100), protein(rng, 100)
    copies = [mutated(rng, unit, 0.3) for _ in range(10)]
    mask = find_repeats(np.concatenate([before, *copies, after]))
    later = slice(100 + period, 100 + 10 * period)
    assert mask[later].mean() > 0.75
    assert mask[:100].sum() == 0
    assert mask[-90:].sum() == 0  # a stretch may run on by chance for a few symbols


@pytest.mark.parametrize("distance", [30, 31, 200, 5000])
def test_a_distant_copy_is_marked_and_nothing_else(distance: int) -> None:
    rng = rng_of(4, distance)
    stretch = protein(rng, 30)
    ids = np.concatenate([stretch, protein(rng, distance - 30), stretch, protein(rng, 50)])
    mask = find_repeats(ids)
    assert mask[distance : distance + 30].all()
    assert mask.sum() <= 30 + 5 + 0.005 * distance


def test_a_copy_shorter_than_the_bar_is_left_alone() -> None:
    """At a distance of 100 in 400, six agreeing residues can be chance, eight cannot."""
    ids = np.concatenate([rng_of(5, block).permutation(20) for block in range(20)])
    assert not find_repeats(ids).any()
    for length, is_found in [(6, False), (8, True)]:
        planted = ids.copy()
        planted[300 : 300 + length] = planted[200 : 200 + length]
        for edge in (299, 300 + length):  # a disagreement to either side, so that it ends there
            planted[edge] = (planted[edge - 100] + 1) % 20
        assert find_repeats(planted)[300 : 300 + length].all() == is_found
        assert find_repeats(planted).any() == is_found


@pytest.mark.parametrize("substitutions", [0.0, 0.2, 0.4])
@pytest.mark.parametrize("length", [60, 300])
def test_a_second_chain_that_is_nearly_the_first_is_marked(
    length: int, substitutions: float
) -> None:
    rng = rng_of(6, length)
    chain, other = protein(rng, length), protein(rng, length)
    copy = mutated(rng, chain, substitutions)
    ids = np.concatenate([chain, [SEPARATOR], other, [SEPARATOR], copy])
    mask = find_repeats(ids)
    assert mask[-length:].mean() > (0.9 if substitutions else 0.999)
    assert mask[: 2 * length + 2].sum() == 0


def test_an_insertion_in_the_copy_costs_little() -> None:
    rng = rng_of(7)
    chain = protein(rng, 200)
    copy = np.concatenate([chain[:90], protein(rng, 3), chain[90:]])
    mask = find_repeats(np.concatenate([chain, copy]))
    assert mask[200:290].all()
    assert mask[293:].all()


@pytest.mark.parametrize(
    ("run", "first"),
    [("QQQQQQQQQQ", 1), ("HHHHHH", 1), ("GSGSGSGSGS", 2), ("GGGGSGGGGSGGGGS", 1)],
)
def test_of_a_stretch_of_low_complexity_only_the_beginning_counts(run: str, first: int) -> None:
    before, after = "MKTAYIADREVLNPW", "WCDLVYTPEKRNAIM"
    mask = find_repeats(PROTEIN.encode(before + run + after))
    marked = np.flatnonzero(mask) - len(before)
    assert marked.min() >= first
    assert marked.max() < len(run)
    assert len(marked) >= 0.6 * len(run)


def test_the_rare_end_of_a_run_is_found_in_its_copy() -> None:
    """The words of the run have more nearer places than are tried; those of its end do not."""
    run = np.array([1] * 65 + [0])
    mask = find_repeats(np.concatenate([run, [SEPARATOR], run]))
    assert mask[67:].all()
    assert np.flatnonzero(~mask).tolist() == [0, 65, 66]


# What does not


@pytest.mark.parametrize("length", [60, 400, 3000])
def test_random_proteins_lose_less_than_half_a_percent(length: int) -> None:
    rng = rng_of(8, length)
    records = [protein(rng, length) for _ in range(300_000 // length)]
    lost = np.concatenate(find_repeats_many(records)).mean()
    assert 0 < lost < 0.004  # nothing lost at all would mean that nothing was looked at


def test_random_text_and_random_dna_lose_less_than_half_a_percent() -> None:
    rng = rng_of(9)
    weights = 1 / np.arange(10, 20_010)  # words by rank: two agree in about 0.2 % of cases
    text = [rng.choice(20_000, 1000, p=weights / weights.sum()) for _ in range(100)]
    assert np.concatenate(find_repeats_many(text, TEXT)).mean() < 0.005
    dna = [rng.integers(0, 4, 1000) for _ in range(100)]
    assert np.concatenate(find_repeats_many(dna, DNA)).mean() < 0.005


@pytest.mark.parametrize("ids", [[], [3], [3, 3], [SEPARATOR], [X, X, X], [1, SEPARATOR, 1]])
def test_a_record_too_short_to_repeat_is_left_alone(ids: list[int]) -> None:
    mask = find_repeats(np.array(ids, dtype=np.int64))
    assert mask.shape == (len(ids),)
    assert mask.dtype == bool
    assert not mask.any()


def test_no_records_no_masks() -> None:
    assert find_repeats_many([]) == []


# Symbols without a say


def test_unscored_symbols_are_no_evidence_of_a_repeat_and_never_marked() -> None:
    rng = rng_of(10)
    gap = np.full(40, X)
    ids = np.concatenate([protein(rng, 50), gap, protein(rng, 50), gap, protein(rng, 50)])
    assert not find_repeats(ids).any()


def test_an_unscored_symbol_does_not_break_a_repeat() -> None:
    chain = rng_of(11).permutation(20)[:12]
    hidden = chain.copy()
    hidden[[4, 8]] = X  # leaves words of at most four symbols, none of them enough
    mask = find_repeats(np.concatenate([chain, hidden]))
    np.testing.assert_array_equal(np.flatnonzero(mask) - 12, [0, 1, 2, 3, 5, 6, 7, 9, 10, 11])


def test_a_separator_ends_a_repeat_and_is_not_marked() -> None:
    """Four symbols on either side of a separator are not the eight that it would take."""
    chain = rng_of(12).permutation(20)
    filler = np.concatenate([rng_of(12, block).permutation(20) for block in range(1, 11)])
    halves = [*chain[:4], SEPARATOR, *chain[4:8]]
    apart = np.concatenate([halves, [X], filler, [X], halves])
    together = np.concatenate([chain[:8], [X], filler, [X], chain[:8]])
    assert not find_repeats(apart).any()
    assert np.flatnonzero(find_repeats(together)).tolist() == list(range(210, 218))
    copies = np.concatenate([chain, [SEPARATOR], chain, [SEPARATOR], chain])
    assert np.flatnonzero(~find_repeats(copies)).tolist() == [*range(21), 41]


# Other alphabets


def test_in_text_four_tokens_are_a_repeat_and_three_are_not() -> None:
    ids = np.arange(1000, 1400)
    for length, is_found in [(3, False), (4, True), (5, True)]:
        planted = ids.copy()
        planted[300 : 300 + length] = planted[200 : 200 + length]
        expected = np.arange(300, 300 + length) if is_found else np.arange(0)
        np.testing.assert_array_equal(np.flatnonzero(find_repeats(planted, TEXT)), expected)


def test_words_whose_numbers_exceed_64_bits_are_told_apart() -> None:
    """The vocabulary is so large that the numbers of words wrap around, but no symbol repeats."""
    huge = Alphabet("huge", 1 << 22, (), "0" * 64)
    ids = np.arange(0, 1 << 22, 1 << 10)
    assert not find_repeats(ids, huge).any()
    mask = find_repeats(np.concatenate([ids, ids[100:120]]), huge)
    np.testing.assert_array_equal(np.flatnonzero(mask), np.arange(len(ids), len(ids) + 20))


def test_a_repeat_in_dna_takes_more_letters_than_in_a_protein() -> None:
    rng = rng_of(13)
    ids = rng.integers(0, 4, 400)
    ids[300:360] = ids[100:160]
    mask = find_repeats(ids, DNA)
    assert mask[300:360].all()
    assert mask.sum() < 75


def test_a_small_alphabet_is_searched_by_longer_words() -> None:
    """By words of three letters, a copy so far away would have too many nearer rivals."""
    ids = rng_of(15).integers(0, 4, 20_000)
    ids[15_000:15_100] = ids[1_000:1_100]
    assert find_repeats(ids, DNA)[15_000:15_100].all()


# Size


def test_a_giant_protein_is_done_in_one_go() -> None:
    rng = rng_of(14)
    ids = protein(rng, 35_000)
    ids[30_000:31_000] = mutated(rng, ids[2_000:3_000], 0.4)
    mask = find_repeats(ids)
    assert mask[30_000:31_000].mean() > 0.9
    mask[29_990:31_010] = False
    assert mask.mean() < 0.005


def test_the_work_on_a_run_does_not_grow_with_its_square() -> None:
    """All pairs of places of one letter would be ten thousand million."""
    mask = find_repeats(np.full(100_000, 3))
    assert np.flatnonzero(~mask).tolist() == [0]


# Whatever the record


few_letters = arrays(np.int64, st.integers(0, 120), elements=st.integers(0, 3))
any_letters = arrays(np.int64, st.integers(0, 120), elements=st.integers(SEPARATOR, X))
records = st.one_of(few_letters, any_letters)


@given(records)
def test_what_is_marked_repeats_and_the_first_of_its_kind_stays(ids: Ids) -> None:
    before = ids.copy()
    mask = find_repeats(ids)
    np.testing.assert_array_equal(ids, before)
    assert mask.shape == ids.shape
    assert not mask[(ids == SEPARATOR) | (ids == X)].any()
    scored = np.flatnonzero((ids != SEPARATOR) & (ids != X))
    assert not mask[scored[:1]].any()
    joined = mask | (ids == X)  # X is never marked, and a stretch goes on behind it
    edges = np.flatnonzero(np.diff(joined.astype(int), prepend=0, append=0))
    for start, stop in zip(edges[::2], edges[1::2], strict=True):
        if not mask[start:stop].any():
            continue
        if (ids == X).any():  # words may be broken: letters agree at one lag, perhaps not in a row
            agreeing = [
                sum(mask[at] and ids[at] == ids[at - lag] for at in range(max(start, lag), stop))
                for lag in range(1, stop)
            ]
            assert max(agreeing) >= 3
            continue
        # Each marked stretch holds a word of three that stands earlier in the record.
        assert any(
            (ids[later : later + 3] == ids[earlier : earlier + 3]).all()
            for later in range(start, stop - 2)
            for earlier in range(later)
        )


@given(st.lists(records, max_size=6))
def test_a_record_does_not_see_the_others_of_its_batch(batch: list[Ids]) -> None:
    for ids, mask in zip(batch, find_repeats_many(batch), strict=True):
        np.testing.assert_array_equal(mask, find_repeats(ids))


@given(records, st.randoms(use_true_random=False))
def test_the_names_of_the_symbols_do_not_matter(ids: Ids, random: object) -> None:
    names = np.arange(22)
    shuffled = np.arange(20)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    names[:20] = shuffled
    names[SEPARATOR] = SEPARATOR
    np.testing.assert_array_equal(find_repeats(names[ids]), find_repeats(ids))


@given(arrays(np.int64, st.integers(15, 120), elements=st.integers(0, 19)))
def test_the_copy_of_any_chain_is_marked_whole(chain: Ids) -> None:
    mask = find_repeats(np.concatenate([chain, [SEPARATOR], chain]))
    assert mask[len(chain) + 1 :].all()


@pytest.mark.parametrize("between", ["X", "XX"])
@pytest.mark.parametrize("word", ["A", "AK", "ACDEFGHIKL"])
def test_unscored_symbols_do_not_hide_a_repeat(word: str, between: str) -> None:
    """X at every second place leaves no word of three letters."""
    once = between.join(word) + between
    marked = find_repeats(PROTEIN.encode(once * (120 // len(word))))
    letters = PROTEIN.is_scored(PROTEIN.encode(once * (120 // len(word))))
    assert not marked[: len(once)].any()
    assert np.count_nonzero(letters & ~marked) <= 2 * len(word)


def test_letters_among_unscored_symbols_are_seldom_lost() -> None:
    rng = np.random.default_rng(4)
    lost = scored = 0
    for _ in range(40):
        ids = rng.choice(20, size=300)
        ids[rng.random(300) < 0.3] = PROTEIN.encode("X")[0]
        lost += np.count_nonzero(find_repeats(ids))
        scored += np.count_nonzero(PROTEIN.is_scored(ids))
    assert lost < 0.005 * scored
