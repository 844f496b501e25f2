"""Both stages of a scan: counts and limits are the library's, and repeats are seen through."""

from __future__ import annotations

import sys
from math import comb, log
from threading import Thread
from typing import Any

import numpy as np
import pytest

pytest.importorskip("numba", reason="pip install 'patternmark[scan]'")

from patternmark import Detector
from patternmark.null.walk import phase_log_tail
from patternmark.scanning import keyset as screen_module
from patternmark.scanning.judging import judge
from patternmark.scanning.keyset import LEVELS, LONGEST, KeySet
from patternmark.scanning.segments import padded, read_fasta
from patternmark.scanning.unrepeated import unrepeated
from tests.scanning.made import a_key, drawn, fasta, marked

# Half of what one of them promotes, another does: a mark of one says nothing of the others.
KEYS = [a_key(number) for number in (1, 4, 5, 23, 153)]


def test_counts_are_those_of_the_library(rng: np.random.Generator) -> None:
    sequences = [drawn(rng, n) for n in (1, 2, 33, 64, 65, 300, 1024, 2048)]
    data = fasta(sequences)
    (part,) = read_fasta(padded(data), len(data))
    screen = KeySet(KEYS)
    off = 2 * part.segments[:, 4, None] - part.segments[:, 3, None]
    off = off + 2 * part.counts.astype(int) @ screen.parts.astype(int)
    for column, key in enumerate(KEYS):
        found = Detector(key, "phase", mask_repeats=False).detect_many(sequences)
        for row, verdict in enumerate(found):
            n = verdict.num_tokens_scored
            assert n == part.segments[row, 3]
            assert max(off[row, column], -off[row, column]) == 2 * verdict.statistic - n
            # The tally's levels follow from the same p-value.
            level = screen.limits[n] <= abs(int(off[row, column]))
            assert level.sum() == min(LEVELS, int(-verdict.log10_p + 1e-9))


def test_limits_are_the_first_that_are_small_enough() -> None:
    limits = KeySet(KEYS[:1]).limits
    for n in (0, 1, 10, 57, 300, LONGEST):
        for level in (0, 4, 15):
            agree = (n + int(limits[n, level])) // 2
            assert (n + int(limits[n, level])) % 2 == 0
            if agree > n:
                assert phase_log_tail(n, n) > -(level + 1) * np.log(10) or n == 0
                continue
            assert phase_log_tail(agree, n) <= -(level + 1) * np.log(10)
            assert phase_log_tail(agree - 1, n) > -(level + 1) * np.log(10)


def test_what_the_first_stage_loses_is_a_binomial_tail() -> None:
    screen = KeySet(KEYS)
    n, rate = 60, 0.7
    least = (n + int(screen.limits[n, screen.passing - 1])) // 2
    exact = sum(comb(n, k) * rate**k * (1 - rate) ** (n - k) for k in range(least))
    assert screen.lost(rate, n) == pytest.approx(exact)
    assert screen.lost(0.9, 10) == 1.0  # so short a one cannot pass
    assert screen.lost(0.85, 260) < 1e-9


def test_long_records_are_judged_in_segments(rng: np.random.Generator) -> None:
    before, after = drawn(rng, 5001), drawn(rng, 3000)
    text = before + marked(rng, KEYS[1], 600) + after
    data = fasta([text])
    found = judge(read_fasta(padded(data), len(data)), KeySet(KEYS))
    assert found.residues == len(text)
    assert found.segments == -(-len(text) // 1024) - 1
    (hit,) = [hit for hit in found.hits if hit["log10_p"] < -8]
    assert hit["key_id"] == KEYS[1].key_id
    assert hit["length"] == len(text)
    assert 4000 < hit["segment_start"] < 5300
    assert 5300 < hit["segment_end"] < 6700


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Count what is judged in full."""
    numbers: list[int] = []
    plain = Detector.detect_many

    def counted(self: Detector, sequences: Any, *more: Any) -> Any:
        numbers.append(len(sequences))
        return plain(self, sequences, *more)

    monkeypatch.setattr(Detector, "detect_many", counted)
    return numbers


def test_segments_that_are_alike_are_judged_once(judged: list[int]) -> None:
    text = marked(np.random.default_rng(3), KEYS[0], 2048)
    data = fasta([text * 20])  # half of a segment is that of the next
    found = judge(read_fasta(padded(data), len(data)), KeySet(KEYS[:1]))
    assert found.passed == found.segments == 39
    assert judged == [2]
    assert len(found.hits) == 1


def test_repeats_are_not_judged_in_full(judged: list[int]) -> None:
    """They pass with one key in two, and would take most of the time."""
    letters = [KEYS[0].profile.alphabet.letters[np.argmax(m)] for m in KEYS[0].partition.members]
    data = fasta(["".join(letters) * 50_000])
    found = judge(read_fasta(padded(data), len(data)), KeySet(KEYS[:1]))
    assert found.segments == found.tally[4] == 97
    assert (found.passed, judged) == (0, [])


def test_what_is_left_of_repeats_is_counted_as_auto_counts_it() -> None:
    rng = np.random.default_rng(7)
    own = [drawn(rng, 40) + drawn(rng, 25) * 6 + "QA" * 9 + "X" + drawn(rng, 31) for _ in range(8)]
    data = fasta([*own, *(marked(rng, key, 260) for key in KEYS)])
    (part,) = read_fasta(padded(data), len(data))
    screen = KeySet(KEYS)
    every = np.array([(s, k) for s in range(13) for k in range(5)], dtype=np.int64)
    for level in (1, 2, 5):
        screen.passing = level
        expected = []
        for segment, key in every.tolist():
            (text,) = part.texts([segment])
            (reading,) = Detector(KEYS[key]).read([KEYS[key].profile.alphabet.encode(text)])
            is_first = KEYS[key].partition.members[0]
            scored = [(i, s) for i, s in enumerate(reading.symbols.tolist()) if s >= 0]
            agreed = sum(is_first[s] == (i % 2 == 0) for i, s in scored)
            best, n = max(agreed, len(scored) - agreed), len(scored)
            if phase_log_tail(np.array([best]), np.array([n]))[0] <= -level * log(10.0):
                expected.append((segment, key))
        found = unrepeated(part, every, screen)
        assert found.tolist() == [list(pair) for pair in expected]
        assert 0 < len(found) < len(every)


@pytest.mark.slow
def test_threads_share_the_detectors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of which few are kept: one may be let go while another thread takes it."""
    monkeypatch.setattr(screen_module, "_KEPT_DETECTORS", 1)
    screen, failed = KeySet(KEYS), []

    def use(first: int) -> None:
        try:
            for i in range(3000):
                key = (first + i) % len(KEYS)
                assert screen.detector(key).key is KEYS[key]
        except Exception as error:  # of a thread: it would be lost
            failed.append(error)

    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [Thread(target=use, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(usual)
    assert not failed
