from collections.abc import Callable
from math import exp, log
from pathlib import Path

import numpy as np
import pytest

from patternmark import Detector, Key, Marker, ParameterError, Profile, save_key
from patternmark.core.reading import Reading
from patternmark.core.schemes import Blocks, Paper
from patternmark.core.secret import Secret
from patternmark.evidence import (
    DEFAULT_FPR,
    benjamini_hochberg,
    bonferroni,
    check_fpr,
    fisher,
    is_below,
    markov,
    rank_p_value,
)
from patternmark.statistics import Measurement, NullCurve
from tests.conftest import Outcome
from tests.synthetic import plain, text, vocabulary

Run = Callable[..., Outcome]

TOKENS = vocabulary(2000)


def test_bonferroni_is_a_product_that_stops_at_one() -> None:
    assert bonferroni(log(0.01), 7) == pytest.approx(log(0.07))
    assert bonferroni(log(0.5), 7) == 0.0
    assert bonferroni(-np.inf, 7) == -np.inf
    assert bonferroni(-3.0, 0) == -3.0  # of nothing there is one test
    many = bonferroni(np.array([-9.0, -1.0]), np.array([2, 8]))
    assert many.tolist() == pytest.approx([-9.0 + log(2), 0.0])


def test_fisher_is_uniform_without_a_mark(rng: np.random.Generator) -> None:
    found = np.array([exp(fisher(np.log(row).tolist())) for row in rng.random((4000, 5))])
    for level in (0.01, 0.1, 0.5):
        assert np.mean(found <= level) == pytest.approx(level, abs=4 * (level / 4000) ** 0.5)
    assert fisher([]) == 0.0
    assert fisher([-1e5] * 50) < -4.9e6  # no float holds this p-value


def test_markov_bounds_the_tail_of_an_e_value(rng: np.random.Generator) -> None:
    log_e = rng.normal(-0.5, 1.0, size=20_000)  # the mean of e^x is 1
    p = np.exp(markov(log_e))
    assert p.max() <= 1.0
    assert all(np.mean(p <= level) <= level for level in (0.5, 0.1, 0.01))


def test_a_rank_counts_the_key_itself() -> None:
    assert rank_p_value([0, 9, 99], 99).tolist() == pytest.approx([0.01, 0.1, 1.0])


def test_benjamini_hochberg_against_its_definition(rng: np.random.Generator) -> None:
    log_ps = np.log(rng.random(30) ** 4)
    correct = benjamini_hochberg(log_ps, 100)
    ranked = np.sort(log_ps)
    for log_p in log_ps.tolist():
        values = [p + log(100 / rank) for rank, p in enumerate(ranked, 1) if p >= log_p]
        assert correct(log_p) == pytest.approx(min(0.0, *values))


@pytest.mark.parametrize("fpr", [0.0, 1.0, -1.0, float("nan")])
def test_a_rate_that_is_none_is_refused(fpr: float) -> None:
    with pytest.raises(ParameterError, match="between 0 and 1"):
        check_fpr(fpr)


def test_the_default_rate_is_one_for_all() -> None:
    from inspect import signature

    from patternmark.cli import detect, identify, locate, power, report
    from patternmark.search.identify import Identifier
    from patternmark.search.locate import Locator

    calls = (Detector, Identifier, Locator, detect.detect, identify.identify, locate.locate)
    for call in (*calls, power.power, report.report):
        assert signature(call).parameters["fpr"].default == DEFAULT_FPR
    assert is_below(log(DEFAULT_FPR), DEFAULT_FPR)


class Certain:
    """A statistic whose p-value holds for any sequence."""

    name, signature = "certain", "of:test"

    def measure(self, readings: list[Reading]) -> list[Measurement]:
        return [Measurement(5.0, None, -8.0, -50.0, log_p_any=-5.0) for _ in readings]

    def null_curve(self, reading: Reading, statistic: float) -> NullCurve:
        raise NotImplementedError


def test_a_p_value_for_any_sequence_reaches_the_verdict(secret: Secret) -> None:
    verdict = Detector(Key.of(secret, Profile(scheme=Paper())), Certain()).detect("ACDE")
    assert verdict.p_any == pytest.approx(exp(-5.0))
    assert verdict.log10_p_any == pytest.approx(-5.0 / log(10))
    assert verdict.p_value == pytest.approx(exp(-8.0))


@pytest.mark.parametrize("detector", ["auto", "lr"])
def test_who_has_a_p_value_for_any_sequence(
    detector: str, secret: Secret, rng: np.random.Generator
) -> None:
    key = Key.of(secret, Profile(TOKENS))
    ids = text(TOKENS, 60, rng, Marker(key, delta=2.0))
    verdict = Detector(key, detector).detect(ids)
    # That of `auto` is of another ratio, in which repeats count in full.
    of_any = Detector(key, "lr").detect(ids)
    assert of_any.log10_p_any == pytest.approx(min(0.0, -of_any.statistic / log(10)))
    assert verdict.log10_p_any == of_any.log10_p_any
    assert verdict.log10_p_any >= verdict.log10_p
    assert (verdict.log10_p_any == verdict.log10_p) is (detector == "lr")
    # A path through a long text comes round: a token's places share its coins, which it counts.
    assert Detector(key, detector).detect(text(TOKENS, 1100, rng)).p_any is not None
    # Coins that count twice, parts of equal size: it would not hold.
    assert Detector(key, detector, mask_repeats=False).detect(ids).p_any is None
    of_paper = Detector(Key.of(secret, Profile(TOKENS, scheme=Paper())), detector)
    assert of_paper.detect(ids).p_any is None
    paper = Detector(Key.of(secret, Profile(scheme=Paper())), detector)
    assert paper.detect(plain(80, rng)).p_any is None
    blocks = Detector(Key.of(secret, Profile(scheme=Blocks(nonces=2))), detector)
    protein = blocks.detect(plain(80, rng))
    assert protein.log10_p_any == pytest.approx(min(0.0, -protein.statistic / log(10)))


@pytest.mark.parametrize("scheme", ["turns", "paper"])
def test_detect_shows_the_column_where_there_is_something_to_show(
    scheme: str, run: Run, secret: Secret, tmp_path: Path, rng: np.random.Generator
) -> None:
    profile = Profile(TOKENS) if scheme == "turns" else Profile(TOKENS, scheme=Paper())
    save_key(Key.of(secret, profile), tmp_path / "t.key")
    file = tmp_path / "x.jsonl"
    file.write_text("".join(f"{text(TOKENS, n, rng).tolist()}\n" for n in (50, 400)))
    assert ("p_any" in run("detect", file, "--key", tmp_path / "t.key").out) is (scheme == "turns")
    for found in run("detect", file, "--key", tmp_path / "t.key", "--json").objects:
        assert (found["p_any"] is not None) is (scheme == "turns")
        assert (found["log10_p_any"] is not None) is (scheme == "turns")
