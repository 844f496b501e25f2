"""The likeliest marked stretch: the best of all paths, and where a mark really lies."""

from itertools import product
from math import inf, log

import numpy as np
import pytest

from patternmark import PROTEIN, Key, Profile
from patternmark.core.alphabet import NO_KEY
from patternmark.core.blocks import halves_of, pair_of_letter, side_of_letter
from patternmark.core.schemes import Blocks
from patternmark.core.secret import Secret
from patternmark.masks import read
from patternmark.statistics import block_best
from patternmark.statistics.block_best import best_stretch, stretch_of
from patternmark.statistics.block_paths import (
    AT_START,
    ENTER,
    LEAVE,
    BlockChain,
    Component,
    inverse_means,
    piece_law,
)
from patternmark.statistics.block_ratio import BlockStatistic
from tests.synthetic import marked, plain


def chain_of(letters: np.ndarray, rng: np.random.Generator) -> BlockChain:
    weights = rng.uniform(0.2, 2.0, size=(1, len(letters)))
    return BlockChain(letters, weights, pair_of_letter()[letters], side_of_letter()[letters])


def best_by_trying_all(
    chain: BlockChain, halves: np.ndarray, block: int, slip: float, first_blocks: int
) -> float:
    """Return ln of the best path: every first block, first position, row of lengths and end."""
    law, n = piece_law(block, slip), chain.length
    means = inverse_means(chain, 0, law.longest)
    best = -inf
    for first, start, is_whole in product(range(len(halves)), range(n), (True, False)):
        if first > 0 if is_whole else first >= first_blocks:
            continue
        share = AT_START if is_whole else (1 - AT_START) / first_blocks
        prior = log(share * ENTER) + start * log(1 - ENTER)
        for number in range(1, len(halves) - first + 1):
            for lengths in product(range(law.longest + 1), repeat=number):
                if not is_whole and lengths[0] == 0:
                    continue
                at, total = start, prior
                for place, length in enumerate(lengths):
                    if at >= n or at + length > n:
                        total = -inf
                        break
                    some = law.rest if place == 0 and not is_whole else law.whole
                    longer = (
                        law.rest_or_longer if place == 0 and not is_whole else law.whole_or_longer
                    )
                    share = longer[length] if at + length == n else some[length]
                    letters = chain.letters[at : at + length]
                    agreed = halves[first + place, letters] * chain.weights[0, at : at + length] / 2
                    at += length
                    stays = log(1 - LEAVE) if place or is_whole else 0.0
                    total += stays + agreed.sum() + log(means[length, at] * share or 5e-324)
                if total > -inf and at < n:
                    total += log(LEAVE)
                best = max(best, total)
    return best


@pytest.mark.parametrize("slip", [0.05, 0.4])
def test_no_path_is_better(
    slip: float, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(block_best, "FIRST_POSITIONS", 4)  # two blocks to begin in
    for length in (1, 2, 5):
        chain = chain_of(rng.integers(0, 20, size=length), rng)
        halves = halves_of(rng.integers(0, 1024, size=3).astype(np.uint16))
        found = stretch_of(chain, halves, 2, Component(0, slip, "inside"))
        best = best_by_trying_all(chain, halves, 2, slip, 2)
        assert found.log_ratio == pytest.approx(best)
        on_path = np.flatnonzero(found.blocks != NO_KEY)
        assert on_path.tolist() == list(range(found.start, found.end))
        assert np.all(np.diff(found.blocks[found.start : found.end]) >= 0)


def test_a_mark_is_found_where_it_lies(secret: Secret, rng: np.random.Generator) -> None:
    key = Key.of(secret, Profile(scheme=Blocks(nonces=1)))
    statistic = BlockStatistic.of(key)
    right = []
    for _ in range(8):
        whole = marked(key, 240, rng)
        lost = whole[:120] + whole[122:]  # the second half lies two positions further on
        symbols = PROTEIN.encode(plain(60, rng) + lost + plain(60, rng))
        chain = statistic.pieces(read(symbols, PROTEIN))[0].chain
        halves = statistic.halves(0, chain.length, block_best.STRETCHES)[0]
        found = best_stretch(chain, halves, 3)
        truth = np.full(len(symbols), NO_KEY)
        kept = np.delete(np.arange(240), [120, 121])
        truth[60 : 60 + 238] = kept // 3
        right.append(np.mean(found.blocks == truth))
        beyond = found.continued(3)
        assert np.array_equal(
            beyond[found.start : found.end], found.blocks[found.start : found.end]
        )
        assert np.all(np.diff(beyond) >= 0)
        assert beyond[-1] > beyond[found.end - 1]
    assert np.median(right) > 0.9


def test_a_chain_without_letters_has_no_stretch() -> None:
    nothing = np.zeros(0, dtype=np.int64)
    chain = BlockChain(nothing, np.zeros((1, 0)), nothing, nothing)
    found = stretch_of(chain, np.zeros((4, 21), dtype=np.int8), 3, Component(0, 0.01, "inside"))
    assert (found.start, found.end, len(found.blocks)) == (0, 0, 0)
    assert len(found.continued(3)) == 0
