"""Read protein backbones from PDB and mmCIF files, plain or gzipped.

Rows, gaps and coordinates are those of the published ProteinMPNN parser, because one row more or
less changes the neighbours in short chains, and so all probabilities. There are two exceptions:
water, DNA and RNA are not read as protein, and gaps of thousands of residues get no rows.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from patternmark.core.alphabet import PROTEIN
from patternmark.errors import InputError, PatternmarkError
from patternmark.io.structure_files import read_structure_bytes, structure_name

if TYPE_CHECKING:
    import gemmi

__all__ = ["Backbone", "read_backbone"]

_ATOMS = ("N", "CA", "C", "O")
_LETTERS = {
    "ALA": "A", "CYS": "C", "ASP": "D", "GLU": "E", "PHE": "F", "GLY": "G", "HIS": "H",
    "ILE": "I", "LYS": "K", "LEU": "L", "MET": "M", "ASN": "N", "PRO": "P", "GLN": "Q",
    "ARG": "R", "SER": "S", "THR": "T", "VAL": "V", "TRP": "W", "TYR": "Y", "MSE": "M",
}  # fmt: skip
_LONGEST_FILL = 1000  # residues; a longer gap is a change of numbering, not a missing loop
_NAMED_IN_A_WARNING = 5
_FARTHEST = 1e6  # Angstrom from the origin: no atom of a structure lies there
_MOST_ROWS = 2**20  # residues and gaps: the largest entries of the PDB have 320,000 residues
_NOT_IN_A_CHAIN_ID = re.compile(r"[\s,=\[\]]")

_Atoms = list[list[float]]  # [4, 3]: N, CA, C, O; nan where an atom is missing
_Place = tuple[int, str]  # author number and insertion code; sorts as '' < 'A' < 'B'
_MISSING = [math.nan] * 3


@dataclass(frozen=True, eq=False)
class Backbone:
    """The backbone of one structure: the input of an inverse folding model."""

    name: str  # the name of the file without its suffixes
    coordinates: NDArray[np.float32]  # [L, 4, 3]: N, CA, C, O; nan where an atom is missing
    sequence: NDArray[np.int64]  # [L]: ids of patternmark.PROTEIN; 20 (X) if unknown
    chain_index: NDArray[np.int64]  # [L]: index into chain_ids, ascending
    chain_ids: tuple[str, ...]  # the author's, sorted
    residue_labels: tuple[str, ...]  # [L]: author number with insertion code: "10", "10A", "-3"
    warnings: tuple[str, ...] = ()  # messages about residues that were left out or filled in

    @property
    def is_complete(self) -> NDArray[np.bool_]:
        """Whether all four atoms of each residue are known: [L]."""
        return np.asarray(np.isfinite(self.coordinates).all(axis=(1, 2)))

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the coordinates. Unlike the name, it is different for every backbone."""
        return sha256(self.coordinates.astype("<f4").tobytes()).hexdigest()[:32]

    def chain(self, chain_id: str) -> slice:
        """Return the rows of one chain."""
        if chain_id not in self.chain_ids:
            raise InputError(
                f"{self.name}: there is no protein chain {chain_id!r}; "
                f"the chains are {', '.join(_shown(c) for c in self.chain_ids)}"
            )
        index = self.chain_ids.index(chain_id)
        start, stop = np.searchsorted(self.chain_index, [index, index + 1])
        return slice(int(start), int(stop))

    def position(self, chain_id: str, label: str) -> int:
        """Return the row of a residue, given by its author number and insertion code."""
        rows = self.chain(chain_id)
        if (chain_id, label) not in self._row_of:
            first, last = self.residue_labels[rows.start], self.residue_labels[rows.stop - 1]
            raise InputError(
                f"{self.name}: chain {_shown(chain_id)}: there is no residue {label!r}; "
                f"the residues run from {first} to {last}"
            )
        return self._row_of[chain_id, label]

    def letters(self, chain_id: str) -> str:
        """Return the sequence of one chain, with X for gaps."""
        return "".join(PROTEIN.letters[symbol] for symbol in self.sequence[self.chain(chain_id)])

    @cached_property
    def _row_of(self) -> dict[tuple[str, str], int]:
        chains = (self.chain_ids[index] for index in self.chain_index)
        return {key: i for i, key in enumerate(zip(chains, self.residue_labels, strict=True))}


def read_backbone(path: str | Path) -> Backbone:
    """Read the protein chains of the first model of a PDB or mmCIF file."""
    path = Path(path)
    structure = _parse(read_structure_bytes(path), path)
    if not len(structure) or not len(structure[0]):
        raise InputError(f"{path}: no atom found; give a structure in PDB or mmCIF format")
    warnings: list[str] = []
    if len(structure) > 1:
        warnings.append(
            f"the file has {len(structure)} models; only the first is read: split the file to "
            "read the others"
        )
    chains: list[_Chain] = []
    ligands: list[str] = []
    for unread in sorted(structure[0], key=lambda chain: chain.name):
        residues = _sort_out(unread, path)
        rows_left = _MOST_ROWS - sum(len(chain.labels) for chain in chains)
        chain = _fill_gaps(unread.name, residues, path, rows_left)
        if chain.labels:
            _check_chain_id(chain.id, path)
            _check_backbone(chain, residues, path)
            chains.append(chain)
        warnings += chain.warnings
        ligands += residues.ligands
    if ligands:
        warnings.append(f"the model sees no ligands; left out: {_some(ligands)}")
    if not chains:
        found = "; ".join(warnings) or "give a structure of a protein"
        raise InputError(f"{path}: there is no protein chain: {found}")
    atoms = [residue for chain in chains for residue in chain.atoms]
    return Backbone(
        name=structure_name(path),
        coordinates=np.array(atoms, dtype=np.float32),
        sequence=PROTEIN.encode("".join(chain.letters for chain in chains)),
        chain_index=np.repeat(np.arange(len(chains)), [len(chain.labels) for chain in chains]),
        chain_ids=tuple(chain.id for chain in chains),
        residue_labels=tuple(label for chain in chains for label in chain.labels),
        warnings=tuple(warnings),
    )


def _parse(content: bytes, path: Path) -> gemmi.Structure:
    """Parse PDB or mmCIF; the content decides which, not the name of the file."""
    try:
        import gemmi  # noqa: PLC0415  (the protein extra)
    except ImportError:
        raise PatternmarkError(
            "reading structures needs gemmi: pip install 'patternmark[protein]'"
        ) from None
    lines = (line.strip() for line in io.BytesIO(content))
    first = next((line for line in lines if line and not line.startswith(b"#")), b"")
    try:
        if first.lower().startswith(b"data_"):
            document = gemmi.cif.read_string(content)
            block = next((b for b in document if b.find_values("_atom_site.id")), document[0])
            structure = gemmi.make_structure_from_block(block)
        else:
            _check_columns(content, path)
            structure = gemmi.read_pdb_string(content)
        structure.merge_chain_parts()  # a PDB file may have a chain twice, first without ligands
        structure.add_entity_types()  # to distinguish modified residues from ligands
    except MemoryError:
        raise InputError(
            f"{path}: reading it needs more memory than there is: keep only the chains that you "
            "need"
        ) from None
    except (RuntimeError, ValueError, LookupError) as error:
        reason = str(error).strip().partition("\n")[0].rstrip(":")
        reason = re.sub(r"^data:(\d+):\d+\(\d+\)", r"line \1", reason)  # gemmi's form
        raise InputError(f"{path}: damaged or cut short: {reason}: get the file again") from None
    return structure


def _check_columns(content: bytes, path: Path) -> None:
    """Check the numbers of a PDB file, since gemmi reads those it cannot parse as zero."""
    for number, line in enumerate(io.BytesIO(content), start=1):
        if not line.startswith((b"ATOM  ", b"HETATM")):
            continue
        residue = line[22:26]
        try:
            float(line[30:38]), float(line[38:46]), float(line[46:54])
            if not residue[:1].isalpha():  # gemmi reads letters, which are numbers over 9999
                int(residue)
        except ValueError:
            place = line[17:27].decode("latin-1").strip()
            raise InputError(
                f"{path}: line {number}: residue {place!r}: the residue number or a coordinate "
                "is not a number or not in its columns: correct or remove the line"
            ) from None


@dataclass(frozen=True)
class _Residue:
    """One residue of a protein, without objects of gemmi."""

    place: _Place
    name: str
    atoms: _Atoms

    @property
    def lacking(self) -> list[str]:
        return [name for name, at in zip(_ATOMS, self.atoms, strict=True) if not _is_there(at)]

    def __str__(self) -> str:
        return f"{self.name} {_label(self.place)}"


@dataclass(frozen=True)
class _Residues:
    """The residues of one chain by kind, without water."""

    kept: dict[_Place, _Residue] = field(default_factory=dict)
    modified: dict[_Place, _Residue] = field(default_factory=dict)  # in the polymer, but HETATM
    twice: list[_Residue] = field(default_factory=list)  # second with a number, not an alternate
    alternates: list[_Residue] = field(default_factory=list)  # kept with the first of several
    nucleic: list[str] = field(default_factory=list)  # names of residues of DNA or RNA
    ligands: list[str] = field(default_factory=list)  # such as "HEM A160"; also ions and caps


def _sort_out(chain: gemmi.Chain, path: Path) -> _Residues:
    """Separate the protein from all else; of alternates, keep the first in the file."""
    import gemmi  # noqa: PLC0415

    residues = _Residues()
    for raw in chain:
        # One lookup for each atom: like the published parser, take the first of its alternates.
        found = [raw.find_atom(atom, "*") for atom in _ATOMS]
        has_backbone = all(found[:3])
        is_het = raw.het_flag == "H" and raw.name != "MSE"
        if is_het and not (has_backbone and raw.entity_type == gemmi.EntityType.Polymer):
            if not raw.is_water():
                residues.ligands.append(f"{raw.name} {chain.name}{raw.seqid}")
            continue
        if not has_backbone and raw.name not in _LETTERS:
            if gemmi.find_tabulated_residue(raw.name).is_nucleic_acid():
                residues.nucleic.append(raw.name)
            continue
        if raw.seqid.num is None:
            raise InputError(
                f"{path}: chain {_shown(chain.name)}: a residue {raw.name} has no number: "
                "number the residues of the file"
            )
        atoms = [_position(atom) if atom else _MISSING for atom in found]
        residue = _Residue((raw.seqid.num, raw.seqid.icode.strip()), raw.name, atoms)
        rows = residues.modified if is_het else residues.kept
        is_first = rows.setdefault(residue.place, residue) is residue
        has_alternates = any(atom and atom.has_altloc() for atom in found)
        if is_first and has_alternates:
            residues.alternates.append(residue)
        elif not is_first and not has_alternates:
            residues.twice.append(residue)
    for place in residues.kept.keys() & residues.modified.keys():
        del residues.modified[place]  # it is an alternate of a residue that is kept
    return residues


@dataclass(frozen=True)
class _Chain:
    """The rows of one chain."""

    id: str
    labels: list[str]
    letters: str
    atoms: list[_Atoms]
    warnings: list[str]


def _fill_gaps(chain_id: str, residues: _Residues, path: Path, most: int) -> _Chain:
    """Sort the residues of a chain by number, and make empty rows for missing numbers."""
    labels: list[str] = []
    letters: list[str] = []
    atoms: list[_Atoms] = []
    filled: list[int] = []
    jumps: list[str] = []
    previous = min(residues.kept, default=(0, ""))
    for place, residue in sorted(residues.kept.items()):
        missing = range(previous[0] + 1, place[0])
        if len(missing) > _LONGEST_FILL:
            jumps.append(f"{_label(previous)} to {_label(place)}")
            missing = range(0)
        if len(labels) + len(missing) >= most:
            raise InputError(
                f"{path}: has more than {_MOST_ROWS:,} residues, counting those that are missing "
                "in its numbering: keep only the chains that you need"
            )
        filled += missing
        labels += [*map(str, missing), _label(place)]
        letters += ["X"] * len(missing) + [_LETTERS.get(residue.name, "X")]
        atoms += [[_MISSING] * len(_ATOMS)] * len(missing) + [residue.atoms]
        previous = place
    warnings = [*_warn_of_residues(residues, filled), *_warn_of_gaps(residues, filled, jumps)]
    prefix = f"chain {_shown(chain_id)}: "
    return _Chain(chain_id, labels, "".join(letters), atoms, [prefix + w for w in warnings])


def _warn_of_residues(residues: _Residues, filled: list[int]) -> Iterator[str]:
    if residues.nucleic:
        yield f"{len(residues.nucleic)} residue(s) of DNA or RNA are left out"
    if residues.alternates:
        yield f"of alternate positions only the first is read: {_some(residues.alternates)}"
    if residues.twice:
        yield f"second residue(s) with the same number are left out: {_some(residues.twice)}"
    if unknown := [r for _, r in sorted(residues.kept.items()) if r.name not in _LETTERS]:
        yield f"residue(s) of unknown type are read as X: {_some(unknown)}"
    numbers = {(number, "") for number in filled}
    modified = sorted(residues.modified.items())
    if inside := [r for place, r in modified if place in numbers]:
        yield (
            f"modified residue(s) are read as X without coordinates: {_some(inside)}; to have "
            "them designed, write them as ATOM of a standard residue"
        )
    if outside := [r for place, r in modified if place not in numbers]:
        # At an end or with an insertion code: the published parser makes no row for them.
        yield f"modified residue(s) are left out: {_some(outside)}"
    if incomplete := [r for _, r in sorted(residues.kept.items()) if r.lacking]:
        named = [f"{r} (no {', '.join(r.lacking)})" for r in incomplete]
        yield (
            f"{len(incomplete)} residue(s) lack atoms of the backbone and are neither read by the "
            f"model nor designed: {_some(named)}; to have them designed, build these atoms"
        )


def _warn_of_gaps(residues: _Residues, filled: list[int], jumps: list[str]) -> Iterator[str]:
    missing = [number for number in filled if (number, "") not in residues.modified]
    if missing:
        starts = [n for i, n in enumerate(missing) if i == 0 or missing[i - 1] != n - 1]
        ends = [
            n for i, n in enumerate(missing) if i + 1 == len(missing) or missing[i + 1] != n + 1
        ]
        spans = [f"{a} to {b}" if a < b else f"{a}" for a, b in zip(starts, ends, strict=True)]
        yield f"{len(missing)} missing residue(s) are filled in as X: {_some(spans)}"
    if jumps:
        yield (
            f"the numbering jumps by more than {_LONGEST_FILL} and is not filled in, so the model "
            f"treats these as neighbours: {_some(jumps)}"
        )


def _check_chain_id(chain_id: str, path: Path) -> None:
    """Refuse an id that would end a fact, or the line, in the header of a design."""
    if not chain_id.isprintable() or _NOT_IN_A_CHAIN_ID.search(chain_id):
        raise InputError(
            f"{path}: chain {chain_id!r}: headers of designs cannot hold this id: rename the "
            "chain with letters or digits"
        )


def _check_backbone(chain: _Chain, residues: _Residues, path: Path) -> None:
    """Raise an error for a chain in which no residue is complete: the model cannot read it."""
    lacking = [set(residue.lacking) for residue in residues.kept.values()]
    if not all(lacking):
        return
    only_ca = all(names == {"N", "C", "O"} for names in lacking)
    raise InputError(
        f"{path}: chain {_shown(chain.id)}: the model needs N, CA, C and O, but "
        + ("this chain has only CA" if only_ca else "no residue of this chain has all four")
        + "; give a structure with the whole backbone, or remove the chain from the file"
    )


def _label(place: _Place) -> str:
    return f"{place[0]}{place[1]}"


def _shown(chain_id: str) -> str:
    return chain_id or "without a name"


def _position(atom: gemmi.Atom) -> list[float]:
    """Return where an atom is; a coordinate that is no place (inf, 1e308) makes it missing."""
    found: list[float] = atom.pos.tolist()
    return found if all(abs(x) < _FARTHEST for x in found) else _MISSING


def _is_there(position: list[float]) -> bool:
    return all(map(math.isfinite, position))


def _some(things: Sequence[object]) -> str:
    """Return the names of the first few things, and how many more there are."""
    text = ", ".join(str(thing) for thing in things[:_NAMED_IN_A_WARNING])
    rest = len(things) - _NAMED_IN_A_WARNING
    return f"{text} and {rest} more" if rest > 0 else text
