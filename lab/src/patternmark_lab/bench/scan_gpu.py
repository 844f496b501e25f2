"""`patternmark bench scan-gpu`: scans for very many keys on a GPU, beside one thread of a CPU.

Whatever is compared is timed in turns, as in `scan`. Before anything is reported, both must have
found the same on a part of the work: every number of the tally, every pair that passed.
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
from patternmark_lab.bench.scan_input import BLOCK_SCHEMES, MEAN_LENGTH, SCHEMES, made_fasta

KEYS, BLOCK_KEYS, SEQUENCES, REPEATS = 100_000, 10_000, 1_000_000, 3
MANY_PAIRS = 10**11  # of a key and a sequence: what times are told for
CHECKED_LEVEL = 3  # pairs of p-values up to 10^-3 must be the same
_DISTINCT = 100_000  # sequences that are made; others are copies of them
_CPU_SHARE = 50  # a CPU is timed on one sequence in so many
_LABEL = "bench scan-gpu"


@dataclass(frozen=True)
class Case:
    """A kind of keys; what takes long is done with one sequence, or one key, in so many."""

    name: str
    scheme: str
    share: int  # of the sequences
    cpu_keys: int  # of the keys, where a CPU is timed
    checked: int  # of the sequences, where both must find the same


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
    """Measure everything; `step` hears what is being measured.

    On the device `cpu` torch takes the part of the GPU: slow, and for tests.
    """
    needs("numba")
    import numba  # noqa: PLC0415  # an extra

    device = pick_device(device)
    step("making sequences")
    copies = -(-sequences // _DISTINCT)
    content = made_fasta(sequences // copies, seed) * copies
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
            _measured(
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


def _measured(
    case: Case,
    number: int,
    content: bytes,
    sequences: int,
    device: str,
    repeats: int,
    step: Callable[[str], None],
) -> dict[str, Any]:
    """Time one kind of keys, and see that the results are right."""
    what = case.name.replace("_", " ")
    step(f"{what}: making {number:,} keys")
    began = perf_counter()
    keys = numbered_keys(_LABEL, SCHEMES[case.scheme], number)
    making = perf_counter() - began
    screen = KeySet(keys, TORCH_ON_CPU if device == "cpu" else device)
    step(f"{what}: the same on both?")
    checked = same_on_both(first_records(content, sequences // case.checked), screen)
    part = first_records(content, sequences // case.share)
    few_keys = keys[: max(1, number // case.cpu_keys)]
    few = first_records(content, sequences // _CPU_SHARE)
    on_device, on_cpu = scanning(part, screen), scanning(few, KeySet(few_keys))
    step(f"{what}: timing")
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    found, of_cpu = on_device(), on_cpu()  # how much there is to do
    times = in_turns({"read": _reading(part), "device": on_device, "cpu": on_cpu}, repeats)
    peak = torch.cuda.max_memory_allocated() / 2**20 if device == "cuda" else None
    return {
        "name": case.name,
        "keys": number,
        "nonces": SCHEMES[case.scheme].scheme.nonces if case.scheme in BLOCK_SCHEMES else None,
        "making_keys_seconds": making,
        **_work(found, number),
        "cpu": {"keys": len(few_keys), **_work(of_cpu, len(few_keys))},
        "times": times,
        "peak_mib": peak,
        **_rates(times, _work(found, number), of_cpu.segments * len(few_keys)),
        "checked": checked,
    }


def first_records(content: bytes, records: int) -> bytes:
    """Return the first so many records, at least one."""
    return content[: end_of(content, max(1, records))]


def scanning(content: bytes, screen: KeySet) -> Callable[[], Counts]:
    """Return what reads and judges records in memory, until the device is done."""
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
    """Return how fast it was, and how much of the time reading took."""
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
    """See that a screen finds what the compiled loops find; return how much was compared."""
    (pairs, tally), (wanted, wanted_tally) = (
        passing_pairs(content, one) for one in (screen, KeySet(screen.keys))
    )
    records = content.count(b">")
    if tally != wanted_tally or not np.array_equal(pairs, wanted):
        raise PatternmarkError(
            f"{records:,} sequences, {len(screen.keys):,} keys: the first stage on {screen.device} "
            "is not that of the compiled loops: its results cannot be trusted"
        )
    return {
        "sequences": records,
        "keys": len(screen.keys),
        "level": CHECKED_LEVEL,
        "pairs": len(pairs),
        "tally": tally,
    }


def passing_pairs(content: bytes, screen: KeySet) -> tuple[NDArray[np.int64], list[int]]:
    """Return what passes the first stage at a level that much reaches by chance, and the tally."""
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
