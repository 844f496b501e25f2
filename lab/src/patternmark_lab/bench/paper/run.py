"""`patternmark bench paper`: generate, judge, sum up; finished work is kept for a later run."""

from __future__ import annotations

import lzma
import tarfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from patternmark._version import __version__
from patternmark.errors import InputError, ParameterError
from patternmark.io.files import make_folder, write_text
from patternmark.io.kept import Kept
from patternmark.io.structure_files import find_structures
from patternmark.models.weights import file_sha256
from patternmark.quality.diversity import entropies
from patternmark_lab.bench.detectors import reported_backbones
from patternmark_lab.bench.paper.material import Material
from patternmark_lab.bench.paper.plan import NONE, SIZES, Size
from patternmark_lab.bench.paper.summary import summarise
from patternmark_lab.bench.paper.verdicts import judge_all
from patternmark_lab.bench.protein import LONGEST, SHORTEST, suitable_chains
from patternmark_lab.bench.report import environment
from patternmark_lab.schemes.pattern import ByKey

TASKS = ("protein", "translation")
STRUCTURES, CHAINS = "structures", "proteins/pdb_chains_seq_dssp.tsv.xz"
PARAGRAPHS = "parallel/europarl.de-en.longtest.tsv.xz"
LAYOUT = 1  # version of the result's format, from which pages can be made
_VERSION_FILE = "version.txt"

Step = Callable[[str], None]


@dataclass(frozen=True)
class Setup:
    """The settings of a run: folders, size, device, models and schemes."""

    data: Path
    work: Path
    size: str
    device: str = "cpu"
    workers: int = 1
    seed: int = 1
    model: str = "v_48_020"
    other_models: tuple[str, ...] = ("v_48_002", "v_48_030")
    residues: tuple[int, int] = (SHORTEST, LONGEST)  # shortest and longest chain
    schemes: tuple[str, ...] = ()  # to measure; empty: all of a task

    @property
    def amounts(self) -> Size:
        """The amounts of work at this size."""
        if self.size not in SIZES:
            raise ParameterError(f"--size must be one of {', '.join(SIZES)}, not {self.size!r}")
        return SIZES[self.size]

    def kept(self, stage: str) -> Kept:
        """Return the finished jobs of a stage."""
        return Kept(self.work / ("-".join([stage, self.size, *self.schemes]) + ".jsonl"))

    def file(self, name: str) -> Path:
        """Return a file of the data folder."""
        path = self.data / name
        if not path.exists():
            raise InputError(
                f"{path}: does not exist: --data must be the folder with structures/, proteins/ "
                "and parallel/ that docs/results/paper.md describes"
            )
        return path


_NEEDED = {"protein": (STRUCTURES, CHAINS), "translation": (PARAGRAPHS,)}


def check_data(setup: Setup, tasks: tuple[str, ...]) -> None:
    """Raise an error if data is missing, so that a long run does not fail late."""
    for name in (name for task in tasks for name in _NEEDED[task]):
        setup.file(name)


def run_paper_benchmark(
    setup: Setup, tasks: tuple[str, ...] = TASKS, step: Step = lambda what: None
) -> dict[str, Any]:
    """Return all numbers; `step` is called for every finished part."""
    check_data(setup, tasks)
    check_work_folder(setup.work)
    for task in tasks:
        check_inputs(setup, task)
    result: dict[str, Any] = {
        "benchmark": "paper",
        "layout": LAYOUT,
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
        result[task] = (
            summarise(material, verdicts) | more | {"marks": _marks(material, setup.seed)}
        )
    return result


def _marks(material: Material, seed: int) -> dict[str, str]:
    """Return the signature of every scheme that has keys of this package."""
    made = {cell.scheme: cell for cell in material.marked if not cell.stay}
    alphabet = material.alphabet()
    found = {name: cell.of_key(0, seed, alphabet) for name, cell in made.items()}
    return {
        name: scheme.profile.scheme.signature
        for name, scheme in found.items()
        if isinstance(scheme, ByKey)
    }


def check_work_folder(folder: Path) -> None:
    """Make the folder; refuse one with work of another version, without changing it."""
    file = folder / _VERSION_FILE
    make_folder(folder)
    try:
        found = file.read_text().strip() if file.exists() else __version__
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{file}: cannot be read: {error}") from None
    if found == __version__:
        write_text(file, f"{__version__}\n")
        write_text(folder / ".gitignore", "*\n")  # finished work does not belong in a repository
    if found != __version__:
        raise InputError(
            f"{folder}: holds work of patternmark {found}, but this is {__version__}: choose "
            "another --work; nothing in it was changed"
        )


def check_inputs(setup: Setup, task: str) -> None:
    """Refuse work that was done on other data, which would be mixed with that of this run."""
    digest = sha256()
    for name in _NEEDED[task]:
        path = setup.file(name)
        for file in sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]:
            digest.update(f"{file.name} {file_sha256(file)}\n".encode())
    found, kept = digest.hexdigest(), setup.work / f"inputs-{task}-{setup.size}.txt"
    before = kept.read_text().strip() if kept.exists() else found
    if before != found:
        raise InputError(
            f"{setup.work}: holds work on other {task} data than {setup.data}: choose another "
            "--work; nothing in it was changed"
        )
    write_text(kept, f"{found}\n")


def _proteins(setup: Setup, step: Step) -> tuple[Any, dict[str, Any]]:
    from patternmark.models.weights import weights_file  # noqa: PLC0415
    from patternmark_lab.bench.paper.designs import DesignStage  # noqa: PLC0415  # torch

    size = setup.amounts
    weights, *others = (weights_file(name) for name in (setup.model, *setup.other_models))
    natural = natural_chains(setup.file(CHAINS), size.natural, setup.seed, setup.residues)
    chains = suitable_chains(_structures(setup), None, *setup.residues)
    # Detectors were fitted on every third chain, so these are left out.
    backbones = reported_backbones(chains)[: size.backbones]
    if not backbones:
        shortest, longest = setup.residues
        raise InputError(
            f"{setup.data / STRUCTURES}: holds {len(chains)} structures with a chain of "
            f"{shortest} to {longest} residues, and every third is left out: add more"
        )
    kept = setup.kept("designs")
    stage = DesignStage(weights, others, size, setup.seed, setup.device, kept, setup.schemes)
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
    return material, {"diversity": diversity, "model": setup.model}


def _structures(setup: Setup) -> list[Path]:
    """Return the structure files of the data folder, or of its archive if it has one."""
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


def natural_chains(
    file: Path, number: int, seed: int, residues: tuple[int, int] = (SHORTEST, LONGEST)
) -> list[str]:
    """Return natural chains as long as the designs, chosen by the seed."""
    found = []
    shortest, longest = residues
    try:
        with lzma.open(file, "rt", encoding="utf-8") as stream:
            for line in stream:
                fields = line.rstrip("\n").split("\t")
                if len(fields) > 1 and shortest <= len(fields[1]) <= longest:
                    found.append(fields[1])
    except (OSError, EOFError, lzma.LZMAError, UnicodeDecodeError) as error:
        raise InputError(f"{file}: cannot be read: {error}") from None
    if len(found) < number:
        raise InputError(
            f"{file}: has {len(found)} chains of {shortest} to {longest} residues, but "
            f"{number} are needed"
        )
    order = np.random.default_rng(seed).permutation(len(found))
    return [found[i] for i in order[:number]]


def _texts(setup: Setup, step: Step) -> tuple[Any, dict[str, Any]]:
    from patternmark_lab.bench.paper.translations import TranslationStage  # noqa: PLC0415  # torch

    kept = setup.kept("translations")
    stage = TranslationStage(None, setup.amounts, setup.seed, setup.device, kept, setup.schemes)
    return stage.run(setup.file(PARAGRAPHS), step), {}
