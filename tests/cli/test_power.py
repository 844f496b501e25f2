from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from patternmark import PROTEIN, Key, ParameterError, Profile
from patternmark.core.schemes import Paper
from patternmark.plan.power import PowerStudy
from patternmark.plan.simulate import marked_sequences, natural_frequencies, rates_at
from patternmark.statistics.rates import DELTAS, agreement_rates
from tests.conftest import Outcome

Run = Callable[..., Outcome]
PAPER = ["--scheme", "paper", "--draws", "40", "--json"]


def test_the_rate_rises_with_length_and_strength() -> None:
    study = PowerStudy(Profile(scheme=Paper()), 1e-4, draws=60)
    by_length = [study.power(1.0, length).tpr for length in (40, 120, 300)]
    by_delta = [study.power(delta, 120).tpr for delta in (0.0, 0.75, 1.5)]
    assert by_length[0] < by_length[1] < by_length[2]
    assert by_delta[0] < by_delta[1] < by_delta[2]
    assert study.power(0.0, 120).hits <= 1  # no mark at all
    found = study.power(1.0, 120)
    assert found.low < found.tpr < found.high


def test_the_least_that_is_needed() -> None:
    study = PowerStudy(Profile(scheme=Paper()), 1e-4, draws=40)
    length = study.least_length(1.5, 0.8)
    assert length is not None
    assert length.tpr >= 0.8 > study.power(1.5, length.length * 2 // 3).tpr
    delta = study.least_delta(150, 0.8)
    assert delta is not None
    assert delta.tpr >= 0.8 > study.power(round(delta.delta - 0.2, 6), 150).tpr
    assert study.least_delta(10, 0.8) is None


def test_rates_are_those_measured_and_between() -> None:
    for level, delta in enumerate(DELTAS):
        assert rates_at(delta, PROTEIN, "paper") == pytest.approx(
            agreement_rates(PROTEIN, "paper")[level]
        )
    between = rates_at(1.25, PROTEIN, "paper")
    assert between == pytest.approx(agreement_rates(PROTEIN, "paper")[2:].mean(axis=0))
    assert rates_at(0.0, PROTEIN, "paper") == pytest.approx(np.full(21, 0.5))
    with pytest.raises(ParameterError, match=r"measured for delta up to 1\.5"):
        rates_at(2.0, PROTEIN, "paper")


def test_simulated_letters_agree_as_often_as_measured(key: Key, rng: np.random.Generator) -> None:
    rates = rates_at(1.0, PROTEIN, "paper")
    symbols = marked_sequences(key, rates, rng.random((40, 500)))
    part = key.partition.part_of[symbols]
    agrees = np.abs(np.diff(part, axis=1)) == 1  # the keys alternate
    # Two neighbours both agree, or neither does.
    share = float(natural_frequencies() @ rates)
    assert agrees.mean() == pytest.approx(share**2 + (1 - share) ** 2, abs=0.03)
    assert marked_sequences(key, rates, np.full((1, 9), 0.999999)).max() < 20  # never X


def test_what_the_command_says(run: Run, tmp_path: Path) -> None:
    rate = run("power", "--delta", 1.5, "--length", 150, "--fpr", "1e-3", *PAPER).objects[0]
    assert (rate["delta"], rate["length"], rate["trials"]) == (1.5, 150, 40)
    assert rate["tpr"] == rate["hits"] / 40 > 0.5
    sought = run("power", "--delta", 1.5, "--fpr", "1e-3", "--tpr", 0.6, *PAPER).objects[0]
    assert sought["sought"] == "length"
    assert sought["length"] < 150
    words = run("power", "--length", 150, "--tpr", 0.5, "--fpr", "1e-2", *PAPER[:-1]).out
    assert "needed for a rate of 0.5: delta" in words
    assert "40 simulated" in words


def test_blocks_are_the_default(run: Run) -> None:
    arguments = ["power", "--delta", 1.5, "--length", 120, "--draws", 8, "--fpr", "1e-2"]
    lone = run(*arguments, "--nonces", 1, "--json").objects[0]
    assert (lone["scheme"], lone["nonces"], lone["trials"]) == ("blocks", 1, 8)
    assert lone["hits"] >= 1


def test_the_picture_of_power(run: Run, tmp_path: Path) -> None:
    picture = tmp_path / "power.svg"
    arguments = ["--delta", 1.0, "--length", 50, "--scheme", "paper", "--draws", 4]
    found = run("power", *arguments, "--plot", picture, "--json")
    curves = found.objects[0]["curves"]
    assert [curve[0]["delta"] for curve in curves] == list(DELTAS)
    assert len({point["length"] for point in curves[0]}) == len(curves[0])
    assert picture.read_text().startswith("<?xml")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "give --delta X, --length N or both"),
        (["--delta", "1", "--length", "9", "--tpr", "0.5"], "leave out --delta X or --length N"),
        (["--delta", "1", "--tpr", "1"], "between 0 and 1"),
        (["--delta", "3", "--length", "50"], "measured for delta up to 1.5"),
        (["--delta", "1", "--length", "0"], "the length must be from 1"),
        (["--length", "8", "--fpr", "1e-9"], "does not reach"),
        (["--delta", "1", "--length", "50", "--nonces", "2"], "--nonces goes with --scheme blocks"),
        (["--delta", "1", "--length", "50", "--block", "2"], "--block goes with --scheme blocks"),
        (["--delta", "1", "--length", "50", "--fpr", "0"], "between 0 and 1"),
    ],
)
def test_wrong_options_of_power(run: Run, options: list[str], message: str) -> None:
    refused = run("power", "--scheme", "paper", "--draws", 4, *options)
    assert refused.status == 2
    assert message in refused.err
