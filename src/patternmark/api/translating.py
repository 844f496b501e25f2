"""`translate`: translate German into English that carries the mark of a key."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from math import log
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypedDict, Unpack, overload

import numpy as np

from patternmark.api.detecting import judge_items
from patternmark.api.given import (
    GivenKey,
    Progress,
    Recorded,
    key_file_of,
    key_of,
    no_progress,
    warn_in_python,
)
from patternmark.api.on_structures import path_if_any
from patternmark.core.marker import Marker
from patternmark.core.secret import fresh_seed
from patternmark.detector import Detector
from patternmark.errors import InputError, ParameterError
from patternmark.evidence import DEFAULT_FPR
from patternmark.io.files import held
from patternmark.io.folding import fold
from patternmark.io.items import Item, Warn, warn_of_spelled_out
from patternmark.io.lines import kept_lines, read_lines, refuse_own_input, writing
from patternmark.io.nonce_counter import NonceCounter
from patternmark.io.records import Record, input_name
from patternmark.results import Result, Results, Status, Verdict, format_p

if TYPE_CHECKING:
    from patternmark.translation.decode import Decoding
    from patternmark.translation.translator import Translator

GivenTexts = str | PathLike[str] | Mapping[str, str] | Iterable[str]

BATCH_LINES = {"cpu": 8, "cuda": 1024}  # translated and written together
BATCH_JUDGED_LINES = 2048  # judged together
# Tokens that it takes at delta 3 until p <= 0.001: the median of 209 lines is 31. A key with many
# nonces needs more, since the p-value is multiplied by their number.
TOKENS_PER_MARK = 30
MAX_PASSES = 20
MAX_TEMPERATURE = 100.0
CHARACTERS_SHOWN = 60


@dataclass(frozen=True)
class TranslateRequest:
    """How texts are translated; the same names as the options of `patternmark translate`."""

    passes: int = 5
    temperature: float = 0.0
    iterations: int = 10
    length_beam: int = 5
    seed: int | None = None
    weights: PathLike[str] | str | None = None
    device: str = "auto"

    def __post_init__(self) -> None:
        if self.seed is not None and not 0 <= self.seed < 2**63:
            raise ParameterError(f"seed=N must be at least 0 and less than 2**63, not {self.seed}")
        if not 1 <= self.passes <= MAX_PASSES:
            raise ParameterError(f"passes=N must be 1 to {MAX_PASSES}, not {self.passes}")
        if not 0.0 <= self.temperature <= MAX_TEMPERATURE:
            raise ParameterError(
                f"temperature=T must be 0 to {MAX_TEMPERATURE:g}, not {self.temperature}"
            )
        for name in ("iterations", "length_beam"):
            if getattr(self, name) < 1:
                raise ParameterError(f"{name}=N must be at least 1, not {getattr(self, name)}")

    def decoding(self) -> Decoding:
        """Return the options of the decoder."""
        from patternmark.translation.decode import Decoding  # noqa: PLC0415  # needs torch

        return Decoding(self.iterations, self.length_beam, self.temperature)


@dataclass(frozen=True, repr=False)
class TranslatedText(Result, Recorded):
    """One translation. `verdict` is the verdict on its text, or None if it was not marked."""

    id: str
    source: str
    text: str
    verdict: Verdict | None

    def as_record(self) -> Record:
        """Return the record that the file of translations holds."""
        return Record(self.id, self.text, f"line {self.id}")

    def to_dict(self) -> dict[str, Any]:
        """Return the translation as plain values for JSON."""
        verdict = None if self.verdict is None else self.verdict.to_dict()
        return {"id": self.id, "source": self.source, "text": self.text, "verdict": verdict}

    def cells(self) -> dict[str, str]:
        """Return the cells of a table row by the names of their columns."""
        is_long = len(self.text) > CHARACTERS_SHOWN
        text = self.text[:CHARACTERS_SHOWN] + "..." if is_long else self.text
        found = {"id": self.id, "text": repr(text)}
        if self.verdict is None:
            return found
        return found | {"": self.verdict.status.in_words, "p": format_p(self.verdict.log10_p)}


class Translations(Results[TranslatedText]):
    """Translations in the order of the texts; `summary` says how many show the mark."""

    def __init__(self, found: Iterable[TranslatedText], summary: str) -> None:
        super().__init__(found)
        self.summary = summary

    def __repr__(self) -> str:
        return f"{super().__repr__()}\n{self.summary}"


class Translating:
    """Translates lines, some at a time, to memory or to a file, which is `held`."""

    def __init__(
        self,
        lines: list[str],
        marker: Marker | None,
        request: TranslateRequest,
        *,
        file: Path | None = None,
        key_file: Path | None = None,
        output: Path | None = None,
        overwrite: bool = False,
        resume: bool = False,
        warn: Warn = warn_in_python,
    ) -> None:
        from patternmark.models.device import pick_device  # noqa: PLC0415  # needs torch

        self.lines, self._marker, self._request = lines, marker, request
        self._output = output
        self.texts = kept_lines(output, overwrite=overwrite, resume=resume) if output else []
        self.num_kept = len(self.texts)
        if self.num_kept > len(lines):
            raise InputError(
                f"{output}: has {self.num_kept} lines already, but {file or 'the texts'} "
                f"only {len(lines)}"
            )
        self._counter = None
        if marker is not None and key_file is not None and request.seed is None:
            self._counter = NonceCounter.needed_for(marker, key_file, warn)
        self._seed = fresh_seed() if request.seed is None else request.seed
        device = pick_device(request.device)
        self._batch = BATCH_LINES[device.split(":")[0]]
        self._translator = _open(request.weights, device, marker)
        self._warn_of_unknown_language(file, warn)

    def _warn_of_unknown_language(self, file: Path | None, warn: Warn) -> None:
        """Warn of lines in a language that the model does not know."""
        from patternmark.io.tokenizer import knows_words  # noqa: PLC0415

        translator = self._translator

        def encode(text: str) -> list[int]:
            return translator.codec.encode_batch([text])[0]

        size = len(translator.vocabulary.tokens)
        places = [
            f"{'text' if file is None else 'line'} {number}"
            for number, line in enumerate(self.lines, start=1)
            if not knows_words(line, encode, size)
        ]
        name = "texts" if file is None else input_name(str(file))
        tokenizer = translator.vocabulary.alphabet().name
        consequence = "It is translated anyway, but expect no useful result"
        warn_of_spelled_out(warn, name, places, tokenizer, consequence)

    def run(self, progress: Progress = no_progress) -> None:
        """Translate the remaining lines; the results are in `texts` and in the output."""
        counter, decoding = self._counter, self._request.decoding()
        progress("translating", self.num_kept, len(self.lines))
        with self._writing() as stream:
            for start in range(self.num_kept, len(self.lines), self._batch):
                part = self.lines[start : start + self._batch]
                found = self._translator.translate(
                    part,
                    decoding,
                    self._marker,
                    seed=self._seed,
                    passes=self._request.passes,
                    nonces=counter.nonces(counter.take(len(part)), len(part)) if counter else None,
                )
                texts = [translation.text for translation in found]
                if stream is not None:
                    stream.write("".join(f"{text}\n" for text in texts).encode())
                    stream.flush()
                self.texts += texts
                progress("translating", len(self.texts), len(self.lines))

    def _writing(self) -> Any:
        if self._output is None:
            return nullcontext[BinaryIO | None](None)
        return writing(self._output, append=self.num_kept > 0)

    def verdicts(self) -> list[Verdict] | None:
        """Judge all translations as `detect` does; None without a mark."""
        if self._marker is None:
            return None
        judge = Detector(self._marker.key)
        return [judged.verdict for batch in self._items() for judged in judge_items(judge, batch)]

    def _items(self) -> Iterator[list[Item]]:
        """Read the translations as a verifier reads them."""
        for start in range(0, len(self.texts), BATCH_JUDGED_LINES):
            texts = self.texts[start : start + BATCH_JUDGED_LINES]
            folded = [fold(text) for text in texts]
            ids = self._translator.codec.encode_batch([one.text for one in folded])
            yield [
                Item(
                    "",
                    Record(str(number), text, f"line {number}"),
                    np.array(own, dtype=np.int64),
                    None,
                    folded=one.counts,
                )
                for number, (text, own, one) in enumerate(
                    zip(texts, ids, folded, strict=True), start + 1
                )
            ]

    def summary(self, verdicts: list[Verdict] | None) -> str:
        """Return a sentence on how many lines show the mark, with advice for the others."""
        if self._marker is None or verdicts is None:
            return "without a mark"
        return summary_of(self._marker, verdicts)


def summary_of(marker: Marker, verdicts: Iterable[Verdict]) -> str:
    """Return a sentence on how many texts show the mark, with advice for the others."""
    with_text = [verdict for verdict in verdicts if verdict.length > 0]
    found = sum(verdict.prediction for verdict in with_text)
    carried = "" if marker.payload is None else f" with payload {marker.payload}"
    advice = _advice(with_text, marker.key.circle.nonces)
    return (
        f"marked by key {marker.key.key_id}{carried}. The mark is found in {found} of "
        f"{len(with_text)} lines at p <= {DEFAULT_FPR:g}{advice}"
    )


def _advice(verdicts: list[Verdict], nonces: int) -> str:
    """Return the advice for lines without a mark; empty if all lines show it."""
    missed = [verdict for verdict in verdicts if not verdict.prediction]
    hopeless = (Status.TOO_SHORT, Status.NOTHING_TO_SCORE)
    least = round(TOKENS_PER_MARK * (1.0 + log(nonces) / -log(DEFAULT_FPR)))
    short = sum(v.status in hopeless or v.num_tokens_scored < least for v in missed)
    if short:
        are = "1 line is" if short == 1 else f"{short} lines are"
        own = "its" if short == 1 else "their"
        fewer = "" if nonces == 1 else f", take a key with fewer than its {nonces:,} nonces"
        return (
            f". {are} too short (under {least} tokens) to carry a mark of {own} own: translate "
            f"whole paragraphs{fewer}, or judge the file as a whole with 'patternmark.combine'"
        )
    return "; a larger delta=X marks more of them" if missed else ""


def _open(folder: PathLike[str] | str | None, device: str, marker: Marker | None) -> Translator:
    """Load the model; raise ParameterError if the key is not for its tokens."""
    from patternmark.translation.translator import Translator  # noqa: PLC0415  # needs torch

    translator = Translator.open(None if folder is None else Path(folder), device)
    if marker is not None:
        try:
            translator.check_fit(marker)
        except ParameterError as error:
            raise ParameterError(f"{error} (see patternmark.alphabet)") from None
    return translator


def lines_to_translate(file: Path, output: Path | None, warn: Warn) -> list[str]:
    """Read the lines of a file; raise an error if it is also the output."""
    if output is not None:
        refuse_own_input(file, output)
    return read_lines(file, "its translation is left empty", warn)


class TranslateOptions(TypedDict, total=False):
    """The options of `translate`, which explains them."""

    output: PathLike[str] | str | None
    overwrite: bool
    resume: bool
    delta: float | None
    payload: int | None
    passes: int
    temperature: float
    iterations: int
    length_beam: int
    seed: int | None
    weights: PathLike[str] | str | None
    device: str
    warn: Warn
    progress: Progress


@overload
def translate(  # type: ignore[overload-overlap]  # a str is many letters, and yet one text
    texts: str, key: GivenKey | None, **options: Unpack[TranslateOptions]
) -> TranslatedText: ...
@overload
def translate(
    texts: GivenTexts, key: GivenKey | None, **options: Unpack[TranslateOptions]
) -> Translations: ...
def translate(
    texts: GivenTexts, key: GivenKey | None, **options: Unpack[TranslateOptions]
) -> TranslatedText | Translations:
    """Translate German texts into English that carries the mark of a key.

    `texts` is one text, many texts (or a mapping from ids to texts), or a file with one text per
    line. `key` is a `Key` for the model's tokenizer, or the name of its file; None leaves the mark
    out. A translation is one line, without the line breaks of its source. Options:

    - `output`: write the translations to this file, line by line; `overwrite=True` replaces it,
      `resume=True` continues a run that was stopped;
    - `delta`, `payload`: the strength of the mark, and a number that it carries;
    - `passes`: translate up to this many times, from a weak mark to `delta`, until it is clear (5);
    - `temperature`, `iterations`, `length_beam`, `seed`: how the model decodes;
    - `weights`: the folder of another model; `device`;
    - `warn`, `progress`: functions that get warnings about lines, and the progress.
    """
    import patternmark.translation  # noqa: F401, PLC0415  # an error that names the extra

    warn: Warn = options.get("warn", warn_in_python)
    output = path_if_any(options.get("output"))
    delta, payload = options.get("delta"), options.get("payload")
    if key is None and (delta is not None or payload is not None):
        raise ParameterError("delta=X and payload=N need a key")
    given: dict[str, Any] = dict(options)
    names = TranslateRequest.__dataclass_fields__
    request = TranslateRequest(**{name: given[name] for name in names if name in given})
    ids, sources, lines = _read(texts, output, warn)
    with held(output):
        job = Translating(
            lines,
            None if key is None else Marker(key_of(key), delta=delta, payload=payload),
            request,
            file=Path(texts) if isinstance(texts, PathLike) else None,
            key_file=key_file_of(key),
            output=output,
            overwrite=options.get("overwrite", False),
            resume=options.get("resume", False),
            warn=warn,
        )
        job.run(options.get("progress", no_progress))
    verdicts = job.verdicts()
    judged: Sequence[Verdict | None] = verdicts or [None] * len(lines)
    rows = zip(ids, sources, job.texts, judged, strict=True)
    found = [_found(*row) for row in rows]
    return found[0] if isinstance(texts, str) else Translations(found, job.summary(verdicts))


def _read(
    texts: GivenTexts, output: Path | None, warn: Warn
) -> tuple[list[str], list[str], list[str]]:
    """Return the ids of texts, the texts, and the lines to translate."""
    if isinstance(texts, PathLike):
        sources = lines = lines_to_translate(Path(texts), output, warn)
    else:
        given = texts.values() if isinstance(texts, Mapping) else texts
        sources = [texts] if isinstance(texts, str) else list(given)
        lines = _lines_of(sources)
    ids = texts if isinstance(texts, Mapping) else range(1, len(lines) + 1)
    return [str(id) for id in ids], sources, lines


def _found(id: str, source: str, text: str, verdict: Verdict | None) -> TranslatedText:
    return TranslatedText(id, source, text, verdict and replace(verdict, id=id))


def _lines_of(texts: list[str]) -> list[str]:
    """Return texts as single lines, since the output has one line per text."""
    for number, text in enumerate(texts, start=1):
        if not isinstance(text, str):
            raise ParameterError(f"text {number} is a {type(text).__name__}: give texts as str")
    return [" ".join(text.split()) for text in texts]
