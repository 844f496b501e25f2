"""A data folder for `bench paper`, of what packages carry: real structures, proteins and texts."""

import lzma
from itertools import permutations
from pathlib import Path

from lab.tests.bench.test_translation import ENGLISH, GERMAN
from patternmark.attacks.edits import natural_proteins
from patternmark.core.alphabet import PROTEIN
from patternmark.io.structures import read_backbone
from patternmark_lab.bench.paper.run import CHAINS, PARAGRAPHS, STRUCTURES
from patternmark_lab.bench.translation import SKIPPED
from tests.models.published import real_structure

RESIDUES = (60, 230)  # of chains of 2GTL and of the package's natural proteins


def data_folder(folder: Path) -> Path:
    """Make all three parts."""
    for name in (STRUCTURES, CHAINS, PARAGRAPHS):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / STRUCTURES).mkdir()
    # Every third is left out: of these, chain B and chain M are designed on.
    for chain in "ABM":
        real_structure(folder / STRUCTURES, chain)
    others = [real_structure(folder, chain) for chain in "CDNO"]
    chains = [read_backbone(file).letters(file.stem[-1]) for file in others]
    sequences = ["".join(PROTEIN.letters[i] for i in ids) for ids in natural_proteins()]
    sequences += chains
    rows = [f"{number}\t{letters}\tignored" for number, letters in enumerate(sequences)]
    _write(folder / CHAINS, rows)
    _write(folder / PARAGRAPHS, paragraphs(SKIPPED + 4))
    return folder


def paragraphs(count: int) -> list[str]:
    """Paragraphs of eight sentences, each in another order."""
    orders = list(permutations(range(4)))
    rows = []
    for number in range(count):
        again, first = divmod(number, len(orders))
        which = orders[first] + orders[again]
        rows.append("\t".join(" ".join(text[i] for i in which) for text in (GERMAN, ENGLISH)))
    return rows


def _write(file: Path, rows: list[str]) -> None:
    with lzma.open(file, "wt", encoding="utf-8") as stream:
        stream.write("\n".join(rows) + "\n")
