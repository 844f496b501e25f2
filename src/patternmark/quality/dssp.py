"""Secondary structure of a backbone, as DSSP defines it (Kabsch and Sander, 1983).

N-H and C=O form a hydrogen bond if their electrostatic energy is below -0.5 kcal/mol. The hydrogen
is placed 1 Å from N, opposite to the direction of the preceding C=O. Turns, helices, bridges and
ladders are patterns of such bonds, bends are angles of CA atoms. As in the program, each N-H keeps
its two best bonds; alpha helices have priority over strands, and strands over other helices.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from patternmark.core.alphabet import PROTEIN
from patternmark.io.structures import Backbone
from patternmark.quality.states import three_states

__all__ = ["dssp"]

_CHARGES = 27.9  # 0.42 e times 0.20 e in kcal/mol times Å
_MAX_BOND_ENERGY = -0.5  # kcal/mol
_MIN_ENERGY = -9.9  # kcal/mol; the energy of atoms that nearly touch
_MIN_DISTANCE = 0.5  # Å; closer atoms nearly touch
_MAX_CA_DISTANCE = 9.0  # Å between CA atoms of residues that may form a bond
_MAX_PEPTIDE_LENGTH = 2.5  # Å between C and the next N; a longer distance is a break
_BEND = np.cos(np.deg2rad(70.0))
_PROLINE = PROTEIN.letters.index("P")

_Kind = Literal["parallel", "antiparallel"]


def dssp(backbone: Backbone) -> str:
    """Return one of H, G, I, E, B, T, S, L for each residue; L also if atoms are missing."""
    if len(backbone.sequence) == 0:
        return ""
    whole = _Whole.of(backbone)
    turns = {n: whole.turns(n) for n in (3, 4, 5)}
    states = np.full(len(backbone.sequence), "L")
    for ladder in _ladders(whole):
        for side in (ladder.first, ladder.second):
            between = states[side[0] : side[-1] + 1]
            between[between != "E"] = "E" if len(side) > 1 else "B"
    _put_helices(states, turns)
    for i in np.flatnonzero(states == "L"):
        if any(turns[n][max(0, i - n + 1) : i].any() for n in turns):
            states[i] = "T"
        elif whole.bends[i]:
            states[i] = "S"
    return "".join(states)


def dssp_three(backbone: Backbone) -> str:
    """Return helix, strand or coil (H, E, C) for each residue."""
    return three_states(dssp(backbone))


def _put_helices(states: NDArray[np.str_], turns: dict[int, NDArray[np.bool_]]) -> None:
    """Mark helices: two turns of one kind in a row, from the first residue of the second turn."""
    for n, state in ((4, "H"), (3, "G"), (5, "I")):
        for i in np.flatnonzero(turns[n][1:] & turns[n][:-1]) + 1:
            inside = states[i : i + n]
            if state == "H" or np.isin(inside, ["L", state]).all():
                inside[:] = state


@dataclass(frozen=True, eq=False)
class _Whole:
    """Bonds, breaks and bends of a structure of L residues."""

    bonds: NDArray[np.bool_]  # [L, L]: from the N-H of the first to the C=O of the second
    breaks: NDArray[np.int64]  # [L]: the number of breaks before a residue
    bends: NDArray[np.bool_]  # [L]

    @classmethod
    def of(cls, backbone: Backbone) -> _Whole:
        xyz = backbone.coordinates.astype(np.float64)
        chain, complete = backbone.chain_index, backbone.is_complete
        distance = np.linalg.norm(xyz[:-1, 2] - xyz[1:, 0], axis=-1)  # nan if an atom is missing
        joined = (chain[1:] == chain[:-1]) & complete[1:] & complete[:-1]
        joined &= distance <= _MAX_PEPTIDE_LENGTH
        has_hydrogen = np.concatenate([[False], joined]) & (backbone.sequence != _PROLINE)
        breaks = np.concatenate([[0], np.cumsum(~joined)])
        bonds = _bonds(xyz, complete, has_hydrogen)
        return cls(bonds, breaks, _bends(xyz[:, 1], breaks))

    def is_one_piece(self, first: int, last: int) -> bool:
        """Return whether there is no break between two residues; False beyond the ends."""
        if first < 0 or last >= len(self.breaks):
            return False
        return bool(self.breaks[first] == self.breaks[last])

    def turns(self, n: int) -> NDArray[np.bool_]:
        """Return where a turn begins: the N-H n residues later is bonded to this C=O, [L]."""
        found = np.zeros(len(self.breaks), dtype=bool)
        if n < len(found):
            same = self.breaks[n:] == self.breaks[:-n]
            found[:-n] = np.diagonal(self.bonds, -n) & same
        return found

    def bridges(self) -> Iterator[tuple[int, int, _Kind]]:
        """Yield pairs of residues that two bonds hold together, in order, with their kind."""
        # Each pattern is two bonds (donor - i or j, acceptor - i or j); see the paper's table.
        bond = np.pad(self.bonds, 1)

        def at(donor: int, acceptor: int) -> NDArray[np.bool_]:
            """Bonds from the N-H of i + donor to the C=O of j + acceptor: [i, j]."""
            size = len(self.breaks)
            return bond[1 + donor : 1 + donor + size, 1 + acceptor : 1 + acceptor + size]

        parallel = (at(0, -1).T & at(1, 0)) | (at(0, -1) & at(1, 0).T)
        antiparallel = (at(0, 0).T & at(0, 0)) | (at(1, -1).T & at(1, -1))
        for i, j in np.argwhere(np.triu(parallel | antiparallel, 3)).tolist():
            if self.is_one_piece(i - 1, i + 1) and self.is_one_piece(j - 1, j + 1):
                yield i, j, "parallel" if parallel[i, j] else "antiparallel"


def _bonds(
    xyz: NDArray[np.float64], complete: NDArray[np.bool_], has_hydrogen: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Return which N-H is bonded to which C=O: [L, L], at most two in a row."""
    n, ca, c, o = (xyz[:, k] for k in range(4))
    carbonyl = c - o
    hydrogen = n.copy()
    length = np.linalg.norm(carbonyl[:-1], axis=-1, keepdims=True)
    hydrogen[1:] += carbonyl[:-1] / np.where(length > 0.0, length, 1.0)
    size = len(xyz)
    bonds = np.zeros((size, size), dtype=bool)
    for donor in np.flatnonzero(has_hydrogen):
        near = np.linalg.norm(ca - ca[donor], axis=-1) < _MAX_CA_DISTANCE  # False for nan
        near[[donor, donor - 1]] = False  # its own C=O, and that of its peptide bond
        others = np.flatnonzero(near & complete)
        energy = _energy(n[donor], hydrogen[donor], c[others], o[others])
        best = others[np.argsort(energy, kind="stable")[:2]]
        bonds[donor, best] = np.sort(energy, kind="stable")[:2] < _MAX_BOND_ENERGY
    return bonds


def _energy(
    n: NDArray[np.float64], h: NDArray[np.float64], c: NDArray[np.float64], o: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the energy of one N-H with each of several C=O, in kcal/mol: [others]."""
    ho, hc, nc, no = (
        np.linalg.norm(there - here, axis=-1) for here, there in ((h, o), (h, c), (n, c), (n, o))
    )
    touch = np.minimum.reduce([ho, hc, nc, no]) < _MIN_DISTANCE
    with np.errstate(divide="ignore", invalid="ignore"):
        energy = _CHARGES * (1.0 / no + 1.0 / hc - 1.0 / ho - 1.0 / nc)
    return np.where(touch, _MIN_ENERGY, np.round(energy, 3))


def _bends(ca: NDArray[np.float64], breaks: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return where the directions from two residues before and to two after differ by over 70°."""
    found = np.zeros(len(ca), dtype=bool)
    if len(ca) < 5:
        return found
    before, after = ca[2:-2] - ca[:-4], ca[4:] - ca[2:-2]
    lengths = np.linalg.norm(before, axis=-1) * np.linalg.norm(after, axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        cosine = (before * after).sum(axis=-1) / lengths
    found[2:-2] = (cosine < _BEND) & (breaks[4:] == breaks[:-4])
    return found


@dataclass(frozen=True)
class _Ladder:
    """Bridges of one kind in a row: the residues of both sides, ascending."""

    kind: _Kind
    first: list[int]
    second: list[int]

    def takes(self, i: int, j: int) -> bool:
        """Return whether a bridge is the next one of this ladder."""
        is_next = j == self.second[-1] + 1 if self.kind == "parallel" else j == self.second[0] - 1
        return i == self.first[-1] + 1 and is_next

    def add(self, first: list[int], second: list[int]) -> None:
        self.first.extend(first)
        if self.kind == "parallel":
            self.second.extend(second)
        else:
            self.second[:0] = second

    def is_bulge_from(self, later: _Ladder, whole: _Whole) -> bool:
        """Return whether a later ladder continues this one after a bulge.

        A bulge has at most one extra residue on one side and four on the other.
        """
        if self.kind != later.kind:
            return False
        step = later.first[0] - self.first[-1]
        if self.kind == "parallel":
            other = later.second[0] - self.second[-1]
        else:
            other = self.second[0] - later.second[-1]
        if step < 1 or other < 0:
            return False
        ends = sorted([*self.second, *later.second])
        in_one_piece = whole.is_one_piece(self.first[0], later.first[-1]) and whole.is_one_piece(
            ends[0], ends[-1]
        )
        return in_one_piece and step < 6 and ((other < 6 and step < 3) or other < 3)


def _ladders(whole: _Whole) -> list[_Ladder]:
    """Join bridges to ladders, and ladders that only a bulge separates."""
    found: list[_Ladder] = []
    for i, j, kind in whole.bridges():
        for ladder in found:
            if ladder.kind == kind and ladder.takes(i, j):
                ladder.add([i], [j])
                break
        else:
            found.append(_Ladder(kind, [i], [j]))
    found.sort(key=lambda ladder: ladder.first[0])
    merged: list[_Ladder] = []
    while found:
        ladder, waiting = found.pop(0), found
        found = []
        for later in waiting:
            if ladder.is_bulge_from(later, whole):
                ladder.add(later.first, later.second)
            else:
                found.append(later)
        merged.append(ladder)
    return merged
