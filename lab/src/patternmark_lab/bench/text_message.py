"""`patternmark bench text-message`: read numbers from texts, and identify the key of a text.

The texts are real translations of paragraphs of about 200 tokens, each with a random number. The
number that `detect` prints is compared with it, also after words were lost and in a window, and so
is the printed probability of an error. Detectors tokenize the text again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np

from patternmark.core.alphabet import Alphabet
from patternmark.core.key import Key
from patternmark.core.marker import Marker
from patternmark.core.profile import Profile
from patternmark.core.schemes import Turns
from patternmark.core.secret import Secret
from patternmark.detector import Detector
from patternmark.errors import ParameterError
from patternmark.evidence import DEFAULT_FPR
from patternmark.io.kept import Kept
from patternmark.results import Verdict
from patternmark.translation.bleu import bleu
from patternmark.translation.decode import Decoding
from patternmark.translation.translator import Translator
from patternmark_lab.bench.report import environment
from patternmark_lab.bench.text_edits import NONE, WINDOW, edit_texts
from patternmark_lab.bench.text_message_keys import Owners, rate_of
from patternmark_lab.bench.translation import (
    AS_NEEDED,
    CHOICES,
    PASSES,
    SKIPPED,
    cut_paragraphs,
    is_copy,
)
from patternmark_lab.training.corpus import Pair

TOKENS = (180, 220)
NONCES = (1, 256, 65536)
DELTAS = (3.0, 5.0)
LIKELIEST = "likeliest"
CASES = ((NONE, 0.0), ("word-drop", 0.1), (WINDOW, 100.0))
BOUNDS = (0.0, 1e-3, 1e-2, 0.1, 1.0)  # of classes of printed probabilities of an error
_AS_NEEDED_DELTA = 3.0  # largest delta where a mark is only as strong as needed
_KEY_TEXTS = 10  # texts in a row that one key marks before the next key
_ALL_PARAGRAPHS = 10**9  # more than any file has
Text = dict[str, Any]


@dataclass(frozen=True)
class Setting:
    """How texts are marked: number of nonces, strength, and choice of a candidate."""

    nonces: int
    delta: float
    choice: str


@cache
def master_key(alphabet: Alphabet, nonces: int, seed: int) -> Key:
    """Return the key whose sub-keys mark the texts of a run."""
    secret = Secret(seed.to_bytes(32, "big")).subkey(f"bench text-message/{nonces}")
    return Key.of(Secret(secret), Profile(alphabet, Turns(nonces=nonces)))


@dataclass(frozen=True, eq=False)
class Run:
    """A run of the benchmark: translates and judges."""

    translator: Translator
    pairs: Sequence[Pair]
    decoding: Decoding
    seed: int
    kept: Kept
    step: Callable[[str], None]

    def key(self, nonces: int, number: int) -> Key:
        """Return one of the keys that are used in turn."""
        master = master_key(self.translator.vocabulary.alphabet(), nonces, self.seed)
        return master.derive(str(number))

    def translate(self, setting: Setting) -> list[Text]:
        """Translate all paragraphs, each with its own number; finished parts are kept."""
        found: list[Text] = []
        for first in range(0, len(self.pairs), _KEY_TEXTS):
            some = self.pairs[first : first + _KEY_TEXTS]
            model = self.translator.weights_digest  # texts of another model are not reused
            name = f"{setting}/{self.decoding}/{model}/{self.seed}/{_digest(some)}/{first}"
            row = self.kept.get(name)
            if row is None:
                row = {"job": name, **self._translate(setting, first, some)}
                self.kept.add(row)
            self.step(f"{setting.nonces} nonces, delta {setting.delta:g}, {setting.choice}")
            found += [
                {"key": first // _KEY_TEXTS, "text": text, "payload": payload, "reference": pair[1]}
                for text, payload, pair in zip(row["texts"], row["payloads"], some, strict=True)
            ]
        return found

    def _translate(self, setting: Setting, first: int, some: Sequence[Pair]) -> dict[str, Any]:
        rng = np.random.default_rng([self.seed, setting.nonces, first])
        payloads = rng.integers(setting.nonces, size=len(some)).tolist()
        sure, passes = CHOICES[setting.choice]
        made = self.translator.translate(
            [source for source, _ in some],
            self.decoding,
            Marker(self.key(setting.nonces, first // _KEY_TEXTS), delta=setting.delta),
            seed=self.seed,
            sure=sure,
            passes=passes,
            nonces=payloads,
        )
        return {"texts": [one.text for one in made], "payloads": payloads}

    def judge(self, setting: Setting, texts: Sequence[Text], case: tuple[str, float]) -> list[Read]:
        """Return the verdict of `detect` on every text after an edit."""
        ids = edit_texts(self.translator, [text["text"] for text in texts], case, self.seed)
        found: list[Read] = []
        for number in sorted({text["key"] for text in texts}):
            own = [i for i, text in enumerate(texts) if text["key"] == number]
            detector = Detector(self.key(setting.nonces, number))
            verdicts = detector.detect_many([ids[i] for i in own])
            found += [Read(v, texts[i]["payload"]) for v, i in zip(verdicts, own, strict=True)]
        return found


def _digest(pairs: Sequence[Pair]) -> str:
    return sha256("\n".join(source for source, _ in pairs).encode()).hexdigest()[:12]


@dataclass(frozen=True)
class Read:
    """A verdict, and the number that the text carries."""

    verdict: Verdict
    payload: int

    @property
    def prints(self) -> bool:
        """True if `detect` prints a number."""
        return self.verdict.payload is not None

    @property
    def is_right(self) -> bool:
        return self.verdict.payload == self.payload

    @property
    def stated(self) -> float:
        """The printed probability that the text carries another number."""
        return self.verdict.payload_error or 0.0


def _row(setting: Setting, case: tuple[str, float], reads: Sequence[Read]) -> dict[str, Any]:
    """Count the texts of one setting that were found, and the numbers that were read."""
    verdicts, n = [read.verdict for read in reads], len(reads)
    row = {
        **_named(setting),
        "case": list(case),
        "found": rate_of(sum(v.prediction for v in verdicts), n),
        "found_any": rate_of(sum(v.p_any is not None and v.p_any <= v.fpr for v in verdicts), n),
    }
    if setting.nonces == 1:
        return row
    right = sum(read.is_right for read in reads)
    printed = sum(read.prints for read in reads)
    return row | {
        "right": rate_of(right, n),
        "wrong": rate_of(printed - right, n),
        "not_printed": rate_of(n - printed, n),
    }


def _named(setting: Setting) -> dict[str, Any]:
    return {"nonces": setting.nonces, "delta": setting.delta, "choice": setting.choice}


def calibration(reads: Iterable[Read]) -> list[dict[str, Any]]:
    """Return the mean printed probability and the share of wrong numbers: of all, and by class."""
    printed = [read for read in reads if read.prints]
    rows = []
    for low, high in [(BOUNDS[0], BOUNDS[-1]), *pairwise(BOUNDS)]:
        some = [r for r in printed if low <= r.stated < high or r.stated == high == BOUNDS[-1]]
        if some:
            wrong = sum(not read.is_right for read in some)
            stated = float(np.mean([read.stated for read in some]))
            rows.append(
                {"from": low, "to": high, "stated": stated, "wrong": rate_of(wrong, len(some))}
            )
    return rows


def _settings(nonces: Sequence[int], deltas: Sequence[float], as_needed: float) -> list[Setting]:
    choices = [(delta, LIKELIEST) for delta in deltas]
    if as_needed:
        choices.append((as_needed, AS_NEEDED))
    return [Setting(number, *choice) for number, choice in product(nonces, choices)]


def run_text_message_benchmark(
    paragraphs: Path,
    *,
    model: Path | None = None,
    texts: int = 100,
    nonces: Sequence[int] = NONCES,
    deltas: Sequence[float] = DELTAS,
    as_needed: float = _AS_NEEDED_DELTA,
    tokens: tuple[int, int] = TOKENS,
    decoding: Decoding | None = None,
    keys: int = 10_000,
    skip: int = SKIPPED,
    seed: int = 1,
    partial: Path | None = None,
    step: Callable[[str], None] = lambda what: None,
) -> dict[str, Any]:
    """Translate with random numbers, edit, read, count; `step` is called for every finished part.

    For texts of keys with one nonce, the right key is also identified among `keys` keys.
    """
    decoding = decoding or Decoding()
    translator = Translator.open(model)
    usable = cut_paragraphs(paragraphs, translator, _ALL_PARAGRAPHS, skip, tokens)
    pairs = [pair for pair in usable if not is_copy(pair)][:texts]
    run = Run(translator, pairs, decoding, seed, Kept(partial), step)
    if keys * _KEY_TEXTS < len(pairs):
        raise ParameterError(
            f"--keys {keys} is too small for {len(pairs)} texts: a key marks {_KEY_TEXTS} texts"
        )
    rows, quality, read, owners = [], [], [], []
    search = Owners(run.key, keys, translator, seed, step) if 1 in nonces else None
    for setting in _settings(nonces, deltas, as_needed):
        made = run.translate(setting)
        score = bleu([t["text"] for t in made], [t["reference"] for t in made])
        quality.append({**_named(setting), "bleu": score.score, "n": len(made)})
        for case in CASES:
            reads = run.judge(setting, made, case)
            rows.append(_row(setting, case, reads))
            read += reads if setting.nonces > 1 else []
            step(f"{setting.nonces} nonces, delta {setting.delta:g}: {case[0]}")
        if search is not None and setting.nonces == 1:
            owners += [_named(setting) | row for row in search.rows(made)]
    return {
        "benchmark": "text-message",
        **environment(),
        "model": translator.weights_digest,
        "fpr": DEFAULT_FPR,
        "seed": seed,
        "skipped": skip,
        "texts": len(pairs),
        "wanted": texts,
        "tokens": list(tokens),
        "keys": keys,
        "passes": PASSES,
        "decoding": {"iterations": decoding.iterations, "length_beam": decoding.length_beam},
        "bleu_signature": bleu(["a"], ["a"]).signature,
        "quality": quality,
        "rows": rows,
        "calibration": calibration(read),
        "owners": owners,
    }
