"""`patternmark translate`: German to English with CMLM, each line carrying the mark of a key."""

from __future__ import annotations

from math import log
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from patternmark.cli.lines import read_lines, refuse_own_input, writing
from patternmark.cli.options import (
    EXPERT,
    MARK,
    MODEL,
    AllowOpenKey,
    Delta,
    Device,
    FreshSeed,
    KeyFileIfMarked,
    NoWatermark,
    Overwrite,
    Payload,
    Resume,
    option,
    output_file,
)
from patternmark.cli.output import STOPPED, Verbose, progress, say, warn
from patternmark.core.key import Key
from patternmark.core.keyfile import load_key
from patternmark.core.marker import Marker
from patternmark.core.secret import fresh_seed
from patternmark.detector import Detector
from patternmark.errors import InputError, ParameterError
from patternmark.evidence import DEFAULT_FPR
from patternmark.io.folding import fold
from patternmark.io.items import warn_of_spelled_out
from patternmark.io.nonce_counter import NonceCounter
from patternmark.io.records import input_name
from patternmark.results import Status, Verdict

if TYPE_CHECKING:
    from patternmark.translation.translator import Translator

_AT_ONCE = {"cpu": 8, "cuda": 1024}  # lines that are translated, and written, together
_JUDGED_AT_ONCE = 2048
# About as many tokens as it takes at delta 3 until a mark is clear at 0.1 %: median of 209 lines,
# 31. One of many nonces takes more, as a p-value is multiplied by their number.
_SHORT = 30


def translate(
    input: Annotated[
        Path, typer.Argument(metavar="FILE", help="German, one text per line; - for stdin.")
    ],
    output: Annotated[Path, output_file("The translations, line by line; - for stdout.")],
    key: KeyFileIfMarked = None,
    delta: Delta = None,
    payload: Payload = None,
    passes: Annotated[
        int,
        option(
            MARK,
            metavar="N",
            min=1,
            max=20,
            help="Translate up to N times, from a weak mark to --delta, until the mark is clear.",
        ),
    ] = 5,
    no_watermark: NoWatermark = False,
    temperature: Annotated[
        float,
        option(
            MODEL,
            metavar="T",
            min=0.0,
            max=100.0,
            help="Sampling temperature; 0 takes the likeliest tokens.",
        ),
    ] = 0.0,
    weights: Annotated[
        Path | None,
        option(MODEL, metavar="FOLDER", help="Your own model instead of the built-in one (de-en)."),
    ] = None,
    overwrite: Overwrite = False,
    resume: Resume = False,
    iterations: Annotated[
        int, option(EXPERT, metavar="N", min=1, help="Rounds of masking and predicting.")
    ] = 10,
    length_beam: Annotated[
        int, option(EXPERT, metavar="N", min=1, help="Number of lengths tried for each line.")
    ] = 5,
    seed: FreshSeed = None,
    device: Device = "auto",
    allow_open_key: AllowOpenKey = False,
    verbose: Verbose = False,
) -> None:
    """Translate German into marked English, line by line.

    Example: patternmark translate german.txt --key text.key -o english.txt
    """
    import patternmark.translation  # noqa: F401  # an error that names the extra to install
    from patternmark.models.device import pick_device
    from patternmark.translation.decode import Decoding

    if payload is not None and no_watermark:
        raise ParameterError("--payload needs a mark: leave out --no-watermark")
    if (key is None) != no_watermark:
        raise ParameterError("give either --key FILE or --no-watermark")
    if seed is not None and seed >= 2**63:
        raise ParameterError(f"--seed must be less than 2**63, not {seed}")
    if overwrite and resume:
        raise ParameterError("give --overwrite or --resume, not both")
    refuse_own_input(input, output)
    lines = read_lines(input, "its translation is left empty")
    done = _lines_done(output, overwrite=overwrite, resume=resume)
    if done > len(lines):
        raise InputError(f"{output}: has {done} lines already, but {input} only {len(lines)}")
    written, marker, counter = done, None, None
    if key is not None:
        loaded = load_key(key, allow_open=allow_open_key, with_secret=True)
        marker = Marker(loaded, delta=delta, payload=payload)
        counter = NonceCounter.needed_for(marker, key, warn) if seed is None else None
    run_seed = fresh_seed() if seed is None else seed
    where = pick_device(device)
    translator = _open(weights, where, marker)
    _warn_of_foreign(input, lines, translator)
    decoding = Decoding(iterations, length_beam, temperature)
    some = _AT_ONCE[where.split(":")[0]]
    name = "standard output" if str(output) == "-" else output
    texts = _kept_texts(output) if done else []
    try:
        with progress("lines") as bar, writing(output, append=done > 0) as stream:
            task = bar.add_task("translating", total=len(lines), completed=done)
            for start in range(done, len(lines), some):
                part = lines[start : start + some]
                nonces = counter.nonces(counter.take(len(part)), len(part)) if counter else None
                found = translator.translate(
                    part, decoding, marker, seed=run_seed, passes=passes, nonces=nonces
                )
                stream.write("".join(f"{translation.text}\n" for translation in found).encode())
                stream.flush()
                written = start + len(part)
                texts += [translation.text for translation in found]
                bar.advance(task, len(part))
    except KeyboardInterrupt:
        say(f"stopped: {name} has {written} of {len(lines)} lines; continue with --resume")
        raise typer.Exit(STOPPED) from None
    count = len(lines) - done
    wrote = f"wrote {count} line{'' if count == 1 else 's'} to {name}"
    say(f"{wrote}, {_mark(marker, translator, texts)}")


def _warn_of_foreign(file: Path, lines: list[str], translator: Translator) -> None:
    """Name lines in a language that the model does not know."""
    from patternmark.io.tokenizer import knows_words

    def encode(text: str) -> list[int]:
        return translator.codec.encode_batch([text])[0]

    size = len(translator.vocabulary.tokens)
    places = [
        f"line {number}"
        for number, line in enumerate(lines, start=1)
        if not knows_words(line, encode, size)
    ]
    name = translator.vocabulary.alphabet().name
    consequence = "It is translated anyway, but expect no useful result"
    warn_of_spelled_out(warn, input_name(str(file)), places, name, consequence)


def _mark(marker: Marker | None, translator: Translator, texts: list[str]) -> str:
    """Say in how many lines `detect` finds the mark, and what to do about the others."""
    if marker is None:
        return "without a mark"
    verdicts = _judged(marker.key, translator, texts)
    found = sum(verdict.prediction for verdict in verdicts)
    carried = "" if marker.payload is None else f" with payload {marker.payload}"
    advice = _advice(verdicts, marker.key.circle.nonces)
    return (
        f"marked by key {marker.key.key_id}{carried}. The mark is found in {found} of "
        f"{len(verdicts)} lines at p <= {DEFAULT_FPR:g}{advice}"
    )


def _judged(key: Key, translator: Translator, texts: list[str]) -> list[Verdict]:
    """Judge lines as `detect` will: those with text, as a verifier reads them."""
    judge = Detector(key)
    verdicts: list[Verdict] = []
    for start in range(0, len(texts), _JUDGED_AT_ONCE):
        folded = [fold(text).text for text in texts[start : start + _JUDGED_AT_ONCE] if text]
        verdicts += judge.detect_many(filter(None, translator.codec.encode_batch(folded)))
    return verdicts


def _advice(verdicts: list[Verdict], nonces: int) -> str:
    """Say in one sentence what helps where lines show no mark; nothing where all do."""
    missed = [verdict for verdict in verdicts if not verdict.prediction]
    hopeless = (Status.TOO_SHORT, Status.NOTHING_TO_SCORE)
    least = round(_SHORT * (1.0 + log(nonces) / -log(DEFAULT_FPR)))
    short = sum(v.status in hopeless or v.num_tokens_scored < least for v in missed)
    if short:
        are = "1 line is" if short == 1 else f"{short} lines are"
        own = "its" if short == 1 else "their"
        fewer = "" if nonces == 1 else f", take a key with fewer than its {nonces:,} nonces"
        return (
            f". {are} too short (under {least} tokens) to carry a mark of {own} own: translate "
            f"whole paragraphs{fewer}, or judge the file as a whole with "
            "'patternmark detect --combine'"
        )
    return "; a larger --delta marks more of them" if missed else ""


def _open(folder: Path | None, device: str, marker: Marker | None) -> Translator:
    """Load the model; refuse a key that is not for its tokens."""
    from patternmark.translation.translator import Translator

    translator = Translator.open(folder, device)
    if marker is not None:
        try:
            translator.check_fit(marker)
        except ParameterError as error:
            raise ParameterError(f"{error} (see keygen --alphabet)") from None
    return translator


def _lines_done(output: Path, *, overwrite: bool, resume: bool) -> int:
    """Return how many lines of the output are to be kept; refuse to overwrite it unasked."""
    if str(output) == "-" or not output.exists() or overwrite:
        return 0
    if not resume:
        raise InputError(
            f"{output}: already exists: use --overwrite to replace it, or --resume to continue it"
        )
    try:
        content = output.read_bytes()
        whole = content[: content.rfind(b"\n") + 1]  # a stop may have cut the last line
        if len(whole) < len(content):
            output.write_bytes(whole)
    except OSError as error:
        raise InputError(f"{output}: cannot be continued: {error.strerror}") from None
    return whole.count(b"\n")


def _kept_texts(output: Path) -> list[str]:
    """Return the lines that the output already has; what is not text counts as an empty line."""
    return output.read_bytes().decode("utf-8", errors="ignore").split("\n")[:-1]
