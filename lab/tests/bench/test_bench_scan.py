"""The speed of scans: measured whole and small; no test says how fast a machine must be."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from patternmark.errors import PatternmarkError
from patternmark_lab.bench import scan_gpu_page
from patternmark_lab.bench.pages import page_of
from patternmark_lab.bench.scan import in_turns, row
from patternmark_lab.bench.scan_input import SCHEMES, compress_member, make_fasta
from patternmark_lab.bench.scan_page import is_met, to_markdown
from tests.conftest import Outcome

NAMES = {
    "bare",
    "bare_lanes",
    "many",
    "very_many",
    "block_key",
    "block_keys",
    "gzip",
    "workers",
    "memory",
}


@pytest.mark.slow
@pytest.mark.slow
def test_the_command_measures_all(run: Callable[..., Outcome], tmp_path: Path) -> None:
    pytest.importorskip("numba")
    pytest.importorskip("isal")
    done = run("bench", "scan", "--sequences", 2000, "--repeats", 2, "--json", "-o", tmp_path)
    assert done.status == 0, done.err
    result = json.loads(done.out)
    rows = {row["name"]: row for row in result["rows"]}
    assert set(rows) - {"biopython"} == NAMES
    assert all(0 < row["low"] <= row["ratio"] <= row["high"] for row in rows.values())
    assert {"version", "python", "numpy", "numba", "cpus", "sizes"} <= set(result)
    for group in ("memory", "keys", "gzip", "workers", "memory_kib"):
        for times in result["times"][group].values():
            assert len(times) == 2
            assert min(times) > 0
    found, page = page_of(tmp_path / "scan.json")
    assert found == result
    assert page == to_markdown(result) == (tmp_path / "scan.md").read_text()
    assert run("bench", "page", tmp_path / "scan.json", "--check").status == 0


def test_scans_on_a_gpu_are_measured(run: Callable[..., Outcome], tmp_path: Path) -> None:
    """On a CPU torch takes the GPU's part."""
    pytest.importorskip("numba")
    pytest.importorskip("torch")
    options = ("--keys", 60, "--block-keys", 20, "--sequences", 400, "--repeats", 2)
    done = run("bench", "scan-gpu", *options, "--device", "cpu", "--json", "-o", tmp_path)
    assert done.status == 0, done.err
    result = json.loads(done.out)
    assert {"version", "numba", "torch", "gpu", "sizes"} <= set(result)
    work = {row["name"]: (row["keys"], row["sequences"], row["nonces"]) for row in result["rows"]}
    assert work == {
        "two_parts": (60, 400, None),
        "blocks_1_nonce": (20, 400, 1),
        "blocks_32_nonces": (20, 40, 32),
    }
    for found in result["rows"]:
        assert {name: len(times) for name, times in found["times"].items()} == {
            "read": 2,
            "device": 2,
            "cpu": 2,
        }
        assert found["pairs"] == found["keys"] * found["sequences"]
        assert found["many_pairs_seconds"] == pytest.approx(1e11 / found["pairs_per_second"])
        assert 0 < found["ratio"]["low"] <= found["ratio"]["ratio"]
        assert found["checked"]["keys"] == found["keys"]
        assert len(found["checked"]["tally"]) == 16
    found, page = page_of(tmp_path / "scan-gpu.json")
    assert found == result
    assert page == scan_gpu_page.to_markdown(result) == (tmp_path / "scan-gpu.md").read_text()
    assert run("bench", "page", tmp_path / "scan-gpu.json", "--check").status == 0


def test_a_gpu_that_counts_otherwise_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba")
    pytest.importorskip("torch")
    from patternmark.scanning import gpu_two_part as gpu
    from patternmark.scanning.keyset import KeySet
    from patternmark_lab.bench.protein import numbered_keys
    from patternmark_lab.bench.scan_gpu import same_on_both

    keys = numbered_keys("a test", SCHEMES["paper"], 40)
    screen = KeySet(keys, gpu.TORCH_ON_CPU)
    found = same_on_both(make_fasta(100, 1), screen)
    assert found["pairs"] == found["tally"][found["level"] - 1] > 0
    assert screen.passing == KeySet(keys).passing
    right = gpu.reaching
    monkeypatch.setattr(gpu, "reaching", lambda off, *rest: right(off + 2, *rest))
    with pytest.raises(PatternmarkError, match=r"100 sequences, 40 keys: .* differs from the"):
        same_on_both(make_fasta(100, 1), screen)


def test_input_is_the_same_for_a_seed() -> None:
    content = make_fasta(50, 3)
    assert content == make_fasta(50, 3) != make_fasta(50, 4)
    assert content.count(b">") == content.count(b"\n>") + 1 == 50
    lines = content.split(b"\n")
    assert {len(line) for line in lines if line.startswith(b">")} <= set(range(55, 66))
    assert max(len(line) for line in lines if not line.startswith(b">")) == 60
    assert compress_member(content)[:2] == b"\x1f\x8b"


def test_bare_passes_find_every_record() -> None:
    pytest.importorskip("numba")
    from patternmark.scanning.segments import padded
    from patternmark_lab.bench.scan_loops import boundaries, boundaries_by_lanes

    content = make_fasta(30, 1) + b">a > b\n>\nAC>D\n>last"
    wanted = [0] + [i + 1 for i in range(len(content)) if content[i : i + 2] == b"\n>"]
    for find in (boundaries, boundaries_by_lanes):
        offsets = np.zeros(100, dtype=np.int64)
        assert find(padded(content), len(content), offsets) == len(wanted)
        assert offsets[: len(wanted)].tolist() == wanted


def test_ratios_are_taken_in_every_turn() -> None:
    calls: list[str] = []
    times = in_turns({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, 2)
    assert calls == ["a", "b"] * 3  # the first round is not timed
    assert [len(times[name]) for name in "ab"] == [2, 2]
    found = row("x", [2.0, 9.0, 4.0], [1.0, 1.0, 1.0], scale=0.5, least=2.0)
    assert (found["ratio"], found["low"], found["high"]) == (2.0, 1.0, 4.5)
    assert is_met(found)
    assert not is_met(found | {"least": 2.1})
    assert not is_met(found | {"least": None, "most": 1.9})
