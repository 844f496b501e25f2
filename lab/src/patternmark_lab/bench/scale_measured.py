"""What `patternmark bench scale` measures itself: the second stage, all keys at once, repeats."""

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

TIMES, BEFORE = 200, 60  # pairs that are judged; those before fill the tables of nulls
ROUNDS = 3
FEW_KEYS = 64  # of many nonces, where all keys would take too long
_LABEL = "bench scale"

Symbols = NDArray[np.int64]
Step = Callable[[str], None]


def second_stage(length: int, seed: int = 1) -> dict[str, dict[str, float]]:
    """Time `auto` for one random sequence and a key that was not used before: seconds.

    Where keys are many, hardly any pair that passes by chance has the key of one before it.
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
    """Time the first stage with all keys at once on random sequences: seconds a pair.

    With few keys, what is done once for a sequence would count as theirs.
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
    """Count which pairs of an unmarked protein and a key pass the first stage, at 10^-level.

    Chance alone lets few of them pass; repeats are not chance.
    """
    content = _fasta(sequences)
    rows = []
    for scheme, profile in SCHEMES.items():
        step(f"natural proteins: {scheme}")
        number = min(keys, FEW_KEYS) if profile.scheme.nonces > 1 else keys
        screen = KeySet(numbered_keys(f"{_LABEL} natural {scheme}", profile, number))
        screen.passing = level
        rows.append({"scheme": scheme, "keys": number, **_passed(content, screen)})
    lengths = [len(symbols) for symbols in sequences]
    mean = float(np.mean(lengths))
    return {**environment(), "sequences": len(lengths), "mean_length": mean, "rows": rows}


def _passed(content: bytes, screen: KeySet) -> dict[str, Any]:
    """Count pairs that pass by their counts, and those of them that are left to the second stage.

    What comes after the first stage is timed by itself.
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
        "low": low,  # of the share of such segments
        "high": high,
        "seconds": seconds / passed if passed else None,  # of a pair
        "smallest_log10_p": min(best, default=None),
    }


def _masked(texts: Sequence[str], screen: KeySet) -> float | None:
    """Return the share of residues that the second stage masks as repeats: the median of texts."""
    if not texts:
        return None
    readings = screen.detector(0).read([PROTEIN.encode(text) for text in texts])
    scored = (reading.num_scored / len(t) for reading, t in zip(readings, texts, strict=True))
    return 1.0 - median(scored)


def _compile(screen: KeySet) -> None:
    """Have the loops compiled and made what a scan makes once, whatever its size."""
    content = b">one\nACDEFGHIKLMNPQRSTVWY\n"
    judging.judge(read_fasta(padded(content), len(content)), screen)


def _fasta(sequences: Sequence[Symbols] | NDArray[np.int64]) -> bytes:
    # What separates chains is -1, and so finds the last.
    letters = np.frombuffer(f"{PROTEIN.letters}/".encode(), dtype=np.uint8)
    rows = (b">%d\n%s\n" % (i, letters[row].tobytes()) for i, row in enumerate(sequences))
    return b"".join(rows)
