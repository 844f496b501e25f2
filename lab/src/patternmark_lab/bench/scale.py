"""`patternmark bench scale`: the time and cost of a scan of billions of proteins for many keys.

No such scan is run. Time and cost are computed from rates that `patternmark bench scan` measured on
fewer sequences and keys, from a few rates that are measured here, and from assumptions (`Setting`),
each of which is an option of the command.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from math import ceil, comb, log10
from pathlib import Path
from statistics import median
from typing import Any

from patternmark.core.alphabet import PROTEIN
from patternmark.errors import InputError
from patternmark_lab.bench.report import environment
from patternmark_lab.bench.scale_length import fewer_tests, length_rows, screen_of
from patternmark_lab.bench.scale_setting import SAMPLE, Setting
from patternmark_lab.bench.scan import MANY_KEYS, VERY_MANY_KEYS
from patternmark_lab.bench.scan_input import BLOCK_SCHEMES, SCHEMES

NAME = "scale"
SOURCE, GPU_SOURCE = "scan.json", "scan-gpu.json"
MACHINES = (1, 10, 100, 1000)
HITS = (1, 1_000, 1_000_000)  # numbers of hits for which the p-value at the FDR is computed
RATE_OF = {"paper": "two_part", "blocks R=1": "blocks_1", "blocks": "blocks"}
GPU_NAMES = {
    "paper": "two_parts",
    "blocks R=1": "blocks_1_nonce",
    "blocks": "blocks_32_nonces",
}
_MEGA, _HOUR = 1e6, 3600.0
_MEASURED = ("natural", "designs")  # slow measurements, kept until they are measured again

_SPREAD = ("median", "low", "high")

Rate = dict[str, float]


def run_scale(
    setting: Setting,
    folder: Path,
    pairs: dict[str, dict[str, Rate]],
    sample: int = SAMPLE,
    measured: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Compute the result from the results in a folder and from further measurements.

    `pairs` has the time of each stage for a pair of a sequence and a key of each scheme.
    """
    scan = read_source(folder)
    measured = measured or {}
    rates = rates_of(scan)
    passing = passing_level(setting.keys)
    corrections = needed_p_values(setting, passing)
    wanted = corrections[0]["log10_p"]
    size = bytes_of(setting, scan)
    natural = _by_scheme(measured.get("natural"))
    piece = scan["sizes"]["piece"]
    bills = [
        bill(
            scheme,
            setting,
            rates,
            (size, piece),
            passing,
            {stage: pairs[stage][scheme] for stage in pairs},
            natural.get(scheme),
        )
        for scheme in SCHEMES
    ]
    result: dict[str, Any] = {"benchmark": NAME, **environment()}
    return result | {
        "setting": asdict(setting),
        "source": {
            name: scan[name] for name in ("version", "machine", "repeats", "sizes") if name in scan
        },
        "tests": setting.num_tests,
        "bytes": size,
        "passing": passing,
        "corrections": corrections,
        "splits": shared_splits(setting.keys),
        "rates": rates,
        "of_pairs": pairs,
        "sample": sample,
        "bills": bills,
        "packed": unpacking_times(setting, rates, size, bills),
        "gpu": gpu_bills(setting, folder),
        "lengths": length_rows(setting, wanted, measured.get("designs")),
        "fewer": fewer_tests(setting, corrections, measured.get("designs")),
        **{name: measured[name] for name in _MEASURED if name in measured},
    }


def read_source(folder: Path) -> dict[str, Any]:
    """Read the result of `patternmark bench scan`."""
    return _read(folder / SOURCE)


def read_measured(file: Path) -> dict[str, Any]:
    """Return the slow measurements in an earlier result."""
    if not file.exists():
        return {}
    before = _read(file)
    return {name: before[name] for name in _MEASURED if name in before}


def _read(file: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(file.read_text(encoding="utf-8")))
    except OSError as error:
        raise InputError(
            f"{file}: cannot be read: {error.strerror}: make it with `patternmark bench scan`"
        ) from None
    except ValueError as error:
        raise InputError(f"{file}: is not JSON: {error}") from None


def _by_scheme(block: dict[str, Any] | None) -> dict[str, dict[str, Any]]:
    return {row["scheme"]: row for row in block["rows"]} if block else {}


def passing_level(keys: int) -> int:
    """Return -log10 of the largest p-value that passes the first stage, as scans set it."""
    return int(screen_of("paper", keys).passing)


def needed_p_values(setting: Setting, passing: int) -> list[dict[str, Any]]:
    """Return the largest p-value of a hit, for each correction.

    With the false discovery rate it depends on the number of hits: it is the largest p-value that
    the last of so many hits may have.
    """
    all_tests = log10(setting.num_tests)
    rows: list[dict[str, Any]] = [
        {"correction": "fpr", "hits": None, "log10_p": log10(setting.fpr) - all_tests}
    ]
    rows += [
        {"correction": "fdr", "hits": n, "log10_p": log10(setting.fdr) + log10(n) - all_tests}
        for n in HITS
    ]
    # The first stage cuts off p-values above 10^-passing.
    return [row | {"is_cut": row["log10_p"] > -passing} for row in rows]


def shared_splits(keys: int) -> dict[str, float]:
    """Return how many keys of the paper's scheme have equal or similar splits of the letters.

    A split has no order: swapping the two parts of a key gives the same split.
    """
    half = len(PROTEIN.scored) // 2
    splits = comb(2 * half, half) // 2
    return {
        "splits": splits,
        "equal_pairs": comb(keys, 2) / splits,  # expected
        "share": 1.0 - (1.0 - 1.0 / splits) ** (keys - 1),  # of keys that share their split
        "one_swap": (keys - 1) * half**2 / splits,  # other keys that swap one letter of each part
    }


def rates_of(scan: dict[str, Any]) -> dict[str, Rate]:
    """Return seconds per byte, pair or residue: medians over rounds, smallest, largest.

    The time of a key is the time with many keys minus the time with one key, in each round. For
    block keys that result has too few keys: see `scale_measured.first_stage`.
    """
    times, sizes = scan["times"], scan["sizes"]
    sequences = sizes["sequences"]
    timed = max(1, sequences // sizes["share"])  # sequences that many keys were timed on
    copied = sizes["bytes"] * sizes["copies"]

    def of_keys(name: str, per_sequence: float) -> Rate:
        rounds = zip(times["keys"][name], times["keys"]["one"], strict=True)
        return _rate([max(0.0, m / timed - one / sequences) / per_sequence for m, one in rounds])

    workers = next(row for row in scan["rows"] if row["name"] == "workers")
    return {
        "read": _rate([one / copied for one in times["workers"]["one"]]),
        "unpack": _rate([one / copied for one in times["gzip"]["bare"]]),
        "two_part": of_keys("very_many", VERY_MANY_KEYS - 1),
        "blocks_1": of_keys("block_keys", MANY_KEYS * sizes["mean_length"]),
        "blocks": of_keys("block_key", sizes["mean_length"]),
        "workers": {"median": workers["ratio"], "low": workers["low"], "high": workers["high"]},
    }


def _rate(values: Sequence[float]) -> Rate:
    return {"median": median(values), "low": min(values), "high": max(values)}


def bytes_of(setting: Setting, scan: dict[str, Any]) -> int:
    """Return the size of all records as FASTA, with headers as long as in the measurement."""
    sizes = scan["sizes"]
    header = sizes["bytes"] / sizes["sequences"] - sizes["mean_length"]
    return int(setting.proteins * (setting.mean_length + header))


def bill(
    scheme: str,
    setting: Setting,
    rates: dict[str, Rate],
    sizes: tuple[int, int],  # all bytes, and the bytes of a piece
    passing: int,
    of_pair: dict[str, Rate],  # seconds of each stage for a pair
    natural: dict[str, Any] | None,
) -> dict[str, Any]:
    """Return the time of a scan, in seconds of one core by stage, and on several machines."""
    seconds = {
        "read": {name: sizes[0] * value for name, value in rates["read"].items()},
        "first": {name: setting.num_tests * of_pair["first"][name] for name in _SPREAD},
    }
    chance = setting.num_tests * 10.0**-passing
    second = {"chance": _same(chance * of_pair["second"]["median"])}
    pairs = {"chance": chance}
    if natural and natural["passed"]:
        pairs["natural"] = setting.num_tests * natural["passed"] / natural["segments"]
        pairs["natural"] /= natural["keys"]
        second["natural"] = _of_repeats(pairs["natural"] * natural["seconds"], natural)
    more = second.get("natural", second["chance"])
    total = {n: seconds["read"][n] + seconds["first"][n] + more[n] for n in more}
    return {
        "scheme": scheme,
        "seconds": seconds,
        "pairs": pairs,
        "second": second,
        "by_source": _by_source(scheme, setting, rates),
        "total": total,
        "machines": [wall(setting, total["median"], rates, sizes, m) for m in MACHINES],
    }


def _by_source(scheme: str, setting: Setting, rates: dict[str, Rate]) -> float:
    """Return the time of a pair in the first stage, from a run with fewer keys."""
    # A key of the paper's scheme takes the same time for any length; a block key scales with it.
    each = setting.mean_length if scheme in BLOCK_SCHEMES else 1
    return each * rates[RATE_OF[scheme]]["median"]


def _same(value: float) -> Rate:
    return dict.fromkeys(_SPREAD, value)


def _of_repeats(seconds: float, natural: dict[str, Any]) -> Rate:
    """Return the time of pairs that passed, with the interval of the share of their segments."""
    share = natural["segments_passed"] / natural["segments"]
    low, high = (seconds * natural[end] / share for end in ("low", "high"))
    return {"median": seconds, "low": low, "high": high}


def wall(
    setting: Setting,
    seconds: float,
    rates: dict[str, Rate],
    sizes: tuple[int, int],
    machines: int,
) -> dict[str, Any]:
    """Return how long several machines take together, and the price of their cores.

    A piece of a file is work for one core. With nearly as many cores as pieces, some cores get two
    pieces and the others wait. Two workers are not twice as fast as one; we assume the efficiency
    of two workers for any number.
    """
    size, piece = sizes
    cores = machines * setting.cores
    pieces = max(1, ceil(size / piece))
    by_cores = seconds / pieces * ceil(pieces / cores) / (rates["workers"]["median"] / 2.0)
    by_disk = size / (machines * setting.disk * _MEGA)
    longest = max(by_cores, by_disk)
    return {
        "machines": machines,
        "seconds": longest,
        "is_disk": by_disk > by_cores,
        "dollars": longest / _HOUR * cores * setting.core_hour,
    }


def unpacking_times(
    setting: Setting, rates: dict[str, Rate], size: int, bills: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    """Return the least time for .gz files, each of which is unpacked by one thread.

    A scan unpacks one file after the other; with Ray a packed file is one task.
    """
    alone = size * rates["unpack"]["median"]
    share = max(1, setting.files)
    return {
        "one_process": alone,
        "process_a_file": alone / share,
        "ray": {row["scheme"]: (row["total"]["median"] + alone) / share for row in bills},
    }


def gpu_bills(setting: Setting, folder: Path) -> dict[str, Any] | None:
    """Return the hours and the price of GPUs, if `bench scan-gpu` has measured them."""
    file = folder / GPU_SOURCE
    if not file.exists():
        return None
    source = _read(file)
    measured = {row["name"]: row for row in source["rows"]}
    rows = []
    for scheme, name in GPU_NAMES.items():
        if name in measured:
            seconds, core = gpu_seconds(scheme, setting, measured[name])
            dollars = seconds["median"] / _HOUR * setting.gpu_hour
            rows.append({"scheme": scheme, "seconds": seconds, "dollars": dollars, "core": core})
    about = {name: source[name] for name in ("gpu", "version", "machine")}
    return about | {"rows": rows}


def gpu_seconds(scheme: str, setting: Setting, row: dict[str, Any]) -> tuple[Rate, float]:
    """Return the seconds of one GPU in every round, and the seconds of a CPU core for a pair.

    Reading scales with residues, the rest of the time with pairs. The time of a pair scales with
    its residues for block keys, and is constant for keys of the paper's scheme.
    """
    all_residues = setting.proteins * setting.mean_length
    by_residue = scheme in BLOCK_SCHEMES

    def per_pair(where: dict[str, Any]) -> float:
        length = where["residues"] / where["sequences"]
        return (setting.mean_length / length if by_residue else 1.0) / float(where["pairs"])

    times = row["times"]
    rounds = [
        read * all_residues / row["residues"]
        + max(0.0, whole - read) * setting.num_tests * per_pair(row)
        for read, whole in zip(times["read"], times["device"], strict=True)
    ]
    return _rate(rounds), median(times["cpu"]) * per_pair(row["cpu"])
