"""`patternmark quality`: what a mark costs, measured on designs or on translations."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from rich.markup import escape
from rich.table import Table

from patternmark.cli.options import (
    INPUT,
    MODEL,
    BackboneIfAny,
    Chains,
    Device,
    FixedSeed,
    Json,
    Orders,
    option,
)
from patternmark.cli.output import Verbose, progress, results, say, warn
from patternmark.core.alphabet import PROTEIN
from patternmark.designing.fitting import Fitted, fitted_records
from patternmark.designing.network import load_network
from patternmark.errors import InputError, ParameterError, PatternmarkError
from patternmark.io.items import RecordSource, read_items
from patternmark.io.manifest_use import IGNORE, TRUST, ManifestUse
from patternmark.quality.diversity import entropies
from patternmark.quality.measured import Measured

if TYPE_CHECKING:
    from patternmark.quality.design_measures import DesignQuality, Judges

_RESAMPLES = 1000  # of lines, for the intervals of BLEU and chrF


def quality(
    file: Annotated[str, typer.Argument(metavar="FILE", help="Designs (FASTA, lines), or text.")],
    backbone: BackboneIfAny = None,
    chains: Chains = None,
    against: Annotated[
        str | None,
        option(INPUT, metavar="FILE", help="Unmarked designs: print the differences to them."),
    ] = None,
    reference: Annotated[
        Path | None,
        option(INPUT, metavar="FILE", help="For text: the correct translations, line by line."),
    ] = None,
    orders: Orders = 1,
    model: Annotated[
        list[str] | None,
        option(
            MODEL,
            metavar="NAME",
            help="Published weights, v_48_020 by default; repeat it to measure with several.",
        ),
    ] = None,
    weights: Annotated[
        list[Path] | None,
        option(
            MODEL,
            metavar="FILE",
            help="Your own checkpoint instead of published weights, or beside --model; may be "
            "repeated.",
        ),
    ] = None,
    plddt: Annotated[
        Path | None,
        option(MODEL, metavar="FOLDER", help="ESMFold, as saved by transformers: adds its pLDDT."),
    ] = None,
    as_json: Json = False,
    seed: FixedSeed = 0,
    device: Device = "auto",
    verbose: Verbose = False,
) -> None:
    """Measure the quality of designs or translations, with 95 % intervals.

    Designs: n-gram entropies; with --backbone also their likelihood, the recovery of the native
    sequence, and (with --plddt) whether the structure predicted from them is the backbone. Native
    sequences in the file are not counted. Text, with --reference: BLEU and chrF.

    Example: patternmark quality designs.fa --backbone backbone.pdb
    """
    if reference is not None:
        if backbone or against or model or weights or plddt:
            raise ParameterError("--reference is for text: leave out the options for designs")
        _show(_of_text(Path(file), reference), as_json)
        return
    if backbone is None:
        if against or model or weights or plddt or chains:
            raise ParameterError(
                "--against, --model, --weights, --plddt and --chains need --backbone"
            )
        trusting = ManifestUse(TRUST)  # a measure of quality is no evidence of a mark
        sequences = [
            item.symbols
            for item in read_items([file], RecordSource(PROTEIN, manifests=trusting), warn)
            if not (item.record.design and item.record.design.is_native)
        ]
        if not sequences:
            raise InputError(f"{file}: no design could be read")
        _show({"measures": entropies(sequences)}, as_json)
        return
    with progress("") as bar:
        bar.add_task("measuring", total=None)
        names = model or ([] if weights else ["v_48_020"])
        measuring = _Measuring(backbone, chains, [*names, *(weights or [])], plddt, device)
        found = measuring.report(file, against, seed, orders)
    _show(found, as_json)


def _of_text(file: Path, reference: Path) -> dict[str, Any]:
    """Compare line with line."""
    from patternmark.translation.bleu import bleu, chrf

    lines, wanted = _lines(file), _lines(reference)
    if len(lines) != len(wanted):
        raise InputError(
            f"{file}: has {len(lines)} lines, but {reference} {len(wanted)}: lines are compared "
            "by their number"
        )
    measures, signatures = [], {}
    for name, metric in (("BLEU", bleu), ("chrF", chrf)):
        found = metric(lines, wanted, resamples=_RESAMPLES)
        half = float("nan") if found.half is None else found.half
        low, high = found.score - half, found.score + half
        measures.append(Measured(name, found.score, low, high, len(lines), "lines"))
        signatures[name] = found.signature
    return {"measures": measures, "signatures": signatures}


def _lines(file: Path) -> list[str]:
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(f"{file}: is not UTF-8 text") from None
    if not lines:
        raise InputError(f"{file}: the file is empty")
    return lines


class _Measuring:
    """Measures the designs of files on one backbone."""

    def __init__(
        self,
        structure: Path,
        chains: str | None,
        weights: list[str | Path],
        plddt: Path | None,
        on: str,
    ) -> None:
        try:
            import patternmark.quality.design_measures  # noqa: F401
        except ImportError as error:
            raise PatternmarkError(
                f"measuring designs on a structure needs {error.name}: "
                "pip install 'patternmark[protein,text]'"
            ) from None
        from patternmark.designing.plan import plan_design
        from patternmark.io.structures import read_backbone
        from patternmark.models.device import pick_device
        from patternmark.quality.esmfold import Folder

        self._path, self._backbone = structure, read_backbone(structure)
        for message in self._backbone.warnings:
            warn(f"{structure}: {message}")
        self._chosen = chains is not None
        names = chains.split(",") if chains else None
        self._plan = plan_design(self._backbone, chains=names)
        self._folder = Folder.load(plddt, pick_device(on)) if plddt else None
        self._prepared = {}
        for each in weights:
            model, facts = _load(each, on)
            self._prepared[facts["name"]] = model.prepare(model.encode(self._backbone))

    def report(self, file: str, against: str | None, seed: int, orders: int) -> dict[str, Any]:
        from patternmark.quality.design_measures import (
            Judges,
            differences,
            measure_designs,
            summary,
        )

        judges = Judges(self._prepared, folder=self._folder, seed=seed, orders=orders)
        items, designs = self._measured(file, judges)
        native = measure_designs(items[0].plan, [self._backbone.sequence], judges)[0]
        letters = [PROTEIN.encode(item.record.sequence) for item in items]
        found: dict[str, Any] = {
            "measures": summary(designs) + entropies(letters),
            "native": native.values(),
            "designs": [
                {"id": item.record.id, **design.values()}
                for item, design in zip(items, designs, strict=True)
            ],
        }
        if against is not None:
            _, others = self._measured(against, judges)
            found["differences"] = differences(designs, others)
        return found

    def _measured(self, file: str, judges: Judges) -> tuple[list[Fitted], list[DesignQuality]]:
        """Measure a file's designs; those with one plan together."""
        from patternmark.quality.design_measures import measure_designs

        items = [
            item
            for item in fitted_records(
                [file],
                self._path,
                self._plan,
                warn,
                manifests=ManifestUse(IGNORE if self._chosen else TRUST),
            )
            if not (item.record.design and item.record.design.is_native)
        ]
        if not items:
            raise InputError(f"{file}: no design fits {self._path}")
        found: list[DesignQuality | None] = [None] * len(items)
        by_plan: dict[Any, list[int]] = {}
        for i, item in enumerate(items):
            by_plan.setdefault((item.plan.chains, item.plan.groups), []).append(i)
        for rows in by_plan.values():
            measured = measure_designs(
                items[rows[0]].plan, [items[i].sequence for i in rows], judges
            )
            for i, design in zip(rows, measured, strict=True):
                found[i] = design
        return items, [design for design in found if design is not None]


def _load(weights: str | Path, device: str) -> tuple[Any, dict[str, str]]:
    """Load published weights by their name, or a checkpoint."""
    if isinstance(weights, Path):
        return load_network("", weights, device, say)
    return load_network(weights, None, device, say)


def _show(found: dict[str, Any], as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(_plain(found)))
        return
    native, apart = found.get("native", {}), {m.name: m for m in found.get("differences", ())}
    table = Table(box=None, pad_edge=False)
    table.add_column("measure")
    heads = ["value", "95 %", "n"] + ["native"] * bool(native) + ["difference"] * bool(apart)
    for head in heads:
        table.add_column(head, justify="right")
    for measure in found["measures"]:
        cells = [f"{measure.value:.4f}", _interval(measure), f"{measure.n:,} {measure.unit}"]
        if native:
            cells.append(f"{native[measure.name]:.4f}" if measure.name in native else "")
        if apart:
            other = apart.get(measure.name)
            cells.append(f"{other.value:+.4f}, {_interval(other)}" if other else "")
        table.add_row(escape(measure.name), *cells)
    results.print(table)
    for name, signature in found.get("signatures", {}).items():
        results.print(escape(f"{name}: {signature}"), highlight=False, soft_wrap=True)


def _interval(measure: Measured) -> str:
    return "" if isnan(measure.low) else f"{measure.low:.4f} to {measure.high:.4f}"


def _plain(value: Any) -> Any:
    """Return what JSON can hold: measures as objects, nan as null."""
    if isinstance(value, Measured):
        return _plain(asdict(value))
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(part) for part in value]
    return None if isinstance(value, float) and np.isnan(value) else value
