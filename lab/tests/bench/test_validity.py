"""The benchmark that counts false positives: it counts right, and it can fail."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import log
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from patternmark import PROTEIN, Detector
from patternmark.core.reading import Reading
from patternmark.intervals import binomial_tail
from patternmark.io.kept import Kept
from patternmark.io.structures import Backbone
from patternmark.plan.simulate import plain_sequences
from patternmark.statistics.base import Measurement
from patternmark.statistics.phases import PhaseStatistic
from patternmark_lab.bench.detector_designs import SCHEMES
from patternmark_lab.bench.hard_sequences import CLASSES
from patternmark_lab.bench.validity import (
    DESIGNED,
    LEVELS,
    NATURAL,
    OTHERS,
    Job,
    PackedReadings,
    detectors_of,
    key_of,
    log_ps,
    read_unmarked,
    run_validity_benchmark,
)
from patternmark_lab.bench.validity_page import to_markdown
from patternmark_lab.bench.validity_written import RECORDS, count_records, judge_written
from patternmark_lab.bench.validity_written_page import records_section
from tests.conftest import Outcome
from tests.synthetic import plain, write_fasta

PEPTIDES, TURNS = "100 peptides of 9 with anchors L2, V9", "A and X in turn, 100 A"
SMALL = ("--draws", 4, "--record-keys", 4)
FEW = {"draws": 4, "record_keys": 4}


@pytest.fixture(autouse=True)
def few_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """Judge few of the sequences that are written on purpose."""
    classes = {name: CLASSES[name] for name in ("one letter", "A and X in turn")}
    monkeypatch.setattr("patternmark_lab.bench.block_null.CLASSES", classes)
    monkeypatch.setattr("patternmark_lab.bench.hard_sequences.CLASSES", classes)
    monkeypatch.setattr("patternmark_lab.bench.validity_written.LENGTHS", (60,))
    records = {name: RECORDS[name] for name in (PEPTIDES, TURNS)}
    monkeypatch.setattr("patternmark_lab.bench.validity_written.RECORDS", records)


@pytest.fixture
def null_file(tmp_path: Path, rng: np.random.Generator) -> Path:
    sequences = {f"u{i}": plain(int(rng.integers(30, 90)), rng) for i in range(12)}
    return write_fasta(tmp_path / "null.fa", sequences | {"twins": "MKTAYIAKQRQISF/MKTAYIAKQR"})


@pytest.mark.slow
def test_the_command_counts_what_detectors_call_marked(
    run: Callable[..., Outcome], null_file: Path, tmp_path: Path
) -> None:
    kept, folder = tmp_path / "kept.jsonl", tmp_path / "out"
    size = ["--keys", 2, "--sequences", 9, "--sequences-default", 3, "--partial", kept, *SMALL]
    done = run("bench", "validity", null_file, *size, "--json", "-o", folder)
    assert done.status == 0, done.err
    result = json.loads(done.out)
    assert result == json.loads((folder / "validity.json").read_text())
    assert (folder / "validity.md").read_text() == to_markdown(result)
    assert (folder / "validity.png").stat().st_size > 0
    rows = {(r["scheme"], r["detector"], r["nominal"]): r for r in result["rates"]}
    assert len(rows) == sum(len(detectors_of(profile)) for profile in SCHEMES.values()) * len(
        LEVELS
    )
    pairs = {scheme: rows[scheme, "auto", 0.01]["pairs"] for scheme in SCHEMES}
    assert pairs == {"paper": 18, "blocks R=1": 18, "blocks": 6}
    assert len(kept.read_text().splitlines()) == 6


@pytest.mark.slow
def test_stopped_runs_go_on_with_the_same_result(null_file: Path, tmp_path: Path) -> None:
    natural, skipped = read_unmarked([str(null_file)])
    assert (len(natural), skipped) == (13, 0)
    kept = tmp_path / "kept.jsonl"
    size = {"num_keys": 2, "per_key": 8, **FEW}
    whole = run_validity_benchmark(natural, **size, partial=kept)
    lines = kept.read_bytes().splitlines(keepends=True)
    kept.write_bytes(b"".join(lines[:3]) + lines[3][:20])  # killed while it wrote the fourth
    done: list[str] = []
    assert run_validity_benchmark(natural, **size, partial=kept, step=done.append) == whole
    assert sum(what.startswith("kept") for what in done) == 3
    assert run_validity_benchmark(natural, **size, workers=2) == whole
    other: list[str] = []  # other sequences: nothing of it may be taken over
    run_validity_benchmark(natural[1:], **size, partial=kept, step=other.append)
    assert not any(what.startswith("kept") for what in other)


def test_all_detectors_are_those_of_users(rng: np.random.Generator) -> None:
    """Packed readings and the shared ratio change no p-value."""
    texts = [PROTEIN.encode(plain(60, rng)) for _ in range(4)]
    texts += [PROTEIN.encode("ACDEFGHIKLXX" * 3 + "/MKTAYIAKQRQISFVK"), PROTEIN.encode("XX")]
    for scheme, profile in SCHEMES.items():
        key = key_of(Job(scheme, 1), 5)
        packed = PackedReadings.of(Detector(key).read(texts))
        assert len(packed) == 5  # nothing can be said of the last
        found = log_ps(key, detectors_of(profile), packed.take([0, 3, 4]))
        assert set(found) == set(detectors_of(profile))
        for detector, log_p in found.items():
            verdicts = Detector(key, detector).detect_many([texts[i] for i in (0, 3, 4)])
            expected = [verdict.log10_p * log(10) for verdict in verdicts]
            assert log_p == pytest.approx(expected, abs=1e-9)


def test_designs_are_judged_by_every_key_and_kept(
    monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator, tmp_path: Path
) -> None:
    only = {"paper": ("phase",), "blocks": ("auto", "lr")}
    monkeypatch.setattr("patternmark_lab.bench.validity.DETECTORS", only)
    monkeypatch.setattr("patternmark.models.mpnn.ProteinMPNN.load", lambda *_: object())
    made = {"sequences": plain_sequences(PROTEIN, 9, 60, rng)}
    calls: list[int] = []

    def designed(model: object, backbone: Backbone, conditions: list, seed: int) -> dict:
        assert conditions[:3] == [(None, 0.0)] * 3
        assert [delta for _, delta in conditions[3:]] == [1.5] * 6
        schemes = [key.profile.scheme.name for key, _ in conditions[3:]]
        assert schemes == ["paper"] * 3 + ["blocks"] * 3
        calls.append(seed)
        return made

    monkeypatch.setattr("patternmark_lab.bench.validity.design_all", designed)
    coordinates = np.zeros((60, 4, 3), dtype=np.float32)
    coordinates[5] = np.nan  # not seen in the crystal: X in a design
    labels = tuple(map(str, range(60)))
    nowhere = np.zeros(60, dtype=np.int64)
    backbone = Backbone("1abc", coordinates, made["sequences"][0], nowhere, ("A",), labels)
    natural = [PROTEIN.encode(plain(50, rng)) for _ in range(3)]
    kept = tmp_path / "kept.jsonl"
    size = {"num_keys": 2, "weights": Path("v.pt"), "backbones": [backbone], "samples": 3, **FEW}
    result = run_validity_benchmark(natural, **size, partial=kept)
    assert result["sources"]["designed"]["sequences"] == 3
    for source in (DESIGNED, *OTHERS):
        assert {r["pairs"] for r in result["rates"] if r["source"] == source} == {6}
    first = json.loads(kept.read_text().splitlines()[0])["sequences"][0]
    assert (first[5], "X" in first[6:]) == ("X", False)
    assert run_validity_benchmark(natural, **size, partial=kept) == result
    assert calls == [1]
    assert "3 of each kind on each of 1 chains" in to_markdown(result)


def _phase_rows(result: dict) -> list[dict]:
    wanted = ("paper", "phase", NATURAL)
    return [r for r in result["rates"] if (r["scheme"], r["detector"], r["source"]) == wanted]


@pytest.mark.slow
def test_an_invalid_detector_is_flagged(
    monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    only = {"paper": ("phase",), "blocks": ("auto", "lr")}
    monkeypatch.setattr("patternmark_lab.bench.validity.DETECTORS", only)
    natural = list(plain_sequences(PROTEIN, 1000, 101, rng))
    size = {"num_keys": 5, "per_key": 800, "per_default_key": 10, **FEW}
    honest = run_validity_benchmark(natural, **size)
    assert all(row["ok"] for row in honest["rates"])
    assert "All 20 rates below are `ok`." in to_markdown(honest)

    measure = PhaseStatistic.measure

    def too_sure(self: PhaseStatistic, readings: Sequence[Reading]) -> list[Measurement]:
        return [replace(one, log_p=one.log_p - log(3)) for one in measure(self, readings)]

    monkeypatch.setattr(PhaseStatistic, "measure", too_sure)
    result = run_validity_benchmark(natural, **size)
    worst = _phase_rows(result)[0]
    assert not worst["ok"]
    assert worst["ratio"] > 1.8
    assert worst["worst_key"]["chance"] < 1e-3
    page = to_markdown(result)
    assert "- paper, `phase`, natural sequences, at 1 %" in page
    assert f"| **{worst['ratio']:.2f}** |" in page


def test_the_tail_of_a_count() -> None:
    from math import comb

    for hits, trials, rate in ((3, 20, 0.05), (20, 20, 0.5), (1, 7, 0.3), (0, 5, 0.1)):
        exact = sum(
            comb(trials, k) * rate**k * (1 - rate) ** (trials - k) for k in range(hits, trials + 1)
        )
        assert binomial_tail(hits, trials, rate) == pytest.approx(exact, rel=1e-9)


def test_kept_jobs_survive_a_line_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "kept.jsonl"
    path.write_text('{"job": "a", "x": 1}\n{"job": "b", "x"')
    kept = Kept(path)
    assert kept.get("b") is None
    kept.add({"job": "c", "x": 3})
    again = Kept(path)
    assert [again.get(name) for name in "abc"] == [{"job": "a", "x": 1}, None, {"job": "c", "x": 3}]


def test_written_sequences_are_judged_at_the_levels_of_their_p_values(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With half the factor C, t is half and the ratio is about twice as large."""
    ratios = []
    for factor in (0.5, 0.25):
        at = SimpleNamespace(at=lambda *_, factor=factor: log(factor))
        monkeypatch.setattr("patternmark_lab.bench.validity_written.log_c", at)
        rows = judge_written([], draws=200, seed=1, workers=1, step=lambda what: None)
        assert [row["class"] for row in rows] == ["one letter", "A and X in turn"]
        assert all(0.0 <= value <= 1.0 for row in rows for value in row["any"])
        ratios.append(rows[0])
    assert ratios[0]["any"] == ratios[1]["any"]
    assert ratios[0]["table"] == 2 * ratios[1]["table"]
    # P(C / E <= a) / a is C(C / a) / C: at most 1 / C, whatever the class.
    assert all(value <= 1.0 / row["table"] for row in ratios for value in row["ratio"])


def test_records_are_counted_and_their_rates_flagged(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = {"paper": 8, "blocks": 4}
    rows = count_records(keys, seed=1, workers=1, step=lambda what: None)
    found = {(row["scheme"], row["record"]): row for row in rows}
    assert {place: row["pairs"] for place, row in found.items()} == {
        (scheme, name): count for scheme, count in keys.items() for name in (PEPTIDES, TURNS)
    }
    assert found["paper", PEPTIDES]["p_any"] is None  # there is none for amino acids
    assert found["blocks", PEPTIDES]["p_any"] is not None
    assert not any("too often" in line for line in records_section(rows) if "| blocks |" in line)
    called = [{"hits": 4, "ratio": 100.0, "low": 40.0, "high": 100.0}]
    found["blocks", TURNS]["p_value"] = called
    worst = [line for line in records_section(rows) if line.startswith("| ")][1]
    assert worst.startswith(f"| {TURNS} | blocks | 4 | 4: 100 [40, 100]")
    assert worst.endswith("**too often** |")
