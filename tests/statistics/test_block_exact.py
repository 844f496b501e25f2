"""The p-value of one very sequence: keys are drawn as E says, and rare ones are counted right."""

from __future__ import annotations

from itertools import product
from math import exp, log

import numpy as np
import pytest

from patternmark import PROTEIN, Detector, Key, Profile
from patternmark.core.blocks import PROTEIN_PAIRS
from patternmark.core.reading import Reading
from patternmark.core.schemes import Blocks
from patternmark.core.secret import Secret
from patternmark.statistics.block_exact import DrawnCoins, draw_coins, exact_p
from patternmark.statistics.block_paths import Component
from patternmark.statistics.block_ratio import BlockStatistic, Mixture
from patternmark.statistics.likelihood import log_mean_exp
from tests.synthetic import plain


def statistic_of(secret: Secret, nonces: int, *, screens: bool = False) -> BlockStatistic:
    key = Key.of(secret, Profile(scheme=Blocks(nonces=nonces)))
    return BlockStatistic(key.schedule, screens=screens)  # type: ignore[arg-type]


def reading_of(secret: Secret, letters: str) -> Reading:
    return Detector(Key.of(secret, Profile())).read([PROTEIN.encode(letters)])[0]


def log_e_of_fresh_keys(
    statistic: BlockStatistic, reading: Reading, keys: int, rng: np.random.Generator
) -> np.ndarray:
    """Return ln E under many fair keys: nonces of one large key are such keys."""
    nonces = statistic.coins.nonces
    coins = DrawnCoins(statistic.coins.block, keys * nonces, rng)
    by_nonce = statistic.with_coins(coins).log_ratios(reading).reshape(keys, nonces)
    return np.array([float(log_mean_exp(row)) for row in by_nonce])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("letters", "nonces"), [("MKTAYIAKQRQISFVK", 3), ("K" * 24, 1), ("MKTAYI/AKQRQIS", 1)]
)
def test_it_is_the_share_of_fresh_keys(
    secret: Secret, rng: np.random.Generator, letters: str, nonces: int
) -> None:
    statistic = statistic_of(secret, nonces)
    reading = reading_of(secret, letters)
    keys = 1500
    log_e = log_e_of_fresh_keys(statistic, reading, keys, rng)
    for level in (0.2, 0.02):
        at = float(np.quantile(log_e, 1.0 - level))
        share = float(np.mean(log_e >= at))
        found = exact_p(statistic, reading, at, draws=200, seed=3)
        spread = np.hypot(
            (share * (1 - share) / keys) ** 0.5, exp(found.log_p) * found.relative_error
        )
        # The key under test counts as one more draw: so much more at most.
        more = exp(-at) / 201
        assert share - 4 * spread < exp(found.log_p) < share + more + 4 * spread


def test_it_is_the_share_of_all_keys(secret: Secret) -> None:
    """Three coins of each of four chains are all that a tiny sequence can see: 4,096 keys."""
    statistic = statistic_of(secret, 1)
    components = (Component(0, 0.0), Component(3, 0.0))
    statistic.mixture = Mixture(components, (0.5, 0.5), (0.5, 0.5))
    reading = reading_of(secret, "KKKEES")
    pair = {letter: p for p, letters in enumerate(PROTEIN_PAIRS) for letter in letters}
    seen = [(0, pair["K"]), (1, pair["E"]), (1, pair["S"])]  # blocks and pairs
    words = {chain: np.zeros((8, 2**12), dtype=np.uint16) for chain in range(4)}
    for number, coins in enumerate(product((0, 1), repeat=12)):
        for place, coin in enumerate(coins):
            block, p = seen[place % 3]
            words[place // 3][block, number] |= coin << p
    every_key = BlockStatistic(DrawnCoins(3, 2**12, np.random.default_rng(1), words), screens=False)
    every_key.mixture = statistic.mixture
    log_e = every_key.log_ratios(reading)
    assert log(np.mean(np.exp(log_e))) == pytest.approx(0.0, abs=1e-9)  # an e-value
    draws = 2000
    drawn = [draw_coins(statistic, reading, np.random.default_rng(i)) for i in range(draws)]
    together = DrawnCoins(3, draws, np.random.default_rng(1))
    for chain in range(4):
        together.drawn[chain] = np.concatenate([coins.words(chain, 8) for coins in drawn], axis=1)
    of_drawn = BlockStatistic(together, screens=False)
    of_drawn.mixture = statistic.mixture
    values = of_drawn.log_ratios(reading)
    for at in np.quantile(log_e, [0.5, 0.9, 0.99, 0.999]):
        share = float(np.mean(log_e >= at - 1e-9))
        terms = np.where(values >= at - 1e-9, np.exp(-values), 0.0)
        error = float(terms.std()) / draws**0.5
        assert terms.mean() == pytest.approx(share, abs=4 * error)


def test_it_never_claims_more_than_its_draws_can_show(secret: Secret) -> None:
    """The key under test counts as a draw: p is at least 1 / (t (n + 1)), and at most 1 / t."""
    statistic, reading = statistic_of(secret, 2), reading_of(secret, "MKTAYIAKQRQISFVK")
    found = exact_p(statistic, reading, 60.0, draws=20, seed=1)  # no key reaches it
    assert found.log_p == pytest.approx(-60.0 - log(21))
    for at in (-5.0, 0.0, 2.0):
        assert exact_p(statistic, reading, at, draws=20, seed=1).log_p <= max(0.0, -at)
    assert exact_p(statistic, reading_of(secret, "XXXX"), 0.0).log_p == 0.0


def test_a_seed_repeats_it_and_screened_keys_err_on_the_safe_side(
    secret: Secret, rng: np.random.Generator
) -> None:
    reading = reading_of(secret, plain(120, rng))
    full, screened = (statistic_of(secret, 8, screens=wanted) for wanted in (False, True))
    first, again = (exact_p(screened, reading, 4.0, draws=60, seed=5) for _ in range(2))
    assert first == again
    assert first != exact_p(screened, reading, 4.0, draws=60, seed=6)
    steps: list[int] = []
    whole = exact_p(full, reading, 4.0, draws=60, seed=5, step=lambda: steps.append(1))
    assert len(steps) == 60
    assert first.log_p == pytest.approx(whole.log_p, abs=0.5)
