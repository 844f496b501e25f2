"""Which candidate is taken, and what is known of its mark."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from patternmark import Alphabet, Detector, Key, Marker, Profile
from patternmark.core.promote import Promotion
from patternmark.core.schemes import Paper
from patternmark.core.secret import Secret
from patternmark.models.mask_predict import Candidates
from patternmark.translation.choice import MarkedLines

WORDS = Alphabet.from_symbols("words", [f"w{i}" for i in range(2000)], range(5))
PROFILES = {"paper": Profile(alphabet=WORDS, scheme=Paper()), "turns": Profile(WORDS)}
LIKE = torch.zeros(1)


def marked_lines(scheme: str, lines: list[str], number: int = 0) -> MarkedLines:
    key = Key.of(Secret(bytes([number]) * 32), PROFILES[scheme])
    return MarkedLines(Marker(key), lines, seed=3, temperature=1.0, like=LIKE)


def agreeing(
    promotion: Promotion, share: float, rng: np.random.Generator, size: tuple[int, int]
) -> torch.Tensor:
    """Tokens [B, L] of which about so many agree with their keys."""
    tokens = np.zeros(size, dtype=np.int64)
    for row, place in np.ndindex(*size):
        promoted = promotion.promoted[promotion.row_of[row, place]].numpy()
        wanted = rng.random() < share
        tokens[row, place] = rng.choice(np.flatnonzero(promoted[5:] == wanted)) + 5
    return torch.from_numpy(tokens)


def choose(
    lines: MarkedLines, which: list[int], promotion: Promotion, candidates: Candidates, sure: float
) -> list[list[int]]:
    return lines.choose(which, promotion, candidates, sure, lambda rows: [True] * len(rows))


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["paper", "turns"])
def test_what_a_detector_will_find_is_known(scheme: str) -> None:
    rng = np.random.default_rng(5)
    expected, real = [], []
    for number in range(12):
        lines = marked_lines(scheme, [f"line {i}" for i in range(8)], number)
        promotion = lines.promotion(range(8), 80)
        tokens = agreeing(promotion, 0.75, rng, (8, 80))
        lengths = torch.from_numpy(rng.integers(40, 81, size=(8, 1)))
        found = choose(
            lines, [*range(8)], promotion, Candidates(tokens[:, None], lengths, -lengths / 10), 1.0
        )
        detector = Detector(Key.of(Secret(bytes([number]) * 32), PROFILES[scheme]))
        expected += (lines.log_p() / np.log(10.0)).tolist()
        real += [verdict.log10_p for verdict in detector.detect_many(found)]
    is_clear = np.array(expected) <= -3.0
    assert 20 <= is_clear.sum() <= 80  # many lie near the limit
    assert np.mean(np.array(real)[is_clear] <= -3.0) >= 0.95
    assert np.mean(np.abs(np.subtract(real, expected))) < 0.6


def test_the_likeliest_clear_one_or_the_likeliest() -> None:
    rng = np.random.default_rng(6)
    lines = marked_lines("turns", ["a", "b", "c"])
    promotion = lines.promotion([0, 1, 2], 60)
    weak, clear, clearest = (agreeing(promotion, x, rng, (3, 60)) for x in (0.5, 0.85, 0.97))
    tokens = torch.stack([weak, clear, clearest], dim=1)
    lengths = torch.full((3, 3), 60)
    # The second line's clear candidates are too short to be clear.
    lengths[1, 1:] = torch.tensor([6, 8])
    lengths[1, 0] = 3
    likelihood = torch.tensor([[-1.0, -2.0, -3.0], [-1.0, -2.0, -3.0], [-1.0, -3.0, -2.0]])
    found = choose(lines, [0, 1, 2], promotion, Candidates(tokens, lengths, likelihood), 1e-3)
    wanted = [clear[0], weak[1, :3], clearest[2]]
    assert found == [row.tolist() for row in wanted]
    again = marked_lines("turns", ["a", "b", "c"])
    found = choose(again, [0, 1, 2], promotion, Candidates(tokens, lengths, likelihood), 1.0)
    assert found == [weak[0].tolist(), weak[1, :3].tolist(), weak[2].tolist()]


def test_of_clear_ones_one_that_reads_back_is_taken() -> None:
    rng = np.random.default_rng(8)
    lines = marked_lines("turns", ["a", "b", "c"])
    promotion = lines.promotion([0, 1, 2], 40)
    first, second = (agreeing(promotion, 1.0, rng, (3, 40)) for _ in range(2))
    weak = agreeing(promotion, 0.5, rng, (3, 40))
    tokens = torch.stack([first, second, weak], dim=1)
    likelihood = torch.tensor([[-1.0, -2.0, -3.0], [-2.0, -1.0, -3.0], [-2.0, -3.0, -1.0]])
    candidates = Candidates(tokens, torch.full((3, 3), 40), likelihood)
    bad = [first[0].tolist(), first[1].tolist(), second[1].tolist(), first[2].tolist()]
    found = lines.choose(
        [0, 1, 2], promotion, candidates, 1e-3, lambda rows: [r not in bad for r in rows]
    )
    # Of the second line's clear ones none does; the third's likeliest is not clear.
    assert found == [second[0].tolist(), second[1].tolist(), second[2].tolist()]


@pytest.mark.parametrize("scheme", ["paper", "turns"])
def test_the_keys_run_on_and_every_token_counts(scheme: str) -> None:
    rng = np.random.default_rng(7)
    both = marked_lines(scheme, ["a", "b"])
    whole = both.promotion([0, 1], 40)
    first = both.promotion([0, 1], 15)
    tokens = agreeing(whole, 1.0, rng, (2, 40))
    if scheme == "paper":
        tokens[:, 20:30] = tokens[:, 2:12]  # the same words, in another piece
    for line, cut in enumerate((15, 11)):
        candidates = Candidates(
            tokens[line, None, None, :15], torch.tensor([[cut]]), torch.zeros(1, 1)
        )
        one = replace(first, row_of=first.row_of[line, None])
        choose(both, [line], one, candidates, 1.0)
    second = both.promotion([0, 1], 25)
    for line, cut in enumerate((15, 11)):
        own = second.promoted[second.row_of[line]]
        torch.testing.assert_close(own, whole.promoted[whole.row_of[line, cut : cut + 25]])
        rest = tokens[line, None, None, cut : cut + 25]
        candidates = Candidates(rest, torch.tensor([[25]]), torch.zeros(1, 1))
        choose(both, [line], replace(second, row_of=second.row_of[line, None]), candidates, 1.0)
    at_once = marked_lines(scheme, ["a", "b"])
    lengths = torch.tensor([[40], [36]])
    choose(at_once, [0, 1], whole, Candidates(tokens[:, None], lengths, torch.zeros(2, 1)), 1.0)
    np.testing.assert_allclose(both.log_p(), at_once.log_p())
