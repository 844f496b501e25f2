"""`patternmark bench translation`: how much marks in translations cost, and how many are found.

Paragraphs are cut after a sentence so that their reference has 50 to 100 tokens. Every text is
translated without a mark and with marks of several strengths; fresh keys change from text to text.
A verifier has only the text, so detectors tokenize it again; how much that loses is measured too.
All texts are translated first, and then each key judges all its texts together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from patternmark.core.alphabet import Alphabet
from patternmark.core.key import Key
from patternmark.core.marker import Marker
from patternmark.core.profile import Profile
from patternmark.core.schemes import Paper, Turns
from patternmark.core.secret import Secret
from patternmark.detector import Detector
from patternmark.errors import InputError
from patternmark.evidence import DEFAULT_FPR
from patternmark.intervals import rate_interval
from patternmark.io.kept import Kept
from patternmark.translation.bleu import bleu, metric_of_sacrebleu
from patternmark.translation.decode import Decoding
from patternmark.translation.translator import Translator
from patternmark_lab.bench.jobs import run_all
from patternmark_lab.bench.report import environment
from patternmark_lab.training.corpus import Pair, cut_to, read_pairs

TOKENS = (50, 100)
SKIPPED = 100  # texts on which defaults were chosen
DELTAS = (1.0, 1.5, 2.0, 3.0, 4.0, 5.0)
LEVELS = (1e-2, 1e-3, 1e-4)
REPORTED = 1e-3
DETECTORS = {Paper.name: ("auto", "phase", "pattern"), Turns.name: ("auto", "phase")}
ON_TOKENS = "auto on tokens"
# Goals: BLEU without a mark, BLEU where the share WANTED is found, and the largest loss there.
WANTED_UNMARKED, WANTED_MARKED, MAX_LOST = 33.0, 30.0, 2.0
WANTED = 0.95  # share of marks found
_RESAMPLES = 1000
AS_NEEDED, PASSES = "as needed", 5  # the default of `translate`
# The p-value at which a mark is clear, and the number of passes. "found" takes the likeliest
# candidate whose mark is clear; "as needed" also tries weaker marks first; "likeliest" takes the
# likeliest candidate.
CHOICES = {
    "found": (DEFAULT_FPR, 1),
    AS_NEEDED: (DEFAULT_FPR, PASSES),
    "likeliest": (1.0, 1),
    "": (1.0, 1),
}
_COPY_SHARE = 0.5  # of a reference's words in its source; a German source has about 0.1
Text = dict[str, Any]  # "text", and the "tokens" that it was made of


@dataclass(frozen=True)
class Setting:
    """How texts are marked; without a scheme they are not marked."""

    scheme: str = ""
    delta: float = 0.0
    choice: str = ""

    @property
    def name(self) -> str:
        return f"{self.scheme}, delta {self.delta:g}, {self.choice}" if self.scheme else "unmarked"

    @property
    def judges(self) -> tuple[str, ...]:
        """The schemes whose keys judge the texts."""
        return (self.scheme,) if self.scheme else tuple(DETECTORS)


def cut_paragraphs(
    file: Path,
    translator: Translator,
    most: int,
    skip: int = 0,
    tokens: tuple[int, int] = TOKENS,
) -> list[Pair]:
    """Return starts of paragraphs whose reference has a number of tokens, after skipping some."""

    def count(text: str) -> int:
        return len(translator.codec.encode_batch([text])[0])

    cut = (cut_to(pair, *tokens, count) for pair in read_pairs(file))
    usable = [pair for pair in cut if pair is not None]
    found = usable[skip : skip + most]
    if not found:
        number = f"{len(usable)} paragraphs" if usable else "no paragraph"
        raise InputError(
            f"{file}: {number} can be cut to {tokens[0]} to {tokens[1]} tokens"
            + (f", and the first {skip} are skipped" if usable else "")
        )
    return found


def run_translation_benchmark(
    paragraphs: Path,
    *,
    model: Path | None = None,
    device: str = "cpu",
    deltas: Sequence[float] = DELTAS,
    choices: Sequence[str] = (AS_NEEDED, "found", "likeliest"),
    most: int = 1000,
    skip: int = 0,
    sentences: Path | None = None,
    num_keys: int = 20,
    at_once: int = 50,
    decoding: Decoding | None = None,
    seed: int = 1,
    workers: int = 1,
    partial: Path | None = None,
    name: str = "translation",
    step: Callable[[str], None] = lambda what: None,
) -> dict[str, Any]:
    """Translate, detect, count; `step` is called for every finished part.

    BLEU without a mark is also measured on the pairs of `sentences`. `name` names the result.
    """
    metric_of_sacrebleu()
    decoding = decoding or Decoding()
    translator = Translator.open(model, device)
    pairs = cut_paragraphs(paragraphs, translator, most, skip)
    run = _Run(translator, pairs, num_keys, seed, decoding, Kept(partial))
    settings = [Setting()] + [
        Setting(scheme, delta, choice)
        for choice in choices
        for scheme in DETECTORS
        for delta in deltas
    ]
    texts = {setting: run.translate(setting, at_once, step) for setting in settings}
    log10_p = run.judge(texts, workers, step)
    references = [pairs[i][1] for i in run.foreign]
    rows = [
        _summary(s, [texts[s][i] for i in run.foreign], log10_p[s.name], references)
        for s in settings
    ]
    return {
        "benchmark": name,
        **environment(),
        "device": ", ".join(sorted(run.devices)),
        "texts": len(pairs),
        "english_already": len(pairs) - len(run.foreign),
        "skipped": skip,
        "sentences": None if sentences is None else _plain_bleu(translator, sentences, decoding),
        "keys": num_keys,
        "tokens": list(TOKENS),
        "decoding": {"iterations": decoding.iterations, "length_beam": decoding.length_beam},
        "sure": DEFAULT_FPR,
        "seed": seed,
        "bleu_signature": bleu(["a"], ["a"]).signature,
        "settings": rows,
        "trade_off": _trade_offs(rows),
    }


def is_copy(pair: Pair) -> bool:
    """Tell whether the source is in the target's language already.

    >>> is_copy(("I shall vote in favour.", "I shall vote in favour.")), is_copy(("Ja.", "Yes."))
    (True, False)
    """
    source, target = (Counter(text.lower().split()) for text in pair)
    return (source & target).total() > _COPY_SHARE * target.total()


def _plain_bleu(translator: Translator, file: Path, decoding: Decoding) -> dict[str, Any]:
    """Return BLEU of a file's translations without a mark."""
    pairs = [pair for pair in read_pairs(file) if not is_copy(pair)]
    found = translator.translate([source for source, _ in pairs], decoding)
    texts, references = [made.text for made in found], [target for _, target in pairs]
    score = bleu(texts, references, resamples=_RESAMPLES)
    return {"file": file.name, "n": len(pairs), "bleu": score.score, "bleu_half": score.half}


@cache
def fresh_keys(alphabet: Alphabet, number: int, seed: int) -> dict[str, list[Key]]:
    """Return fresh keys of both schemes for a model's tokens."""
    profiles = {
        Paper.name: Profile(alphabet, Paper()),
        Turns.name: Profile(alphabet),
    }
    master = Secret(seed.to_bytes(32, "big"))
    return {
        scheme: [
            Key.of(Secret(master.subkey(f"bench translation/{i}")), profile) for i in range(number)
        ]
        for scheme, profile in profiles.items()
    }


@dataclass(eq=False)
class _Run:
    """Translates and judges the texts of all settings."""

    translator: Translator
    pairs: list[Pair]
    num_keys: int
    seed: int
    decoding: Decoding
    kept: Kept
    devices: set[str] = field(default_factory=set)  # names of the devices that translated

    @cached_property
    def foreign(self) -> list[int]:
        """The numbers of the texts that are not in the target's language already.

        The model copies the others, however strong the mark is.
        """
        return [i for i, pair in enumerate(self.pairs) if not is_copy(pair)]

    def translate(self, setting: Setting, at_once: int, step: Callable[[str], None]) -> list[Text]:
        """Translate all texts; text i has the key i modulo the number of keys."""
        texts: list[Text] = []
        for start in range(0, len(self.pairs), at_once):
            some = range(start, min(start + at_once, len(self.pairs)))
            # The name holds all settings, so that texts of another run are not reused.
            model = self.translator.weights_digest
            about = f"{self.num_keys} keys/{self.decoding}/{model}"
            name = f"{setting.name}/{some}/seed {self.seed}/{about}"
            found = self.kept.get(name)
            if found is None:
                texts_made = self._translate(setting, some)
                found = {"job": name, "device": self.translator.device_name, "texts": texts_made}
                self.kept.add(found)
            texts += found["texts"]
            self.devices.add(found["device"])
            step(f"{setting.name}: {len(texts)} texts")
        return texts

    def _translate(self, setting: Setting, numbers: range) -> list[Text]:
        keys: list[Key | None] = [None]
        if setting.scheme:
            alphabet = self.translator.vocabulary.alphabet()
            keys = [*fresh_keys(alphabet, self.num_keys, self.seed)[setting.scheme]]
        sure, passes = CHOICES[setting.choice]
        texts: list[Text] = [{} for _ in numbers]
        for number, key in enumerate(keys):
            own = [i for i in numbers if i % len(keys) == number]
            made = self.translator.translate(
                [self.pairs[i][0] for i in own],
                self.decoding,
                None if key is None else Marker(key, delta=setting.delta),
                seed=self.seed,
                sure=sure,
                passes=passes,
            )
            for i, translation in zip(own, made, strict=True):
                texts[i - numbers.start] = {
                    "text": translation.text,
                    "tokens": list(translation.tokens),
                }
        return texts

    def judge(
        self, texts: dict[Setting, list[Text]], workers: int, step: Callable[[str], None]
    ) -> dict[str, dict[str, list[float]]]:
        """Return log10 p of all texts of every setting by every detector."""
        jobs = list(chain.from_iterable(self._jobs(s, rows) for s, rows in texts.items()))
        alphabet = self.translator.vocabulary.alphabet()
        judge = _Judge(alphabet, self.num_keys, self.seed)
        found: dict[str, dict[str, list[float]]] = {setting.name: {} for setting in texts}
        for job, log10_p in run_all(judge, jobs, workers):
            for detector, values in log10_p.items():
                found[job.setting].setdefault(f"{job.prefix}{detector}", []).extend(values)
            step(f"judged: {job.setting}")
        return found

    def _jobs(self, setting: Setting, texts: list[Text]) -> list[_Job]:
        again = self.translator.codec.encode_batch([row["text"] for row in texts])
        for row, ids in zip(texts, again, strict=True):
            row["same"] = ids == row["tokens"]
        jobs = []
        for number in range(self.num_keys):
            own = [i for i in self.foreign if i % self.num_keys == number]
            read, made = [again[i] for i in own], [texts[i]["tokens"] for i in own]
            for scheme in setting.judges:
                prefix = "" if setting.scheme else f"{scheme}/"
                jobs.append(_Job(setting.name, scheme, number, read, made, prefix))
        return jobs


@dataclass(frozen=True, eq=False)
class _Job:
    """The texts of one setting that one key judges."""

    setting: str
    scheme: str
    key: int
    texts: list[list[int]]  # tokens of the texts, tokenized again
    tokens: list[list[int]]  # tokens that the texts were made of
    prefix: str  # of the detectors' names


@dataclass(frozen=True)
class _Judge:
    """Judges the texts of a job; each process makes the keys again."""

    alphabet: Alphabet
    num_keys: int
    seed: int

    def __call__(self, job: _Job) -> tuple[_Job, dict[str, list[float]]]:
        """Return log10 p of the texts by every detector, and of the tokens by the default one."""
        key = fresh_keys(self.alphabet, self.num_keys, self.seed)[job.scheme][job.key]
        detectors = {name: Detector(key, name) for name in DETECTORS[job.scheme]}
        found = {name: _log10_p(detector, job.texts) for name, detector in detectors.items()}
        return job, found | {ON_TOKENS: _log10_p(detectors["auto"], job.tokens)}


def _log10_p(detector: Detector, sequences: list[list[int]]) -> list[float]:
    return [verdict.log10_p for verdict in detector.detect_many(sequences)]


def _summary(
    setting: Setting,
    texts: Sequence[Text],
    log10_p: dict[str, list[float]],
    references: Sequence[str],
) -> dict[str, Any]:
    score = bleu([row["text"] for row in texts], references, resamples=_RESAMPLES)
    found = {
        detector: {
            f"{level:g}": _rate(sum(value <= np.log10(level) for value in values), len(texts))
            for level in LEVELS
        }
        for detector, values in log10_p.items()
    }
    return {
        "setting": setting.name,
        "scheme": setting.scheme,
        "delta": setting.delta,
        "choice": setting.choice,
        "n": len(texts),
        "bleu": score.score,
        "bleu_half": score.half,
        "found": found,
        "same_tokens": float(np.mean([row["same"] for row in texts])),
    }


def _rate(hits: int, trials: int) -> dict[str, float]:
    low, high = rate_interval(int(hits), trials)
    return {"rate": hits / trials, "low": low, "high": high}


def _trade_offs(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the BLEU lost where the share WANTED is found, for each scheme and choice."""
    unmarked, *marked = rows
    series: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for row in marked:
        rate = row["found"]["auto"][f"{REPORTED:g}"]["rate"]
        lost = unmarked["bleu"] - row["bleu"]
        series.setdefault((row["scheme"], row["choice"]), []).append((rate, lost))
    found: list[dict[str, Any]] = []
    for (scheme, choice), points in series.items():
        rates, losses = map(np.array, zip(*sorted(points), strict=True))
        reached = bool(rates.max() >= WANTED)
        at = float(np.interp(WANTED, rates, losses)) if reached else None
        found.append({"scheme": scheme, "choice": choice, "wanted": WANTED, "bleu_lost": at})
    return found
