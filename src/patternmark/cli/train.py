"""`patternmark train`: a tokenizer, an autoregressive teacher, its translations, and CMLM."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from patternmark.cli.output import Verbose, progress, say
from patternmark.errors import ParameterError

if TYPE_CHECKING:
    from patternmark.models.cmlm import CMLM
    from patternmark.translation.corpus import Pair
    from patternmark.translation.tokenizer import TextCodec

train_app = typer.Typer(
    help="Train CMLM, the mask-predict translator, on pairs of sentences.", no_args_is_help=True
)

Data = Annotated[
    list[Path], typer.Argument(metavar="PAIRS...", help="Source, tab, target; .xz too.")
]
TokenizerFile = Annotated[Path, typer.Option(help="A tokenizer.json; see `train tokenizer`.")]
Folder = Annotated[Path, typer.Option("--output", "-o", help="The folder of the model.")]
Device = Annotated[str, typer.Option(help="cpu, cuda, or auto.")]
Paragraphs = Annotated[
    Path | None, typer.Option(help="Pairs of paragraphs: they and spans of them are added.")
]

_LONG = (50, 100)  # tokens of the validation's longer texts
_SENTENCES = 500  # of each kind, translated for BLEU


@train_app.command()
def tokenizer(
    data: Data,
    vocab: Annotated[int, typer.Option(help="Entries of the joint vocabulary.")] = 8000,
    output: Annotated[Path, typer.Option("--output", "-o")] = Path("tokenizer.json"),
    verbose: Verbose = False,
) -> None:
    """Learn a byte-level BPE from both sides of the pairs."""
    from patternmark.translation.tokenizer import TextCodec, train_bpe

    with progress("files") as bar:
        task = bar.add_task("learning merges", total=None)
        texts = (text for pair in _read(data) for text in dict.fromkeys(pair))
        TextCodec(train_bpe(texts, vocab)).save(output)
        bar.advance(task)
    say(f"wrote {output}")


@train_app.command()
def cmlm(
    data: Data,
    tokenizer: TokenizerFile,
    output: Folder,
    paragraphs: Paragraphs = None,
    joined: Annotated[
        int, typer.Option(help="How many texts of random sentences in a row to add.")
    ] = 0,
    valid: Annotated[Path | None, typer.Option(help="Pairs for BLEU.")] = None,
    hold_out: Annotated[
        int, typer.Option(help="Paragraphs at the end that are kept for BLEU of longer texts.")
    ] = 0,
    steps: Annotated[int | None, typer.Option(min=1, help="In all runs together.")] = None,
    minutes: Annotated[
        float | None, typer.Option(help="Of training in all runs together, instead of steps.")
    ] = None,
    run_minutes: Annotated[float, typer.Option(help="End this run after so many.")] = 1e9,
    batch_tokens: Annotated[int, typer.Option(min=64)] = 32_768,
    lr: float = 3e-3,
    dropout: float = 0.1,
    width: int = 320,
    hidden: int = 1152,
    heads: int = 5,
    layers: Annotated[str, typer.Option(help="Of encoder and decoder.")] = "6+4",
    autoregressive: Annotated[
        bool, typer.Option("--autoregressive", help="A causal decoder: the teacher.")
    ] = False,
    longest: Annotated[int, typer.Option(help="Longer pairs are left out.")] = 320,
    seed: int = 1,
    device: Device = "auto",
    shard_mib: Annotated[
        float | None, typer.Option(help="Write weights in shards of so many MiB.")
    ] = None,
    verbose: Verbose = False,
) -> None:
    """Train; the same command goes on where the folder's last checkpoint stands."""
    from patternmark.models.cmlm import Config
    from patternmark.translation.corpus import Corpus, aligned_sentences, longer_pairs, read_pairs
    from patternmark.translation.tokenizer import TextCodec
    from patternmark.translation.training import Settings, Training

    codec = TextCodec.load(tokenizer)
    encoder, decoder = _layers(layers)
    config = Config(
        codec.size,
        width=width,
        hidden=hidden,
        heads=heads,
        encoder_layers=encoder,
        decoder_layers=decoder,
        dropout=dropout,
        causal=autoregressive,
    )
    if (steps is None) == (minutes is None):
        raise ParameterError("give --steps or --minutes: how long to train in all")
    settings = Settings(
        steps=steps or 0, minutes=minutes or 0.0, batch_tokens=batch_tokens, lr=lr, seed=seed
    )
    training = Training(output, config, settings, _device(device))
    singles = _read(data)
    blocks = read_pairs(paragraphs) if paragraphs else []
    held = blocks[len(blocks) - hold_out :]
    blocks = blocks[: len(blocks) - hold_out]
    if autoregressive:  # a teacher translates sentence by sentence
        longer = [part for block in blocks for part in aligned_sentences(block)]
    else:
        longer = longer_pairs(singles, blocks, seed, joined)
    pairs = singles + longer
    with progress("pairs") as bar:
        task = bar.add_task("encoding", total=len(pairs))
        corpus = Corpus.of(pairs, codec, longest, lambda done: bar.advance(task, done))
    codec.save(output / "tokenizer.json")
    say(f"{len(corpus)} of {len(pairs)} pairs, {int(corpus.target.lengths.sum())} target tokens")
    checks = _checks(valid, held, codec)
    with progress("%") as bar:
        task = bar.add_task("training", total=100)

        def report(row: dict[str, float]) -> None:
            bar.update(task, completed=100 * row["done"], description=f"loss {row['loss']:.3f}")
            if verbose:
                say(str(row))

        training.run(corpus, minutes=run_minutes, report=report)
    training.save(None if shard_mib is None else int(shard_mib * 2**20))
    row = {"step": training.step, **_bleu(training.model, codec, checks)}
    training.log(row)
    say(f"{output}: {row}")


@train_app.command()
def distil(
    teacher: Annotated[Path, typer.Argument(help="The teacher's folder.")],
    data: Annotated[Path, typer.Argument(help="Pairs whose sources it is to translate.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The new pairs; .xz too.")],
    batch_tokens: Annotated[int, typer.Option(min=64)] = 65_536,
    device: Device = "auto",
    verbose: Verbose = False,
) -> None:
    """Let a teacher translate the sources, long ones by sentence: easier targets to learn from."""
    from patternmark.translation.checkpoint import load_model
    from patternmark.translation.corpus import read_pairs, sentences, write_pairs
    from patternmark.translation.decode import Decoding, translate_ids
    from patternmark.translation.tokenizer import TextCodec

    model = _for_use(load_model(teacher, _device(device)))
    codec = TextCodec.load(teacher / "tokenizer.json")
    sources = [source for source, _ in read_pairs(data)]
    lengths = map(len, codec.encode_batch(sources))
    pieces = zip(sources, lengths, strict=True)
    parts = [sentences(source) if n > _LONG[1] else [source] for source, n in pieces]
    ids = codec.encode_batch([part for row in parts for part in row])
    with progress("sentences") as bar:
        task = bar.add_task("translating", total=len(ids))
        found = translate_ids(
            model,
            ids,
            Decoding(batch_tokens=batch_tokens),
            step=lambda done: bar.advance(task, done),
        )
    texts = iter(codec.decode_batch(found))
    targets = [" ".join(next(texts) for _ in row) for row in parts]
    pairs = [pair for pair in zip(sources, targets, strict=True) if pair[1].strip()]
    write_pairs(output, pairs)
    say(f"wrote {len(pairs)} pairs to {output}")


def _read(files: list[Path]) -> list[Pair]:
    from patternmark.translation.corpus import read_pairs

    return [pair for file in files for pair in read_pairs(file)]


def _layers(text: str) -> tuple[int, int]:
    parts = text.split("+")
    if len(parts) != 2 or not all(part.isdecimal() and int(part) for part in parts):
        raise ParameterError(f"--layers names those of encoder and decoder, as 6+4, not {text!r}")
    return int(parts[0]), int(parts[1])


def _device(name: str) -> str:
    import torch

    # It plans anew for every shape, and here every batch and step has another.
    torch.backends.cuda.enable_cudnn_sdp(False)
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if name.startswith("cuda") and not torch.cuda.is_available():
        raise ParameterError("--device cuda: this machine has no GPU that torch can use")
    return name


def _for_use(model: CMLM) -> CMLM:
    """Half precision where that is faster."""
    return model.half() if model.embedding.weight.is_cuda else model


def _checks(valid: Path | None, held: list[Pair], codec: TextCodec) -> dict[str, list[Pair]]:
    from patternmark.translation.corpus import cut_to, read_pairs

    checks = {"bleu": read_pairs(valid)[:_SENTENCES]} if valid else {}
    cut = (cut_to(pair, *_LONG, lambda text: len(codec.encode_batch([text])[0])) for pair in held)
    long = [pair for pair in cut if pair is not None][:_SENTENCES]
    return checks | ({"bleu_long": long} if long else {})


def _bleu(model: CMLM, codec: TextCodec, checks: dict[str, list[Pair]]) -> dict[str, Any]:
    import copy

    from patternmark.translation.bleu import bleu
    from patternmark.translation.decode import Decoding, translate_ids

    used = _for_use(copy.deepcopy(model))
    found = {}
    for name, pairs in checks.items():
        ids = codec.encode_batch([source for source, _ in pairs])
        texts = codec.decode_batch(translate_ids(used, ids, Decoding(batch_tokens=8192)))
        found[name] = round(bleu(texts, [target for _, target in pairs]).score, 2)
    return found
