"""The screen of block marks: its numbers equal plain loops, and it keeps the nonce of a mark."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from patternmark.core.alphabet import PROTEIN
from patternmark.core.blocks import PROTEIN_PAIRS, halves_of
from patternmark.fast.compiled import force_loops
from patternmark.statistics.block_paths import BlockChain, log_ratios, num_blocks
from patternmark.statistics.block_screen import (
    SEGMENT,
    Packed,
    log_ratios_many,
    looks,
    pack,
    score,
)
from tests.statistics.test_block_kernels import (
    COMPONENTS,
    LETTERS,
    draw_chain,
    draw_halves,
    other_letter,
)


def packed_of(halves: np.ndarray, block: int, longest: int) -> Packed:
    """Pack the coins that halves [lanes, J, V] come from."""
    firsts = PROTEIN.encode("".join(pair[0] for pair in PROTEIN_PAIRS))
    coins = (halves[..., firsts] > 0) @ (1 << np.arange(len(firsts)))
    return pack(coins.T.astype(np.uint16), block, longest)


@pytest.mark.parametrize(("lanes", "blocks"), [(1, 1), (64, 5), (70, 40), (200, 3)])
def test_every_bit_of_the_table_is_a_coin(lanes, blocks):
    coins = np.random.default_rng(lanes).integers(2**16, size=(blocks, lanes), dtype=np.uint16)
    packed, promoted = pack(coins, 3, 100), halves_of(coins) > 0  # [J, lanes, V]
    assert (packed.lanes, len(packed.words)) == (lanes, -(-lanes // 64))
    for lane in range(lanes):
        bits = (packed.words[lane // 64] >> np.uint64(lane % 64)) & np.uint64(1)  # [V + 1, width]
        inside = bits[:, packed.front : packed.front + blocks]
        np.testing.assert_array_equal(inside[:-1], promoted[:, lane].T)
        assert bits.sum() == promoted[:, lane].sum()  # and none elsewhere


def joined(*chains: BlockChain) -> BlockChain:
    parts = ((c.letters, c.weights, c.pair, c.side) for c in chains)
    return BlockChain(*(np.concatenate(x, axis=-1) for x in zip(*parts, strict=True)))


def cut(chain: BlockChain, begin: int, end: int) -> BlockChain:
    return BlockChain(chain.letters[begin:end], chain.weights[:, begin:end], *(
        x[begin:end] for x in (chain.pair, chain.side)
    ))  # fmt: skip


@given(
    length=st.sampled_from([0, 1, 2, 3, 31, 32, 33, 70, 200]),
    nonces=st.integers(1, 70),
    block=st.integers(1, 5),
    spare=st.integers(0, 100),
    pace=st.sampled_from([1.0, 0.72, 1.3]),
    seed=st.integers(0, 2**32 - 1),
)
def test_numba_finds_the_scores_that_numpy_does(length, nonces, block, spare, pace, seed):
    rng = np.random.default_rng(seed)
    halves = draw_halves(rng, nonces, num_blocks(length, block, COMPONENTS))
    chain = draw_chain(rng, length, halves[-1], block)
    packed = packed_of(halves, block, length + spare)
    with force_loops(False):
        wanted = score(chain, packed, pace=pace)
    with force_loops(True) as used:
        if not used:
            pytest.skip("numba is not installed")
        found = score(chain, packed, pace=pace)
    for one, other in zip(found, wanted, strict=True):
        assert one.tolist() == other.tolist()


@pytest.mark.parametrize("compiled", [False, True])
def test_counts_equal_plain_loops(compiled):
    """A chain of one segment: its best stretch is the best count, less the letters by chance."""
    rng = np.random.default_rng(5)
    halves = draw_halves(rng, 70, num_blocks(SEGMENT, 3, COMPONENTS))
    chain = draw_chain(rng, SEGMENT)
    known = np.flatnonzero(chain.weights[0])
    with force_loops(compiled):
        found = score(chain, packed_of(halves, 3, SEGMENT))
    for nonce in range(70):
        best = 0
        for shift in range(-SEGMENT, 396):  # groups of eight blocks: the last one reaches 396
            at = (known + shift) // 3
            inside = at >= 0
            agree = halves[nonce, at[inside], chain.letters[known[inside]]] > 0
            best = max(best, int(agree.sum()))
        assert found.loose[nonce] == best - round(0.58 * len(known))


@pytest.mark.parametrize("compiled", [False, True])
def test_a_path_without_slips_scores_its_weights(compiled):
    rng = np.random.default_rng(6)
    halves = draw_halves(rng, 3, num_blocks(60, 3, COMPONENTS))
    chain = draw_chain(rng, 60)
    # The chain agrees with nonce 1 in every letter: no path does better than the straight one.
    known = chain.letters < 20
    agrees = halves[1, np.arange(60) // 3, np.where(known, chain.letters, 0)] > 0
    letters = np.where(known & ~agrees, other_letter()[chain.letters % LETTERS], chain.letters)
    with force_loops(compiled):
        found = score(replace(chain, letters=letters), packed_of(halves, 3, 60))
    assert found.anchored[1] == np.rint(8 * chain.weights.mean(axis=0)).sum()
    assert found.anchored.argmax() == 1


@pytest.mark.parametrize("pace", [0.8, 1.25])
def test_a_path_at_another_pace_finds_the_nonce(pace):
    """Every fifth letter was taken out, or one put in after every fourth."""
    rng = np.random.default_rng(9)
    halves = draw_halves(rng, 64, num_blocks(600, 3, COMPONENTS))
    chain = draw_chain(rng, 400, halves[17])
    kept = np.arange(400) % 5 != 4
    if pace < 1:
        edited = BlockChain(chain.letters[kept], chain.weights[:, kept], chain.pair[kept],
                       chain.side[kept])  # fmt: skip
    else:
        others = draw_chain(rng, 100)
        parts = [(cut(chain, 4 * i, 4 * i + 4), cut(others, i, i + 1)) for i in range(100)]
        edited = joined(*(part for both in parts for part in both))
    packed = packed_of(halves, 3, 600)
    found, steady = (score(edited, packed, pace=p).anchored for p in (pace, 1.0))
    assert found.argmax() == 17
    assert found[17] - np.sort(found)[-2] > 2 * (steady[17] - np.sort(steady)[-2])


@pytest.mark.parametrize("damage", ["none", "lost", "window", "inside"])
def test_the_nonce_of_a_mark_is_looked_at(damage):
    """Among 64 nonces, 40 designs: marks that all terms find are found by those looked at."""
    rng = np.random.default_rng(8)
    lost = found = 0
    with force_loops(True):
        for _ in range(40):
            halves = draw_halves(rng, 64, num_blocks(400, 3, COMPONENTS))
            packed, true = packed_of(halves, 3, 400), int(rng.integers(64))
            chain = draw_chain(rng, 300, halves[true])
            if damage == "lost":
                kept = rng.random(300) > 0.05
                chain = BlockChain(chain.letters[kept], chain.weights[:, kept], chain.pair[kept],
                              chain.side[kept])  # fmt: skip
            elif damage == "window":
                chain = cut(chain, 80, 260)
            elif damage == "inside":
                other, whole = draw_chain(rng, 100), cut(chain, 0, 200)
                chain = joined(other, whole)
            wanted = log_ratios(chain, halves[true : true + 1], 3, COMPONENTS).max()
            if wanted < np.log(100 * 64 * len(COMPONENTS)):
                continue
            found += 1
            (ratios,) = log_ratios_many([chain], halves, packed, COMPONENTS)
            lost += ratios[true].max() < wanted - 0.1
    assert found >= 20
    assert lost == 0


def test_few_terms_are_looked_at_for_an_unmarked_chain():
    rng = np.random.default_rng(9)
    halves = draw_halves(rng, 32, num_blocks(400, 3, COMPONENTS))
    packed, terms = packed_of(halves, 3, 400), []
    with force_loops(True):
        for _ in range(20):
            chain = draw_chain(rng, 400)
            chosen = looks(score(chain, packed), chain.length, COMPONENTS)
            terms.append(sum(len(look.nonces) for look in chosen))
    assert np.mean(terms) <= 10  # of 192


def test_a_chain_longer_than_the_table_is_refused():
    rng = np.random.default_rng(1)
    packed = packed_of(draw_halves(rng, 2, 200), 3, 100)
    with pytest.raises(ValueError, match="the chain has 101"):
        score(draw_chain(rng, 101), packed)
