"""`patternmark bench text-secrecy`: how many marked texts an attacker needs to forge a mark.

Texts are translations by the model that ships with the package, all with one nonce. The attacker
learns from more and more of them in several ways, and forges in three ways: words in random order,
natural sentences picked from a corpus, and translations by the same model that promote what the
attacker has learned.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import exp, log
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patternmark.attacks.picking import TextKnowledge, pick_sentences
from patternmark.attacks.tokens import (
    TokenKnowledge,
    learn_frequencies,
    learn_pairs,
    learn_phases,
)
from patternmark.attacks.turn_coins import TurnKnowledge, learn_turns
from patternmark.core.schemes import Paper, Turns
from patternmark.detector import Detector
from patternmark.errors import InputError, ParameterError
from patternmark.evidence import DEFAULT_FPR
from patternmark.io.kept import Kept
from patternmark_lab.bench.report import environment
from patternmark_lab.bench.secrecy_rates import rate
from patternmark_lab.bench.text_secrecy_texts import SCHEMES, Symbols, Texts, open_texts

COUNTS = (1, 3, 10, 30, 100, 300, 1000)
LENGTH = 75  # tokens of a forgery; translations have as many as they need, 50 to 100
DELTA = 3.0
WANTED = 0.1  # share of forgeries that pass, from which on a key counts as broken
WORDS, SENTENCES, MODEL = "words", "sentences", "model"
FORGERS = (WORDS, SENTENCES, MODEL)
FREQUENCIES, PAIRS, PHASES, BLOCK = "frequencies", "pairs", "phases", "block"
ATTACKS = (FREQUENCIES, PAIRS, PHASES, BLOCK)
_WITH_MODEL = {Paper.name: PHASES, Turns.name: BLOCK}  # the strongest attack on each scheme
_MIN_TEXTS_WITH_MODEL = 10  # translations are slow, and from fewer texts hardly any forgery passes
_MAX_SAMPLES = 10  # different parts of a key's texts to learn from
_SENTENCE_TOKENS = (5, 40)  # smallest and largest length of a sentence that is picked

Counts = tuple[int, int, int | None]  # forgeries that pass, all, and those that pass by p_any


@dataclass(frozen=True)
class Size:
    """The amount of work."""

    texts: int = 300  # of each key
    keys: int = 2  # of each scheme
    forgeries: int = 50  # for each key, attack and number of texts
    translated: int = 20  # forgeries by the model, for each key and number of texts

    @property
    def counts(self) -> list[int]:
        """The numbers of texts that are learned from."""
        return [count for count in COUNTS if count <= self.texts]


def learn_all(marked: Sequence[Symbols], unmarked: Sequence[Symbols], size: int) -> dict[str, Any]:
    """Learn in every way from marked texts of a vocabulary of `size` tokens."""
    return {
        FREQUENCIES: learn_frequencies(marked, unmarked, size),
        PAIRS: learn_pairs(marked, unmarked, size),
        PHASES: learn_phases(marked, size),
        BLOCK: learn_turns(marked, unmarked, size),
    }


def run_text_secrecy_benchmark(
    paragraphs: Path,
    natural: Path,
    *,
    size: Size,
    skip: int = 1200,
    delta: float = DELTA,
    seed: int = 1,
    partial: Path | None = None,
    step: Callable[[str], None] = lambda what: None,
) -> dict[str, Any]:
    """Translate the texts missing in `partial`, learn, forge, judge; `step` reports each part."""
    texts = open_texts(
        paragraphs, natural, skip=skip, delta=delta, seed=seed, kept=Kept(partial), step=step
    )
    found: dict[tuple[str, str, str, int], list[Counts]] = {}
    marked: dict[str, list[Counts]] = {}
    for scheme in SCHEMES:
        for number in range(size.keys):
            trial = _Trial(texts, size, scheme, number)
            marked.setdefault(scheme, []).append(trial.judge(trial.marked))
            for (attack, forger, count), counts in trial.run():
                found.setdefault((scheme, attack, forger, count), []).append(counts)
            step(f"judged: {scheme}, key {number}")
    rows = [
        {"scheme": scheme, "attack": attack, "forger": forger, "texts": count, **_sum_keys(counts)}
        for (scheme, attack, forger, count), counts in found.items()
    ]
    return {
        "benchmark": "text-secrecy",
        **environment(),
        "texts": size.texts,
        "keys": size.keys,
        "forgeries": size.forgeries,
        "translated": size.translated,
        "skipped": skip,
        "delta": delta,
        "seed": seed,
        "length": LENGTH,
        "fpr": DEFAULT_FPR,
        "marked": {scheme: _sum_keys(counts) for scheme, counts in marked.items()},
        "rows": rows,
        "one_in_ten": _one_in_ten(rows),
    }


class _Trial:
    """One key: learns from its texts, forges and judges."""

    def __init__(self, texts: Texts, size: Size, scheme: str, number: int) -> None:
        self._texts, self._size, self._scheme = texts, size, scheme
        key = texts.key(scheme, number)
        self._vocabulary, self._detector = key.profile.alphabet.size, Detector(key)
        self.marked = texts.marked(scheme, number, size.texts)
        if len(self.marked) < size.texts:
            raise InputError(
                f"there are fewer than {size.texts} paragraphs to mark: lower --skip or --texts"
            )
        self._natural = _paragraphs(texts.natural)
        low, high = _SENTENCE_TOKENS
        self._sentences = [one for one in texts.natural if low <= len(one) <= high]
        self._rng = np.random.default_rng([texts.seed, number])

    def run(self) -> list[tuple[tuple[str, str, int], Counts]]:
        """Count the forgeries that pass, for every attack, forger and number of texts."""
        found = []
        for count in self._size.counts:
            samples = min(_MAX_SAMPLES, len(self.marked) // count)
            forged: dict[tuple[str, str], list[Symbols]] = {}
            for sample in range(samples):
                some = self.marked[sample * count : (sample + 1) * count]
                known = learn_all(some, self._natural, self._vocabulary)
                each = -(-self._size.forgeries // samples)
                for attack, knowledge in known.items():
                    for forger, batch in self._without_model(knowledge, each).items():
                        forged.setdefault((attack, forger), []).extend(batch)
                attack = _WITH_MODEL[self._scheme]
                if sample == 0 and count >= _MIN_TEXTS_WITH_MODEL and self._size.translated:
                    forged[attack, MODEL] = self._with_model(known[attack])
            found += [((*how, count), self.judge(batch)) for how, batch in forged.items()]
        return found

    def judge(self, batch: Sequence[Symbols]) -> Counts:
        """Return the number of texts that pass, of all texts, and of those that pass by p_any."""
        verdicts = self._detector.detect_many(batch)
        p_any = [verdict.p_any for verdict in verdicts if verdict.p_any is not None]
        passed = sum(verdict.prediction for verdict in verdicts)
        by_any = sum(p <= DEFAULT_FPR for p in p_any) if len(p_any) == len(verdicts) else None
        return passed, len(verdicts), by_any

    def _without_model(self, knowledge: TextKnowledge, number: int) -> dict[str, list[Symbols]]:
        pick = [
            pick_sentences(knowledge, self._sentences, LENGTH, self._rng) for _ in range(number)
        ]
        return {WORDS: [self._words(knowledge) for _ in range(number)], SENTENCES: pick}

    def _words(self, knowledge: TextKnowledge) -> Symbols:
        try:
            return knowledge.forge(LENGTH, self._rng)
        except ParameterError:  # the attacker learned too little to forge
            return self._rng.choice(np.concatenate(self._natural), size=LENGTH)

    def _with_model(self, knowledge: TokenKnowledge | TurnKnowledge) -> list[Symbols]:
        signs = knowledge.signs(Turns.period)
        # A mark raises its half by delta. Here one half rises and the other falls by delta / 2.
        return self._texts.forged(signs, self._texts.delta / 2.0, self._size.translated)


def _paragraphs(sentences: Sequence[Symbols]) -> list[Symbols]:
    """Join natural sentences to texts of at least LENGTH tokens."""
    made: list[NDArray[np.int64]] = []
    waiting: list[Symbols] = []
    for sentence in sentences:
        waiting.append(sentence)
        if sum(map(len, waiting)) >= LENGTH:
            made.append(np.concatenate(waiting))
            waiting = []
    return made


def _sum_keys(counts: Sequence[Counts]) -> dict[str, Any]:
    """Add up the counts of all keys; rates get their intervals."""
    known = [(by_any, n) for _, n, by_any in counts if by_any is not None]
    return {
        "passed": rate([(hits, n) for hits, n, _ in counts]),
        "passed_any": rate(known) if len(known) == len(counts) else None,
        "by_key": [hits / n for hits, n, _ in counts],
    }


def _one_in_ten(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return, for each way to forge, the number of texts from which one forgery in ten passes."""
    curves: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for row in rows:
        curves.setdefault((row["scheme"], row["attack"], row["forger"]), []).append(row)
    found = []
    for (scheme, attack, forger), curve in curves.items():
        line: dict[str, Any] = {"scheme": scheme, "attack": attack, "forger": forger}
        seen = [row["texts"] for row in curve]
        line |= {"least": min(seen), "most": max(seen)}
        line["texts"] = crossing([(row["texts"], row["passed"]["rate"]) for row in curve])
        if all(row["passed_any"] for row in curve):
            any_text = [(row["texts"], row["passed_any"]["rate"]) for row in curve]
            line["texts_any"] = crossing(any_text)
        found.append(line)
    return found


def crossing(curve: Sequence[tuple[int, float]], wanted: float = WANTED) -> float | None:
    """Return the number of texts at which a rate is reached, interpolated in its log, or None.

    >>> round(crossing([(1, 0.0), (10, 0.0), (100, 0.2)]), 1)
    31.6
    """
    before: tuple[int, float] | None = None
    for count, share in curve:
        if share >= wanted:
            if before is None:
                return float(count)
            low, least = log(before[0]), before[1]
            return exp(low + (log(count) - low) * (wanted - least) / (share - least))
        before = count, share
    return None
