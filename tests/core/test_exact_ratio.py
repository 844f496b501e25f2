"""The proof of the block detector: over all keys E has the mean of its priors, at most 1.

Alphabets are small enough that every key can be tried, and chains so short that every path can be
written down.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from patternmark import Key, Profile
from patternmark.core.alphabet import PROTEIN
from patternmark.core.reading import read_many
from patternmark.core.schemes import Blocks
from patternmark.core.secret import Secret
from patternmark.fast.compiled import force_loops
from patternmark.statistics import block_paths
from patternmark.statistics import block_ratio as blocks
from patternmark.statistics.block_paths import BlockChain, Component, log_ratios, num_blocks
from patternmark.statistics.block_ratio import BlockStatistic, Mixture
from tests.core.paths import every_key, every_path, ratio, small_chain

MOST_BLOCKS = 5  # of two pairs: 1,024 keys
letters = st.lists(st.integers(0, 4), min_size=1, max_size=7)
slips = st.sampled_from(  # and how many more are doubled than lost
    [(0.0, 0.0), (0.003, 0.0), (0.25, 0.0), (0.6, 0.0), (0.1, 0.1), (0.3, -0.25), (0.35, 0.3)]
)
begins = st.sampled_from(["start", "anywhere", "inside"])
seeds = st.integers(0, 2**32 - 1)


@pytest.fixture(autouse=True, scope="module")
def few_first_blocks() -> object:
    """Let pieces begin within six positions, so that all blocks they may meet can be tried."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(block_paths, "FIRST_POSITIONS", 6)
        patch.setattr(block_paths, "ENTER", 0.3)
        patch.setattr(block_paths, "LEAVE", 0.2)
        block_paths._entering_at.cache_clear()
        yield
    block_paths._entering_at.cache_clear()


def chain_of(symbols: list[int], seed: int) -> BlockChain:
    """Return a chain with weights of its own at every position, some of them negative."""
    weights = np.random.default_rng(seed).normal(0.8, 0.8, size=(2, len(symbols)))
    return small_chain(symbols, weights)


def says_something(chain: BlockChain) -> bool:
    return bool(np.any(chain.weights))


@given(letters, slips, begins, st.integers(1, 3), seeds)
def test_the_mean_over_all_keys_is_that_of_the_priors(
    symbols: list[int], slip: tuple[float, float], where: block_paths.Begins, block: int, seed: int
) -> None:
    chain, component = chain_of(symbols, seed), Component(1, slip[0], where, slip[1])
    count = min(num_blocks(len(symbols), block, [component]), MOST_BLOCKS)
    found = np.exp(log_ratios(chain, every_key(count), block, [component]))[:, 0]
    priors = sum(path.share for path in every_path(len(symbols), block, component, count))
    assert priors <= 1.0 + 1e-12
    expected = priors if says_something(chain) else 1.0
    assert found.mean() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("symbols", [[0], [0, 0, 0, 0], [0, 1, 0, 1], [0, 2, 1, 3], [4, 0, 4, 2]])
@pytest.mark.parametrize("where", ["start", "anywhere", "inside"])
def test_with_all_blocks_hardly_anything_of_the_prior_is_lost(
    symbols: list[int], where: block_paths.Begins
) -> None:
    """E has mean 1 but for lengths that are left out because they hardly ever happen."""
    component, block = Component(0, 0.003, where), 3
    chain = chain_of(symbols, 5)
    count = num_blocks(len(symbols), block, [component])
    found = np.exp(log_ratios(chain, every_key(count), block, [component]))
    # A piece that was cut out does not begin behind the last position of its first block, and a
    # stretch that is marked may begin there and stop: what is left out is named in `piece_law`.
    lost = 0.003 if where == "start" else 0.01
    assert 1.0 - lost < found.mean() <= 1.0 + 1e-12


@given(st.lists(st.integers(0, 4), min_size=1, max_size=5), slips, begins, st.integers(1, 3), seeds)
def test_the_forward_pass_adds_up_every_path(
    symbols: list[int], slip: tuple[float, float], where: block_paths.Begins, block: int, seed: int
) -> None:
    chain, component = chain_of(symbols, seed), Component(0, slip[0], where, slip[1])
    if not says_something(chain):
        return
    count = min(num_blocks(len(symbols), block, [component]), 4)
    keys = every_key(count)
    some = keys[np.random.default_rng(seed).integers(len(keys), size=2)]
    paths = every_path(len(symbols), block, component, count)
    found = np.exp(log_ratios(chain, some, block, [component]))[:, 0]
    for row, halves in zip(found, some, strict=True):
        assert row == pytest.approx(ratio(chain, 0, paths, halves), rel=1e-12)


@given(st.lists(st.integers(0, 4), max_size=60), slips, begins, st.integers(1, 4), seeds)
def test_numpy_and_numba_agree(
    symbols: list[int], slip: tuple[float, float], where: block_paths.Begins, block: int, seed: int
) -> None:
    pytest.importorskip("numba")
    chain = chain_of(symbols, seed)
    components = [Component(0, slip[0], where, slip[1]), Component(1, 0.05)]
    rng = np.random.default_rng(seed)
    coins = rng.choice(
        np.array([1, -1], dtype=np.int8), size=(3, num_blocks(60, block, components), 2)
    )
    first, second = coins[..., :1], coins[..., 1:]
    halves = np.concatenate([first, -first, second, -second, 0 * first], axis=2)
    found = []
    for use in (False, True):
        with force_loops(use) as used:
            assert used is use
            found.append(log_ratios(chain, halves, block, components))
    np.testing.assert_allclose(found[0], found[1], rtol=0, atol=1e-9)


@dataclass
class EveryKey:
    """All keys of one pair, AE, as nonces: the coins of chains 0, 1 and 2."""

    block: int
    reach: int  # blocks of a chain that any path meets

    @property
    def nonces(self) -> int:
        return 2 ** (3 * self.reach)

    def words(self, chain: int, blocks: int) -> np.ndarray:
        """Bit 0 of a word is the coin of AE; blocks that no path meets have one value."""
        key = np.arange(self.nonces)[None]
        block = np.arange(blocks)[:, None]
        coins = (key >> (chain * self.reach + block)) & 1
        return np.where(block < self.reach, coins, 0).astype(np.uint16)


@pytest.mark.parametrize("record", ["AEA", "EE/AEA", "AAX/E", "AE/AA", "AEA/EE/AEA"])
def test_a_record_of_several_chains_has_the_mean_of_its_priors(
    record: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Chains share coins where their numbers may differ from the design's: the mean is the same."""
    monkeypatch.setattr(blocks, "_LACKING", (1,))  # one more would need coins of a fourth chain
    mixture = Mixture((Component(1, 0.0), Component(2, 0.02)), (0.7, 0.3), (0.6, 0.4))
    reach = num_blocks(3, 3, mixture.components)
    statistic = BlockStatistic(EveryKey(3, reach), screens=False)
    statistic.mixture = mixture
    (reading,) = read_many([PROTEIN.encode(record)], PROTEIN, [None])
    found = np.exp(statistic.log_ratios(reading))
    pieces = statistic.pieces(reading)
    branches = statistic.branches(reading)
    assert {branch.shift for branch in branches} == {
        0,
        1,
        *(-c for c in range(1, len(record.split("/")))),
    }
    expected = 0.0
    for branch in branches:
        lengths = [piece.chain.length for piece in pieces if piece.number + branch.shift >= 0]
        for component, log_weight in zip(branch.components, branch.log_weights, strict=True):
            share = float(np.exp(log_weight))
            for n in lengths:
                count = num_blocks(n, 3, branch.components)
                priors = sum(path.share for path in every_path(n, 3, component, count))
                share *= priors if len(lengths) == 1 else 0.9 * priors + 0.1
            expected += share
    assert found.mean() == pytest.approx(expected, rel=1e-12)
    assert 0.99 < expected <= 1.0
    assert found.std() > 0.1  # keys do differ


@given(st.text("AEKRSTX", min_size=1, max_size=50), st.text("AEKRX", max_size=20), seeds)
def test_what_the_screen_leaves_out_makes_the_ratio_smaller(
    one: str, other: str, seed: int
) -> None:
    """So that its p-values hold wherever those of the whole average do."""
    key = Key.of(Secret(seed.to_bytes(32, "big")), Profile(scheme=Blocks(nonces=9)))
    (reading,) = read_many([PROTEIN.encode(f"{one}/{other}")], PROTEIN, [None])
    whole = BlockStatistic(key.schedule, screens=False).log_ratios(reading)
    found = BlockStatistic(key.schedule).log_ratios(reading)
    assert np.all(found <= whole + 1e-9)
