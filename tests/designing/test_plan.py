"""Which residues are designed, fixed and tied, and which keys they get."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from patternmark import PROTEIN, InputError, Key, Marker, ParameterError, Profile
from patternmark.core.alphabet import NO_KEY
from patternmark.core.blocks import MAX_BLOCKS
from patternmark.core.schemes import Blocks
from patternmark.core.secret import Secret
from patternmark.designing.plan import DesignPlan, plan_design, residue_bias_table
from patternmark.io.structures import Backbone
from tests.models.published import real_backbone

pytest.importorskip("gemmi", reason="pip install 'patternmark[protein]'")
torch.set_num_threads(1)


def backbone_of(missing: tuple[int, ...] = (), **chains: tuple[str, list[str] | range]) -> Backbone:
    """Chains as name=(letters, labels); rows `missing` have no atoms."""
    total = sum(len(letters) for letters, _ in chains.values())
    xyz = np.zeros((total, 4, 3), dtype=np.float32)
    xyz[list(missing)] = np.nan
    return Backbone(
        name="toy",
        coordinates=xyz,
        sequence=PROTEIN.encode("".join(letters for letters, _ in chains.values())),
        chain_index=np.repeat(np.arange(len(chains)), [len(x) for x, _ in chains.values()]),
        chain_ids=tuple(chains),
        residue_labels=tuple(str(label) for _, labels in chains.values() for label in labels),
    )


@pytest.fixture
def toy() -> Backbone:
    """Rows 0..9 are A-2 to A7 with an insertion, 10..14 B5 to B9."""
    labels = ["-2", "-1", "0", "1", "2", "2A", "2B", "5", "6", "7"]
    return backbone_of(A=("MKTAYIAKQR", labels), B=("MKTAY", range(5, 10)))


def free_rows(plan: DesignPlan) -> list[int]:
    return np.flatnonzero(plan.designed).tolist()


def fixed_rows(backbone: Backbone, fixed: str) -> list[int]:
    return np.flatnonzero(~plan_design(backbone, fixed=fixed).designed).tolist()


def test_all_chains_are_designed_unless_some_are_named(toy: Backbone) -> None:
    plan = plan_design(toy)
    assert plan.chains == ("A", "B")
    assert plan.designed.all()
    assert plan.groups == tuple((r,) for r in range(15))
    assert plan.printed.tolist() == list(range(15))
    plan = plan_design(toy, chains=["B"])
    assert plan.chains == ("B",)
    assert free_rows(plan) == [10, 11, 12, 13, 14]
    assert plan.printed.tolist() == [10, 11, 12, 13, 14]
    assert plan_design(toy, chains=["B", "A", "B"]).chains == ("A", "B")


def test_a_chain_that_is_not_there(toy: Backbone) -> None:
    with pytest.raises(InputError, match=r"toy: there is no protein chain 'Q'.*A, B"):
        plan_design(toy, chains=["A", "Q"])


def test_residues_without_atoms_are_never_designed() -> None:
    backbone = backbone_of(A=("MKXAY", range(1, 6)), missing=(2, 4))
    plan = plan_design(backbone)
    assert free_rows(plan) == [0, 1, 3]
    assert plan.printed.tolist() == [0, 1, 2, 3, 4]
    plan = plan_design(backbone, tied="A2,A3,A4")
    assert plan.groups == ((0,), (1, 3))


@pytest.mark.parametrize(
    ("fixed", "rows"),
    [
        ("", []),
        ("A1", [3]),
        ("A-2", [0]),
        ("A-2--1", [0, 1]),
        ("A-1-1", [1, 2, 3]),
        ("A2", [4]),
        ("A2A", [5]),
        ("A2-2B", [4, 5, 6]),
        ("A2A-5", [5, 6, 7]),
        ("B", [10, 11, 12, 13, 14]),
        ("A6-7 B5", [8, 9, 10]),
        ("  A1   A1\tB9 ", [3, 14]),
        ("B5-5", [10]),
    ],
)
def test_fixed_residues(toy: Backbone, fixed: str, rows: list[int]) -> None:
    assert fixed_rows(toy, fixed) == rows


@pytest.mark.parametrize(
    ("fixed", "error", "message"),
    [
        ("C5", ParameterError, "'C5' is not a residue or range .* of chains A, B"),
        ("A100", InputError, "chain A: there is no residue '100'; .* from -2 to 7"),
        ("A2C", InputError, "there is no residue '2C'"),
        ("A1-100", InputError, "there is no residue '100'"),
        ("A3", InputError, "there is no residue '3'"),
        ("A7-1", ParameterError, "the range A7-1 runs backwards"),
        ("A-1--2", ParameterError, "the range A-1--2 runs backwards"),
        ("A2B-2A", ParameterError, "runs backwards"),
        ("A1-", ParameterError, "'A1-' is not a residue"),
        ("A1,B5", ParameterError, "'A1,B5' is not a residue"),
        ("5", ParameterError, "'5' is not a residue"),
        ("A1-B5", ParameterError, "'A1-B5' is not a residue"),
        ("a1", ParameterError, "'a1' is not a residue"),
        ("A B", ParameterError, "toy: no residue is left to design"),
    ],
)
def test_fixed_residues_that_are_not_there(
    toy: Backbone, fixed: str, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        plan_design(toy, fixed=fixed)


def test_chain_ids_of_several_characters() -> None:
    backbone = backbone_of(A=("MKT", range(8, 11)), AB=("AYI", range(1, 4)), B1=("AKQ", range(3)))
    assert fixed_rows(backbone, "A10") == [2]
    assert fixed_rows(backbone, "AB") == [3, 4, 5]
    assert fixed_rows(backbone, "AB2 B12") == [4, 8]


def test_a_longer_chain_id_does_not_hide_a_residue() -> None:
    backbone = backbone_of(A=("MKT", range(10, 13)), A1=("AYI", range(20, 23)))
    assert fixed_rows(backbone, "A10") == [0]  # A1 has no residue 0


def test_tied_residues(toy: Backbone) -> None:
    plan = plan_design(toy, tied="A5-7,B5-7 A1,A-1,B9")
    assert plan.groups == (
        (0,), (1, 3, 14), (2,), (4,), (5,), (6,), (7, 10), (8, 11), (9, 12), (13,),
    )  # fmt: skip
    assert plan.designed.all()


def test_ties_that_share_a_residue_are_one(toy: Backbone) -> None:
    assert (0, 3, 7, 14) in plan_design(toy, tied="A-2,A1 A5,B9 B9,A-2").groups
    assert plan_design(toy, tied="A1,A1,A2").groups == plan_design(toy, tied="A2,A1").groups


def test_whole_chains_can_be_tied() -> None:
    backbone = backbone_of(A=("MKT", range(1, 4)), B=("GGG", range(11, 14)))
    assert plan_design(backbone, tied="A,B").groups == ((0, 3), (1, 4), (2, 5))


@pytest.mark.parametrize(
    ("tied", "message"),
    [
        ("A1", r"'A1' ties nothing: .* \(found lengths \[1\]\)"),
        ("A1-2,B5", r"'A1-2,B5' ties nothing: .*\[1, 2\]"),
        (",", "ties nothing"),
        ("A1,", "ties nothing"),
        ("A1,Q5", "'Q5' is not a residue"),
    ],
)
def test_ties_that_tie_nothing(toy: Backbone, tied: str, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        plan_design(toy, tied=tied)


def test_fixing_one_of_a_group_fixes_it_all_where_letters_are_equal(toy: Backbone) -> None:
    plan = plan_design(toy, tied="A-2,B5", fixed="B5")  # M and M
    assert free_rows(plan) == [*range(1, 10), *range(11, 15)]
    with pytest.raises(ParameterError, match="A-2, B6 are tied and one of them is fixed"):
        plan_design(toy, tied="A-2,B6", fixed="B6")


def test_a_homo_oligomer_ties_residues_of_one_number(tmp_path: Path) -> None:
    backbone = real_backbone(tmp_path, "AEI", last=30)
    plan = plan_design(backbone, homo_oligomer=True)
    size = len(backbone.sequence) // 3
    assert size == 26
    assert plan.groups == tuple((r, r + size, r + 2 * size) for r in range(size))
    two = plan_design(backbone, chains=["A", "I"], homo_oligomer=True)
    assert two.groups == tuple((r, r + 2 * size) for r in range(size))
    assert int(two.designed.sum()) == 2 * size


def test_what_one_copy_lacks_is_designed_alone() -> None:
    backbone = backbone_of(A=("MKTA", range(1, 5)), B=("KXAY", range(2, 6)), missing=(5,))
    plan = plan_design(backbone, homo_oligomer=True)
    assert plan.groups == ((0,), (1, 4), (2,), (3, 6), (7,))


def test_ties_may_be_added_to_a_homo_oligomer() -> None:
    backbone = backbone_of(A=("MKM", range(1, 4)), B=("MKM", range(1, 4)))
    plan = plan_design(backbone, homo_oligomer=True, tied="A1,B3")
    assert plan.groups == ((0, 2, 3, 5), (1, 4))


def test_chains_that_are_no_copies_are_refused(tmp_path: Path) -> None:
    backbone = real_backbone(tmp_path, "ABE", last=30)
    with pytest.raises(ParameterError, match=r"A, B, E are not copies .* 0 of 26 residues"):
        plan_design(backbone, homo_oligomer=True)
    assert plan_design(backbone, chains=["A", "E"], homo_oligomer=True).groups[0] == (0, 56)
    with pytest.raises(ParameterError, match="at least two designed chains"):
        plan_design(backbone, chains=["A"], homo_oligomer=True)
    apart = backbone_of(A=("MKT", range(1, 4)), B=("MKT", range(11, 14)))
    with pytest.raises(ParameterError, match="0 of 0 residues with equal numbers"):
        plan_design(apart, homo_oligomer=True)


def test_copies_may_differ_in_one_letter_of_ten() -> None:
    def of(other: str) -> Backbone:
        return backbone_of(A=("MKTAYIAKQR", range(1, 11)), B=(other, range(1, 11)))

    assert len(plan_design(of("MKTAYIAKQG"), homo_oligomer=True).groups) == 10
    with pytest.raises(ParameterError, match="8 of 10 residues"):
        plan_design(of("MKTAYIAKGG"), homo_oligomer=True)


def test_scored_counts_each_group_once(toy: Backbone) -> None:
    plan = plan_design(toy, tied="A5-7,B5-7 A-2,A-1", fixed="A0")
    assert np.flatnonzero(plan.scored).tolist() == [0, 3, 4, 5, 6, 7, 8, 9, 13, 14]
    assert int(plan.scored.sum()) == len(plan.groups)
    assert not (plan.scored & ~plan.designed).any()
    copies = backbone_of(A=("MKTA", range(1, 5)), B=("MKTA", range(1, 5)))
    assert np.flatnonzero(plan_design(copies, homo_oligomer=True).scored).tolist() == [0, 1, 2, 3]


def test_only_designed_residues_carry_a_key(toy: Backbone, key: Key) -> None:
    marker = Marker(key)
    plan = plan_design(toy, chains=["A"], fixed="A1-2A")
    keys = plan.keys(marker, seed=3, indices=range(5))
    assert (keys.shape, keys.dtype) == ((5, 15), np.int64)
    assert np.flatnonzero((keys == NO_KEY).all(axis=0)).tolist() == [3, 4, 5, *range(10, 15)]
    assert set(keys[:, plan.designed].ravel().tolist()) == {0, 1}
    # Fixing residues leaves the keys of the others as they were.
    everything = plan_design(toy, chains=["A"]).keys(marker, seed=3, indices=range(5))
    assert (keys == np.where(plan.designed, everything, NO_KEY)).all()
    assert (np.abs(np.diff(everything[:, :10])) == 1).all()  # alternating along the chain


def test_tied_residues_carry_one_key(toy: Backbone, key: Key) -> None:
    plan = plan_design(toy, tied="A5-7,B5-7 A-2,A-1,A0")
    keys = plan.keys(Marker(key), seed=0, indices=range(20))
    for group in plan.groups:
        assert (keys[:, list(group)] == keys[:, [group[0]]]).all()
    untied = plan_design(toy).keys(Marker(key), seed=0, indices=range(20))
    assert (keys[:, plan.scored] == untied[:, plan.scored]).all()
    assert (keys != untied).any()


def test_chains_are_told_apart_by_their_number_in_the_record(toy: Backbone, key: Key) -> None:
    marker = Marker(key)
    both = plan_design(toy).keys(marker, 1, range(40))
    for number, (chain, rows) in enumerate([("A", slice(0, 10)), ("B", slice(10, 15))]):
        alone = plan_design(toy, chains=[chain]).keys(marker, 1, range(40))[:, rows]
        assert (both[:, rows] == alone).all() == (number == 0)  # alone it is the first of all
    starts = set(zip(both[:, 0].tolist(), both[:, 10].tolist(), strict=True))
    assert starts == {(0, 0), (0, 1), (1, 0), (1, 1)}  # each chain starts as it likes


def moved(backbone: Backbone) -> Backbone:
    return replace(backbone, coordinates=backbone.coordinates + np.float32(1.0))


def test_keys_are_the_same_again_and_other_for_other_coordinates(toy: Backbone, key: Key) -> None:
    def starts(seed: int, backbone: Backbone = toy) -> list[int]:
        return plan_design(backbone).keys(Marker(key), seed, range(64))[:, 0].tolist()

    assert starts(5) == starts(5)
    assert starts(5) == starts(5, replace(toy, name="other"))  # whatever the file is called
    assert starts(5) != starts(6)
    assert starts(5) != starts(5, moved(toy))
    assert 16 < sum(starts(5)) < 48


def nonces_of(plan: DesignPlan, key: Key, **options: Any) -> list[list[int]]:
    """Return the nonces of each design, one for each of its chains."""
    keys = plan.keys(Marker(key), 5, range(40), **options)
    first = [plan.backbone.chain(chain).start for chain in plan.chains]
    return (keys[:, first] // MAX_BLOCKS % key.schedule.nonces).tolist()


def test_all_chains_of_a_design_have_one_nonce(toy: Backbone, secret: Secret) -> None:
    key = Key.of(secret, Profile(scheme=Blocks()))
    drawn = nonces_of(plan_design(toy), key)
    assert all(len(set(of_design)) == 1 for of_design in drawn)
    assert len({of_design[0] for of_design in drawn}) > 20
    turned = [number % 32 for number in range(40)]
    given = nonces_of(plan_design(toy), key, nonces=turned)
    assert given == [[nonce, nonce] for nonce in turned]


def test_files_of_one_name_but_other_coordinates_draw_other_nonces(
    toy: Backbone, secret: Secret
) -> None:
    key = Key.of(secret, Profile(scheme=Blocks()))
    one, other = (nonces_of(plan_design(b), key) for b in (toy, moved(toy)))
    same = sum(a == b for a, b in zip(one, other, strict=True))
    assert same < 6  # of 40 designs with 32 nonces


def test_keys_of_a_design_do_not_depend_on_the_others(toy: Backbone, key: Key) -> None:
    plan = plan_design(toy, tied="A1,B5", fixed="B9")
    together = plan.keys(Marker(key), 2, range(9))
    some = plan.keys(Marker(key), 2, [7, 0, 3])
    assert (some == together[[7, 0, 3]]).all()


def test_residue_bias(toy: Backbone) -> None:
    plan = plan_design(toy)
    wanted = {"A2A": {"P": 2.0, "g": -1.0}, "B5-6": {"P": 0.5}, "B": {"P": 1.0}}
    table = residue_bias_table(plan, wanted)
    assert table is not None
    assert table.shape == (15, 21)
    p, g = PROTEIN.encode("PG")
    assert table[:, p].tolist() == [0] * 5 + [2.0] + [0] * 4 + [1.5, 1.5, 1.0, 1.0, 1.0]
    assert table[5, g] == -1.0
    assert np.count_nonzero(table) == 7
    assert residue_bias_table(plan, {}) is None
    with pytest.raises(ParameterError, match="'Z5' is not a residue"):
        residue_bias_table(plan, {"Z5": {"P": 1.0}})
