"""Plan a design: which chains and residues are designed, which are fixed, which are tied."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from patternmark.core.alphabet import NO_KEY, PROTEIN
from patternmark.core.marker import Marker
from patternmark.errors import InputError, ParameterError
from patternmark.io.structures import Backbone

_LABELS = re.compile(r"(-?\d+[A-Za-z]?)(?:-(-?\d+[A-Za-z]?))?")
_MIN_IDENTITY = 0.9  # share of equal letters; copies of a chain may be resolved differently


@dataclass(frozen=True, eq=False)
class DesignPlan:
    """The designed residues in groups: the members of a group get one letter and one key."""

    backbone: Backbone
    chains: tuple[str, ...]  # the designed chains; all others are context
    groups: tuple[tuple[int, ...], ...]

    @cached_property
    def designed(self) -> NDArray[np.bool_]:
        """Residues that get a letter: [L]."""
        return self._mask([row for group in self.groups for row in group])

    @cached_property
    def scored(self) -> NDArray[np.bool_]:
        """Residues that a detector should count, one of each group: [L]."""
        return self._mask([group[0] for group in self.groups])

    @cached_property
    def printed(self) -> NDArray[np.intp]:
        """Rows of the designed chains, in the order of the FASTA record."""
        rows = [np.arange(*self.backbone.chain(c).indices(self.length)) for c in self.chains]
        return np.concatenate(rows)

    @property
    def length(self) -> int:
        return len(self.backbone.sequence)

    def label(self, seed: int) -> str:
        """Return the label that selects the randomness of designs on this backbone.

        It uses the fingerprint of the backbone, since names of files need not be unique.
        """
        return f"{seed}/{self.backbone.fingerprint}"

    def keys(
        self,
        marker: Marker,
        seed: int,
        indices: Sequence[int],
        nonces: Sequence[int] | None = None,
    ) -> NDArray[np.int64]:
        """Draw the position keys of designs, one key sequence for each chain: [B, L].

        All chains of a design share its nonce. Residues that are not designed have NO_KEY; tied
        residues have the key of the first of them.
        """
        keys = np.full((len(indices), self.length), NO_KEY, dtype=np.int64)
        for number, chain in enumerate(self.chains):  # in the order of the FASTA record
            rows = self.backbone.chain(chain)
            lengths = [rows.stop - rows.start] * len(indices)
            keys[:, rows] = marker.key_sequences(
                lengths, self.label(seed), indices, chain=number, nonces=nonces
            )
        for group in self.groups:
            if len(group) > 1:
                keys[:, group] = keys[:, group[:1]]
        keys[:, ~self.designed] = NO_KEY
        return keys

    def _mask(self, rows: list[int]) -> NDArray[np.bool_]:
        mask = np.zeros(self.length, dtype=bool)
        mask[rows] = True
        return mask


def plan_design(
    backbone: Backbone,
    *,
    chains: Sequence[str] | None = None,
    fixed: str = "",
    tied: str = "",
    homo_oligomer: bool = False,
) -> DesignPlan:
    """Return the plan of a design on a backbone.

    `fixed` lists residues that keep their letter, such as "A10-20 B5"; `tied` lists groups that get
    one letter, such as "A10,B10" or, pair by pair, "A10-20,B10-20". With `homo_oligomer`, residues
    with one number are tied over all designed chains. Residues with missing atoms are not designed.
    """
    names = tuple(sorted(set(chains))) if chains is not None else backbone.chain_ids
    designable = np.zeros(len(backbone.sequence), dtype=bool)
    for name in names:
        designable[backbone.chain(name)] = True
    designable &= backbone.is_complete
    tied_groups = _parse_tied(backbone, tied)
    if homo_oligomer:
        tied_groups = [*_tie_copies(backbone, names), *tied_groups]
    groups = _merge([[int(r)] for r in np.flatnonzero(designable)], tied_groups, designable)
    fixed_rows = {row for spec in fixed.split() for row in _rows(backbone, spec)}
    free = [group for group in groups if not fixed_rows & set(group)]
    for group in groups:
        if fixed_rows & set(group) and len({int(backbone.sequence[r]) for r in group}) > 1:
            where = ", ".join(_residue_name(backbone, r) for r in group)
            raise ParameterError(
                f"{backbone.name}: {where} are tied and one of them is fixed, but their letters "
                "differ: fix none of them, or untie them"
            )
    if not free:
        raise ParameterError(
            f"{backbone.name}: no residue is left to design: fix fewer, or choose other chains"
        )
    return DesignPlan(backbone, names, tuple(tuple(g) for g in free))


def _merge(
    singles: list[list[int]], tied: list[list[int]], designable: NDArray[np.bool_]
) -> list[list[int]]:
    """Join groups that share a residue, without the residues that cannot be designed."""
    group_of = {group[0]: group for group in singles}
    for wanted in tied:
        members = [row for row in wanted if designable[row]]
        joined = sorted({row for m in members for row in group_of[m]})
        for row in joined:
            group_of[row] = joined
    unique = {id(group): group for group in group_of.values()}
    return sorted(unique.values())


def _tie_copies(backbone: Backbone, names: Sequence[str]) -> list[list[int]]:
    if len(names) < 2:
        raise ParameterError(f"{backbone.name}: a homo-oligomer needs at least two designed chains")
    rows: dict[str, list[int]] = {}
    for name in names:
        for row in range(*backbone.chain(name).indices(len(backbone.sequence))):
            rows.setdefault(backbone.residue_labels[row], []).append(row)
    shared = [group for group in rows.values() if len(group) > 1]
    known = [g for g in shared if all(backbone.is_complete[g])]
    same = sum(len(set(backbone.sequence[g].tolist())) == 1 for g in known)
    if not known or same < _MIN_IDENTITY * len(known):
        raise ParameterError(
            f"{backbone.name}: chains {', '.join(names)} are not copies of each other: "
            f"{same} of {len(known)} residues with equal numbers have the same letter"
        )
    return shared


def _parse_tied(backbone: Backbone, text: str) -> list[list[int]]:
    groups = []
    for spec in text.split():
        columns = [_rows(backbone, part) for part in spec.split(",") if part]
        lengths = sorted({len(c) for c in columns})
        if len(columns) < 2 or len(lengths) > 1:
            raise ParameterError(
                f"{backbone.name}: {spec!r} ties nothing: name two or more residues, or ranges of "
                f"equal length, joined by commas (found lengths {lengths})"
            )
        groups += [list(group) for group in zip(*columns, strict=True)]
    return groups


def _rows(backbone: Backbone, spec: str) -> list[int]:
    """Return the rows of "A10", "A10-20" or "A"; longer chain ids are tried first."""
    missing: InputError | None = None
    for name in sorted(backbone.chain_ids, key=len, reverse=True):
        if spec == name:
            return list(range(*backbone.chain(name).indices(len(backbone.sequence))))
        match = _LABELS.fullmatch(spec.removeprefix(name)) if spec.startswith(name) else None
        if match:
            try:
                first = backbone.position(name, match[1])
                last = backbone.position(name, match[2]) if match[2] else first
            except InputError as error:  # "A10" may be residue 10 of A, or 0 of A1
                missing = error
                continue
            if last < first:
                raise ParameterError(f"{backbone.name}: the range {spec} runs backwards")
            return list(range(first, last + 1))
    if missing is not None:
        raise missing
    raise ParameterError(
        f"{backbone.name}: {spec!r} is not a residue or range such as A10 or A10-20 of chains "
        f"{', '.join(backbone.chain_ids)}"
    )


def residue_bias_table(
    plan: DesignPlan, bias: dict[str, dict[str, float]]
) -> NDArray[np.float64] | None:
    """Return the table [L, 21] that {"A10": {"P": 2.0}} adds to the logits, or None."""
    if not bias:
        return None
    table = np.zeros((plan.length, PROTEIN.size))
    for spec, letters in bias.items():
        for row in _rows(plan.backbone, spec):
            for letter, value in letters.items():
                table[row, PROTEIN.encode(letter)] += value
    return table


def _residue_name(backbone: Backbone, row: int) -> str:
    return f"{backbone.chain_ids[backbone.chain_index[row]]}{backbone.residue_labels[row]}"
