"""From verdicts made by hand to numbers that are known."""

from typing import Any

import numpy as np
import pytest

from patternmark.intervals import rate_interval
from patternmark_lab.bench.paper.conclusions import in_short
from patternmark_lab.bench.paper.findings import (
    against,
    agreements,
    compare_with_baselines,
    false_alarms,
    gains,
    tallies,
)
from patternmark_lab.bench.paper.material import Material
from patternmark_lab.bench.paper.plan import OURS, PUBLISHED, SIZES, Cell, cells, judges, num_steps
from patternmark_lab.bench.paper.summary import (
    AHEAD,
    BEHIND,
    LEVEL,
    at_equal_quality,
    difference,
    length_needed,
    rate_of,
    span,
    summarise,
)
from patternmark_lab.bench.paper.verdicts import NULLS, Label, Verdicts

Rate = dict[str, Any]


def test_a_rate_has_two_intervals() -> None:
    hits = [np.array([True] * 8 + [False] * 2), np.array([True] * 4 + [False] * 6)]
    rate = rate_of(hits)
    assert (rate["rate"], rate["n"], rate["keys"]) == (0.6, 20, 2)
    assert (rate["low"], rate["high"]) == rate_interval(12, 20)
    assert (rate["worst_key"], rate["best_key"]) == (0.4, 0.8)
    # Two keys: 12.706 standard errors, of 0.2 each, cut to what a rate can be.
    assert (rate["keys_low"], rate["keys_high"]) == (0.0, 1.0)
    assert span(rate) == (0.0, 1.0)
    equal = rate_of([np.array([True, False])] * 3)
    assert (equal["keys_low"], equal["keys_high"]) == (0.5, 0.5)
    assert span(equal) == rate_interval(3, 6)  # keys that agree by luck do not narrow it
    four = rate_of([np.array([True] * n + [False] * (100 - n)) for n in (49, 50, 50, 51)])
    half = 3.1824 * np.std([0.49, 0.5, 0.5, 0.51], ddof=1) / 2
    assert four["keys_high"] - 0.5 == pytest.approx(half, rel=1e-3)
    alone = rate_of([np.array([True, True]), np.zeros(0, dtype=bool)])
    assert (alone["keys"], alone["keys_low"], alone["keys_high"]) == (1, None, None)
    assert span(alone) == rate_interval(2, 2)


def verdicts(marked: dict[Label, list[list[float]]], null: list[list[float]]) -> Verdicts:
    """Verdicts whose scores are -log10 p."""
    score = {label: [np.array(own) for own in by_key] for label, by_key in marked.items()}
    score |= {Label(name): [np.array(own) for own in null] for name in NULLS}
    return Verdicts(score, {label: [-own for own in by_key] for label, by_key in score.items()})


def test_thresholds_are_what_unmarked_sequences_reach() -> None:
    cell = Cell(OURS, 1.0)
    null = [[float(i) / 100 for i in range(1000)], [0.0] * 1000]  # the largest is 9.99
    found = verdicts(
        {
            Label(cell.name): [[2.5, 9.8, 9.975], [9.0, 1.0, 10.0]],
            Label(cell.name, "length", 50): [[0.5, 0.5, 4.0], [0.5, 3.0, 0.5]],
        },
        null,
    )
    quality = {"none": {"nll": [1.0, 2.0]}, cell.name: {"nll": [1.5, 3.5]}}
    material = Material("protein", {cell: [["A"] * 3] * 2}, [], [], {}, quality)
    summary = summarise(material, {OURS: found})
    # 1 % of 2,000 unmarked ones are above 9.79, 0.1 % above 9.97.
    assert summary["thresholds"][OURS] == {"0.01": 9.79, "0.001": 9.97}
    assert summary["reached"][OURS] == {"0.01": 0.01, "0.001": 0.001}
    (row,) = summary["detection"]
    assert row["nominal"]["0.1"]["rate"] == 1.0
    assert row["nominal"]["0.001"]["rate"] == pytest.approx(4 / 6)  # p <= 0.1 %: a score of 3
    assert row["matched"]["0.01"]["rate"] == pytest.approx(3 / 6)
    assert row["matched"]["0.001"]["rate"] == pytest.approx(2 / 6)
    assert [r["nominal"]["0.001"]["rate"] for r in summary["lengths"]] == [pytest.approx(2 / 6)]
    rates = {r["what"]: r["rates"] for r in summary["false_positives"]}
    assert rates["unmarked"]["0.1"]["rate"] == pytest.approx(900 / 2000)
    assert rates["unmarked"]["0.1"]["best_key"] == 0.9
    assert summary["false_positives"][0]["by_key"] == [0.7, 0.0]  # scores of 3 or more
    # With the second key alone a threshold is 0, and all of what is marked is above it.
    assert row["matched"]["0.001"]["threshold_high"] == 1.0
    assert row["matched"]["0.001"]["threshold_low"] <= row["matched"]["0.001"]["rate"]
    lost = {r["cell"]: r["nll lost"] for r in summary["quality"]}
    assert lost[cell.name]["mean"] == pytest.approx(1.0)  # 0.5 and 1.5, backbone by backbone
    assert lost[cell.name]["n"] == 2
    assert lost["none"]["mean"] == 0.0


def rate(share: float, n: int = 1000) -> Rate:
    low, high = rate_interval(round(share * n), n)
    ends = {"low": low, "high": high, "keys_low": None, "keys_high": None}
    return {"rate": share, "n": n, "best_key": share, **ends}


def row(scheme: str, delta: float, share: float, **others: Any) -> dict[str, Any]:
    every = {f"{level:g}": rate(share) for level in (0.1, 0.01, 1e-3, 1e-4, 1e-5)}
    return {
        "judge": scheme,
        "scheme": scheme,
        "delta": delta,
        "nominal": every,
        "matched": every,
        **others,
    }


def test_the_length_needed_is_read_between_two() -> None:
    shares = {50: 0.2, 100: 0.9, 150: 1.0, 200: 1.0}
    rows = [row(OURS, 1.0, share, value=float(n)) for n, share in shares.items()]
    assert length_needed(rows, OURS, 1.0) == pytest.approx(125.0)
    assert length_needed(rows[:2], OURS, 1.0) is None
    assert length_needed(rows[2:], OURS, 1.0) == 150.0  # or less
    assert length_needed(rows, "soft", 1.0) is None


def summary_of(points: dict[tuple[str, float], tuple[float, float]]) -> dict[str, Any]:
    """Return a summary of cells that lose and find so much."""
    quality = [
        {"cell": Cell(scheme, delta).name, "nll lost": {"mean": lost}}
        for (scheme, delta), (lost, _) in points.items()
    ]
    found = [row(*cell, share) for cell, (_, share) in points.items()]
    return {"task": "protein", "quality": quality, "detection": found}


def test_cells_are_compared_at_equal_quality() -> None:
    points = {
        (OURS, 0.5): (0.1, 0.5),
        (OURS, 1.5): (0.3, 0.9),
        ("soft", 0.5): (0.1, 0.2),  # as our weakest
        ("soft", 1.5): (0.2, 0.75),  # between two of ours
        ("eth", 0.5): (0.05, 0.6),  # between ours and no mark
        ("eth", 1.5): (0.5, 1.0),  # beyond our strongest
        ("tango", 0.5): (-0.1, 0.4),  # loses nothing
    }
    found = {(r["scheme"], r["delta"]): r for r in at_equal_quality(summary_of(points), "nll")}
    assert set(found) == {cell for cell in points if cell[0] != OURS}
    weak = found["soft", 0.5]
    assert weak["ours"]["rate"] == pytest.approx(0.5)
    assert weak["verdict"] == AHEAD
    assert weak["difference"]["value"] == pytest.approx(0.3)
    between = found["soft", 1.5]
    # Half way from 0 to 1.2816 on the normal scale.
    assert between["ours"]["rate"] == pytest.approx(0.7391, abs=1e-4)
    assert between["verdict"] == LEVEL
    # Half way from 0.1 % to 50 %: far below a quarter.
    assert found["eth", 0.5]["ours"]["rate"] == pytest.approx(0.0612, abs=1e-4)
    assert found["eth", 0.5]["verdict"] == BEHIND
    assert found["eth", 1.5]["beyond"]
    assert found["eth", 1.5]["ours"]["rate"] == pytest.approx(0.9)
    assert found["tango", 0.5]["ours"]["rate"] == pytest.approx(0.001)
    assert gains(list(found.values())) == pytest.approx((0.3, 0.3, 0.3))


def test_a_strength_that_loses_more_and_finds_less_does_not_count() -> None:
    points = {
        (OURS, 0.5): (0.1, 0.9),
        (OURS, 1.0): (0.2, 0.7),
        ("soft", 1.0): (0.2, 0.7),
    }
    (only,) = at_equal_quality(summary_of(points), "nll")
    assert only["ours"]["rate"] == pytest.approx(0.9)
    assert only["verdict"] == AHEAD


def test_a_loss_that_is_not_well_known_makes_no_verdict() -> None:
    points = {(OURS, 1.0): (0.2, 0.9), ("soft", 1.0): (-0.1, 0.1)}
    summary = summary_of(points)
    (exact,) = at_equal_quality(summary, "nll")
    assert exact["verdict"] == BEHIND  # who loses nothing has no mark
    summary["quality"][1]["nll lost"] |= {"low": -0.4, "high": 0.2}
    (vague,) = at_equal_quality(summary, "nll")
    assert vague["verdict"] == LEVEL
    assert vague["ours"]["rate"] == exact["ours"]["rate"]
    assert vague["ours"]["high"] == pytest.approx(rate(0.9)["high"])


def test_quality_of_texts_has_the_intervals_of_resamples() -> None:
    cell = Cell(OURS, 1.0)
    draws = np.random.default_rng(1).normal(30, 1, 1001)
    quality = {"none": {"BLEU": list(draws)}, cell.name: {"BLEU": list(draws - 2.0)}}
    found = verdicts({Label(cell.name): [[1.0]]}, [[0.0] * 10])
    material = Material("translation", {cell: [["a"]]}, [], [], {}, quality)
    rows = {row["cell"]: row for row in summarise(material, {OURS: found})["quality"]}
    assert rows["none"]["BLEU"]["mean"] == draws[0]
    assert rows["none"]["BLEU"]["high"] - rows["none"]["BLEU"]["low"] == pytest.approx(3.9, abs=0.3)
    # The same texts are lost and kept in both: their difference is known far better.
    for end in ("mean", "low", "high"):
        assert rows[cell.name]["BLEU lost"][end] == pytest.approx(2.0)


def under_attack() -> list[dict[str, Any]]:
    shares = {
        (OURS, "substitute"): 0.9,
        ("soft", "substitute"): 0.2,
        ("tango", "substitute"): 0.91,
        (OURS, "insert"): 0.1,
        ("soft", "insert"): 0.3,
        ("tango", "insert"): 0.05,
    }
    rows = [row(name, 1.5, share, how=how, value=0.1) for (name, how), share in shares.items()]
    return [*rows, row("pattern-auto", 1.5, 0.8, how="insert", value=0.1) | {"scheme": PUBLISHED}]


def test_others_are_compared_with_ours_under_the_same_attack() -> None:
    compared = against(under_attack(), "matched")
    found = {(r["judge"], r["how"]): r["verdict"] for r in compared}
    assert found == {
        ("pattern-auto", "insert"): BEHIND,
        ("soft", "substitute"): AHEAD,
        ("tango", "substitute"): LEVEL,
        ("soft", "insert"): BEHIND,
        ("tango", "insert"): AHEAD,
    }


def test_the_page_names_every_attack_under_which_another_finds_more() -> None:
    names = (PUBLISHED, OURS, "soft", "tango")
    summary = summary_of({(name, 1.5): (0.1 + i / 100, 0.9) for i, name in enumerate(names)})
    nulls = [
        {"judge": name, "what": NULLS[0], "rates": row(name, 1.5, 0.0)["nominal"]} for name in names
    ]
    summary |= {"robustness": under_attack(), "lengths": [], "false_positives": nulls, "keys": 1}
    summary["reached"] = {OURS: {"0.01": 0.002}}
    text = "\n".join(in_short([summary]))
    assert "Under attack" in text
    assert "ahead in 2, no clear difference in 1, behind in 2 of 5 cells." in text
    assert "| insert 0.1 | 10.0 [8.2, 12.0] | `soft` 30.0, `pattern-auto` 80.0 |" in text
    assert "ours 0.110, `soft` 0.120, `pattern-mark` 0.100." in text
    assert "In windows" not in text


def test_differences_have_the_intervals_of_both() -> None:
    assert difference(0.6, (0.5, 0.7), 0.3, (0.3, 0.3)) == pytest.approx((0.3, 0.2, 0.4))
    value, low, high = difference(0.6, (0.57, 0.7), 0.5, (0.46, 0.54))
    assert (value, low) == pytest.approx((0.1, 0.1 - 0.05))  # 3, 4, 5
    assert high == pytest.approx(0.1 + np.hypot(0.1, 0.04))


def test_agreement_with_the_paper() -> None:
    summary = summary_of({(PUBLISHED, 1.5): (0.2, 0.9987), ("unigram", 1.5): (0.1, 0.5)})
    found = agreements(summary)
    assert len(found) == 10  # five levels each
    own = {cell.level: cell for cell in found if cell.scheme == PUBLISHED}
    assert own[1e-3].paper == pytest.approx(0.9987)
    assert own[1e-3].agrees
    assert not own[1e-5].agrees  # 99.87 against 96.39
    published, unigram = tallies(found)
    assert (published.agree, published.cells) == (sum(c.agrees for c in own.values()), 5)
    assert unigram.agree == 0
    assert unigram.most == pytest.approx(0.5 - 0.8514)
    assert compare_with_baselines(summary, "nominal") == (1, [])
    better = summary_of({(PUBLISHED, 1.5): (0.2, 0.4), ("unigram", 1.5): (0.1, 0.5)})
    cells_of, against = compare_with_baselines(better, "matched")
    assert (cells_of, [r["judge"] for r in against]) == (1, ["unigram"])


def test_false_alarms_are_those_beyond_chance() -> None:
    def null(judge: str, share: float) -> dict[str, Any]:
        rates = {f"{level:g}": rate(share) for level in (0.1, 0.01, 1e-3, 1e-4, 1e-5)}
        return {"judge": judge, "what": "unmarked", "rates": rates}

    summary = {"false_positives": [null("unigram", 0.05), null(OURS, 0.001), null("soft", 0.003)]}
    assert false_alarms(summary) == {"unigram"}  # 3 of 1,000 may be luck


def test_steps_are_counted_beforehand() -> None:
    size = SIZES["full"]
    assert len(judges("protein")) == 11
    assert num_steps(("protein",), size) == 60 + 11 * 40
    assert len(cells("translation", size)) == 59
    assert num_steps(("translation",), size) == 1 + 59 * 20 + 12 * 40
