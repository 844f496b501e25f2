"""`patternmark bench scan-gpu`: scans for very many keys on a GPU, compared with one CPU thread.

GPU and CPU are timed in turn, as in `scan`. Before anything is reported, both must give the same
result on a part of the work: every number of the tally and every pair that passed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from patternmark.errors import PatternmarkError
from patternmark.models.device import device_name, pick_device
from patternmark.scanning.block_stage import in_order
from patternmark.scanning.file_scan import needs
from patternmark.scanning.gpu_two_part import TORCH_ON_CPU
from patternmark.scanning.judging import Counts, first_stage, judge
from patternmark.scanning.keyset import LEVELS, KeySet
from patternmark.scanning.segments import padded, read_fasta
from patternmark_lab.bench.protein import numbered_keys
from patternmark_lab.bench.report import environment
from patternmark_lab.bench.scan import Times, Work, end_of, in_turns, row
from patternmark_lab.bench.scan_input import BLOCK_SCHEMES, MEAN_LENGTH, SCHEMES, make_fasta

KEYS, BLOCK_KEYS, SEQUENCES, REPEATS = 100_000, 10_000, 1_000_000, 3
MANY_PAIRS = 10**11  # pairs of a key and a sequence, for which times are reported
CHECKED_LEVEL = 3  # all pairs with p <= 10^-3 must be the same on both
_DISTINCT = 100_000  # different sequences; the others are copies of them
_CPU_SHARE = 50  # the CPU is timed on one sequence in 50
_LABEL = "bench scan-gpu"


@dataclass(frozen=True)
class Case:
    """A scheme of keys, and the parts of the work that are measured: one in `share` and so on."""

    name: str
    scheme: str
    share: int  # one sequence in `share` is scanned
    cpu_keys: int  # the CPU is timed with one key in `cpu_keys`
    checked: int  # results are compared on one sequence in `checked`


CASES = (
    Case("two_parts", "paper", share=1, cpu_keys=1, checked=500),
    Case("blocks_1_nonce", "blocks R=1", share=1, cpu_keys=10, checked=500),
    Case("blocks_32_nonces", "blocks", share=10, cpu_keys=100, checked=5_000),
)
STEPS = 1 + 3 * len(CASES)


def run_gpu_benchmark(
    keys: int = KEYS,
    sequences: int = SEQUENCES,
    block_keys: int = BLOCK_KEYS,
    device: str = "cuda",
    repeats: int = REPEATS,
    seed: int = 1,
    step: Callable[[str], None] = lambda what: None,
) -> dict[str, Any]:
    """Measure everything; `step` is called with the name of each part.

    On the device `cpu`, torch on the CPU replaces the GPU: slow, for tests only.
    """
    needs("numba")
    import numba  # noqa: PLC0415  # an extra

    device = pick_device(device)
    step("making sequences")
    copies = -(-sequences // _DISTINCT)
    content = make_fasta(sequences // copies, seed) * copies
    result: dict[str, Any] = {
        "benchmark": "scan-gpu",
        **environment(),
        "numba": numba.__version__,
        "torch": torch.__version__,
        "gpu": device_name(device),
        "device": device,
        "seed": seed,
        "repeats": repeats,
        "sizes": {
            "keys": keys,
            "block_keys": block_keys,
            "sequences": sequences,
            "made": sequences // copies,
            "copies": copies,
            "bytes": len(content),
            "mean_length": MEAN_LENGTH,
        },
    }
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        result["rows"] = [
            _measure(
                case,
                block_keys if case.scheme in BLOCK_SCHEMES else keys,
                content,
                sequences // copies * copies,
                device,
                repeats,
                step,
            )
            for case in CASES
        ]
    finally:
        torch.set_num_threads(threads)
    return result


def _measure(
    case: Case,
    number: int,
    content: bytes,
    sequences: int,
    device: str,
    repeats: int,
    step: Callable[[str], None],
) -> dict[str, Any]:
    """Time the keys of one case, and check that the results are right."""
    what = case.name.replace("_", " ")
    step(f"{what}: making {number:,} keys")
    began = perf_counter()
    keys = numbered_keys(_LABEL, SCHEMES[case.scheme], number)
    making = perf_counter() - began
    screen = KeySet(keys, TORCH_ON_CPU if device == "cpu" else device)
    step(f"{what}: comparing results")
    checked = same_on_both(first_records(content, sequences // case.checked), screen)
    part = first_records(content, sequences // case.share)
    cpu_keys = keys[: max(1, number // case.cpu_keys)]
    cpu_part = first_records(content, sequences // _CPU_SHARE)
    on_device, on_cpu = make_scan(part, screen), make_scan(cpu_part, KeySet(cpu_keys))
    step(f"{what}: timing")
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    found, of_cpu = on_device(), on_cpu()  # the amounts of work
    times = in_turns({"read": _reading(part), "device": on_device, "cpu": on_cpu}, repeats)
    peak = torch.cuda.max_memory_allocated() / 2**20 if device == "cuda" else None
    return {
        "name": case.name,
        "keys": number,
        "nonces": SCHEMES[case.scheme].scheme.nonces if case.scheme in BLOCK_SCHEMES else None,
        "making_keys_seconds": making,
        **_work(found, number),
        "cpu": {"keys": len(cpu_keys), **_work(of_cpu, len(cpu_keys))},
        "times": times,
        "peak_mib": peak,
        **_rates(times, _work(found, number), of_cpu.segments * len(cpu_keys)),
        "checked": checked,
    }


def first_records(content: bytes, records: int) -> bytes:
    """Return the first `records` records, at least one."""
    return content[: end_of(content, max(1, records))]


def make_scan(content: bytes, screen: KeySet) -> Callable[[], Counts]:
    """Return a function that scans records in memory and waits until the device is done."""
    raw, size = padded(content), len(content)

    def work() -> Counts:
        found = judge(read_fasta(raw, size), screen)
        if screen.device == "cuda":
            torch.cuda.synchronize()
        return found

    return work


def _reading(content: bytes) -> Work:
    raw, size = padded(content), len(content)

    def work() -> None:
        for _ in read_fasta(raw, size):
            pass

    return work


def _work(found: Counts, keys: int) -> dict[str, int]:
    return {
        "sequences": found.records,
        "residues": found.residues,
        "pairs": found.segments * keys,
        "key_residues": found.residues * keys,
    }


def _rates(times: Times, work: dict[str, int], cpu_pairs: int) -> dict[str, Any]:
    """Return the speed, and the share of the time that reading took."""
    seconds, cpu_seconds = median(times["device"]), median(times["cpu"])
    return {
        "seconds": seconds,
        "pairs_per_second": work["pairs"] / seconds,
        "key_residues_per_second": work["key_residues"] / seconds,
        "many_pairs_seconds": MANY_PAIRS * seconds / work["pairs"],
        "cpu_many_pairs_seconds": MANY_PAIRS * cpu_seconds / cpu_pairs,
        "reading": row("reading", times["read"], times["device"]),
        "ratio": row("cpu", times["cpu"], times["device"], scale=work["pairs"] / cpu_pairs),
    }


def same_on_both(content: bytes, screen: KeySet) -> dict[str, Any]:
    """Check that a screen finds the same as the compiled loops; return how much was compared."""
    (pairs, tally), (wanted, wanted_tally) = (
        passing_pairs(content, one) for one in (screen, KeySet(screen.keys))
    )
    records = content.count(b">")
    if tally != wanted_tally or not np.array_equal(pairs, wanted):
        raise PatternmarkError(
            f"{records:,} sequences, {len(screen.keys):,} keys: the first stage on {screen.device} "
            "differs from the compiled loops, so its results cannot be trusted"
        )
    return {
        "sequences": records,
        "keys": len(screen.keys),
        "level": CHECKED_LEVEL,
        "pairs": len(pairs),
        "tally": tally,
    }


def passing_pairs(content: bytes, screen: KeySet) -> tuple[NDArray[np.int64], list[int]]:
    """Return the pairs that pass the first stage at CHECKED_LEVEL, and the tally.

    Many pairs reach this level by chance, so that there is much to compare.
    """
    tally, found, segments = np.zeros(LEVELS, dtype=np.int64), [], 0
    usual, screen.passing = screen.passing, CHECKED_LEVEL
    try:
        for part in read_fasta(padded(content), len(content)):
            for pairs in first_stage(part, screen, tally):
                found.append(pairs + np.array([segments, 0]))
            segments += len(part.segments)
    finally:
        screen.passing = usual
    return in_order(found), tally.tolist()
