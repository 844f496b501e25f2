"""`patternmark bench paper`: make, judge, sum up; what is finished is kept and gone on from."""

from __future__ import annotations

import lzma
import tarfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from patternmark._version import __version__
from patternmark.bench.detectors import reported
from patternmark.bench.jobs import Kept
from patternmark.bench.paper.plan import SIZES, Size
from patternmark.bench.paper.summary import summarise
from patternmark.bench.paper.verdicts import judge_all
from patternmark.bench.protein import LONGEST, SHORTEST, suitable_chains
from patternmark.bench.report import environment
from patternmark.errors import InputError
from patternmark.io.structures import find_structures
from patternmark.quality.diversity import entropies

TASKS = ("protein", "translation")
STRUCTURES, CHAINS = "structures", "proteins/pdb_chains_seq_dssp.tsv.xz"
PARAGRAPHS = "parallel/europarl.de-en.longtest.tsv.xz"
_VERSION_FILE = "version.txt"

Step = Callable[[str], None]


@dataclass(frozen=True)
class Setup:
    """Where data comes from and finished work goes, and on what it is done."""

    data: Path
    work: Path
    size: str
    device: str = "cpu"
    workers: int = 1
    seed: int = 1
    model: str = "v_48_020"
    other_models: tuple[str, ...] = ("v_48_002", "v_48_030")

    @property
    def amounts(self) -> Size:
        return SIZES[self.size]

    def kept(self, stage: str) -> Kept:
        """Return the finished jobs of a stage."""
        return Kept(self.work / f"{stage}-{self.size}.jsonl")

    def file(self, name: str) -> Path:
        """Return a file of the data folder."""
        path = self.data / name
        if not path.exists():
            raise InputError(
                f"{path}: not there: --data is the folder with structures/, proteins/ and "
                "parallel/, as docs/results/paper.md describes them"
            )
        return path


def run_paper_benchmark(
    setup: Setup, tasks: tuple[str, ...] = TASKS, step: Step = lambda what: None
) -> dict[str, Any]:
    """Return all numbers; `step` hears of every part that is done."""
    check_work_folder(setup.work)
    result: dict[str, Any] = {
        "benchmark": "paper",
        **environment(),
        "size": setup.size,
        "amounts": asdict(setup.amounts),
        "seed": setup.seed,
    }
    makers = {"protein": _proteins, "translation": _texts}
    for task in tasks:
        material, more = makers[task](setup, step)
        verdicts = judge_all(
            material,
            setup.amounts,
            setup.seed,
            setup.kept(f"verdicts-{task}"),
            setup.workers,
            step,
        )
        result[task] = summarise(material, verdicts) | more
    return result


def check_work_folder(folder: Path) -> None:
    """Refuse work of another version: it was made otherwise, and stays as it is."""
    file = folder / _VERSION_FILE
    try:
        folder.mkdir(parents=True, exist_ok=True)
        found = file.read_text().strip() if file.exists() else __version__
        if found == __version__:
            file.write_text(f"{__version__}\n")
    except OSError as error:
        raise InputError(f"{folder}: cannot be written: {error.strerror}") from None
    if found != __version__:
        raise InputError(
            f"{folder}: holds work of patternmark {found}, this is {__version__}: choose another "
            "--work; nothing in it was touched"
        )


def _proteins(setup: Setup, step: Step) -> tuple[Any, dict[str, Any]]:
    from patternmark.bench.paper.designs import NONE, DesignStage  # noqa: PLC0415  # torch
    from patternmark.models.weights import weights_file  # noqa: PLC0415

    size = setup.amounts
    files = _structures(setup)
    # Detectors were fitted on every third chain: what is reported leaves these out.
    backbones = reported(suitable_chains(files))[: size.backbones]
    natural = natural_chains(setup.file(CHAINS), size.natural, setup.seed)
    weights = weights_file(setup.model)
    others = [weights_file(name) for name in setup.other_models]
    stage = DesignStage(weights, others, size, setup.seed, setup.device, setup.kept("designs"))
    material = stage.run(backbones, natural, step)
    sets = {NONE: material.unmarked}
    strongest = max(size.protein_deltas)
    for cell, by_key in material.marked.items():
        if cell.delta == strongest and not cell.stay:
            sets[cell.scheme] = [text for own in by_key for text in own]
    diversity = [
        {"scheme": name, **{m.name: asdict(m) for m in entropies(texts)}}
        for name, texts in sets.items()
    ]
    return material, {"diversity": diversity, "model": setup.model, "device": setup.device}


def _structures(setup: Setup) -> list[Path]:
    """Return the structure files of the data folder, of its archive if it has one."""
    folder = setup.file(STRUCTURES)
    archive = next(iter(sorted(folder.glob("*.tar.xz"))), None)
    if archive is None:
        return find_structures([folder])
    unpacked = setup.work / STRUCTURES
    if not unpacked.exists():
        beside = unpacked.with_name(f"{STRUCTURES}.part")
        try:
            with tarfile.open(archive) as content:
                content.extractall(beside, filter="data")
            beside.rename(unpacked)
        except (OSError, tarfile.TarError, EOFError) as error:
            raise InputError(f"{archive}: cannot be unpacked: {error}") from None
    return find_structures(sorted(p for p in unpacked.iterdir() if p.is_dir()) or [unpacked])


def natural_chains(file: Path, number: int, seed: int) -> list[str]:
    """Return natural chains as long as the designs, chosen by the seed."""
    found = []
    try:
        with lzma.open(file, "rt", encoding="utf-8") as stream:
            for line in stream:
                fields = line.rstrip("\n").split("\t")
                if len(fields) > 1 and SHORTEST <= len(fields[1]) <= LONGEST:
                    found.append(fields[1])
    except (OSError, EOFError, lzma.LZMAError, UnicodeDecodeError) as error:
        raise InputError(f"{file}: cannot be read: {error}") from None
    if len(found) < number:
        raise InputError(
            f"{file}: has {len(found)} chains of {SHORTEST} to {LONGEST} residues, "
            f"{number} are needed"
        )
    order = np.random.default_rng(seed).permutation(len(found))
    return [found[i] for i in order[:number]]


def _texts(setup: Setup, step: Step) -> tuple[Any, dict[str, Any]]:
    from patternmark.bench.paper.translations import TranslationStage  # noqa: PLC0415  # torch

    stage = TranslationStage(
        None, setup.amounts, setup.seed, setup.device, setup.kept("translations")
    )
    return stage.run(setup.file(PARAGRAPHS), step), {}
