"""The commands that can be continued: what they run on, and what they must leave in the end."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from patternmark.core.key import Key
from patternmark.core.keyfile import save_key
from patternmark.core.profile import Profile
from patternmark.core.schemes import Blocks, Turns
from patternmark.core.secret import Secret
from tests.conftest import SECRET_HEX

Words = list[object]


@dataclass(frozen=True)
class Job:
    """A command that can be continued.

    `prepare` writes its input into a folder. `command` gives its words for an output folder, of the
    first run or of one that continues. `records` names what the output holds, each record once.
    `same` are the files that must be equal to the last byte; `kept` are others that may be there.
    """

    name: str
    prepare: Callable[[Path], None]
    command: Callable[[Path, Path, bool], Words]
    records: Callable[[Path], Iterable[Hashable]]
    same: tuple[str, ...]
    kept: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()

    def found(self, out: Path) -> Counter[Hashable]:
        """Count the records of an output."""
        return Counter(self.records(out))


def _key(file: Path, profile: Profile) -> None:
    save_key(Key.of(Secret(bytes.fromhex(SECRET_HEX)), profile), file)


def _prepare_design(folder: Path) -> None:
    from tests.adapters import write_chains

    _key(folder / "lab.key", Profile(scheme=Blocks()))
    (folder / "structures").mkdir()
    for number in range(5):
        first = 8 + 10 * number
        chains = {"A": ("D", range(first, first + 25))}
        write_chains(folder / "structures" / f"s{number}.pdb", chains)


def _design(folder: Path, out: Path, again: bool) -> Words:
    return ["design", folder / "structures", "--key", folder / "lab.key", "-n", 2, "--seed", 7,
            "--device", "cpu", "-o", out / "designs.fa"]  # fmt: skip


def _fasta_records(out: Path) -> list[Hashable]:
    blocks = (out / "designs.fa").read_text().split(">")[1:]
    return list(blocks)


def _prepare_scan(folder: Path) -> None:
    from tests.scanning.made import a_key, drawn, fasta, marked_blocks

    rng = np.random.default_rng(5)
    for place in ("keys", "sequences"):
        (folder / place).mkdir()
    keys = [a_key(number, Blocks()) for number in range(3)]
    for number, key in enumerate(keys):
        save_key(key, folder / "keys" / f"{number}.key")
    for number in range(12):
        sequences = [drawn(rng, 300) for _ in range(400)]
        sequences[7] = marked_blocks(rng, keys[number % 3], 400, rate=1.0)
        (folder / "sequences" / f"{number:02d}.fa").write_bytes(fasta(sequences))


def _scan(folder: Path, out: Path, again: bool) -> Words:
    words = ["scan", folder / "sequences", "--keys", folder / "keys", "-o", out / "hits.parquet"]
    return [*words, *(["--resume"] if again else [])]


def _scan_records(out: Path) -> Iterable[Hashable]:
    from pyarrow import parquet

    for row in parquet.read_table(out / "hits.parquet").to_pylist():
        yield row["file"], row["id"], row["key_id"]
    manifest = json.loads((out / "hits.parquet.json").read_text())
    yield from [f"record {number}" for number in range(manifest["records"])]


_LINES = 20


def _prepare_translate(folder: Path) -> None:
    from patternmark.io.vocabulary import read_shipped_vocabulary
    from tests.translation.small import PAIRS

    _key(
        folder / "text.key", Profile(alphabet=read_shipped_vocabulary().alphabet(), scheme=Turns())
    )
    lines = [f"{number}. {source}" for number, (source, _) in enumerate(PAIRS[:_LINES], start=1)]
    (folder / "in.txt").write_text("\n".join(lines) + "\n")


def _translate(folder: Path, out: Path, again: bool) -> Words:
    words = ["translate", folder / "in.txt", "--key", folder / "text.key", "-o", out / "out.txt",
             "--seed", 3, "--iterations", 2, "--length-beam", 1, "--passes", 1,
             "--device", "cpu"]  # fmt: skip
    return [*words, *(["--resume"] if again else [])]


def _prepare_train(folder: Path) -> None:
    from tests.translation.small import PAIRS, codec

    (folder / "pairs.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in PAIRS))
    codec().save(folder / "bpe.json")


def _train(folder: Path, out: Path, again: bool) -> Words:
    return ["train", "cmlm", folder / "pairs.tsv", "--tokenizer", folder / "bpe.json", "-o",
            out / "model", "--width", 32, "--hidden", 64, "--heads", 2, "--layers", "1+1",
            "--batch-tokens", 128, "--steps", 12, "--save-every", 0.0005,
            "--device", "cpu"]  # fmt: skip


def _train_records(out: Path) -> Iterable[Hashable]:
    for line in (out / "model" / "log.jsonl").read_text().splitlines():
        yield "step", json.loads(line)["step"]
    progress = json.loads((out / "model" / "training.json").read_text())["progress"]
    yield from [(name, progress[name]) for name in ("step", "epoch", "batch", "tokens")]


_MODEL = ("config.json", "tokenizer.json", "model.safetensors", "checkpoint-00000012.safetensors")
_FACTS = ("training.json", "log.jsonl", "card.json", "README.md")  # with times, and all runs

JOBS = {
    job.name: job
    for job in (
        Job("design", _prepare_design, _design, _fasta_records,
            ("designs.fa", "designs.fa.manifest.json"), needs=("torch", "gemmi", "tmtools")),
        Job("scan", _prepare_scan, _scan, _scan_records, ("hits.parquet", "hits.parquet.json"),
            needs=("numba", "pyarrow", "xxhash")),
        Job("translate", _prepare_translate, _translate,
            lambda out: enumerate((out / "out.txt").read_text().splitlines()), ("out.txt",),
            needs=("torch", "tokenizers", "safetensors", "patternmark_models")),
        Job("train", _prepare_train, _train, _train_records,
            tuple(f"model/{name}" for name in _MODEL),
            tuple(f"model/{name}" for name in _FACTS),
            needs=("torch", "tokenizers", "safetensors", "patternmark_lab")),
    )
}  # fmt: skip
