"""`patternmark bench scan`: the speed of scans, as ratios to other work that is timed with them.

Because machines are noisy, the parts of a ratio are timed in turn. There is one ratio per turn, and
the median of these ratios is reported, with the smallest and the largest.
"""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

from patternmark.errors import PatternmarkError
from patternmark.scanning.file_scan import Scan, needs
from patternmark.scanning.judging import judge
from patternmark.scanning.keyset import KeySet
from patternmark.scanning.segments import padded, read_fasta
from patternmark.scanning.sizes import PIECE
from patternmark_lab.bench.protein import numbered_keys
from patternmark_lab.bench.report import environment
from patternmark_lab.bench.scan_input import (
    MEAN_LENGTH,
    SCHEMES,
    WIDTH,
    compress_member,
    make_fasta,
    write_copies,
)

SEQUENCES, REPEATS = 150_000, 7
COPIES = 12  # of the sequences in files: enough pieces that the last one matters little
MEMORY_COPIES = (7, 70)  # of the sequences: about one million and ten million
MANY_KEYS, VERY_MANY_KEYS = 64, 5_000  # keys
SHARE = 10  # one sequence in 10 is used for very many keys and for block keys
MEMORY_REPEATS = 3
STEPS = 6
_LABEL = "bench scan"

Work = Callable[[], Any]
Times = dict[str, list[float]]


def run_scan_benchmark(
    sequences: int = SEQUENCES,
    repeats: int = REPEATS,
    seed: int = 1,
    step: Callable[[str], None] = lambda what: None,
) -> dict[str, Any]:
    """Measure everything; `step` is called with the name of each part."""
    for module in ("numba", "isal", "xxhash"):
        needs(module)
    import numba  # noqa: PLC0415  # an extra

    step("making sequences")
    content = make_fasta(sequences, seed)
    result: dict[str, Any] = {
        "benchmark": "scan",
        **environment(),
        "numba": numba.__version__,
        "cpus": os.cpu_count(),
        "seed": seed,
        "repeats": repeats,
        "sizes": _sizes(content, sequences),
    }
    step("one key and many, in memory")
    times, rows = _in_memory(content, sequences, repeats)
    step("very many keys, and block keys")
    more_times, more_rows = _many_keys(content, sequences, repeats)
    with tempfile.TemporaryDirectory() as folder:
        file_times, file_rows = _files(content, sequences, repeats, Path(folder), step)
    result["times"] = {"memory": times, "keys": more_times, **file_times}
    return result | {"rows": rows + more_rows + file_rows}


def _sizes(content: bytes, sequences: int) -> dict[str, Any]:
    return {
        "sequences": sequences,
        "bytes": len(content),
        "mean_length": MEAN_LENGTH,
        "line": WIDTH,
        "share": SHARE,
        "copies": COPIES,
        "memory_copies": list(MEMORY_COPIES),
        "piece": PIECE,
        "pieces": -(-len(content) * COPIES // PIECE),
    }


def _in_memory(content: bytes, sequences: int, repeats: int) -> tuple[Times, list[dict[str, Any]]]:
    """Time scans for 1 and for 64 keys, and passes that do less, on bytes in memory."""
    from patternmark_lab.bench.scan_loops import boundaries, boundaries_by_lanes  # noqa: PLC0415

    raw, size = padded(content), len(content)
    offsets = np.zeros(sequences + 1, dtype=np.int64)
    work: dict[str, Work] = {
        "bare": lambda: boundaries(raw, size, offsets),
        "bare_lanes": lambda: boundaries_by_lanes(raw, size, offsets),
        "one": _judging(content, sequences, SCHEMES["paper"], 1),
        "many": _judging(content, sequences, SCHEMES["paper"], MANY_KEYS),
    }
    _expect(sequences, work["bare"](), work["bare_lanes"]())
    if find_spec("Bio") is not None:
        work["biopython"] = _biopython(content)
    times = in_turns(work, repeats)
    rows = [
        row("bare", times["bare"], times["one"], least=0.7),
        row("bare_lanes", times["bare_lanes"], times["one"]),
    ]
    if "biopython" in times:
        rows.append(row("biopython", times["biopython"], times["one"], least=5.0))
    return times, [*rows, row("many", times["many"], times["one"], most=2.0)]


def _biopython(content: bytes) -> Work:
    """Return a function that reads all records with Biopython from text in memory."""
    records_of = import_module("Bio.SeqIO.FastaIO").SimpleFastaParser  # no extra installs it
    stream = io.StringIO(content.decode("ascii"))

    def parse() -> None:
        stream.seek(0)
        for _ in records_of(stream):
            pass

    return parse


def _many_keys(content: bytes, sequences: int, repeats: int) -> tuple[Times, list[dict[str, Any]]]:
    """Time slow cases on a share of the sequences, and one key on all of them."""
    some = max(1, sequences // SHARE)
    part = content[: end_of(content, some)]
    times = in_turns(
        {
            "one": _judging(content, sequences, SCHEMES["paper"], 1),
            "very_many": _judging(part, some, SCHEMES["paper"], VERY_MANY_KEYS),
            "block_key": _judging(part, some, SCHEMES["blocks"], 1),
            "block_keys": _judging(part, some, SCHEMES["blocks R=1"], MANY_KEYS),
        },
        repeats,
    )
    scale = some / sequences  # turns the time of one key into that for the share of sequences
    one = times["one"]
    return times, [
        row("very_many", one, times["very_many"], scale=VERY_MANY_KEYS * scale, least=20.0),
        row("block_key", times["block_key"], one, scale=1 / scale, most=5.0),
        row("block_keys", times["block_keys"], one, scale=1 / scale),
    ]


def end_of(content: bytes, records: int) -> int:
    """Return the offset of the end of the first `records` records."""
    at = 0
    for _ in range(records):
        at = content.find(b"\n>", at) + 1
        if at == 0:
            return len(content)
    return at


def _judging(content: bytes, sequences: int, profile: Any, keys: int) -> Work:
    """Return a function that scans records in memory; the tables of the keys are made before."""
    screen = KeySet(numbered_keys(_LABEL, profile, keys))
    raw, size = padded(content), len(content)

    def work() -> None:
        _expect(sequences, judge(read_fasta(raw, size), screen).records)

    return work


def _files(
    content: bytes, sequences: int, repeats: int, folder: Path, step: Callable[[str], None]
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Time whole scans of files, and measure their memory."""
    plain, packed = folder / "all.fa", folder / "all.fa.gz"
    step("writing files")
    write_copies(content, COPIES, plain)
    write_copies(compress_member(content), COPIES, packed)
    wanted = sequences * COPIES
    step("files, two workers")
    gzip = in_turns(
        {"bare": lambda: _decompress(packed), "scan": lambda: scan_once(packed, 2, wanted)}, repeats
    )
    workers = in_turns(
        {"one": lambda: scan_once(plain, 1, wanted), "two": lambda: scan_once(plain, 2, wanted)},
        repeats,
    )
    step("memory")
    memory = _memory(content, sequences, min(repeats, MEMORY_REPEATS), folder)
    return {"gzip": gzip, "workers": workers, "memory_kib": memory}, [
        row("gzip", gzip["bare"], gzip["scan"], least=0.9),
        row("workers", workers["one"], workers["two"], least=1.8),
        row("memory", memory["long"], memory["short"], most=1.1),
    ]


def _memory(content: bytes, sequences: int, repeats: int, folder: Path) -> Times:
    """Measure the peak memory for a file, and for one with ten times as many sequences."""
    memory: Times = {}
    file = folder / "memory.fa"
    for name, copies in zip(("short", "long"), MEMORY_COPIES, strict=True):
        write_copies(content, copies, file)
        memory[name] = [_peak_kib(file, sequences * copies) for _ in range(repeats)]
    return memory


def _decompress(file: Path) -> None:
    from isal import igzip  # noqa: PLC0415  # the scan extra

    with igzip.open(file, "rb") as stream:  # type: ignore[no-untyped-call]
        while stream.read(2**20):
            pass


def scan_once(file: Path, workers: int, sequences: int) -> None:
    """Scan a file for one key; the new work folder keeps it from resuming a finished scan."""
    work = Path(tempfile.mkdtemp(dir=file.parent))
    try:
        screen = KeySet(numbered_keys(_LABEL, SCHEMES["paper"], 1))
        scan = Scan((str(file),), screen, work, workers)
        scan.begin(resume=False)
        _expect(sequences, scan.run().files[0].found.records)
    finally:
        shutil.rmtree(work)


_PEAK = """
import sys
from pathlib import Path
from patternmark_lab.bench.scan import peak_kib, scan_once
scan_once(Path(sys.argv[1]), 1, int(sys.argv[2]))
print(peak_kib())
"""


def _peak_kib(file: Path, sequences: int) -> float:
    command = [sys.executable, "-c", _PEAK, str(file), str(sequences)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def peak_kib() -> int:
    """Return the peak memory of this process."""
    status = Path("/proc/self/status")
    if status.exists():  # on Linux, getrusage includes the parent's peak, but this file does not
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1])
    import resource  # noqa: PLC0415  # not on Windows

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak // 1024 if sys.platform == "darwin" else peak


def _expect(sequences: int, *found: int) -> None:
    """Raise an error if the timed work did not read all sequences."""
    for number in found:
        if number != sequences:
            raise PatternmarkError(f"{number:,} of {sequences:,} sequences were read")


def in_turns(work: dict[str, Work], repeats: int) -> Times:
    """Time each piece of work in turn, several rounds; the first round, which compiles, is not."""
    times: Times = {name: [] for name in work}
    for turn in range(repeats + 1):
        for name, one in work.items():
            began = perf_counter()
            one()
            if turn:
                times[name].append(perf_counter() - began)
    return times


def row(
    name: str,
    above: Sequence[float],
    below: Sequence[float],
    *,
    scale: float = 1.0,
    least: float | None = None,
    most: float | None = None,
) -> dict[str, Any]:
    """Return the ratio of two measurements that were taken in turn, and its goal."""
    ratios = [scale * a / b for a, b in zip(above, below, strict=True)]
    return {
        "name": name,
        "ratio": median(ratios),
        "low": min(ratios),
        "high": max(ratios),
        "least": least,
        "most": most,
    }
