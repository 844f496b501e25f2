import re
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from patternmark.core.alphabet import PROTEIN
from patternmark.io.structures import Backbone, read_backbone
from patternmark.quality.dssp import dssp, dssp_three

PACKAGE = find_spec("tmtools")
if PACKAGE is None or PACKAGE.origin is None:
    pytest.skip("pip install tmtools", allow_module_level=True)
FILE = Path(PACKAGE.origin).parent / "data" / "2gtl.pdb"

# What the DSSP program finds in 2GTL, as the Protein Data Bank published it: a globin, and a linker
# with a coiled coil, an LDL receptor's module and a barrel of strands.
PUBLISHED = {
    "A": "LLLLHHHHHHHHHHHHHHSLLSSHHHHHHHHHHHHHHHHHHLGGGGGGGGGGTTTSTTLSHHHHHHHHHHHHHHHHHTTT"
    "TSHHHHHHHHHHHHHHHHSSTTLLHHHHHHHHHHHHHHHHHHSSSLLHHHHHHHHHHHHHHHTSSLL",
    "M": "LLTTTHHHHHHHHHHHHHHHHHHHHHHHTSLLLLLHHHHHHHHHHHHTTSLLLLLTTEEELSSSSLLEEEGGGTTSSSLL"
    "SSSSTTTSHHHHLLGGGLTTLEEEEEEEESSSLSLLSEEEEEEEEEELLLTTLTTBLLEEEEEEEESLTTTLLEEEEEEE"
    "EEEETTTTEEEEEELSSSSLLLLEEEELTTSSSSEEEEEEEETTTTEEEEEEEEEEL",
}


@pytest.fixture(scope="module")
def whole() -> Backbone:
    return read_backbone(FILE)


@pytest.fixture(scope="module")
def globin(whole: Backbone) -> Backbone:
    return _rows(whole, np.arange(len(whole.sequence))[whole.chain("A")])


def _rows(backbone: Backbone, rows: np.ndarray) -> Backbone:
    return replace(
        backbone,
        coordinates=backbone.coordinates[rows],
        sequence=backbone.sequence[rows],
        chain_index=backbone.chain_index[rows],
        residue_labels=tuple(backbone.residue_labels[i] for i in rows),
    )


@pytest.mark.parametrize("chain", sorted(PUBLISHED))
def test_published_structure_is_found(whole: Backbone, chain: str) -> None:
    assert dssp(whole)[whole.chain(chain)] == PUBLISHED[chain]


def test_it_does_not_depend_on_where_a_structure_lies(globin: Backbone) -> None:
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0]
    turn *= np.linalg.det(turn)  # no mirror
    moved = globin.coordinates @ turn.T.astype(np.float32) + np.float32(17.0)
    assert dssp(replace(globin, coordinates=moved)) == dssp(globin)


def test_break_ends_a_helix(globin: Backbone) -> None:
    before = dssp(globin)
    helix = max(re.finditer("H+", before), key=lambda found: len(found[0]))
    middle = (helix.start() + helix.end()) // 2
    xyz = globin.coordinates.copy()
    xyz[middle] = np.nan
    broken = dssp(replace(globin, coordinates=xyz))
    assert broken[middle] == "L"
    assert "HHHH" not in broken[middle - 2 : middle + 3]
    assert broken[: helix.start()] == before[: helix.start()]
    assert broken[helix.end() + 4 :] == before[helix.end() + 4 :]


def test_proline_gives_no_bond(globin: Backbone) -> None:
    helix = max(re.finditer("H+", dssp(globin)), key=lambda found: len(found[0]))
    sequence = globin.sequence.copy()
    sequence[helix.start() : helix.end() + 4] = PROTEIN.letters.index("P")
    changed = dssp(replace(globin, sequence=sequence))
    assert "H" not in changed[helix.start() : helix.end()]


def test_strand_needs_its_partner(whole: Backbone) -> None:
    """One strand of the barrel alone is no strand."""
    rows = np.arange(len(whole.sequence))[whole.chain("M")]
    strand = max(re.finditer("E+", PUBLISHED["M"]), key=lambda found: len(found[0]))
    alone = dssp(_rows(whole, rows[strand.start() : strand.end()]))
    assert not set(alone) & {"E", "B", "H"}


def test_short_and_empty_chains(globin: Backbone) -> None:
    for length in range(6):
        assert dssp(_rows(globin, np.arange(length))) == "L" * length or length == 5
    assert dssp_three(_rows(globin, np.arange(20)))[:4] == "CCCC"
