"""Per-residue bias files for ProteinMPNN, LigandMPNN and foundry, which run unmodified.

Each of them samples from softmax((logits + bias) / T) and reads the bias of each residue from a
file. So a file with the bias of one key sequence is enough to mark a sequence:

    ProteinMPNN   --bias_by_res_jsonl      {"1abc": {"A": [[21 numbers for each row], ...]}}
    LigandMPNN    --bias_AA_per_residue    {"A12": {"G": 1.0, "L": 1.0}, "A12A": {...}}
                  ..._multi                {"path/1abc.pdb": {"A12": {...}}}
    foundry       --bias_per_residue       {"A12": {"GLY": 1.0, "LEU": 1.0}, "A12A": {...}}
                  inputs of --config_json  [{"structure_path": ..., "bias_per_residue": {...}}]

ProteinMPNN uses only the last line of its file, so all structures must be on one line. It needs an
entry for every designed chain, and counts gaps in the numbering as rows. The other two name
residues by chain, author number and insertion code. In foundry, "A12" also sets A12A and A12B
unless a later entry replaces it. So the entries must be in the order of the structure, A12 first.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patternmark.core.alphabet import PROTEIN
from patternmark.core.marker import Marker
from patternmark.core.secret import fresh_seed
from patternmark.designing.plan import DesignPlan
from patternmark.errors import InputError, ParameterError

_MMCIF_SUFFIXES = (".cif", ".mmcif")
_THREE_LETTERS = {
    "A": "ALA", "C": "CYS", "D": "ASP", "E": "GLU", "F": "PHE", "G": "GLY", "H": "HIS",
    "I": "ILE", "K": "LYS", "L": "LEU", "M": "MET", "N": "ASN", "P": "PRO", "Q": "GLN",
    "R": "ARG", "S": "SER", "T": "THR", "V": "VAL", "W": "TRP", "Y": "TYR",
}  # fmt: skip
_ONE_CHARACTER, _LETTERS = re.compile(r"\S"), re.compile("[A-Za-z]+")
_NUMBER = re.compile(r"-?\d+")


@dataclass(frozen=True, eq=False)
class Biased:
    """A structure and the bias of its residues."""

    file: Path
    plan: DesignPlan
    bias: NDArray[np.float64]  # [L, 21]; zero for residues that are not designed

    @classmethod
    def of(
        cls,
        file: Path,
        plan: DesignPlan,
        marker: Marker,
        *,
        temperature: float,
        seed: int | None = None,
        nonce: int | None = None,
    ) -> Biased:
        """Draw one key sequence: a random one, or the one of the first design with a seed."""
        if marker.key.profile.alphabet != PROTEIN:
            name = marker.key.profile.alphabet.name
            raise ParameterError(
                f"key {marker.key.key_id} marks alphabet {name!r}, not proteins: give a key for "
                "proteins"
            )
        if marker.delta == 0:
            raise ParameterError("delta is 0: a bias file would mark nothing: give a positive one")
        chosen = fresh_seed() if seed is None else seed
        keys = plan.keys(marker, chosen, [0], None if nonce is None else [nonce])[0]
        return cls(file, plan, marker.bias(keys, temperature=temperature))

    def promoted(self) -> dict[str, dict[str, float]]:
        """Return {"A12": {"G": 1.0}}: the letters with a bias, for each residue in order."""
        backbone = self.plan.backbone
        named = {}
        for row in np.flatnonzero(self.bias.any(axis=1)):
            residue = backbone.chain_ids[backbone.chain_index[row]] + backbone.residue_labels[row]
            letters = np.flatnonzero(self.bias[row])
            named[residue] = {PROTEIN.letters[i]: float(self.bias[row, i]) for i in letters}
        return named


@dataclass(frozen=True)
class Tool:
    """A program that accepts per-residue bias: how it names chains and residues, and its usage."""

    name: str
    content: Callable[[Sequence[Biased]], Any]  # the content of the JSON file
    key: Callable[[Path], str]  # the name by which it distinguishes structures
    chain_id: re.Pattern[str]  # chains that it can name
    residue: re.Pattern[str]  # residues that it can name
    usage: str  # how to pass the bias of one structure
    usage_of_several: str

    def text(self, structures: Sequence[Biased]) -> str:
        """Return the contents of the file; raise an error if the program could not use it."""
        seen: dict[str, Path] = {}
        for structure in structures:
            self._check_structure(structure)
            key = self.key(structure.file)
            if key in seen:
                raise InputError(
                    f"{structure.file}: {self.name} cannot tell it from {seen[key]}: rename one of "
                    "them or leave it out"
                )
            seen[key] = structure.file
        return json.dumps(self.content(structures)) + "\n"

    def nameless(self, structure: Biased) -> list[str]:
        """Return the residues that get no bias because this program cannot name them."""
        return [r for r in structure.promoted() if not self.residue.fullmatch(r)]

    def _check_structure(self, structure: Biased) -> None:
        if structure.file.name.lower().removesuffix(".gz").endswith(_MMCIF_SUFFIXES):
            raise InputError(
                f"{structure.file}: {self.name} does not find residues of an mmCIF file by the "
                f"author's numbers: convert it to PDB, and give that file here and to {self.name}"
            )
        for chain in structure.plan.chains:
            if not self.chain_id.fullmatch(chain):
                raise InputError(
                    f"{structure.file}: {self.name} has no name for chain {chain!r}: rename it "
                    "to a letter in the file"
                )
        if len(self.nameless(structure)) == len(structure.promoted()):
            raise InputError(
                f"{structure.file}: {self.name} cannot name any designed residue: renumber them "
                "from 1"
            )


def _proteinmpnn_name(file: Path) -> str:
    """Return ProteinMPNN's name of a structure: the file name without its last four characters."""
    return re.sub(r"\.gz$", "", file.name, flags=re.IGNORECASE)[:-4]


def _proteinmpnn(structures: Sequence[Biased]) -> dict[str, dict[str, list[list[float]]]]:
    return {
        _proteinmpnn_name(s.file): {chain: _rows(s, chain) for chain in s.plan.chains}
        for s in structures
    }


def _rows(structure: Biased, chain: str) -> list[list[float]]:
    """Return a row for each residue of a chain and for each missing number."""
    backbone = structure.plan.backbone
    rows: list[list[float]] = []
    previous: int | None = None
    for row in range(*backbone.chain(chain).indices(structure.plan.length)):
        number = int(_NUMBER.match(backbone.residue_labels[row])[0])  # type: ignore[index]
        if previous is not None:  # ProteinMPNN fills every gap; our reader leaves long ones open
            rows += [[0.0] * PROTEIN.size] * (number - previous - 1)
        rows.append(structure.bias[row].tolist())
        previous = number
    return rows


def _ligandmpnn(structures: Sequence[Biased]) -> dict[str, Any]:
    if len(structures) == 1:
        return structures[0].promoted()
    return {str(s.file): s.promoted() for s in structures}


def _foundry(structures: Sequence[Biased]) -> Any:
    if len(structures) == 1:
        return _foundry_bias(structures[0])
    return [
        {"structure_path": str(s.file), "bias_per_residue": _foundry_bias(s)} for s in structures
    ]


def _foundry_bias(structure: Biased) -> dict[str, dict[str, float]]:
    return {
        residue: {_THREE_LETTERS[letter]: value for letter, value in letters.items()}
        for residue, letters in structure.promoted().items()
        if _FOUNDRY_RESIDUE.fullmatch(residue)  # any other name is an error in foundry
    }


_ANY_RESIDUE = re.compile(".+")
_FOUNDRY_RESIDUE = re.compile(r"[A-Za-z]+\d+[A-Za-z]*")
TOOLS = {
    "proteinmpnn": Tool(
        name="ProteinMPNN",
        content=_proteinmpnn,
        key=_proteinmpnn_name,
        chain_id=_ONE_CHARACTER,
        residue=_ANY_RESIDUE,
        usage="--bias_by_res_jsonl {file} (package proteinmpnn: --bias-by-res-jsonl)",
        usage_of_several="--bias_by_res_jsonl {file} (package proteinmpnn: --bias-by-res-jsonl)",
    ),
    "ligandmpnn": Tool(
        name="LigandMPNN",
        content=_ligandmpnn,
        key=str,
        chain_id=_ONE_CHARACTER,
        residue=_ANY_RESIDUE,
        usage="--bias_AA_per_residue {file}",
        usage_of_several="--bias_AA_per_residue_multi {file}, and the paths as they are written",
    ),
    "foundry": Tool(
        name="foundry",
        content=_foundry,
        key=str,
        chain_id=_LETTERS,
        residue=_FOUNDRY_RESIDUE,
        usage='--bias_per_residue "$(cat {file})", or as bias_per_residue of an input in its '
        "--config_json",
        usage_of_several='the contents of {file} as "inputs" in its --config_json',
    ),
}
