"""Chains that have other numbers than in their design: found, and looked at only where it pays."""

from __future__ import annotations

import numpy as np
import pytest

from patternmark import PROTEIN, Key, Profile
from patternmark.core.schemes import Blocks
from patternmark.core.secret import Secret
from patternmark.masks import read
from patternmark.statistics import block_ratio as blocks
from patternmark.statistics.base import likeliest_nonce
from patternmark.statistics.block_paths import log_ratios
from patternmark.statistics.block_ratio import BlockStatistic
from patternmark.statistics.block_screen import log_ratio_of_path
from tests.synthetic import letters, plain


def chain_of_design(
    key: Key, number: int, nonce: int, length: int, rng: np.random.Generator, odds: float = 3.0
) -> str:
    """Draw one chain of a design; a promoted letter is `odds` times as likely as another."""
    schedule = key.schedule
    promoted = schedule.promoted_rows(schedule.keys(number, nonce, length))[:, :20]
    law = np.cumsum(np.where(promoted, odds, 1.0), axis=1)
    drawn = rng.random(length) * law[:, -1]
    return letters((drawn[:, None] > law).sum(axis=1))


def reading_of(record: str):
    return read(PROTEIN.encode(record), PROTEIN, mask_repeats=False)


def both(key: Key, record: str) -> tuple[float, float]:
    """Return ln E of a record with screens, and without."""
    reading = reading_of(record)
    return tuple(
        BlockStatistic(key.schedule, screens=screens).measure([reading])[0].statistic
        for screens in (True, False)
    )


@pytest.fixture
def key(secret: Secret) -> Key:
    return Key.of(secret, Profile(scheme=Blocks(nonces=8)))


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_record_that_lacks_first_chains_is_found(
    key: Key, number: int, rng: np.random.Generator
) -> None:
    found, whole = both(key, chain_of_design(key, number, 5, 400, rng))
    assert whole > 12.0
    assert whole - 0.1 < found <= whole + 1e-9


def test_a_design_behind_another_chain_is_found(key: Key, rng: np.random.Generator) -> None:
    found, whole = both(key, plain(80, rng) + "/" + chain_of_design(key, 0, 5, 400, rng))
    assert whole > 12.0
    assert whole - 0.1 < found <= whole + 1e-9


def test_other_numbers_are_not_looked_at_where_the_mark_is_shown(
    key: Key, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[float] = []

    def look(chain, packed, pace):
        looked.append(pace)
        return log_ratio_of_path(chain, packed, pace)

    monkeypatch.setattr(blocks, "log_ratio_of_path", look)
    found, whole = both(key, chain_of_design(key, 0, 5, 400, rng))
    assert looked == []
    assert found > 12.0
    assert whole - 0.1 < found <= whole + 1e-9
    both(key, plain(200, rng))
    # Once for each pace and each number, and only with screens.
    assert looked == [*(one.pace for one in blocks.MIXTURE.unusual), 1.0, 1.0, 1.0]


def test_unmarked_chains_have_no_branch_in_reach(key: Key, rng: np.random.Generator) -> None:
    statistic = BlockStatistic(key.schedule)
    reached = 0
    for _ in range(30):
        reading = reading_of(plain(300, rng))
        pieces = statistic.pieces(reading)
        _, *shifted = statistic.branches(reading)
        reached += sum(statistic._is_in_reach(pieces, branch) for branch in shifted)
    assert reached <= 9  # of 90


def test_the_estimate_from_the_best_path_is_seldom_too_low(
    key: Key, rng: np.random.Generator
) -> None:
    statistic = BlockStatistic(key.schedule)
    component, differences = (statistic.mixture.of_other_chain,), []
    for odds in (2.0, 2.5, 3.0):
        for _ in range(8):
            whole = chain_of_design(key, 1, 5, 200, rng, odds)
            lost = "".join(x for x in whole if rng.random() > 0.01)
            chain = statistic.pieces(reading_of(lost))[0].chain
            halves = statistic.halves(1, chain.length, component)
            exact = log_ratios(chain, halves, 3, component)[5, 0]
            if exact >= 6.0:
                differences.append(log_ratio_of_path(chain, statistic._packed(1, 200))[5] - exact)
    assert len(differences) >= 8
    assert min(differences) > -2.0


def test_nonces_that_were_not_looked_at_count_as_ratio_one() -> None:
    unseen = -np.inf
    best, error = likeliest_nonce(np.array([unseen, 7.0, unseen, unseen]))
    assert best == 1
    assert error == pytest.approx(3.0 / (3.0 + np.exp(7.0)))
    _, error = likeliest_nonce(np.array([2.0, 7.0, unseen]))
    others = np.exp(2.0) + 1.0
    assert error == pytest.approx(others / (others + np.exp(7.0)))
