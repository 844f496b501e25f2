"""Put the letters of records on the residues of a backbone: what `score` and `detect` share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from patternmark.core.alphabet import PROTEIN, SEPARATOR
from patternmark.designing.plan import DesignPlan
from patternmark.errors import InputError, SequenceError
from patternmark.io.designs import DesignedStructure, Manifest, manifest_path, read_manifest
from patternmark.io.items import Warn
from patternmark.io.records import Format, Problem, Record, input_name, read_records
from patternmark.models.weights import file_sha256

_UNKNOWN = PROTEIN.letters.index("X")


@dataclass(frozen=True, eq=False)
class Fitted:
    """A record that fits the backbone, and what of it was designed."""

    file: str
    record: Record
    rows: NDArray[np.intp]  # [letters] which residue of the backbone each letter stands for
    sequence: NDArray[np.int64]  # [L] for all residues of the backbone
    plan: DesignPlan
    counted: NDArray[np.bool_]  # [L] designed residues, tied ones once


def fitted_records(
    files: Sequence[str],
    backbone: Path,
    plan: DesignPlan,
    warn: Warn,
    *,
    use_manifest: bool,
    format: Format = "auto",
) -> Iterator[Fitted]:
    """Read the records that fit the backbone; `warn` hears of the others."""
    sha256 = file_sha256(backbone)
    for file in files:
        elsewhere: Counter[str] = Counter()
        name = input_name(file)
        try:
            manifest = _manifest_of(file) if use_manifest else None
            for record in read_records(file, format):
                if isinstance(record, Problem):
                    warn(record)
                    continue
                made = _structure_of(manifest, record)
                if made and made.sha256 != sha256 and made.name != plan.backbone.name:
                    elsewhere[made.name] += 1
                    continue
                try:
                    yield fitted_record(name, record, plan, made)
                except SequenceError as error:
                    warn(Problem(name, f"{record.place} ({record.id})", f"{error}; not scored"))
        except InputError as error:
            warn(error)
        for structure, count in elsewhere.items():
            warn(f"{name}: {count} sequence(s) were designed on {structure}, not here; not scored")


def _manifest_of(file: str) -> Manifest | None:
    path = manifest_path(file)
    return read_manifest(path) if file != "-" and path.exists() else None


def _structure_of(manifest: Manifest | None, record: Record) -> DesignedStructure | None:
    if manifest is None or record.design is None:
        return None
    name = record.design.name
    return next((s for s in manifest.structures if s.name == name), None)


def _plan_of(made: DesignedStructure, plan: DesignPlan) -> DesignPlan:
    """Return the plan a manifest tells of: its chains, and the residues designed in them."""
    designed = _from_digits(made, plan, [chain.designed for chain in made.chains])
    groups = tuple((int(row),) for row in np.flatnonzero(designed & plan.backbone.is_complete))
    return replace(plan, chains=tuple(chain.id for chain in made.chains), groups=groups)


def _from_digits(made: DesignedStructure, plan: DesignPlan, digits: list[str]) -> NDArray[np.bool_]:
    """Turn a manifest's digits, chain by chain, into a mask of the backbone: [L]."""
    backbone = plan.backbone
    mask = np.zeros(plan.length, dtype=bool)
    for chain, text in zip(made.chains, digits, strict=True):
        rows = backbone.chain(chain.id) if chain.id in backbone.chain_ids else slice(0)
        if len(text) != len(mask[rows]):
            raise SequenceError(
                f"its manifest has {len(text)} residues in chain {chain.id}, the backbone "
                f"{len(mask[rows])}: give the structure it was designed on"
            )
        mask[rows] = [digit == "1" for digit in text]
    return mask


def fitted_record(
    file: str, record: Record, plan: DesignPlan, made: DesignedStructure | None
) -> Fitted:
    """Put the letters of a record on the rows of the backbone; leave unknown ones unscored."""
    marked_down = None
    if made is not None:
        marked_down = _from_digits(made, plan, [chain.scored for chain in made.chains])
        plan = _plan_of(made, plan)
    symbols = PROTEIN.encode(record.sequence)
    cuts = np.flatnonzero(symbols == SEPARATOR)
    chains = [part[part != SEPARATOR] for part in np.split(symbols, cuts)]
    sequence = plan.backbone.sequence.copy()
    rows = _rows_for([len(c) for c in chains], plan)
    sequence[rows] = np.concatenate(chains)
    known = sequence != _UNKNOWN
    groups = tuple(g for g in (tuple(r for r in group if known[r]) for group in plan.groups) if g)
    if not groups:
        raise SequenceError("it has no known letter at a designed residue")
    plan = replace(plan, groups=groups)
    counted = plan.scored if marked_down is None else marked_down & plan.designed
    return Fitted(file, record, rows, sequence, plan, counted)


def _rows_for(lengths: list[int], plan: DesignPlan) -> NDArray[np.intp]:
    """Find the rows that chains of these lengths fill.

    They are the designed chains or all; with the rows of missing residues, as ProteinMPNN prints
    them, or without, as LigandMPNN does.
    """
    backbone = plan.backbone
    has_ca = np.isfinite(backbone.coordinates[:, 1]).all(axis=1)
    whole = np.ones(plan.length, dtype=bool)
    for names in (plan.chains, backbone.chain_ids):
        for present in (whole, has_ca):
            rows = [
                np.flatnonzero(present & (backbone.chain_index == backbone.chain_ids.index(c)))
                for c in names
            ]
            wanted = [len(r) for r in rows]
            if lengths in (wanted, [sum(wanted)]):
                return np.concatenate(rows)
    expected = [len(backbone.sequence[backbone.chain(c)]) for c in plan.chains]
    raise SequenceError(
        f"it has {_sum(lengths)} residues, but chain(s) {', '.join(plan.chains)} of "
        f"{backbone.name} have {_sum(expected)}: give the backbone it was made for, and its "
        "designed chains with chains=LIST"
    )


def _sum(lengths: list[int]) -> str:
    parts = " + ".join(map(str, lengths))
    return f"{parts} = {sum(lengths)}" if len(lengths) > 1 else parts
