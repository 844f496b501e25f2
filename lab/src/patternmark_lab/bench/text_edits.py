"""`patternmark bench text-edits`: how often marks in text are found after edits and in windows.

The texts are real translations, each the likeliest candidate, with several keys used in turn. For
the default scheme, the finds of the default detector are counted. For marks of the paper's scheme,
it is compared with the paper's own count on the same texts. Detectors tokenize the text again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patternmark.attacks.edits import cut_window
from patternmark.attacks.registry import find_attack
from patternmark.core.key import Key
from patternmark.core.marker import Marker
from patternmark.core.profile import Profile
from patternmark.core.schemes import Paper, Scheme, Turns
from patternmark.core.secret import Secret
from patternmark.detector import Detector
from patternmark.errors import PatternmarkError
from patternmark.evidence import DEFAULT_FPR
from patternmark.intervals import rate_interval
from patternmark.io.folding import fold
from patternmark.io.kept import Kept
from patternmark.translation.bleu import bleu
from patternmark.translation.decode import Decoding
from patternmark.translation.translator import Translator
from patternmark_lab.bench.paper.numbers import BEST_PATTERN_LENGTH
from patternmark_lab.bench.report import environment
from patternmark_lab.bench.translation import cut_paragraphs, is_copy
from patternmark_lab.training.corpus import Pair

SCHEMES: dict[str, Scheme] = {"turns": Turns(), "paper": Paper()}
PLAIN = "plain count"  # the paper's own count, of all tokens and with its best length for text
DETECTORS = {"turns": ("auto",), "paper": ("auto", "pattern", PLAIN)}
WINDOW, NONE, ROUND_TRIP = "window", "none", "round-trip"
CASES: tuple[tuple[str, float], ...] = (
    (NONE, 0.0),
    *((name, eps) for name in ("word-drop", "word-insert", "synonym") for eps in (0.1, 0.3)),
    ("word-swap", 0.3),
    (ROUND_TRIP, 0.3),
    ("homoglyph", 0.3),
    *((WINDOW, size) for size in (20, 30, 40, 50)),
)
# Goals: percent found at p <= 0.1 % and delta 5, for the default scheme.
GOALS: dict[tuple[str, float], float] = {
    ("word-drop", 0.1): 95,
    ("word-drop", 0.3): 60,
    ("word-insert", 0.1): 97,
    ("word-insert", 0.3): 85,
    ("synonym", 0.1): 97,
    ("synonym", 0.3): 80,
    ("word-swap", 0.3): 85,
    (ROUND_TRIP, 0.3): 92,
    (WINDOW, 20): 70,
    (WINDOW, 30): 88,
    (WINDOW, 40): 95,
}
_KEY_TEXTS = 25  # texts in a row that one key marks before the next key
_KEYS = 20
_MAX_TEXTS = {ROUND_TRIP: 150}  # of slow edits: a translation there and back takes a second
Text = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Run:
    """A run of the benchmark: translates and judges."""

    translator: Translator
    pairs: list[Pair]
    seed: int
    kept: Kept
    step: Callable[[str], None]

    def key(self, scheme: str, delta: float, number: int) -> Key:
        """Return one of the keys that are used in turn."""
        secret = Secret(Secret(self.seed.to_bytes(32, "big")).subkey(f"k/{number}"))
        profile = Profile(self.translator.vocabulary.alphabet(), SCHEMES[scheme], delta)
        return Key.of(secret, profile)

    def translate(self, scheme: str, delta: float, most: int) -> list[Text]:
        """Translate with a mark, and leave out sources that are English already (no mark)."""
        found: list[Text] = []
        for first in range(0, most, _KEY_TEXTS):
            some = self.pairs[first : first + _KEY_TEXTS]
            model = self.translator.weights_digest  # texts of another model are not reused
            name = f"{scheme}/{delta:g}/{first}/{len(some)}/{model}/seed {self.seed}"
            row = self.kept.get(name)
            number = first // _KEY_TEXTS % _KEYS
            if row is None:
                marker = Marker(self.key(scheme, delta, number))
                sources = [source for source, _ in some]
                made = self.translator.translate(sources, Decoding(), marker, seed=1, sure=1.0)
                row = {"job": name, "texts": [one.text for one in made]}
                self.kept.add(row)
            self.step(name)
            found += [
                {"key": number, "text": text, "reference": pair[1]}
                for text, pair in zip(row["texts"], some, strict=True)
                if not is_copy(pair)
            ]
        return found

    def judge(
        self, scheme: str, delta: float, texts: Sequence[Text], case: tuple[str, float]
    ) -> dict[str, Any]:
        """Count the texts found after an edit, by every detector and by p_any."""
        texts = texts[: _MAX_TEXTS.get(case[0], len(texts))]
        ids = edit_texts(self.translator, [text["text"] for text in texts], case, self.seed)
        names = (*DETECTORS[scheme], "p_any") if scheme == "turns" else DETECTORS[scheme]
        hits = dict.fromkeys(names, 0)
        for number in {text["key"] for text in texts}:
            own = [i for i, text in zip(ids, texts, strict=True) if text["key"] == number]
            key = self.key(scheme, delta, number)
            for name in DETECTORS[scheme]:
                verdicts = _detector(key, name).detect_many(own)
                hits[name] += sum(v.prediction for v in verdicts)
                if "p_any" in hits:
                    hits["p_any"] += sum(v.p_any is not None and v.p_any <= v.fpr for v in verdicts)
        self.step(f"{scheme}, delta {delta:g}: {case[0]} {case[1]:g}")
        rates = {
            name: {"found": count, "interval": list(rate_interval(count, len(ids)))}
            for name, count in hits.items()
        }
        return {"scheme": scheme, "delta": delta, "case": list(case), "n": len(ids), "rates": rates}


def edit_texts(
    translator: Translator, texts: Sequence[str], case: tuple[str, float], seed: int
) -> list[NDArray[np.int64]]:
    """Return the tokens that a verifier reads from texts after an edit."""
    name, strength = case
    if name not in (NONE, WINDOW):
        texts = find_attack(name).attack_all(texts, strength, seed)
    encoded = translator.codec.encode_batch([fold(text).text for text in texts])
    ids = [np.array(row, dtype=np.int64) for row in encoded]
    if name != WINDOW:
        return ids
    rng = np.random.default_rng(seed)
    return [cut_window(row, int(strength), rng) for row in ids]


def _detector(key: Key, name: str) -> Detector:
    if name == PLAIN:
        return Detector(key, "pattern", m=BEST_PATTERN_LENGTH["translation"], mask_repeats=False)
    return Detector(key, name)


def run_text_edits_benchmark(
    paragraphs: Path,
    *,
    texts: int = 1000,
    paper_texts: int = 300,
    deltas: Sequence[float] = (3.0, 5.0),
    paper_deltas: Sequence[float] = (2.0, 3.0, 5.0),
    skip: int = 100,
    seed: int = 7,
    partial: Path | None = None,
    step: Callable[[str], None] = lambda what: None,
) -> dict[str, Any]:
    """Translate, edit, detect, count; `step` is called for every finished part."""
    translator = Translator.open()
    pairs = cut_paragraphs(paragraphs, translator, max(texts, paper_texts), skip)
    run = Run(translator, pairs, seed, Kept(partial), step)
    rows, quality, missing = [], [], set()
    wanted = {"turns": (deltas, texts), "paper": (paper_deltas, paper_texts)}
    for scheme, (strengths, most) in wanted.items():
        for delta in strengths:
            made = run.translate(scheme, delta, min(most, len(pairs)))
            score = bleu([t["text"] for t in made], [t["reference"] for t in made])
            quality.append({"scheme": scheme, "delta": delta, "bleu": score.score, "n": len(made)})
            for case in CASES:
                try:
                    rows.append(run.judge(scheme, delta, made, case))
                except PatternmarkError as error:  # a package that the attack needs is missing
                    missing.add(f"{case[0]}: {error}")
    return {
        "benchmark": "text-edits",
        **environment(),
        "fpr": DEFAULT_FPR,
        "seed": seed,
        "skipped": skip,
        "texts": texts,
        "paper_texts": paper_texts,
        "bleu_signature": bleu(["a"], ["a"]).signature,
        "quality": quality,
        "rows": rows,
        "missing": sorted(missing),
    }
