"""What `design` returns."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from patternmark.api.given import Recorded
from patternmark.errors import InputError
from patternmark.io.designs import ChainMask, DesignHeader, Manifest
from patternmark.io.records import Record
from patternmark.results import Result, Results
from patternmark.signature import joined, short_hash

if TYPE_CHECKING:
    from patternmark.designing.plan import DesignPlan
    from patternmark.designing.run import Design


@dataclass(frozen=True, repr=False)
class DesignedSequence(Result, Recorded):
    """One design, or the native sequence of a structure for comparison.

    `sequence` has `/` between chains. `score` is the model's mean negative log-likelihood of the
    designed residues in the order of sampling, `global_score` that of all residues, `recovery` the
    share of designed residues with the native letter. `chain_masks` says which residues were
    designed: `detect` counts only these. `signature` names everything except the seed that can
    change the design.
    """

    id: str
    structure: str
    sequence: str
    score: float
    global_score: float
    recovery: float
    is_native: bool
    key_id: str | None
    signature: str
    chain_masks: tuple[ChainMask, ...] = ()

    def as_record(self) -> Record:
        """Return the record that the file of designs holds."""
        number = 0 if self.is_native else int(self.id.rpartition("/")[2])
        return Record(self.id, self.sequence, self.id, DesignHeader(self.structure, number))

    def to_dict(self) -> dict[str, Any]:
        """Return the design as plain values for JSON."""
        return asdict(self) | {"chain_masks": [asdict(chain) for chain in self.chain_masks]}

    def cells(self) -> dict[str, str]:
        """Return the cells of a table row by the names of their columns."""
        return {
            "id": self.id,
            "residues": str(len(self.sequence.replace("/", ""))),
            "score": f"{self.score:.4f}",
            "recovery": f"{self.recovery:.4f}",
            "key": self.key_id or "",
        }


class Designs(Results[DesignedSequence]):
    """The designs of a run, in the order of structures.

    `natives` are the native sequences of the structures. `manifest` says how the designs were made;
    it has the seed, so keep it as secret as the key. `failed` has an error for each structure that
    could not be designed.
    """

    def __init__(
        self, found: Iterable[DesignedSequence], manifest: Manifest, failed: Sequence[str] = ()
    ) -> None:
        all_found = list(found)
        super().__init__(one for one in all_found if not one.is_native)
        self.natives = Results(one for one in all_found if one.is_native)
        self.manifest, self.failed = manifest, tuple(failed)


def result_of_design(plan: DesignPlan, design: Design, manifest: Manifest) -> DesignedSequence:
    """Return the result for a design that was just made."""
    from patternmark.designing.fasta_file import letters_of  # noqa: PLC0415  # needs torch

    name, is_native = plan.backbone.name, design.index == 0
    return DesignedSequence(
        id=f"{name}/native" if is_native else f"{name}/{design.index}",
        structure=name,
        sequence=letters_of(plan, design),
        score=design.score,
        global_score=design.global_score,
        recovery=design.recovery,
        is_native=is_native,
        key_id=None if is_native else manifest.key_id,
        signature=_signature(manifest),
        chain_masks=manifest.chains_of(name),
    )


def result_of_record(record: Record, manifest: Manifest) -> DesignedSequence:
    """Return the result for a design that was read from a file."""
    header = record.design
    if header is None:
        raise InputError(f"{record.place} ({record.id}) is not a design: the file was changed")
    facts = ("score", "global_score", "seq_recovery")
    score, global_score, recovery = (header.number(name) for name in facts)
    return DesignedSequence(
        id=record.id,
        structure=header.name,
        sequence=str(record.sequence),
        score=_number(score),
        global_score=_number(global_score),
        recovery=1.0 if header.is_native else _number(recovery),
        is_native=header.is_native,
        key_id=None if header.is_native else manifest.key_id,
        signature=_signature(manifest),
        chain_masks=manifest.chains_of(header.name),
    )


def _number(found: float | None) -> float:
    return float("nan") if found is None else found


def _signature(manifest: Manifest) -> str:
    settings = {name: v for name, v in manifest.parameters.items() if name not in ("seed", "count")}
    digits = short_hash([json.dumps(settings, sort_keys=True).encode()])
    weights = manifest.weights
    return joined(
        f"design:{manifest.software['patternmark']}",
        f"weights:{weights['name']}-{weights['sha256'][:16]}",
        f"parameters:{digits}",
        f"key:{manifest.key_id}" if manifest.key_id else "",
    )
