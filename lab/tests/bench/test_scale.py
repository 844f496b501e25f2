"""What a scan of billions takes: the arithmetic, by hand and by brute force, and its page."""

from __future__ import annotations

import json
from collections.abc import Callable
from fractions import Fraction
from itertools import combinations
from math import comb, exp, lgamma
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from patternmark import ParameterError
from patternmark.core.alphabet import PROTEIN
from patternmark.errors import InputError
from patternmark.scanning.keyset import LONGEST
from patternmark_lab.bench import scale
from patternmark_lab.bench.pages import page_of, place_of
from patternmark_lab.bench.scale_designs import DELTAS, _row, rate_and_spread
from patternmark_lab.bench.scale_length import least_length, lengths, num_ways, shares_found
from patternmark_lab.bench.scale_measured import natural_pairs
from patternmark_lab.bench.scale_page import to_markdown
from patternmark_lab.bench.scale_setting import Setting
from patternmark_lab.bench.scan_input import SCHEMES
from tests.conftest import Outcome

RESULTS = Path(__file__).parents[3] / "docs" / "results"
HALF = Fraction(1, 2)
SCAN = {
    "version": "1",
    "machine": "a machine",
    "repeats": 3,
    "sizes": {
        "sequences": 1000, "bytes": 350_000, "mean_length": 300, "share": 10, "copies": 2,
        "piece": 1_000_000,
    },
    "times": {
        "keys": {  # of 1,000 sequences, and of 100
            "one": [1e-3, 2e-3, 1e-3],
            "very_many": [1e-4 + 4999e-7, 2e-4 + 4999e-7, 1e-4 + 3 * 4999e-7],
            "block_keys": [1e-4 + 64 * 300e-8] * 3,
            "block_key": [1e-4 + 300e-6] * 3,
        },
        "workers": {"one": [7e-4, 7e-4, 1.4e-3]},
        "gzip": {"bare": [2.1e-3] * 3},
    },
    "rows": [{"name": "workers", "ratio": 1.6, "low": 1.5, "high": 1.8}],
}  # fmt: skip
OF_PAIR = {
    "first": {"median": 1e-9, "low": 5e-10, "high": 3e-9},
    "second": {"median": 0.01, "low": 0.005, "high": 0.02, "n": 3},
}
GPU = {
    "gpu": "a GPU",
    "version": "1",
    "machine": "its machine",
    "rows": [
        {
            "name": name, "residues": 10_000, "sequences": 100, "pairs": 10**6,
            "times": {"read": [0.5, 0.5, 0.5], "device": [1.5, 1.5, 1.6], "cpu": [3.0] * 3},
            "cpu": {"residues": 1000, "sequences": 10, "pairs": 10**5},
        }
        for name in ("two_parts", "blocks_32_nonces")
    ],
}  # fmt: skip
NATURAL = {
    "sequences": 1000,
    "mean_length": 250.0,
    "rows": [
        {
            "scheme": scheme, "keys": 100, "segments": 1000, "passed": 50 * (scheme == "paper"),
            "segments_passed": 4, "left": 3, "masked": 0.8, "low": 0.002, "high": 0.01,
            "seconds": 0.002, "smallest_log10_p": -3.5,
        }
        for scheme in SCHEMES
    ],
}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "scan.json").write_text(json.dumps(SCAN))
    return tmp_path


def test_tests_are_counted_in_whole_numbers() -> None:
    usual = Setting()
    assert usual.num_tests == 24 * 10**12
    assert Setting(proteins=10, segments=1.1, keys=3).num_tests == 33  # and not 36: 11.000000000002
    assert Setting(proteins=7, segments=1.05, keys=2).num_tests == 16
    for wrong in ({"keys": 0}, {"fpr": 1.0}, {"segments": 0.5}, {"disk": -1.0}):
        with pytest.raises(ParameterError):
            Setting(**wrong)


def test_the_p_values_of_both_corrections() -> None:
    setting = Setting(fpr=0.01, fdr=0.05)
    rows = scale.needed_p_values(setting, scale.passing_level(setting.keys))
    bonferroni = Fraction(1, 100) / (24 * 10**12)
    assert 10 ** rows[0]["log10_p"] == pytest.approx(float(bonferroni), rel=1e-12)
    assert rows[0]["log10_p"] == pytest.approx(-15.380211241711606, abs=1e-12)
    for row in rows[1:]:
        # Benjamini and Hochberg: the r-th smallest p-value may be r times as large.
        most = Fraction(1, 20) * row["hits"] / (24 * 10**12)
        assert 10 ** row["log10_p"] == pytest.approx(float(most), rel=1e-12)
    assert [row["is_cut"] for row in rows] == [False, False, False, True]  # 2e-9: 1e-9 pass
    assert scale.passing_level(10_000) == 9
    assert scale.passing_level(10_001) == 10


def test_splits_that_keys_share() -> None:
    letters = range(len(PROTEIN.scored))
    first = set(letters[:10])
    every = [set(part) for part in combinations(letters, 10) if 0 in part]  # the other has the rest
    near = sum(len(first & part) in (9, 1) for part in every)
    found = scale.shared_splits(3)
    assert found["splits"] == len(every) == 92_378
    assert found["one_swap"] == pytest.approx(2 * near / len(every), rel=1e-12)
    assert found["equal_pairs"] == pytest.approx(3 / len(every), rel=1e-12)
    assert found["share"] == pytest.approx(2 / len(every), rel=1e-4)


def test_rates_are_taken_in_every_round() -> None:
    rates = scale.rates_of(SCAN)
    assert rates["read"] == pytest.approx({"median": 1e-9, "low": 1e-9, "high": 2e-9})
    assert rates["unpack"]["median"] == pytest.approx(3e-9)
    # The second round is slower in both, and that cancels; the third is slow with many keys only.
    assert rates["two_part"] == pytest.approx({"median": 1e-9, "low": 1e-9, "high": 3e-9})
    assert rates["blocks_1"]["median"] == pytest.approx(1e-10)
    assert rates["blocks"]["median"] == pytest.approx(1e-8)


def test_a_bill_by_hand() -> None:
    setting = Setting(proteins=10**6, mean_length=150, keys=1000, cores=4, core_hour=0.1, disk=50.0)
    rates = scale.rates_of(SCAN)
    size = scale.bytes_of(setting, SCAN)
    assert size == 200 * 10**6  # 150 residues, and 50 bytes besides
    natural = NATURAL["rows"][0]
    two = scale.bill("paper", setting, rates, (size, 10**6), 8, OF_PAIR, natural)
    assert two["seconds"]["read"]["median"] == pytest.approx(0.2)
    assert two["seconds"]["first"] == pytest.approx({"median": 1.0, "low": 0.5, "high": 3.0})
    assert two["by_source"] == pytest.approx(1e-9)
    assert two["pairs"] == pytest.approx({"chance": 10.0, "natural": 5e-4 * 10**9})
    assert two["second"]["chance"]["median"] == pytest.approx(0.1)
    assert two["second"]["natural"] == pytest.approx({"median": 1000, "low": 500, "high": 2500})
    assert two["total"] == pytest.approx({"median": 1001.2, "low": 500.7, "high": 2503.4})
    # 200 pieces on 4 cores are 50 rounds; a core counts for 0.8.
    assert two["machines"][0]["seconds"] == pytest.approx(1001.2 / 4 / 0.8)
    # On 4,000 cores there is one round for 200 of them, and the others are paid for as well.
    last = two["machines"][-1]
    assert last["seconds"] == pytest.approx(1001.2 / 200 / 0.8)
    assert last["dollars"] == pytest.approx(1001.2 / 200 / 0.8 / 3600 * 4000 * 0.1)
    blocks = scale.bill("blocks", setting, rates, (size, 10**6), 8, OF_PAIR, None)
    assert blocks["by_source"] == pytest.approx(150 * 1e-8)
    assert blocks["total"]["median"] == pytest.approx(1.0 + 0.2 + 0.1)
    quick = scale.wall(setting, 1.0, rates, (size, 10**6), 1)
    assert quick["is_disk"]
    assert quick["seconds"] == pytest.approx(4.0)  # 200 MB at 50 MB/s


def test_packed_files_have_one_core_each() -> None:
    bills = [{"scheme": "paper", "total": {"median": 97.0}}]
    found = scale.unpacking_times(Setting(files=5), scale.rates_of(SCAN), 10**9, bills)
    assert found["one_process"] == pytest.approx(3.0)
    assert found["process_a_file"] == pytest.approx(0.6)
    assert found["ray"]["paper"] == pytest.approx(20.0)


def test_a_gpu_by_hand(folder: Path) -> None:
    setting = Setting(proteins=10**6, mean_length=50, keys=1000, gpu_hour=3.6)
    assert scale.gpu_bills(setting, folder) is None
    (folder / "scan-gpu.json").write_text(json.dumps(GPU))
    found = scale.gpu_bills(setting, folder)
    assert found is not None
    two, blocks = found["rows"]  # what was not measured is left out
    # 50 million residues are read at 20,000 a second, 10^9 pairs screened at a million a second;
    # block keys at two million: sequences are half as long as those that were measured.
    assert two["seconds"] == pytest.approx({"median": 3500.0, "low": 3500.0, "high": 3600.0})
    assert two["dollars"] == pytest.approx(3.5)
    assert (two["core"], blocks["core"]) == pytest.approx((3e-5, 1.5e-5))
    assert blocks["scheme"] == "blocks"
    assert blocks["seconds"]["median"] == pytest.approx(2500.0 + 500.0)


def by_hand(p: Fraction, ways: int, rate: Fraction, longest: int) -> list[Fraction]:
    """Return the share of designs found, of every length, in rational arithmetic."""
    shares = []
    for n in range(1, longest + 1):
        tails = [Fraction(0)]
        for k in range(n, -1, -1):
            tails.append(tails[-1] + comb(n, k) * HALF**n)
        least = next((k for k in range(n + 1) if ways * tails[n + 1 - k] <= p), n + 1)
        found = (comb(n, k) * rate**k * (1 - rate) ** (n - k) for k in range(least, n + 1))
        shares.append(sum(found, Fraction(0)))
    return shares


@pytest.mark.parametrize("ways", [2, 16])
def test_lengths_are_those_of_rational_arithmetic(ways: int) -> None:
    p, rate, longest = Fraction(1, 10_000), Fraction(9, 10), 90
    wanted = by_hand(p, ways, rate, longest)
    found = shares_found(-4.0, ways, 0.9)
    assert found[:longest] == pytest.approx([float(share) for share in wanted], rel=1e-9, abs=1e-12)
    for name, share in (("half", HALF), ("most", Fraction(95, 100))):
        last_below = max(n for n, s in enumerate(wanted, start=1) if s < share)
        assert lengths(-4.0, ways, 0.9)[name] == last_below + 1


def test_a_share_that_is_never_reached_has_no_length() -> None:
    assert lengths(-300.0, 2, 0.6) == {"half": None, "most": None}
    shares = np.ones(LONGEST)
    assert least_length(shares, 0.5) == 1
    shares[40] = 0.1  # of 41 residues
    assert least_length(shares, 0.5) == 42


def test_rates_that_differ_make_a_beta_binomial_count() -> None:
    rate, spread, n = 0.7, 0.05, 60
    size = rate * (1 - rate) / spread**2 - 1
    a, b = rate * size, (1 - rate) * size

    def log_beta(x: float, y: float) -> float:
        return lgamma(x) + lgamma(y) - lgamma(x + y)

    points = [comb(n, k) * exp(log_beta(a + k, b + n - k) - log_beta(a, b)) for k in range(n + 1)]
    assert sum(points) == pytest.approx(1.0)
    mean = sum(k * p for k, p in enumerate(points)) / n
    assert mean == pytest.approx(rate)
    tails = [2 * sum(comb(n, j) for j in range(k, n + 1)) / 2**n for k in range(n + 1)]
    least = next(k for k, tail in enumerate(tails) if tail <= 1e-3)
    assert shares_found(-3.0, 2, rate, spread)[n - 1] == pytest.approx(
        sum(points[least:]), rel=1e-9
    )
    alike, different = lengths(-9.0, 2, rate), lengths(-9.0, 2, rate, spread)
    assert different["most"] > alike["most"]  # it is the worst designs that need to be longer


def test_the_spread_of_rates_is_found_again() -> None:
    rng = np.random.default_rng(5)
    residues = rng.integers(80, 500, size=20_000)
    rates = rng.beta(0.7 * 200, 0.3 * 200, size=len(residues))
    rate, spread = rate_and_spread(residues, rng.binomial(residues, rates))
    assert rate == pytest.approx(0.7, abs=0.002)
    assert spread == pytest.approx(np.sqrt(0.21 / 201), rel=0.05)
    assert rate_and_spread(residues, np.round(0.7 * residues).astype(int))[1] == 0.0


def test_designs_are_counted_by_length() -> None:
    made = [
        ("paper", 1.0, 100, 100, -20.0),  # by its count far beyond the first stage
        ("paper", 1.0, 150, 80, -16.0),  # `auto` finds it, its count does not pass
        ("paper", 1.0, 250, 130, -3.0),
        ("paper", 1.5, 250, 250, -60.0),
    ]
    row = _row("paper", 1.0, made, -15.0, 9)
    assert row["rate"] == pytest.approx(310 / 500)
    assert (row["found"], row["lost"], row["designs"]["n"]) == (2, 1, 3)
    first, second, *others = row["classes"]
    assert (first["designs"], first["found"], first["by_count"]) == (2, 2, 1)
    assert (second["designs"], second["found"]) == (1, 0)
    assert not any(other["designs"] for other in others)
    assert 0.0 <= second["expected"]["alike"] <= 1.0


def test_repeats_pass_the_first_stage_and_not_the_second() -> None:
    pytest.importorskip("numba")
    rng = np.random.default_rng(2)
    plain = [rng.integers(0, 20, size=300) for _ in range(20)]
    found = natural_pairs([*plain, PROTEIN.encode("QA" * 150)], 40, 9)
    row = found["rows"][0]
    assert (found["sequences"], row["segments"]) == (21, 21)
    assert row["segments_passed"] == 1
    assert 5 < row["passed"] < 35  # keys that part Q from A: 10 in 19
    assert row["masked"] > 0.9
    assert row["left"] == 0
    assert row["smallest_log10_p"] is None


def result_of(folder: Path, **measured: Any) -> dict[str, Any]:
    pairs = {stage: dict.fromkeys(SCHEMES, rate) for stage, rate in OF_PAIR.items()}
    return scale.run_scale(Setting(proteins=10**6), folder, pairs, 8, measured)


@pytest.mark.slow
def test_the_page_shows_what_there_is(folder: Path) -> None:
    page = to_markdown(result_of(folder))
    assert "`patternmark bench scale --proteins 1000000 --sample 8 -o docs`" in page
    assert "10,000,000,000 tests" in page
    assert "GPU" not in page
    assert "Repeats pass the first stage" not in page
    assert "spread" not in page
    made = [(s, d, n, int(0.8 * n), -20.0) for s in SCHEMES for d in DELTAS for n in (90, 250, 450)]
    rows = [_row(s, d, made, -12.0, 9) for s in SCHEMES for d in DELTAS]
    designs = {"backbones": 3, "keys": 1, "model": "m", "temperature": 0.1, "log10_p": -12.0}
    (folder / "scan-gpu.json").write_text(json.dumps(GPU))
    page = to_markdown(result_of(folder, natural=NATURAL, designs=designs | {"rows": rows}))
    assert "On a GPU, computed from [`results/scan-gpu.json`]" in page
    assert "| paper's scheme | 5.6 (5.6 to 5.8) | 33 min | $28 |" in page
    assert "Repeats pass the first stage" in page
    assert "`auto` finds 45 designs, of which the first stage loses 15" in page
    assert all(len(line.split("|")) != 2 for line in page.splitlines())


@pytest.mark.slow
def test_lengths_use_what_was_measured(folder: Path) -> None:
    rows = [{"scheme": "blocks", "delta": 1.0, "rate": 0.75, "spread": 0.02}]
    rows[0]["designs"] = {"low": 0.74, "high": 0.76}
    result = result_of(folder, designs={"rows": rows})
    row = next(r for r in result["lengths"] if (r["scheme"], r["delta"]) == ("blocks", 1.0))
    assert row["ways"] == num_ways("blocks") == 256
    log10_p = result["corrections"][0]["log10_p"]
    assert row["measured"]["half"] == lengths(log10_p, 256, 0.75, 0.02)["half"]
    assert row["measured"]["error"] == pytest.approx(0.01)
    assert row["shipped"]["half"] == lengths(log10_p, 256, row["shipped"]["rate"])["half"]
    assert result["fewer"][0]["lengths"]["1"]["half"] == row["measured"]["half"]
    # What the first stage loses is a lower tail of the same count, at its own limit.
    half, rate = row["alike"]["half"], row["alike"]["rate"]
    passes = shares_found(-9.0, 256, rate)[half - 1]
    assert row["alike"]["lost"] == pytest.approx(1.0 - passes, rel=1e-9)


def test_results_that_are_missing_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="make it with `patternmark bench scan`"):
        result_of(tmp_path)
    assert scale.read_measured(tmp_path / "scale.json") == {}


@pytest.mark.slow
def test_the_command_writes_page_and_numbers(
    run: Callable[..., Outcome], folder: Path, tmp_path: Path
) -> None:
    pytest.importorskip("numba")
    docs = tmp_path / "docs"
    own = docs / "results" / "scale.json"
    own.parent.mkdir(parents=True)
    own.write_text(json.dumps({"natural": NATURAL}))
    options = ("--keys", 20, "--sample", 4, "--results", folder, "-o", docs)
    done = run("bench", "scale", *options, "--json")
    assert done.status == 0, done.err
    result = json.loads(done.out)
    assert result["natural"] == NATURAL  # kept: it was not measured anew
    assert {row["n"] for row in result["of_pairs"]["second"].values()} == {200}
    for stage in result["of_pairs"].values():
        assert all(0 < row["low"] <= row["median"] <= row["high"] for row in stage.values())
    found, page = page_of(own)
    assert found == result
    assert place_of(own) == docs / "scale.md"
    assert (docs / "scale.md").read_text() == page == to_markdown(result)
    assert run("bench", "page", own, "--check").status == 0


@pytest.mark.slow
def test_designs_are_measured(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from patternmark_lab.bench.scale_designs import measure_designs
    from tests.models.published import real_backbone, weights

    backbone = real_backbone(tmp_path, "A")
    found = measure_designs(weights("v_48_020"), [backbone], -6.0, 5)
    assert len(found["rows"]) == len(SCHEMES) * len(DELTAS)
    for row in found["rows"]:
        assert row["designs"]["n"] == 2
        assert sum(one["designs"] for one in row["classes"]) == 2
    by_delta = [row["rate"] for row in found["rows"] if row["scheme"] == "paper"]
    assert 0.5 < by_delta[0] < by_delta[-1]
