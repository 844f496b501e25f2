"""The measurements of `patternmark bench scale`: second stage, first stage, and repeats."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median, quantiles
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patternmark.core.alphabet import PROTEIN
from patternmark.detector import Detector
from patternmark.intervals import rate_interval
from patternmark.plan.simulate import plain_sequences
from patternmark.scanning import judging
from patternmark.scanning.keyset import LEVELS, KeySet
from patternmark.scanning.segments import padded, read_fasta
from patternmark_lab.bench.protein import numbered_keys
from patternmark_lab.bench.report import environment
from patternmark_lab.bench.scan_input import SCHEMES

TIMES, BEFORE = 200, 60  # pairs that are timed; pairs before them, which fill the tables of nulls
ROUNDS = 3
MANY_NONCES_KEYS = 64  # number of keys with many nonces, where all keys would take too long
_LABEL = "bench scale"

Symbols = NDArray[np.int64]
Step = Callable[[str], None]


def second_stage(length: int, seed: int = 1) -> dict[str, dict[str, float]]:
    """Return the seconds of `auto` for one random sequence and a key that was not used before.

    With many keys, hardly any two pairs that pass by chance have the same key.
    """
    rng = np.random.default_rng(seed)
    found = {}
    for scheme, profile in SCHEMES.items():
        keys = numbered_keys(f"{_LABEL} auto {scheme}", profile, BEFORE + TIMES)
        sequences = plain_sequences(PROTEIN, len(keys), length, rng)
        times = []
        for key, sequence in zip(keys, sequences, strict=True):
            began = perf_counter()
            Detector(key).detect_many([sequence])
            times.append(perf_counter() - began)
        low, middle, high = quantiles(times[BEFORE:], n=4)
        found[scheme] = {"median": middle, "low": low, "high": high, "n": TIMES}
    return found


def first_stage(
    length: int, keys: int, sequences: int, seed: int = 1, step: Step = lambda what: None
) -> dict[str, dict[str, float]]:
    """Return the seconds of the first stage for a pair, with all keys together.

    With only a few keys, the work that is done once for each sequence would distort the result.
    """
    content = _fasta(plain_sequences(PROTEIN, sequences, length, np.random.default_rng(seed)))
    raw, found = padded(content), {}
    for scheme, profile in SCHEMES.items():
        step(f"all keys at once: {scheme}")
        screen = KeySet(numbered_keys(f"{_LABEL} {scheme}", profile, keys))
        _compile(screen)
        times = []
        for _ in range(ROUNDS):
            began = perf_counter()
            judging.judge(read_fasta(raw, len(content)), screen)
            times.append((perf_counter() - began) / (sequences * keys))
        found[scheme] = {"median": median(times), "low": min(times), "high": max(times)}
    return found


def natural_pairs(
    sequences: Sequence[Symbols], keys: int, level: int, step: Step = lambda what: None
) -> dict[str, Any]:
    """Count the pairs of an unmarked protein and a key that pass the first stage, at 10^-level.

    By chance only a few of them would pass; repeats let more pass.
    """
    content = _fasta(sequences)
    rows = []
    for scheme, profile in SCHEMES.items():
        step(f"natural proteins: {scheme}")
        number = min(keys, MANY_NONCES_KEYS) if profile.scheme.nonces > 1 else keys
        screen = KeySet(numbered_keys(f"{_LABEL} natural {scheme}", profile, number))
        screen.passing = level
        rows.append({"scheme": scheme, "keys": number, **_count_passing(content, screen)})
    lengths = [len(symbols) for symbols in sequences]
    mean = float(np.mean(lengths))
    return {**environment(), "sequences": len(lengths), "mean_length": mean, "rows": rows}


def _count_passing(content: bytes, screen: KeySet) -> dict[str, Any]:
    """Count pairs that pass by their counts, and those that also remain after masking repeats.

    Only the time after the first stage is measured.
    """
    _compile(screen)
    raw, texts = padded(content), list[str]()
    segments = passed = left = 0
    seconds, best = 0.0, list[float]()
    for part in read_fasta(raw, len(content)):
        segments += len(part.segments)
        found = list(judging.first_stage(part, screen, np.zeros(LEVELS, dtype=np.int64)))
        who = {segment for pairs in found for segment in np.unique(pairs[:, 0]).tolist()}
        texts += part.texts(sorted(who))
        passed += sum(map(len, found))
        began, hits = perf_counter(), judging.Best()
        left += judging.second_stage(part, found, screen, 0, hits)
        seconds += perf_counter() - began
        best += [hit["log10_p"] for hit in hits.values()]
    low, high = rate_interval(len(texts), segments)
    return {
        "segments": segments,
        "passed": passed,
        "left": left,
        "segments_passed": len(texts),
        "masked": _masked(texts, screen),
        "low": low,  # interval of segments_passed / segments
        "high": high,
        "seconds": seconds / passed if passed else None,  # for each pair
        "smallest_log10_p": min(best, default=None),
    }


def _masked(texts: Sequence[str], screen: KeySet) -> float | None:
    """Return the median share of residues that the second stage masks as repeats."""
    if not texts:
        return None
    readings = screen.detector(0).read([PROTEIN.encode(text) for text in texts])
    scored = (reading.num_scored / len(t) for reading, t in zip(readings, texts, strict=True))
    return 1.0 - median(scored)


def _compile(screen: KeySet) -> None:
    """Compile the loops and make the tables that a scan makes once, whatever its size."""
    content = b">one\nACDEFGHIKLMNPQRSTVWY\n"
    judging.judge(read_fasta(padded(content), len(content)), screen)


def _fasta(sequences: Sequence[Symbols] | NDArray[np.int64]) -> bytes:
    # The separator of chains is -1, and so selects the last letter, "/".
    letters = np.frombuffer(f"{PROTEIN.letters}/".encode(), dtype=np.uint8)
    rows = (b">%d\n%s\n" % (i, letters[row].tobytes()) for i, row in enumerate(sequences))
    return b"".join(rows)
