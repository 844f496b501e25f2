import lzma
from pathlib import Path

import numpy as np
import pytest

from patternmark.core.alphabet import PROTEIN
from patternmark.errors import InputError
from patternmark_lab.structure.chains import Chain, prepare, read_chains, write_chains
from patternmark_lab.structure.similar import have_relatives

HELD_OUT = Path(__file__).parent / "held_out.tsv"


def test_a_table_is_written_and_read(tmp_path: Path) -> None:
    chains = [
        Chain("1ABC_1_A", "ACDE", "LHHL", 3, "train"),
        Chain("2ABC_1_A", "AC", "LL", 0, "test"),
    ]
    for name in ("chains.tsv", "chains.tsv.xz"):
        write_chains(tmp_path / name, chains)
        assert read_chains(tmp_path / name) == chains
    (tmp_path / "raw.tsv").write_text("x\tACDE\tLHHL\n")
    assert read_chains(tmp_path / "raw.tsv") == [Chain("x", "ACDE", "LHHL")]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("x ACDE LHHL\n", "line 1: expected id, sequence and DSSP"),
        ("x\tACDE\tLHHL\ny\tACDE\tLHH\n", "line 2: y: sequence and DSSP"),
        ("x\tACDE\tLHHC\n", "line 1: x: 'C' is not a state"),
        ("x\tACDE\tLHHL\t1\tlearn\n", "line 1: x: expected a family number and a part"),
        ("x\tACDE\tLHHL\t1\ttest\ny\tACDE\tLHHL\n", "some lines have a family"),
        ("", "the file is empty"),
    ],
)
def test_bad_tables_are_named(tmp_path: Path, content: str, message: str) -> None:
    file = tmp_path / "bad.tsv"
    file.write_text(content)
    with pytest.raises(InputError, match=message):
        read_chains(file)


def test_damaged_and_missing_files_are_named(tmp_path: Path) -> None:
    file = tmp_path / "cut.tsv.xz"
    file.write_bytes(lzma.compress(b"x\tACDE\tLHHL\n" * 999)[:-20])
    with pytest.raises(InputError, match=r"cut.tsv.xz: cannot be read"):
        read_chains(file)
    with pytest.raises(InputError, match="cannot be read: No such file"):
        read_chains(tmp_path / "none.tsv")


def test_parts_share_no_family_and_no_relative() -> None:
    rng = np.random.default_rng(0)
    chains = []
    for number in range(150):  # families of one to three chains, with a near-copy now and then
        ids = rng.integers(0, 20, size=150)
        for copy in range(1 + number % 3):
            own = np.where(rng.random(150) < 0.25 * copy, rng.integers(0, 20, size=150), ids)
            text = "".join(PROTEIN.letters[i] for i in own)
            chains.append(Chain(f"{number}_{copy}", text, "L" * 150))
    chains.append(Chain("twin", chains[0].sequence[:-2] + "AA", "L" * 150))
    excluded = chains[-2].sequence
    found = prepare(chains, [excluded])
    assert len({"twin", chains[0].id} & {chain.id for chain in found}) <= 1
    parts = {part: [c for c in found if c.part == part] for part in ("train", "valid", "test")}
    assert min(map(len, parts.values())) >= 1
    families = [{c.family for c in members} for members in parts.values()]
    assert sum(map(len, families)) == len(set.union(*families))
    for chain in parts["train"]:
        assert chain.id.split("_")[0] != chains[-2].id.split("_")[0]
    held_out = [c.sequence for c in parts["valid"] + parts["test"]]
    learned = [c.sequence for c in parts["train"]]
    assert not have_relatives(learned, [*held_out, excluded]).any()
    assert prepare(chains, [excluded]) == found  # chance has no part in it
