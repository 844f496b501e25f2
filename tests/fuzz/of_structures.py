"""Structures: PDB and mmCIF, plain and gzipped."""

from __future__ import annotations

import gzip
from functools import cache, partial
from pathlib import Path
from random import Random

import numpy as np

from patternmark.io.structures import read_backbone
from tests.fuzz.mutations import Mutator
from tests.fuzz.targets import Target

_ROWS = (  # letter, name, chain, number and insertion code
    ("ATOM", "MET", "A", "   1 "), ("ATOM", "LYS", "A", "   2 "), ("ATOM", "VAL", "A", "   2A"),
    ("ATOM", "LEU", "A", "   5 "), ("HETATM", "MSE", "A", "   6 "), ("ATOM", "GLY", "B", "  -3 "),
    ("ATOM", "UNK", "B", "  -2 "), ("ATOM", "ALA", " ", "   1 "),
)  # fmt: skip
_HETERO = (
    "HETATM  900  O   HOH A 201      11.000  12.000  13.000  1.00 10.00           O",
    "HETATM  901 FE   HEM A 202      11.000  12.000  13.000  1.00 10.00          FE",
    "ATOM    902  P    DA C   1      11.000  12.000  13.000  1.00 10.00           P",
)
_CIF_COLUMNS = (
    *("group_PDB", "id", "type_symbol", "label_atom_id", "label_alt_id", "label_comp_id"),
    *("label_asym_id", "label_entity_id", "label_seq_id", "pdbx_PDB_ins_code", "Cartn_x"),
    *("Cartn_y", "Cartn_z", "occupancy", "B_iso_or_equiv", "auth_seq_id", "auth_asym_id"),
    "pdbx_PDB_model_num",
)


@cache
def pdb() -> bytes:
    """Return a small PDB file with something of everything."""
    lines = ["HEADER    MADE FOR TESTS", "MODEL        1"]
    serial = 0
    for row, (kind, name, chain, place) in enumerate(_ROWS):
        for column, atom in enumerate((" N  ", " CA ", " C  ", " O  ")):
            serial += 1
            x, y, z = 3.8 * row + 0.5 * column, 1.5 * column, 0.3 * row
            lines.append(
                f"{kind:<6}{serial:>5} {atom} {name} {chain}{place}   {x:8.3f}{y:8.3f}{z:8.3f}"
                f"  1.00 20.00          {atom.strip()[0]:>2}"
            )
    return "\n".join([*lines, *_HETERO, "TER", "ENDMDL", "END", ""]).encode()


@cache
def cif() -> bytes:
    """Return the same as mmCIF."""
    lines = ["data_MADE", "#", "loop_", *(f"_atom_site.{name}" for name in _CIF_COLUMNS)]
    serial = 0
    for row, (kind, name, chain, place) in enumerate(_ROWS):
        number, code = place[:4].strip(), place[4:].strip() or "?"
        for column, atom in enumerate(("N", "CA", "C", "O")):
            serial += 1
            asym = chain.strip() or "C"
            at = f"{3.8 * row + 0.5 * column:.3f} {1.5 * column:.3f} {0.3 * row:.3f}"
            lines.append(
                f"{kind} {serial} {atom[0]} {atom} . {name} {asym} 1 {row + 1} {code} {at} 1.0 "
                f"20.0 {number} {asym} 1"
            )
    return "\n".join([*lines, "#", ""]).encode()


def _read(name: str, content: bytes, folder: Path) -> list[str]:
    path = folder / name
    path.write_bytes(content)
    found = read_backbone(path)
    size = len(found.sequence)
    assert found.coordinates.shape == (size, 4, 3)
    assert len(found.chain_index) == len(found.residue_labels) == size > 0
    assert found.is_complete.any()
    assert (np.diff(found.chain_index) >= 0).all()
    assert len(found.fingerprint) == 32
    for chain in found.chain_ids:
        assert chain.isprintable()
        assert found.letters(chain)
    return list(found.warnings)


def _make_gzipped(mutator: Mutator, chance: Random) -> bytes:
    if chance.random() < 0.5:
        return mutator.make(chance)
    return gzip.compress(Mutator([pdb(), cif()]).make(chance), 1, mtime=0)


_PDB_WORDS = (b"\nATOM  ", b"\nHETATM", b"\nMODEL ", b"\nENDMDL", b"\nTER", b"A 999", b"99999",
              b"******", b"     ", b"     nan", b"\nCRYST1", b"\nSEQRES", b"\nANISOU", b"\nMODRES",
              b"\nSSBOND", b"\nLINK  ", b"\nHELIX ", b"\nREMARK 350")  # fmt: skip
_CIF_WORDS = (b"loop_\n", b"data_x\n", b"_atom_site.id ", b"\n;", b"'", b" ? ", b" . ", b"#",
              b"_cell.length_a nan\n", b"save_x\n", b"_struct_conn.id 1\n", b" 1e400 ")  # fmt: skip

TARGETS = (
    Target("pdb", partial(_read, "x.pdb"), lambda: [pdb()], _PDB_WORDS, share=50,
           needs=("gemmi",)),
    Target("mmcif", partial(_read, "x.cif"), lambda: [cif()], _CIF_WORDS, share=50,
           needs=("gemmi",)),
    Target("structure-gz", partial(_read, "x.pdb.gz"),
           lambda: [gzip.compress(pdb(), mtime=0), gzip.compress(cif(), mtime=0)],
           (b"\x1f\x8b\x08",), _make_gzipped, share=20, needs=("gemmi",)),
)  # fmt: skip
