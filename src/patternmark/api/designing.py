"""`design`: design marked sequences on backbones, in memory or to a file."""

from __future__ import annotations

import json
import logging
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from math import isfinite
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from patternmark._version import __version__
from patternmark.api.designed import Designs, result_of_design, result_of_record
from patternmark.api.given import (
    GivenKey,
    Progress,
    key_file_of,
    key_of,
    no_progress,
    warn_in_python,
)
from patternmark.api.on_structures import (
    GivenChains,
    GivenFiles,
    names_of_chains,
    path_if_any,
    paths_of,
)
from patternmark.core.marker import Marker
from patternmark.core.secret import fresh_seed
from patternmark.designing.network import DEFAULT_WEIGHTS, load_network
from patternmark.errors import InputError, ParameterError, PatternmarkError
from patternmark.io.bounded import read_json
from patternmark.io.designs import Manifest
from patternmark.io.files import held
from patternmark.io.items import Warn
from patternmark.io.nonce_counter import NonceCounter
from patternmark.io.records import Record, read_records

if TYPE_CHECKING:
    from patternmark.designing.fasta_file import DesignTarget

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
        """The options that say which residues of a backbone are designed."""
        return {
            "chains": names_of_chains(self.chains),
            "fixed": self.fixed,
            "tied": self.tied,
            "homo_oligomer": self.homo_oligomer,
        }


class Designing:
    """Designs on structure after structure, to memory or to a file, which is `held`."""

    def __init__(
        self,
        structures: Sequence[Path],
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
        self.files = find_structures(structures)
        weights = path_if_any(request.weights)
        network, facts = load_network(request.model, weights, request.device, report)
        manifest = self._manifest(options, request, marker, facts)
        self.target: DesignTarget = (
            DesignsInMemory(manifest)
            if output is None
            else DesignFile(
                output,
                manifest,
                key=None if marker is None else marker.key,
                overwrite=overwrite,
            )
        )
        self._designer = Designer(network, replace(options, seed=self.target.seed), marker)
        self._request, self._warn = request, warn
        self._counter = None
        if marker is not None and key_file is not None and request.seed is None:
            self._counter = NonceCounter.needed_for(marker, key_file, warn)

    @property
    def kept(self) -> str:
        """What a run that ends early keeps, and how to continue it."""
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
                self._design_on(file, progress)
            except (InputError, ParameterError) as error:
                num_failed += 1
                reason = str(error).removeprefix(f"{structure_name(file)}: ")
                failed(error, f"{file}: {reason.removeprefix(f'{file}: ')}")
            progress("structures", number, len(self.files))
        return num_failed

    def _design_on(self, file: Path, progress: Progress) -> None:
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
        """Return the next nonces of the key for designs on a structure; None without a counter."""
        counter, count = self._counter, self._request.count
        if counter is None:
            return None
        return counter.nonces(self.target.first_number(name, lambda: counter.take(count)), count)

    def results(self, failed: Sequence[str] = ()) -> Designs:
        """Return the designs of this run, or all designs in the output file."""
        from patternmark.designing.fasta_file import (  # noqa: PLC0415  # needs torch
            DesignFile,
            DesignsInMemory,
        )

        manifest, found = self.target.manifest, []
        if isinstance(self.target, DesignsInMemory):
            found = [result_of_design(*both, manifest) for both in self.target.designs]
        elif isinstance(self.target, DesignFile) and manifest.structures:
            records = read_records(str(self.target.path), "fasta")
            found = [result_of_record(one, manifest) for one in records if isinstance(one, Record)]
        return Designs(found, manifest, failed)


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
    """Return the bias of residues, read from a file if one was given."""
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
    """The options of `design`, which explains them."""

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

    `structures` are PDB or mmCIF files, or folders of them. `key` is a `Key` or the name of its
    file; with a file, the counter beside it chooses nonces. None designs without a mark. With
    `output` the designs are written to a FASTA file with a manifest beside it, the same call
    continues a run that was stopped, and the results are all designs in the file. Without it
    nothing is written. Options:

    - `chains`, `fixed`, `tied`, `homo_oligomer`: what is designed, as "A,B", "A10-20 B5" and
      "A10,B10";
    - `omit`, `bias`, `residue_bias`: letters that are never used ("CM"), and what is added to the
      logits of letters ({"A": -0.5}), or of letters at residues ({"A10": {"P": 2.0}}, or a file);
    - `delta`, `payload`: the strength of the mark, and a number that it carries;
    - `temperature`, `seed`, `batch`, `device`: how the model samples;
    - `model`, `weights`: published weights by their name, or a checkpoint of your own;
    - `overwrite=True`: replace the file.

    A structure that cannot be designed causes a warning, or an error if it is the only one.
    """
    if key is None and (delta is not None or payload is not None):
        raise ParameterError("delta=X and payload=N need a key")
    marker = None if key is None else Marker(key_of(key), delta=delta, payload=payload)
    file = path_if_any(output)
    request = DesignRequest(count, **options)
    reasons: list[str] = []

    def failed(error: Exception, reason: str) -> None:
        if len(job.files) == 1:
            raise error
        reasons.append(reason)
        warn(reason)

    with held(file):
        job = Designing(
            paths_of(structures),
            marker,
            request,
            key_file=key_file_of(key),
            output=file,
            overwrite=overwrite,
            warn=warn,
        )
        if job.run(failed, progress) == len(job.files):
            raise InputError(
                f"none of {len(job.files)} structures could be designed: see the warnings"
            )
        return job.results(reasons)
