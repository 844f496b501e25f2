"""`measure_quality`: measure what a mark costs in designs or translations."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import numpy as np

from patternmark.api.given import Given, Recorded, each_of, items_of, warn_in_python
from patternmark.api.on_structures import (
    GivenChains,
    fitted_of,
    path_if_any,
    plan_on,
    trusted_manifests,
)
from patternmark.core.alphabet import PROTEIN
from patternmark.designing.network import DEFAULT_WEIGHTS, load_network
from patternmark.errors import InputError, ParameterError, PatternmarkError
from patternmark.io.bounded import LONGEST_RECORD, TooLargeError, read_text
from patternmark.io.items import RecordSource, Warn
from patternmark.quality.diversity import entropies
from patternmark.quality.measured import Measured
from patternmark.results import Result

if TYPE_CHECKING:
    from patternmark.designing.fitting import Fitted
    from patternmark.quality.design_measures import DesignQuality, Judges

RESAMPLES = 1000  # resamples of the lines for the intervals of BLEU and chrF

_log = logging.getLogger(__name__)


@dataclass(frozen=True, repr=False)
class Quality(Result):
    """Measures with their 95 % intervals; fields that were not measured are None.

    `native` has the measures of the native sequence, `designs` those of each design, `differences`
    the differences to unmarked designs, and `signatures` the settings of BLEU and chrF.
    """

    measures: Sequence[Measured]
    native: dict[str, float] | None = None
    designs: list[dict[str, Any]] | None = None
    differences: Sequence[Measured] | None = None
    signatures: dict[str, str] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the measures as plain values for JSON, with None for nan."""
        names = ("measures", "signatures", "native", "designs", "differences")
        found = {name: getattr(self, name) for name in names}
        return {name: _plain(value) for name, value in found.items() if value is not None}

    def cells(self) -> dict[str, str]:
        """Return the cells of a table row by the names of their columns."""
        return {measure.name: str(measure) for measure in self.measures}


def _plain(value: Any) -> Any:
    """Return plain values for JSON: measures as dictionaries, nan as None."""
    if isinstance(value, Measured):
        return _plain(asdict(value))
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(part) for part in value]
    return None if isinstance(value, float) and np.isnan(value) else value


@dataclass(frozen=True)
class QualityRequest:
    """How designs are measured; the same names as the options of `patternmark quality`."""

    backbone: PathLike[str] | str
    chains: GivenChains = None
    orders: int = 1
    model: str | Sequence[str] | None = None
    weights: PathLike[str] | Sequence[PathLike[str]] | None = None
    plddt: PathLike[str] | str | None = None
    seed: int = 0
    device: str = "auto"

    @property
    def networks(self) -> list[str | Path]:
        """The names of published weights, then the files of checkpoints."""
        names = [self.model] if isinstance(self.model, str) else list(self.model or [])
        files = [self.weights] if isinstance(self.weights, PathLike) else list(self.weights or [])
        if not names and not files:
            names = [DEFAULT_WEIGHTS]
        return [*names, *map(Path, files)]


class Measuring:
    """Measures designs on one backbone."""

    def __init__(self, request: QualityRequest, warn: Warn, report: Warn = _log.info) -> None:
        try:
            import patternmark.quality.design_measures  # noqa: F401, PLC0415
        except ImportError as error:
            raise PatternmarkError(
                f"measuring designs on a structure needs {error.name}: "
                "pip install 'patternmark[protein,text]'"
            ) from None
        from patternmark.models.device import pick_device  # noqa: PLC0415  # needs torch
        from patternmark.quality.esmfold import Folder  # noqa: PLC0415

        self._request, self._warn, self._path = request, warn, Path(request.backbone)
        self._plan = plan_on(self._path, warn, chains=request.chains)
        plddt = path_if_any(request.plddt)
        self._folder = Folder.load(plddt, pick_device(request.device)) if plddt else None
        self._prepared = {}
        for each in request.networks:
            named, file = ("", each) if isinstance(each, Path) else (each, None)
            network, facts = load_network(named, file, request.device, report)
            self._prepared[facts["name"]] = network.prepare(network.encode(self._plan.backbone))

    def measure(self, records: Given, against: Given | None) -> Quality:
        """Measure designs and, with `against`, their differences to these."""
        from patternmark.quality.design_measures import (  # noqa: PLC0415  # needs torch
            Judges,
            differences,
            measure_designs,
            summary,
        )

        request = self._request
        judges = Judges(
            self._prepared, folder=self._folder, seed=request.seed, orders=request.orders
        )
        items, designs = self._measure(records, judges)
        native = measure_designs(items[0].plan, [self._plan.backbone.sequence], judges)[0]
        letters = [PROTEIN.encode(item.record.sequence) for item in items]
        others = None if against is None else self._measure(against, judges)[1]
        return Quality(
            measures=summary(designs) + entropies(letters),
            native=native.values(),
            designs=[
                {"id": item.record.id, **design.values()}
                for item, design in zip(items, designs, strict=True)
            ],
            differences=None if others is None else differences(designs, others),
        )

    def _measure(self, given: Given, judges: Judges) -> tuple[list[Fitted], list[DesignQuality]]:
        """Measure designs, all with the same plan together."""
        from patternmark.quality.design_measures import measure_designs  # noqa: PLC0415

        manifests = trusted_manifests(but_for=self._request.chains is not None)
        fitting = fitted_of(given, self._path, self._plan, self._warn, manifests=manifests)
        items = [
            item for item in fitting if not (item.record.design and item.record.design.is_native)
        ]
        if not items:
            raise InputError(f"{_name_of(given)}: no design fits {self._path}")
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


def _name_of(given: Given) -> str:
    return str(given) if isinstance(given, PathLike) else "the sequences"


def compare_translations(texts: Given, reference: Given) -> Quality:
    """Compare translations with reference translations, line by line."""
    from patternmark.translation.bleu import bleu, chrf  # noqa: PLC0415

    lines, wanted = _lines(texts), _lines(reference)
    if len(lines) != len(wanted):
        raise InputError(
            f"{_name_of(texts)}: has {len(lines)} lines, but {_name_of(reference)} "
            f"{len(wanted)}: lines are compared by their number"
        )
    measures, signatures = [], {}
    for name, metric in (("BLEU", bleu), ("chrF", chrf)):
        found = metric(lines, wanted, resamples=RESAMPLES)
        half = float("nan") if found.half is None else found.half
        low, high = found.score - half, found.score + half
        measures.append(Measured(name, found.score, low, high, len(lines), "lines"))
        signatures[name] = found.signature
    return Quality(measures, signatures=signatures)


def _lines(given: Given) -> list[str]:
    if not isinstance(given, PathLike):
        texts = [
            one.as_record().sequence if isinstance(one, Recorded) else one
            for _, one in each_of(given)
        ]
        if not texts or not all(isinstance(text, str) for text in texts):
            raise ParameterError("give texts: a file, or an iterable of str")
        return [str(text) for text in texts]
    file = Path(given)
    try:
        lines = read_text(file, LONGEST_RECORD).splitlines()
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(f"{file}: is not UTF-8 text") from None
    except TooLargeError as error:
        raise InputError(f"{file}: cannot be read: {error}") from None
    if not lines:
        raise InputError(f"{file}: the file is empty")
    return lines


def entropies_of(records: Given, warn: Warn) -> Quality:
    """Measure what needs no structure: how varied designs are."""
    source = RecordSource(PROTEIN, manifests=trusted_manifests(but_for=False))
    items = items_of(records, source, warn)
    designs = [
        item.symbols for item in items if not (item.record.design and item.record.design.is_native)
    ]
    if not designs:
        raise InputError(f"{_name_of(records)}: no design could be read")
    return Quality(entropies(designs))


class QualityOptions(TypedDict, total=False):
    """The options of `measure_quality`, which explains them."""

    chains: GivenChains
    orders: int
    model: str | Sequence[str] | None
    weights: PathLike[str] | Sequence[PathLike[str]] | None
    plddt: PathLike[str] | str | None
    seed: int
    device: str


_NEED_BACKBONE = ("against", "model", "weights", "plddt", "chains")  # options


def measure_quality(
    records: Given,
    *,
    backbone: PathLike[str] | str | None = None,
    against: Given | None = None,
    reference: Given | None = None,
    warn: Warn = warn_in_python,
    report: Warn = _log.info,
    **options: Unpack[QualityOptions],
) -> Quality:
    """Measure the quality of designs or translations, with 95 % intervals.

    For designs: n-gram entropies; with `backbone` (their structure) also their likelihood, the
    recovery of the native sequence, and whether the structure predicted from them is the backbone.
    Native sequences are not counted. For translations, with `reference` (correct translations):
    BLEU and chrF. Options for designs:

    - `against`: unmarked designs to compare with;
    - `chains`: the designed chains; `orders`, `seed`: random decoding orders to average over;
    - `model`, `weights`: one or many networks, by name or as files;
    - `plddt`: the folder of ESMFold: adds its pLDDT; `device`: where the networks run.
    """
    given = {"against": against, **options}
    named = [name for name in _NEED_BACKBONE if given.get(name)]
    if reference is not None:
        if backbone or named:
            raise ParameterError("reference=FILE is for text: leave out the options for designs")
        return compare_translations(records, reference)
    if backbone is None:
        if named:
            raise ParameterError(
                "against=FILE, model=NAME, weights=FILE, plddt=FOLDER and chains=LIST need "
                "backbone=FILE"
            )
        return entropies_of(records, warn)
    return Measuring(QualityRequest(backbone, **options), warn, report).measure(records, against)
