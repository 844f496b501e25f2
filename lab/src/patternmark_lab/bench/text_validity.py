"""`patternmark bench text-validity`: whether the p-values are valid for text.

Fresh keys judge natural English, texts that repeat themselves in many ways (`hard_texts`), other
languages, and translations that another key marked. None of these texts was used for the table of
the null (`text_null`). The benchmark counts how often each p-value is at most each level, both for
the p-value that decides by default and for the bound that is proved for any text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patternmark.core.alphabet import Alphabet
from patternmark.core.key import Key
from patternmark.core.profile import Profile
from patternmark.core.schemes import Paper, Scheme, Turns
from patternmark.core.secret import Secret
from patternmark.detector import Detector
from patternmark.errors import ParameterError
from patternmark.intervals import rate_interval
from patternmark.io.kept import Kept
from patternmark_lab.bench.corpora import Encoder, cut_texts
from patternmark_lab.bench.hard_texts import makers
from patternmark_lab.bench.jobs import run_all
from patternmark_lab.bench.report import environment
from patternmark_lab.bench.text_null import check_documents

LENGTHS = {
    "20 to 40 tokens": (20, 40),
    "50 to 100 tokens": (50, 100),
    "200 to 400 tokens": (200, 400),
}
LONG = {"1,500 to 2,000 tokens": (1500, 2000)}  # only for natural text
LEVELS = (1e-2, 1e-3, 1e-4)
P_VALUES = ("p_value", "p_any")
SCHEMES: dict[str, Scheme] = {"turns": Turns(), "paper": Paper()}
NATURAL, HARD, MARKED = "natural", "hard", "another key's marks"
TOLERATED = 1.1  # times the nominal rate
_MAX_TEXTS = 4_000  # of one source and length, from which each key draws
_HARD_TEXTS = 400  # of each class and length
_USUAL_TOKENS = 100  # of a text; of longer texts a key judges fewer
_WORD_SENTENCES = 20_000  # sentences that hard texts take their words from

Texts = list[NDArray[np.int64]]


@dataclass(frozen=True, eq=False)
class Judge:
    """Lets one key judge some texts of every source; each process has one of these."""

    sources: dict[str, Texts]
    alphabet: Alphabet
    per_key: int
    seed: int

    def __call__(self, job: tuple[str, int]) -> dict[str, Any]:
        """Count the texts that a key of a scheme calls marked at each level, by either p-value."""
        scheme, number = job
        secret = Secret(Secret(self.seed.to_bytes(32, "big")).subkey(f"validity/{number}"))
        detector = Detector(Key.of(secret, Profile(self.alphabet, SCHEMES[scheme])))
        rng = np.random.default_rng([self.seed, number])
        return {
            "job": f"{scheme}/{number}",
            "counts": {
                source: self._count(detector, texts, rng) for source, texts in self.sources.items()
            },
        }

    def _count(self, detector: Detector, texts: Texts, rng: np.random.Generator) -> dict[str, Any]:
        # Long texts take long, so judge fewer: half as many if they are four times as long.
        fewer = min(1.0, (_USUAL_TOKENS / max(len(text) for text in texts)) ** 0.5)
        chosen = rng.permutation(len(texts))[: max(1, round(fewer * self.per_key))]
        verdicts = detector.detect_many([texts[i] for i in chosen])
        hits = {
            name: [sum(_at_most(getattr(v, name), level) for v in verdicts) for level in LEVELS]
            for name in P_VALUES
        }
        return {"pairs": len(verdicts), "hits": hits}


def _at_most(p: float | None, level: float) -> bool:
    return p is not None and p <= level


def run_text_validity_benchmark(
    corpora: dict[str, list[str]],
    others: dict[str, Sequence[str]],
    marked: Sequence[str],
    alphabet: Alphabet,
    encode: Encoder,
    *,
    num_keys: int = 200,
    per_key: int = 100,
    seed: int = 1,
    workers: int = 1,
    partial: Path | None = None,
    step: Callable[[str], None] = lambda what: None,
) -> dict[str, Any]:
    """Count false positives; `step` is called for every finished key.

    `others` has lines of other languages, by language; another key marked the texts `marked`.
    """
    if num_keys < 2:
        raise ParameterError("--keys must be at least 2, better some hundred: keys differ")
    rng = np.random.default_rng(seed)
    kinds: dict[str, dict[str, Texts]] = {NATURAL: {}, HARD: {}, MARKED: {}}
    for length, sizes in (LENGTHS | LONG).items():
        for corpus, documents in corpora.items():
            found = cut_texts(check_documents(documents), encode, sizes, _MAX_TEXTS, rng)
            if found:
                kinds[NATURAL][f"{corpus}, {length}"] = found
    for length, sizes in LENGTHS.items():
        for name, texts in _hard(corpora, others, encode, sizes, rng).items():
            kinds[HARD][f"{name}, {length}"] = texts
    if marked:
        kinds[MARKED][f"{len(marked)} translations"] = [np.array(encode(text)) for text in marked]
    sources = {name: texts for some in kinds.values() for name, texts in some.items() if texts}
    kept = Kept(partial)
    jobs = [(scheme, number) for scheme in SCHEMES for number in range(num_keys)]
    rows = [row for job in jobs if (row := kept.get(f"{job[0]}/{job[1]}")) is not None]
    done = {row["job"] for row in rows}
    left = [job for job in jobs if f"{job[0]}/{job[1]}" not in done]
    for row in run_all(Judge(sources, alphabet, per_key, seed), left, workers):
        kept.add(row)
        rows.append(row)
        step(row["job"])
    result: dict[str, Any] = {"benchmark": "text-validity", **environment()}
    return result | {
        "seed": seed,
        "alphabet": alphabet.name,
        "num_tokens": alphabet.size,
        "num_keys": num_keys,
        "per_key": per_key,
        "kinds": {kind: list(some) for kind, some in kinds.items()},
        "rates": [_rates(scheme, name, rows) for scheme in SCHEMES for name in sources],
    }


def _hard(
    corpora: dict[str, list[str]],
    others: dict[str, Sequence[str]],
    encode: Encoder,
    sizes: tuple[int, int],
    rng: np.random.Generator,
) -> dict[str, Texts]:
    """Make hard texts of a length from the words of the corpora."""
    documents = [text for some in corpora.values() for text in check_documents(some)]
    sentences = [s.strip() + "." for text in documents for s in text[:200_000].split(". ")]
    found = {}
    for name, make in makers(sentences[:_WORD_SENTENCES], others).items():
        texts: Texts = []
        while len(texts) < _HARD_TEXTS:
            size = int(rng.integers(sizes[0], sizes[1] + 1))
            ids = encode(make(rng))
            while len(ids) < sizes[0] // 2:  # some tokenizers have long tokens for such texts
                ids = [*ids, *encode(make(rng))]
            texts.append(np.array(ids[:size], dtype=np.int64))
        found[name] = texts
    return found


def _rates(scheme: str, source: str, rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Add up the counts of all keys of a scheme on a source."""
    own = [row["counts"][source] for row in rows if row["job"].startswith(f"{scheme}/")]
    pairs = sum(one["pairs"] for one in own)
    rates = {}
    for name in P_VALUES:
        hits = np.sum([one["hits"][name] for one in own], axis=0).tolist()
        rates[name] = [
            {"hits": count, "interval": list(rate_interval(count, pairs))} for count in hits
        ]
    return {"scheme": scheme, "source": source, "pairs": pairs, "rates": rates}
