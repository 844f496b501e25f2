"""Helpers of functions on backbones: names of chains, plans, and records that fit a structure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, cast

from patternmark.api.given import Given, Recorded, each_of, record_of
from patternmark.errors import SequenceError
from patternmark.io.designs import DesignedStructure
from patternmark.io.items import Warn
from patternmark.io.manifest_use import IGNORE, TRUST, ManifestUse
from patternmark.io.records import Format

if TYPE_CHECKING:
    from patternmark.designing.fitting import Fitted
    from patternmark.designing.plan import DesignPlan

GivenFiles = PathLike[str] | str | Iterable[PathLike[str] | str]
GivenChains = str | Sequence[str] | None


def paths_of(files: GivenFiles) -> list[Path]:
    """Return one or many files or folders as a list."""
    return [Path(file) for file in ([files] if isinstance(files, str | PathLike) else files)]


def path_if_any(file: PathLike[str] | str | None) -> Path | None:
    """Return a file as a Path, or None."""
    return None if file is None else Path(file)


def names_of_chains(chains: GivenChains) -> list[str] | None:
    """Return the names of chains, also of "A,B"; None if there are none.

    >>> names_of_chains("A,B"), names_of_chains(["A", "B"]), names_of_chains("")
    (['A', 'B'], ['A', 'B'], None)
    """
    names = chains.split(",") if isinstance(chains, str) and chains else list(chains or [])
    return names or None


def plan_on(
    structure: Path,
    warn: Warn,
    *,
    chains: GivenChains = None,
    fixed: str = "",
    tied: str = "",
    homo_oligomer: bool = False,
) -> DesignPlan:
    """Read a structure and return the plan of a design on it."""
    from patternmark.designing.plan import plan_design  # noqa: PLC0415  # needs gemmi
    from patternmark.io.structures import read_backbone  # noqa: PLC0415

    backbone = read_backbone(structure)
    for message in backbone.warnings:
        warn(f"{structure}: {message}")
    names = names_of_chains(chains)
    return plan_design(backbone, chains=names, fixed=fixed, tied=tied, homo_oligomer=homo_oligomer)


def trusted_manifests(*, but_for: bool) -> ManifestUse:
    """Use any manifest where the result is no evidence of a mark, but for calls with a layout."""
    return ManifestUse(IGNORE if but_for else TRUST)


def fitted_of(
    given: Given,
    structure: Path,
    plan: DesignPlan,
    warn: Warn,
    *,
    manifests: ManifestUse,
    format: str = "auto",
) -> Iterator[Fitted]:
    """Yield the records that fit the structure; others in files cause warnings.

    A manifest that `manifests` uses, or a design itself, says which residues were designed; with
    `ignore` neither does. A sequence that was given itself and does not fit is an error.
    """
    from patternmark.designing.fitting import (  # noqa: PLC0415  # needs gemmi
        fitted_record,
        fitted_records,
    )

    elsewhere: Counter[str] = Counter()
    for id, one in each_of(given):
        if isinstance(one, PathLike):
            yield from fitted_records(
                [str(one)],
                structure,
                plan,
                warn,
                manifests=manifests,
                format=cast(Format, format),
            )
            continue
        record = record_of(one, id)
        made = None
        if (
            not manifests.ignores
            and isinstance(one, Recorded)
            and record.design
            and one.chain_masks
        ):
            made = DesignedStructure(record.design.name, "", "", tuple(one.chain_masks))
            if made.name != plan.backbone.name:
                elsewhere[made.name] += 1
                continue
        try:
            yield fitted_record("", record, plan, made)
        except SequenceError as error:
            raise SequenceError(f"sequence {record.id!r}: {error}") from None
    for name, count in elsewhere.items():
        warn(f"{count} sequence(s) were designed on {name}, not here; not scored")
