"""`design`: marked sequences on backbones, kept in memory or written to a file."""

from __future__ import annotations

import json
import logging
import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from math import isfinite
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from patternmark._version import __version__
from patternmark.api.given import (
    GivenKey,
    Progress,
    key_file_of,
    key_of,
    no_progress,
    warn_in_python,
)
from patternmark.core.marker import Marker
from patternmark.core.secret import fresh_seed
from patternmark.designing.network import DEFAULT_WEIGHTS, load_network
from patternmark.errors import InputError, ParameterError, PatternmarkError
from patternmark.io.bounded import read_json
from patternmark.io.designs import Manifest
from patternmark.io.items import Warn
from patternmark.io.nonce_counter import NonceCounter
from patternmark.io.records import Record, read_records
from patternmark.results import Result, Results
from patternmark.signature import joined, short_hash

if TYPE_CHECKING:
    from patternmark.designing.fasta_file import DesignTarget
    from patternmark.designing.plan import DesignPlan
    from patternmark.designing.run import Design

GivenFiles = PathLike[str] | str | Iterable[PathLike[str] | str]
GivenChains = str | Sequence[str] | None

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class DesignRequest:
    """What is designed and how; the same names as the options of `patternmark design`."""

    count: int = 1
    chains: GivenChains = None
    fixed: str = ""
    tied: str = ""
    homo_oligomer: bool = False
    omit: str = ""
    bias: Mapping[str, float] = field(default_factory=dict)
    residue_bias: Mapping[str, Mapping[str, float]] | PathLike[str] | None = None
    temperature: float = 0.1
    model: str = DEFAULT_WEIGHTS
    weights: PathLike[str] | str | None = None
    seed: int | None = None
    batch: int | None = None
    device: str = "auto"

    def __post_init__(self) -> None:
        if self.count < 1:
            raise ParameterError(f"count=N must be at least 1, not {self.count}")

    @property
    def layout(self) -> dict[str, Any]:
        """What of a backbone is designed."""
        return {
            "chains": names_of_chains(self.chains),
            "fixed": self.fixed,
            "tied": self.tied,
            "homo_oligomer": self.homo_oligomer,
        }


def names_of_chains(chains: GivenChains) -> list[str] | None:
    """Return the names of chains, which may be given as "A,B".

    >>> names_of_chains("A,B"), names_of_chains(["A", "B"]), names_of_chains("")
    (['A', 'B'], ['A', 'B'], None)
    """
    names = chains.split(",") if isinstance(chains, str) and chains else list(chains or [])
    return names or None


@dataclass(frozen=True, repr=False)
class DesignedSequence(Result):
    """One design, or the native sequence of a structure for comparison.

    `sequence` has `/` between chains. `score` is the model's mean negative log-likelihood of the
    designed residues in the order of sampling, `global_score` that of all residues, `recovery` the
    share of designed residues whose letter is the native one. `signature` names all that shaped
    the design but the seed.
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

    def to_dict(self) -> dict[str, Any]:
        """Return the design as plain values, which JSON can hold."""
        return asdict(self)

    def cells(self) -> dict[str, str]:
        """Return what people look at first, by name."""
        return {
            "id": self.id,
            "residues": str(len(self.sequence.replace("/", ""))),
            "score": f"{self.score:.4f}",
            "recovery": f"{self.recovery:.4f}",
            "key": self.key_id or "",
        }


class Designs(Results[DesignedSequence]):
    """The designs of a run, in the order of structures.

    `natives` are the native sequences of the structures, `manifest` says how the designs were made
    (with the seed: keep it as secret as the key), and `failed` names what could not be designed.
    """

    def __init__(
        self, found: Iterable[DesignedSequence], manifest: Manifest, failed: Sequence[str] = ()
    ) -> None:
        every = list(found)
        super().__init__(one for one in every if not one.is_native)
        self.natives = Results(one for one in every if one.is_native)
        self.manifest, self.failed = manifest, tuple(failed)


class Designing:
    """Designs on structure after structure, to memory or to a file."""

    def __init__(
        self,
        structures: Iterable[PathLike[str] | str],
        marker: Marker | None,
        request: DesignRequest,
        *,
        key_file: Path | None = None,
        output: Path | None = None,
        overwrite: bool = False,
        warn: Warn = warn_in_python,
        report: Warn = _log.info,
    ) -> None:
        _require_torch()
        from patternmark.designing.fasta_file import (  # noqa: PLC0415  # needs torch
            DesignFile,
            DesignsInMemory,
        )
        from patternmark.designing.run import Designer, DesignOptions  # noqa: PLC0415
        from patternmark.io.structure_files import find_structures  # noqa: PLC0415  # as needed

        bias = dict(request.bias)
        options = DesignOptions(request.temperature, request.seed, request.omit, bias)
        self._residue_bias = _residue_bias(request.residue_bias)
        if request.batch is not None and request.batch < 1:
            raise ParameterError(f"batch=N must be at least 1, not {request.batch}")
        self.files = find_structures([Path(structure) for structure in structures])
        weights = None if request.weights is None else Path(request.weights)
        network, facts = load_network(request.model, weights, request.device, report)
        manifest = self._manifest(options, request, marker, facts)
        self.target: DesignTarget = (
            DesignsInMemory(manifest)
            if output is None
            else DesignFile(output, manifest, overwrite=overwrite)
        )
        self._designer = Designer(network, replace(options, seed=self.target.seed), marker)
        self._request, self._warn = request, warn
        self._counter = None
        if marker is not None and key_file is not None and request.seed is None:
            self._counter = NonceCounter.needed_for(marker, key_file, warn)

    @property
    def kept(self) -> str:
        """Say what is safe when the run ends early, and how to continue."""
        return self.target.kept

    def _manifest(
        self, options: Any, request: DesignRequest, marker: Marker | None, weights: dict[str, str]
    ) -> Manifest:
        parameters = {
            **asdict(options),
            **request.layout,
            "count": request.count,
            "residue_bias": self._residue_bias,
            "delta": marker.delta if marker else None,
            "delta_at": marker.key.profile.delta_at if marker else None,
            "payload": marker.payload if marker else None,
        }
        software = {"patternmark": __version__, "python": platform.python_version()}
        key_id = marker.key.key_id if marker else None
        drawn = fresh_seed() if request.seed is None else None
        facts = json.loads(json.dumps(parameters))
        return Manifest(software, weights, key_id, facts, drawn_seed=drawn)

    def run(
        self, failed: Callable[[Exception, str], None], progress: Progress = no_progress
    ) -> int:
        """Design on all structures; return how many failed. `failed` hears of each, and why."""
        from patternmark.io.structure_files import structure_name  # noqa: PLC0415  # as needed

        num_failed = 0
        progress("structures", 0, len(self.files))
        for number, file in enumerate(self.files, start=1):
            try:
                self._one(file, progress)
            except (InputError, ParameterError) as error:
                num_failed += 1
                reason = str(error).removeprefix(f"{structure_name(file)}: ")
                failed(error, f"{file}: {reason.removeprefix(f'{file}: ')}")
            progress("structures", number, len(self.files))
        return num_failed

    def _one(self, file: Path, progress: Progress) -> None:
        from patternmark.designing.plan import (  # noqa: PLC0415  # needs gemmi
            plan_design,
            residue_bias_table,
        )
        from patternmark.io.structures import read_backbone  # noqa: PLC0415
        from patternmark.models.weights import file_sha256  # noqa: PLC0415

        backbone = read_backbone(file)
        sha256 = file_sha256(file)
        if self.target.is_finished(backbone.name, sha256):
            return
        for message in backbone.warnings:
            self._warn(f"{file}: {message}")
        plan = plan_design(backbone, **self._request.layout)
        done, total = 0, self._request.count * len(plan.groups)

        def step(letters: int) -> None:
            nonlocal done
            done += letters
            progress(backbone.name, done, total)

        step(0)
        designs = list(
            self._designer.design(
                plan,
                self._request.count,
                batch=self._request.batch,
                progress=step,
                residue_bias=residue_bias_table(plan, self._residue_bias),
                nonces=self._nonces(backbone.name),
            )
        )
        native = self._designer.score_native(plan)
        self.target.append(plan, file, sha256, native, designs)

    def _nonces(self, name: str) -> list[int] | None:
        """Take the next nonces of the key for the designs on a structure, if it has several."""
        counter, count = self._counter, self._request.count
        if counter is None:
            return None
        return counter.nonces(self.target.first_number(name, lambda: counter.take(count)), count)

    def results(self, failed: Sequence[str] = ()) -> Designs:
        """Return what was designed: of a file, all that it holds."""
        from patternmark.designing.fasta_file import (  # noqa: PLC0415  # needs torch
            DesignFile,
            DesignsInMemory,
        )

        manifest, found = self.target.manifest, []
        if isinstance(self.target, DesignsInMemory):
            found = [_of_design(*both, manifest) for both in self.target.designs]
        elif isinstance(self.target, DesignFile) and manifest.structures:
            records = read_records(str(self.target.path), "fasta")
            found = [_of_record(one, manifest) for one in records if isinstance(one, Record)]
        return Designs(found, manifest, failed)


def _of_design(plan: DesignPlan, design: Design, manifest: Manifest) -> DesignedSequence:
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
    )


def _of_record(record: Record, manifest: Manifest) -> DesignedSequence:
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
    )


def _number(found: float | None) -> float:
    return float("nan") if found is None else found


def _signature(manifest: Manifest) -> str:
    shaping = {name: v for name, v in manifest.parameters.items() if name not in ("seed", "count")}
    digits = short_hash([json.dumps(shaping, sort_keys=True).encode()])
    weights = manifest.weights
    return joined(
        f"design:{manifest.software['patternmark']}",
        f"weights:{weights['name']}-{weights['sha256'][:16]}",
        f"parameters:{digits}",
        f"key:{manifest.key_id}" if manifest.key_id else "",
    )


def _require_torch() -> None:
    try:
        import torch  # noqa: F401, PLC0415
    except ImportError:
        raise PatternmarkError(
            "designing needs torch: pip install 'patternmark[protein]'"
        ) from None


def _residue_bias(
    given: Mapping[str, Mapping[str, float]] | PathLike[str] | None,
) -> dict[str, dict[str, float]]:
    """Return what is added at residues; read it where it was given as a file."""
    if given is None:
        return {}
    if isinstance(given, Mapping):
        return {residue: {**row} for residue, row in given.items()}
    path = Path(given)
    try:
        content = read_json(path)
        bias = {str(r): {str(a): float(v) for a, v in row.items()} for r, row in content.items()}
        if not all(isfinite(value) for row in bias.values() for value in row.values()):
            raise ValueError("not numbers")
        return bias
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    except (ValueError, AttributeError, TypeError, OverflowError):
        raise InputError(f'{path}: must be JSON such as {{"A10": {{"P": 2.0}}}}') from None


class DesignKeywords(TypedDict, total=False):
    """What `design` can be told; `design` explains each."""

    chains: GivenChains
    fixed: str
    tied: str
    homo_oligomer: bool
    omit: str
    bias: Mapping[str, float]
    residue_bias: Mapping[str, Mapping[str, float]] | PathLike[str] | None
    temperature: float
    model: str
    weights: PathLike[str] | str | None
    seed: int | None
    batch: int | None
    device: str


def design(
    structures: GivenFiles,
    key: GivenKey | None,
    count: int = 1,
    *,
    output: PathLike[str] | str | None = None,
    overwrite: bool = False,
    delta: float | None = None,
    payload: int | None = None,
    warn: Warn = warn_in_python,
    progress: Progress = no_progress,
    **options: Unpack[DesignKeywords],
) -> Designs:
    """Design marked sequences on backbones with ProteinMPNN.

    `structures` are PDB or mmCIF files or folders of them. `key` is a `Key`, or the name of its
    file, which lets the counter beside that file choose nonces; None leaves the mark out. With
    `output` the designs are written to a FASTA file with a manifest beside it, a run that was
    stopped is continued by the same call, and the results are what the file holds. Without it
    nothing is written. Options:

    - `chains`, `fixed`, `tied`, `homo_oligomer`: what is designed, as "A,B", "A10-20 B5" and
      "A10,B10";
    - `omit`, `bias`, `residue_bias`: letters that are never used ("CM"), and what is added to the
      logits of letters ({"A": -0.5}), or of letters at residues ({"A10": {"P": 2.0}}, or a file);
    - `delta`, `payload`: the strength of the mark, and a number that it carries;
    - `temperature`, `seed`, `batch`, `device`: how the model samples;
    - `model`, `weights`: published weights by their name, or a checkpoint of your own;
    - `overwrite=True`: replace the file.

    A structure that cannot be designed is warned of; it is an error if it was the only one.
    """
    if key is None and (delta is not None or payload is not None):
        raise ParameterError("delta=X and payload=N need a key")
    marker = None if key is None else Marker(key_of(key), delta=delta, payload=payload)
    some = [structures] if isinstance(structures, str | PathLike) else structures
    job = Designing(
        some,
        marker,
        DesignRequest(count, **options),
        key_file=key_file_of(key),
        output=None if output is None else Path(output),
        overwrite=overwrite,
        warn=warn,
    )
    reasons: list[str] = []

    def failed(error: Exception, reason: str) -> None:
        if len(job.files) == 1:
            raise error
        reasons.append(reason)
        warn(reason)

    if job.run(failed, progress) == len(job.files):
        raise InputError(f"none of {len(job.files)} structures could be designed: see the warnings")
    return job.results(reasons)
