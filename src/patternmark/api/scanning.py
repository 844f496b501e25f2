"""`scan`: find which of millions of sequences carry the mark of one of many keys."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from patternmark.api.given import (
    Progress,
    no_progress,
    warn_in_python,
)
from patternmark.api.searching import GivenKeys, candidates_of
from patternmark.errors import ParameterError
from patternmark.evidence import DEFAULT_FPR
from patternmark.io.files import held, make_folder, write_json
from patternmark.io.items import Warn
from patternmark.io.shown import printable
from patternmark.results import LN10, Result, Status, cells_of, p_value_of
from patternmark.search.candidates import Candidate, collect_key_errors

if TYPE_CHECKING:
    from patternmark.scanning.file_scan import Result as Found

GivenInputs = PathLike[str] | str | Iterable[PathLike[str] | str]

ENGINES = ("local", "ray")
MODULES = ("numba", "pyarrow", "xxhash")  # of the scan extra
MAX_WARNINGS = 20  # about skipped records; the manifest has more


@dataclass(frozen=True, repr=False)
class Hit(Result):
    """A sequence that carries the mark of a key, with its p-values.

    `log10_p_of_pair` is the p-value of this sequence and key; `p_value` and `log10_p` are corrected
    for all pairs of the scan. `start` and `end` say which residues were judged.
    """

    id: str
    file: str
    offset: int
    length: int
    scored: int
    key_id: str
    key_name: str
    detector: str
    statistic: float
    log10_p_of_pair: float
    log10_p: float
    start: int
    end: int
    signature: str
    prediction: bool = True
    status: Status = Status.MARKED
    p_any: float | None = None  # a scan has none

    @property
    def p_value(self) -> float:
        """The p-value, corrected for all pairs of the scan; never rounded down to 0."""
        return p_value_of(self.log10_p * LN10)

    def to_dict(self) -> dict[str, Any]:
        """Return the hit as plain values for JSON."""
        return asdict(self) | {"p_value": self.p_value}

    def cells(self) -> dict[str, str]:
        """Return the cells of a table row by the names of their columns."""
        return cells_of(self, self.id, file=self.file, key=self.key_name)


@dataclass(frozen=True, repr=False)
class ScanResult(Result):
    """The result of a scan: the file of hits, and the manifest beside it.

    The manifest says what was scanned, what was skipped and why, and how all p-values are
    distributed. `hits()` reads the hits one after another.
    """

    output: Path
    manifest: dict[str, Any]
    key_names: Mapping[str, str] = field(default_factory=dict)  # by key id

    @property
    def num_hits(self) -> int:
        """The number of hits, which are pairs of a sequence and a key."""
        return int(self.manifest["hits"])

    @property
    def skipped(self) -> list[dict[str, Any]]:
        """The records that could not be read (file, place, id, reason); the first of very many."""
        return list(self.manifest["skipped"])

    @property
    def is_complete(self) -> bool:
        """Whether every record was read and every key was used."""
        return not (self.manifest["num_skipped"] or self.manifest["keys_left_out"])

    def hits(self) -> Iterator[Hit]:
        """Yield the hits, in the order of files, records and keys."""
        from pyarrow import parquet  # noqa: PLC0415  # the scan extra

        signature = "; ".join(self.manifest["signatures"])
        with parquet.ParquetFile(self.output) as file:
            for batch in file.iter_batches():
                for row in batch.to_pylist():
                    yield self._hit(row, signature)

    def _hit(self, row: dict[str, Any], signature: str) -> Hit:
        same = ("id", "file", "offset", "length", "scored", "key_id", "detector", "statistic")
        return Hit(
            **{name: row[name] for name in same},
            key_name=self.key_names.get(row["key_id"], row["key_id"]),
            log10_p_of_pair=row["log10_p"],
            log10_p=row["log10_p_corrected"],
            start=row["segment_start"],
            end=row["segment_end"],
            signature=signature,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the manifest as plain values for JSON."""
        return self.manifest

    def cells(self) -> dict[str, str]:
        """Return the cells of a table row by the names of their columns."""
        found = self.manifest
        return {
            "sequences": f"{found['records']:,}",
            "keys": f"{len(found['keys']):,}",
            "hits": f"{found['hits']:,}",
            "skipped": f"{found['num_skipped']:,}" if found["num_skipped"] else "",
            "output": str(self.output),
        }


@dataclass(frozen=True)
class ScanRequest:
    """How a scan is run; the same names as the options of `patternmark scan`."""

    sequence_column: str = "sequence"
    fpr: float | None = None
    fdr: float | None = None
    resume: bool = False
    workers: int = 1
    device: str = "cpu"
    engine: str = "local"
    ray_address: str | None = None

    def __post_init__(self) -> None:
        if self.fpr is not None and self.fdr is not None:
            raise ParameterError("give fpr=P or fdr=P, not both")
        for value in (self.fpr, self.fdr):
            if value is not None and not 0.0 < value < 1.0:
                raise ParameterError(f"fpr=P and fdr=P must lie between 0 and 1, not {value}")
        if self.engine not in ENGINES:
            raise ParameterError(f"engine=NAME must be local or ray, not {self.engine!r}")
        if self.workers < 1:
            raise ParameterError(f"workers=N must be at least 1, not {self.workers}")

    @property
    def level(self) -> dict[str, float | None]:
        """The limit of the FPR or of the FDR; the other one is None."""
        return {"fpr": None if self.fdr is not None else self.fpr or DEFAULT_FPR, "fdr": self.fdr}


def files_to_scan(inputs: GivenInputs, output: Path) -> tuple[str, ...]:
    """Return the files to scan; raise an error if the output cannot be written."""
    from patternmark.scanning.file_scan import expand, needs  # noqa: PLC0415  # as needed

    for module in MODULES:
        needs(module)
    if output.is_dir():
        raise ParameterError(f"{output}: is a folder: give output=FILE the name of a file")
    some = [inputs] if isinstance(inputs, str | PathLike) else inputs
    return expand([str(one) for one in some], output)


class Scanning:
    """Scans files for keys, writes hits and a manifest, and keeps the work of a stopped run."""

    def __init__(
        self,
        files: tuple[str, ...],
        candidates: Sequence[Candidate],
        output: Path,
        request: ScanRequest,
        left_out: Sequence[str] = (),
    ) -> None:
        from patternmark.scanning.file_scan import Scan  # noqa: PLC0415  # the scan extra
        from patternmark.scanning.keyset import KeySet  # noqa: PLC0415

        self.output, self.work = output, output.with_name(f"{output.name}.scan")
        self._names = {candidate.key.key_id: candidate.name for candidate in candidates}
        self._request, self._left_out = request, list(left_out)
        keys = KeySet([candidate.key for candidate in candidates], _resolve_device(request.device))
        self._scan = Scan(files, keys, self.work, request.workers, request.sequence_column)

    def run(self, warn: Warn = warn_in_python, progress: Progress = no_progress) -> ScanResult:
        """Scan, write the hits and the manifest, and remove the work folder."""
        from patternmark.scanning.result import (  # noqa: PLC0415  # the scan extra
            corrected,
            manifest,
            signatures,
            write_hits,
        )

        level = self._request.level
        make_folder(self.work.parent)
        with held(self.work):  # a run that is still alive must not be continued
            self._scan.begin(self._request.resume)
            found = self._run_engine(progress)
            written = write_hits(corrected(found, **level), self.output, signatures(found, **level))
            content = manifest(found, written, **level) | {"keys_left_out": self._left_out}
            write_json(self.output.with_name(f"{self.output.name}.json"), content)
            self._scan.end()
        _warn_of_skipped(content, warn)
        return ScanResult(self.output, content, self._names)

    def _run_engine(self, progress: Progress) -> Found:
        from patternmark.scanning.cluster import run_on_ray  # noqa: PLC0415  # the scan extra

        files = [Path(file) for file in self._scan.files]
        # The size of a pipe is unknown.
        is_known = not any(str(file) == "-" or file.is_fifo() for file in files)
        total = sum(file.stat().st_size for file in files if file.is_file()) if is_known else None
        num_bytes = num_records = 0
        progress("bytes", 0, total)

        def step(size: int, records: int) -> None:
            nonlocal num_bytes, num_records
            num_bytes, num_records = num_bytes + size, num_records + records
            progress("sequences", num_records, None)
            progress("bytes", num_bytes, total)

        if self._request.engine == "ray":
            return run_on_ray(self._scan, step, self._request.ray_address)
        return self._scan.run(step)


def _resolve_device(device: str) -> str:
    if device == "cpu":  # avoids the import of torch
        return device
    from patternmark.models.device import pick_device  # noqa: PLC0415

    return pick_device(device)


def _warn_of_skipped(content: dict[str, Any], warn: Warn) -> None:
    """Name what was left out, and why."""
    for problem in content["skipped"][:MAX_WARNINGS]:
        name = printable(problem["id"])
        name = f" ({name})" if name else ""
        warn(f"{problem['file']}: at {problem['offset']}{name}: {problem['why']}")
    more = content["num_skipped"] - MAX_WARNINGS
    if more > 0:
        warn(f"and {more:,} more: see the manifest")


class ScanOptions(TypedDict, total=False):
    """The options of `scan`, which explains them."""

    sequence_column: str
    fpr: float | None
    fdr: float | None
    resume: bool
    workers: int
    device: str
    engine: str
    ray_address: str | None


def scan(
    inputs: GivenInputs,
    keys: GivenKeys,
    output: PathLike[str] | str,
    *,
    warn: Warn = warn_in_python,
    progress: Progress = no_progress,
    **options: Unpack[ScanOptions],
) -> ScanResult:
    """Search many sequences for the marks of many keys.

    `inputs` are files or folders: FASTA, FASTQ, Parquet, Arrow, packed or plain. `keys` is a folder
    of key files, a mapping from names to keys, or many keys and key files. The hits are written to
    `output` as Parquet, and a manifest beside it. Options:

    - `fpr`: the chance of any false hit in the whole scan (0.001), or `fdr`: the expected share of
      false hits;
    - `sequence_column`: the column of Parquet and Arrow;
    - `resume=True`: continue a scan that was stopped;
    - `workers`, `device`, `engine`, `ray_address`: where the work is done;
    - `warn`, `progress`: functions that get warnings about what is skipped, and the progress.
    """
    request, file = ScanRequest(**options), Path(output)
    files = files_to_scan(inputs, file)
    left_out: list[str] = []
    candidates, _ = candidates_of(keys, collect_key_errors(warn, left_out))
    return Scanning(files, candidates, file, request, left_out).run(warn, progress)
