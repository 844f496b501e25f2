"""`patternmark train`: a tokenizer, an autoregressive teacher, its translations, and CMLM."""

from __future__ import annotations

import math
import shlex
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from patternmark import __version__
from patternmark.cli.output import STOPPED, Verbose, progress, say, warn
from patternmark.errors import ParameterError
from patternmark_lab.cli.group import Group, hold

if TYPE_CHECKING:
    from patternmark.models.cmlm import Config
    from patternmark.translation.bpe import TextCodec
    from patternmark_lab.training.corpus import Corpus, Pair
    from patternmark_lab.training.trainer import Training, Until
    from patternmark_lab.training.validation import Check


train_app = typer.Typer(
    cls=Group,
    help="Train CMLM, the mask-predict translator, on pairs of sentences.",
    no_args_is_help=True,
)

Data = Annotated[
    list[Path], typer.Argument(metavar="PAIRS...", help="Source, tab, target; .xz too.")
]
TokenizerFile = Annotated[Path, typer.Option(help="A tokenizer.json; see `train tokenizer`.")]
Folder = Annotated[
    Path, typer.Option("--output", "-o", help="The folder of the model.", callback=hold)
]
Device = Annotated[str, typer.Option(help="cpu, cuda, or auto: a GPU if there is one.")]
Paragraphs = Annotated[
    Path | None, typer.Option(help="Pairs of paragraphs to add, with spans of their sentences.")
]
Joined = Annotated[
    int, typer.Option(min=0, help="Number of texts to add that join random sentences.")
]
HoldOut = Annotated[
    int, typer.Option(min=0, help="Last paragraphs, kept out of training to measure BLEU.")
]
Steps = Annotated[int | None, typer.Option(min=1, help="Steps of all runs together.")]
Minutes = Annotated[
    float | None, typer.Option(help="Minutes of training in all runs together (or --steps).")
]
RunMinutes = Annotated[
    float | None, typer.Option(min=0.0, help="End this run after this time; the next continues.")
]
SaveEvery = Annotated[float, typer.Option(min=0.0, help="Minutes between two checkpoints.")]
Layers = Annotated[str, typer.Option(help="Numbers of layers of encoder + decoder.")]
Autoregressive = Annotated[
    bool, typer.Option("--autoregressive", help="Train a causal decoder, the teacher.")
]
ShardMib = Annotated[
    float | None, typer.Option(min=0.0, help="Write weights in shards of this size in MiB.")
]
DataNote = Annotated[
    list[str] | None,
    typer.Option(help="A line for the model card: licence, acknowledgement. May be repeated."),
]


@train_app.command()
def tokenizer(
    data: Data,
    vocab: Annotated[int, typer.Option(help="Entries of the joint vocabulary.")] = 8000,
    output: Annotated[Path, typer.Option("--output", "-o")] = Path("tokenizer.json"),
    verbose: Verbose = False,
) -> None:
    """Train a byte-level BPE tokenizer on both sides of the pairs."""
    from patternmark.translation.bpe import TextCodec
    from patternmark_lab.training.tokenizer import train_bpe

    with progress("files") as bar:
        bar.add_task("learning merges", total=None)
        texts = (text for file in data for pair in read_data(file) for text in dict.fromkeys(pair))
        codec = TextCodec(train_bpe(texts, vocab))
    codec.save(output)
    if codec.size < vocab:
        warn(f"the pairs are enough for only {codec.size} entries, not {vocab}")
    say(f"wrote {output}: {codec.size} entries")


@train_app.command()
def cmlm(
    context: typer.Context,
    data: Data,
    tokenizer: TokenizerFile,
    output: Folder,
    paragraphs: Paragraphs = None,
    joined: Joined = 0,
    valid: Annotated[Path | None, typer.Option(help="Pairs for BLEU.")] = None,
    hold_out: HoldOut = 0,
    steps: Steps = None,
    minutes: Minutes = None,
    run_minutes: RunMinutes = None,
    save_every: SaveEvery = 5.0,
    batch_tokens: Annotated[int, typer.Option(min=64)] = 32_768,
    lr: float = 3e-3,
    dropout: float = 0.1,
    width: int = 320,
    hidden: int = 1152,
    heads: int = 5,
    layers: Layers = "6+4",
    autoregressive: Autoregressive = False,
    longest: Annotated[int, typer.Option(min=1, help="Longer pairs are left out.")] = 320,
    seed: Annotated[int, typer.Option(min=0)] = 1,
    device: Device = "auto",
    shard_mib: ShardMib = None,
    data_note: DataNote = None,
    verbose: Verbose = False,
) -> None:
    """Train CMLM or its teacher; the same command continues from the folder's last checkpoint.

    Ctrl-C saves before it ends. The folder gets a model card, README.md.
    """
    say_what_is_missing()
    from patternmark.models.cmlm import Config
    from patternmark.models.device import pick_device
    from patternmark_lab.training.trainer import Settings, Training, Until

    _check(steps, minutes, lr, dropout)
    place, codec = pick_device(device), _codec(tokenizer)
    config = Config(
        codec.size, width, hidden, heads, *_layers(layers), dropout, causal=autoregressive
    )
    _check_sizes(config)
    settings = Settings(steps or 0, minutes or 0.0, batch_tokens, lr, seed=seed)
    shard_bytes = None if shard_mib is None else int(shard_mib * 2**20)
    training = Training(output, config, settings, place, shard_bytes)
    _check_same_tokenizer(training, codec)
    found = _gather(data, paragraphs, hold_out, valid, codec)
    corpus = found.corpus(codec, config, joined=joined, seed=seed, longest=longest)
    codec.save(output / "tokenizer.json")
    with _stopping() as stop:
        until = Until(math.inf if run_minutes is None else run_minutes, save_every, stop)
        _run(training, corpus, until, _about(context, place))
    _finish(training, corpus, found, codec, data_note or [], stopped=stop())


def say_what_is_missing() -> None:
    import patternmark.translation  # noqa: F401  # an error that names the extra to install


def _check(steps: int | None, minutes: float | None, lr: float, dropout: float) -> None:
    if (steps is None) == (minutes is None):
        raise ParameterError("give either --steps or --minutes: how long to train in all")
    if minutes is not None and not 0.0 < minutes < math.inf:
        raise ParameterError(f"--minutes must be more than 0, not {minutes:g}")
    if not 0.0 < lr < math.inf:
        raise ParameterError(f"--lr must be more than 0, not {lr:g}")
    if not 0.0 <= dropout < 1.0:
        raise ParameterError(f"--dropout must be 0 or more and less than 1, not {dropout:g}")


def _layers(text: str) -> tuple[int, int]:
    parts = text.split("+")
    if len(parts) != 2 or not all(part.isdecimal() and int(part) for part in parts):
        raise ParameterError(
            f"--layers must be the layers of encoder + decoder, such as 6+4, not {text!r}"
        )
    return int(parts[0]), int(parts[1])


def _check_sizes(config: Config) -> None:
    width, heads = config.width, config.heads
    if min(width, heads, config.hidden) < 1 or width % heads or width % 2:
        raise ParameterError(
            f"--width must be even and a multiple of --heads, not {width} for {heads} heads; "
            "--hidden must be more than 0"
        )


def _codec(file: Path) -> TextCodec:
    from patternmark.translation.bpe import SPECIAL, TextCodec

    codec = TextCodec.load(file)
    if not codec.has_our_special:
        raise ParameterError(
            f"{file}: its first tokens are not {' '.join(SPECIAL)}: make one with "
            "'patternmark train tokenizer'"
        )
    return codec


def _check_same_tokenizer(training: Training, codec: TextCodec) -> None:
    from patternmark.translation.bpe import TextCodec

    file = training.folder / "tokenizer.json"
    if training.step and TextCodec.load(file).content != codec.content:
        raise ParameterError(
            f"{training.folder}: was started with another tokenizer: give {file} with --tokenizer, "
            "or another folder with --output"
        )
    for change in training.changes:
        warn(f"{training.folder}: continues from step {training.step}, but {change}")


@dataclass(frozen=True, eq=False)
class _TrainingData:
    """The pairs for training, and the pairs kept for validation."""

    files: list[dict[str, Any]]
    singles: list[Pair]
    blocks: list[Pair]  # paragraphs
    checks: list[Check]

    def corpus(
        self, codec: TextCodec, config: Config, *, joined: int, seed: int, longest: int
    ) -> Corpus:
        """Encode all pairs for training."""
        from patternmark_lab.training.corpus import Corpus, aligned_sentences, longer_pairs

        if config.causal:  # a teacher translates sentence by sentence
            longer = [part for block in self.blocks for part in aligned_sentences(block)]
        else:
            longer = longer_pairs(self.singles, self.blocks, seed, joined)
        pairs = self.singles + longer
        with progress("pairs") as bar:
            task = bar.add_task("encoding", total=len(pairs))
            corpus = Corpus.of(pairs, codec, longest, lambda done: bar.advance(task, done))
        tokens = int(corpus.target.lengths.sum())
        say(f"{len(corpus):,} of {len(pairs):,} pairs, {tokens:,} target tokens")
        return corpus


def _gather(
    data: list[Path], paragraphs: Path | None, hold_out: int, valid: Path | None, codec: TextCodec
) -> _TrainingData:
    from patternmark.translation.bleu import metric_of_sacrebleu
    from patternmark_lab.training.validation import paragraphs_check, sentences_check

    if valid or hold_out:
        metric_of_sacrebleu()
    read = [(file, "sentences", read_data(file)) for file in data]
    blocks = read_data(paragraphs) if paragraphs else []
    if hold_out and hold_out >= len(blocks):
        raise ParameterError(
            f"--hold-out {hold_out} leaves no paragraphs to train on: there are {len(blocks)} "
            "--paragraphs"
        )
    cut = len(blocks) - hold_out
    checks = [sentences_check(valid.name, read_data(valid))] if valid else []
    if paragraphs:
        checks.append(paragraphs_check(paragraphs.name, blocks[cut:], codec))
        read.append((paragraphs, "paragraphs", blocks[:cut]))
    files = [_file_facts(file, role, pairs) for file, role, pairs in read]
    singles = [pair for _, role, pairs in read if role == "sentences" for pair in pairs]
    return _TrainingData(files, singles, blocks[:cut], checks)


def read_data(file: Path) -> list[Pair]:
    from patternmark_lab.training.corpus import read_pairs

    return read_pairs(file, warn)


def _file_facts(file: Path, role: str, pairs: list[Pair]) -> dict[str, Any]:
    from patternmark.models.weights import file_sha256

    return {"file": file.name, "role": role, "pairs": len(pairs), "sha256": file_sha256(file)}


def _about(context: typer.Context, place: str) -> dict[str, str]:
    from patternmark.models.device import device_name

    name = device_name(place)
    return {"command": command_line(context), "device": name, "patternmark": __version__}


def command_line(context: typer.Context) -> str:
    """Return the command with the given arguments and options, and files without their folders.

    It goes into the model card, whose readers have other folders.
    """
    words = context.command_path.split()
    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name or "")
        if source is None or source.name != "COMMANDLINE":
            continue
        value = context.params[parameter.name or ""]
        if value is None:  # --verbose, which does not change the model
            continue
        given = value if isinstance(value, list | tuple) else [value]
        values = [each.name if isinstance(each, Path) else str(each) for each in given]
        name = max(parameter.opts, key=len)
        if parameter.param_type_name == "argument":
            words += values
        elif isinstance(value, bool):
            words.append(name)
        else:
            words += [word for each in values for word in (name, each)]
    return shlex.join(words)


@contextmanager
def _stopping() -> Iterator[Callable[[], bool]]:
    """Let Ctrl-C or SIGTERM wait for the end of a step; yield a function that tells if one came.

    A second signal does not wait.
    """
    asked = False

    def ask(number: int, frame: object) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True

    signals = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, ask) for number in signals]
    try:
        yield lambda: asked
    finally:
        for number, handler in zip(signals, before, strict=True):
            signal.signal(number, handler)


def _run(training: Training, corpus: Corpus, until: Until, about: dict[str, str]) -> None:
    with progress("%") as bar:
        task = bar.add_task("training", total=100.0)

        def report(row: dict[str, float]) -> None:
            bar.update(task, description=f"step {row['step']:,}, loss {row['loss']:.3f}")

        def show(done: float) -> None:
            bar.update(task, completed=round(100.0 * done, 1))

        training.run(corpus, until, about=about, report=report, progress=show)


def _finish(
    training: Training,
    corpus: Corpus,
    found: _TrainingData,
    codec: TextCodec,
    notes: list[str],
    *,
    stopped: bool,
) -> None:
    """Measure BLEU, and write the model card."""
    from patternmark_lab.training.card import card, write_card
    from patternmark_lab.training.validation import measure

    where = f"{training.folder}: step {training.step:,}, {min(1.0, training.done):.0%} done"
    if stopped:
        say(f"{where}; stopped and saved, and the same command continues from there")
        raise typer.Exit(STOPPED)
    if not training.step:
        say(where)
        return
    scores = measure(training.model, codec, found.checks)
    if scores:
        row = {score["name"]: score["bleu"] for score in scores}
        training.log({"step": training.step, **row})
    tokens = int(corpus.target.lengths.sum())
    data = {"files": found.files, "pairs": len(corpus), "target_tokens": tokens}
    write_card(training.folder, card(training, data, scores, notes))
    shown = "".join(f", BLEU {s['bleu']:.2f} on {s['pairs']} of {s['file']}" for s in scores)
    say(where + shown)
