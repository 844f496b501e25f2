"""`patternmark bench text-null`: the null of natural texts, counted with random keys.

Random keys judge texts of natural English. The table that ships with the package has, for several
lengths of texts, an upper bound on the share of pairs of a text and a key that reach each value of
E. The table is made from every second document, and `bench text-validity` checks it on the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from patternmark.core.alphabet import Alphabet
from patternmark.core.key import Key
from patternmark.core.profile import Profile
from patternmark.core.schemes import Paper, Scheme, Turns
from patternmark.core.secret import Secret
from patternmark.detector import Detector
from patternmark.null.mixture import GRID
from patternmark.statistics.excerpts import excerpt_of, in_parts
from patternmark.statistics.likelihood import TEXT_MIXTURE
from patternmark.statistics.texts import TextStatistic
from patternmark_lab.bench.corpora import Encoder, cut_texts
from patternmark_lab.bench.jobs import run_all

# Tokens: number of pairs. Long texts need fewer pairs, because they carry enough evidence.
PAIRS = {10: 40_000, 15: 40_000, 20: 40_000, 30: 40_000, 40: 40_000, 60: 40_000, 90: 40_000}
PAIRS |= {130: 20_000, 200: 20_000, 350: 8_000, 600: 4_000, 1000: 3_000}
_PER_KEY = 50  # texts that each key judges
_MAX_TEXTS = 20_000  # of one length
_MIN_HITS = 10  # with fewer hits a share is not trusted, and the last C is used
_SIGMAS = 2.0
SCHEMES: dict[str, Scheme] = {Turns.name: Turns(), Paper.name: Paper()}


class Job(NamedTuple):
    """The pairs of one scheme and length."""

    scheme: str
    length: int
    alphabet: Alphabet
    texts: list[NDArray[np.int64]]
    pairs: int
    seed: int


def table_of_corpora(
    corpora: dict[str, list[str]],
    alphabet: Alphabet,
    encode: Encoder,
    *,
    share: float = 1.0,
    seed: int = 1,
    workers: int = 1,
    step: Callable[[str], None] = lambda what: None,
) -> dict[str, Any]:
    """Return the content of text_null.json, from `share` of the usual number of pairs."""
    rng = np.random.default_rng(seed)
    encode = cache(encode)  # every document is cut once for each length
    used = {name: table_documents(documents) for name, documents in corpora.items()}
    jobs = []
    for length, pairs in PAIRS.items():
        texts = [
            text
            for documents in used.values()
            for text in cut_texts(documents, encode, (length, length), _MAX_TEXTS // len(used), rng)
        ]
        jobs += [
            Job(scheme, length, alphabet, texts, max(int(pairs * share), _PER_KEY), seed)
            for scheme in SCHEMES
        ]
    found = {}
    for (scheme, length), log_p in run_all(_count, jobs, workers):
        found[scheme, length] = log_p.round(3).tolist()
        step(f"{scheme}, {length} tokens")
    return {
        "about": "ln of an upper bound on P(E >= e) for natural text and random keys, on a grid of "
        f"ln e from {GRID[0]:g} to {GRID[-1]:g} in steps of {GRID[1] - GRID[0]:g}, for each number "
        f"of tokens; made by 'patternmark bench text-null' of {', '.join(used)}.",
        **{
            scheme: {
                "mixture": TEXT_MIXTURE.digest,
                "lengths": list(PAIRS),
                "log_p": [found[scheme, length] for length in PAIRS],
            }
            for scheme in SCHEMES
        },
    }


def table_documents(documents: Sequence[str]) -> list[str]:
    """Return the documents that the table is made from."""
    return list(documents[0::2])


def check_documents(documents: Sequence[str]) -> list[str]:
    """Return all other documents, on which the table is checked."""
    return list(documents[1::2])


def _count(job: Job) -> tuple[tuple[str, int], NDArray[np.float64]]:
    rng = np.random.default_rng([job.seed, job.length])
    profile = Profile(job.alphabet, SCHEMES[job.scheme])
    log_e: list[float] = []
    for _ in range(-(-job.pairs // _PER_KEY)):
        detector = Detector(Key.of(Secret(rng.bytes(32)), profile))
        some = [job.texts[i] for i in rng.integers(len(job.texts), size=_PER_KEY)]
        for readings in in_parts(detector.key, detector.read(some)):
            excerpt, numbered = excerpt_of(detector.key, readings)
            statistic = TextStatistic(detector.key, excerpt)
            log_e += statistic.log_ratios_of_all(numbered).tolist()
    return (job.scheme, job.length), upper_tail(np.array(log_e))


def upper_tail(log_e: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ln of an upper bound on P(E >= e) on the grid, from counts.

    Where there are too few hits, the tail is Markov's: P(E >= e) = C / e with the last C.
    """
    hits = np.array([np.count_nonzero(log_e >= e) for e in GRID])
    raised = (hits + _SIGMAS * np.sqrt(hits)) / len(log_e)
    with np.errstate(divide="ignore"):
        log_p = np.minimum(np.log(raised), 0.0)
    last = int(np.flatnonzero(hits >= _MIN_HITS)[-1])
    carried = np.minimum(log_p[last] + GRID[last] - GRID, 0.0)
    return np.asarray(np.where(np.arange(len(GRID)) > last, carried, log_p))
