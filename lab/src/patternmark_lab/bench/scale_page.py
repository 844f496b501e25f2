"""The page of `patternmark bench scale`, made from its result alone."""

from __future__ import annotations

from typing import Any

from patternmark_lab.bench.scale_lines import (
    LABELS,
    amount,
    core_hours,
    dollars,
    duration,
    length,
    percent,
    power_of_ten,
    ranged,
    table,
    two_digits,
)
from patternmark_lab.bench.scale_setting import SAMPLE, Setting
from patternmark_lab.bench.scale_tables import (
    design_lines,
    fewer_lines,
    length_lines,
    natural_lines,
)

_USUAL = "blocks"  # what keygen makes
_MGNIFY = "https://pmc.ncbi.nlm.nih.gov/articles/PMC9825492"


def to_markdown(result: dict[str, Any]) -> str:
    """Return the page."""
    setting = result["setting"]
    parts = {
        "What is assumed": _assumptions(result),
        "Tests and p-values": _tests(result),
        "The length that this implies": [*length_lines(result), *design_lines(result)],
        "Time and cost": _costs(result),
        "What does not scale": _limits(result),
        "What to do at that scale": [*fewer_lines(result), "", *_ADVICE],
    }
    lines = [
        f"# {amount(setting['proteins'])} proteins and {setting['keys']:,} keys, on paper",
        "",
        *_answer(result),
        "",
        _made(result),
    ]
    for name, part in parts.items():
        lines += ["", f"## {name}", "", *part]
    return "\n".join(lines) + "\n"


def _answer(result: dict[str, Any]) -> list[str]:
    setting, log10_p = result["setting"], result["corrections"][0]["log10_p"]
    of_usual = {row["delta"]: row for row in result["lengths"] if row["scheme"] == _USUAL}
    designs = []
    for delta in (1.0, 1.5):
        found = of_usual[delta].get("measured") or of_usual[delta]["shipped"]
        designs.append(
            f"at delta {delta:g} half of the designs from {length(found['half'])} residues on, "
            f"95 % of them from {length(found['most'])} on"
        )
    costs = []
    for row in result["bills"]:
        ten, repeats = row["machines"][1], row["second"].get("natural", {"median": 0.0})
        mostly = (
            ", most of it for repeats" if repeats["median"] > row["total"]["median"] / 2 else ""
        )
        costs.append(
            f"{LABELS[row['scheme']]}: {duration(ten['seconds'])} and {dollars(ten['dollars'])}"
            f"{mostly}"
        )
    for row in result["gpu"]["rows"][-1:] if result["gpu"] else ():
        one = duration(row["seconds"]["median"])
        costs.append(
            f"{LABELS[row['scheme']]}, one GPU instead: {one} and {dollars(row['dollars'])}"
        )
    whole = "all of MGnify, " if setting["proteins"] == Setting().proteins else ""
    return [
        f"What does it take to look for the marks of {setting['keys']:,} keys in {whole}"
        f"{amount(setting['proteins'])} proteins?",
        "",
        f"- **p-value:** a hit must reach {power_of_ten(log10_p)}, so that the chance of any false "
        f"hit in {amount(result['tests'])} tests is {percent(setting['fpr'])}.",
        f"- **Length** ({LABELS[_USUAL]}): {'; '.join(designs)}.",
        f"- **Time and cost**, on 10 machines of {setting['cores']} cores: {'; '.join(costs)}.",
    ]


def _made(result: dict[str, Any]) -> str:
    source = result["source"]
    gpu = " and from `results/scan-gpu.json`" if result["gpu"] else ""
    kept = [f"`--{name}`" for key, name in _KEPT.items() if key in result]
    return (
        "**No scan of this size was run.** All follows from rates measured on fewer sequences and "
        f"keys. Made by `patternmark bench scale{_options(result)} -o docs` with patternmark "
        f"{result['version']}, Python {result['python']}, numpy {result['numpy']}, on "
        f"{result['machine']}, from [`results/scan.json`](results/scan.md) (patternmark "
        f"{source['version']}, {source['machine']}){gpu}; all numbers are in `results/scale.json`."
        + (f" What {' and '.join(kept)} measured is kept until given again." if kept else "")
    )


_KEPT = {"natural": "natural FILE", "designs": "structures FOLDER"}


def _options(result: dict[str, Any]) -> str:
    usual, sample = vars(Setting()), result["sample"]
    given = {name: value for name, value in result["setting"].items() if value != usual[name]}
    given |= {"sample": sample} if sample != SAMPLE else {}
    return "".join(f" --{name.replace('_', '-')} {value}" for name, value in given.items())


def _assumptions(result: dict[str, Any]) -> list[str]:
    s, sizes = result["setting"], result["source"]["sizes"]
    header = sizes["bytes"] / sizes["sequences"] - sizes["mean_length"]
    rows = [
        ("proteins", f"{s['proteins']:,}", "proteins", "time, cost and tests, in proportion"),
        ("keys", f"{s['keys']:,}", "keys", "time, cost and tests, in proportion"),
        (
            "residues of a protein, on average",
            f"{s['mean_length']}",
            "mean-length",
            "block keys, in proportion; reading, nearly; two parts, not at all",
        ),
        (
            "segments of a protein",
            f"{s['segments']:g}",
            "segments",
            "tests, in proportion; only beyond 2,048 residues there are more than one",
        ),
        ("chance of any false hit", percent(s["fpr"]), "fpr", "the p-value, in proportion"),
        ("share of false hits", percent(s["fdr"]), "fdr", "the p-value, in proportion"),
        ("cores of a machine", f"{s['cores']}", "cores", "time, inversely"),
        ("a core for an hour", f"${s['core_hour']:.2f}", "core-hour", "cost, in proportion"),
        ("a GPU for an hour", f"${s['gpu_hour']:.2f}", "gpu-hour", "cost, in proportion"),
        ("MB/s that a machine reads", f"{s['disk']:g}", "disk", "time, where it is the limit"),
        ("files that they come in", f"{s['files']}", "files", "time of packed files, inversely"),
    ]
    shown = [row for row in rows if row[2] != "gpu-hour" or result["gpu"]]
    return [
        *table("assumption", "value:", "option", "what depends on it"),
        *(f"| {what} | {value} | `--{name}` | {effect} |" for what, value, name, effect in shown),
        "",
        f"MGnify has [more than 2.4 billion]({_MGNIFY}) proteins. The other numbers are round "
        f"ones, prices too. A record has {header:.0f} bytes besides its residues, as those that "
        f"were measured: {result['bytes'] / 1e9:,.0f} GB in all.",
    ]


def _tests(result: dict[str, Any]) -> list[str]:
    s, is_cut = result["setting"], any(row["is_cut"] for row in result["corrections"])
    lines = [
        f"{s['proteins']:,} proteins, {s['segments']:g} segment{'s' if s['segments'] > 1 else ''} "
        f"each, and {s['keys']:,} keys are {result['tests']:,} tests.",
        "",
        *table("correction", "hits:", "p-value of a test, at most:", "log10 p:"),
    ]
    for row in result["corrections"]:
        level = f"`--{row['correction']} {s[row['correction']]:g}`"
        hits = "any number" if row["hits"] is None else f"{row['hits']:,}"
        most = power_of_ten(row["log10_p"])
        lines.append(f"| {level} | {hits} | {most} | {row['log10_p']:.2f} |")
    return [
        *lines,
        "",
        "`--fdr` asks less of each hit the more hits are found. With one hit it is as strict as "
        "`--fpr`.",
        "",
        f"With {s['keys']:,} keys **the first stage** lets pass what has a p-value of "
        f"10^-{result['passing']} or less by its count. "
        + (
            "Larger p-values than that are never reported, whatever `--fdr` allows."
            if is_cut
            else "All p-values of the table are smaller; what `auto` would give one and the count "
            "does not let pass is lost."
        )
        + " No count of false positives can show that p-values of 10^-16 are true: on real "
        "proteins they were [counted](results/validity.md) down to 10^-5.",
        "",
        *_second_stage(result),
        "",
        *natural_lines(result),
        *_alike(result),
    ]


def _second_stage(result: dict[str, Any]) -> list[str]:
    lines = [
        f"By chance at most {amount(result['bills'][0]['pairs']['chance'])} pairs pass, and are "
        "judged by `auto`, **the second stage**. Its time was measured in this run, for a random "
        f"sequence of {result['setting']['mean_length']} residues and a key that was not used "
        "before, as hardly two such pairs have the same key:",
        "",
        *table("keys", "`auto`, ms a pair:", "the middle half:", "n:", "core-hours, by chance:"),
    ]
    for row in result["bills"]:
        auto = result["of_pairs"]["second"][row["scheme"]]
        hours = core_hours(row["second"]["chance"]["median"])
        lines.append(
            f"| {LABELS[row['scheme']]} | {1e3 * auto['median']:.1f} | {1e3 * auto['low']:.1f} to "
            f"{1e3 * auto['high']:.1f} | {auto['n']} | {hours} |"
        )
    return lines


def _alike(result: dict[str, Any]) -> list[str]:
    splits = result["splits"]
    return [
        "**So many keys of two parts cannot be told apart.** There are "
        f"{splits['splits']:,} splits of twenty amino acids. Of {result['setting']['keys']:,} "
        f"random keys {percent(splits['share'])} have the very split of another, and a key has on "
        f"average {two_digits(splits['one_swap'])} others that differ from it by one letter of "
        "each part, and find its marks. A hit says that a design is marked, hardly by whom. "
        "Block keys have ten secret bits for each block and nonce.",
    ]


def _costs(result: dict[str, Any]) -> list[str]:
    lines = [
        "Core-hours, in brackets by the fastest and by the slowest round, and for repeats by the "
        "interval of their share:",
        "",
        *table("keys", "reading:", "first stage:", "second stage:", "all:"),
    ]
    for row in result["bills"]:
        read, first = (ranged(row["seconds"][name]) for name in ("read", "first"))
        second = row["second"]
        more = (
            ranged(second["natural"])
            if "natural" in second
            else core_hours(second["chance"]["median"])
        )
        label, total = LABELS[row["scheme"]], ranged(row["total"])
        lines.append(f"| {label} | {read} | {first} | {more} | {total} |")
    heads = [f"on {m['machines']:,}:" for m in result["bills"][0]["machines"]]
    lines += [
        "",
        f"On machines of {result['setting']['cores']} cores, files not packed, with the price of "
        "all their cores:",
        "",
        *table("keys", *heads),
    ]
    for row in result["bills"]:
        cells = [
            f"{duration(m['seconds'])}{' (disk)' if m['is_disk'] else ''}, {dollars(m['dollars'])}"
            for m in row["machines"]
        ]
        lines.append(f"| {LABELS[row['scheme']]} | {' | '.join(cells)} |")
    return [*lines, "", *_gpu(result), *_method(result)]


def _gpu(result: dict[str, Any]) -> list[str]:
    if not result["gpu"]:
        return []
    lines = [
        f"On {result['gpu']['gpu']}, by [`results/scan-gpu.json`](results/scan-gpu.md), from bytes "
        "in memory to what passes the first stage. The second stage of repeats comes on top, on "
        "cores:",
        "",
        *table("keys", "GPU-hours:", "on 10 GPUs:", "cost:"),
    ]
    for row in result["gpu"]["rows"]:
        ten = duration(row["seconds"]["median"] / 10)
        hours, price = ranged(row["seconds"]), dollars(row["dollars"])
        lines.append(f"| {LABELS[row['scheme']]} | {hours} | {ten} | {price} |")
    return [*lines, ""]


def _method(result: dict[str, Any]) -> list[str]:
    rates, sizes = result["rates"], result["source"]["sizes"]
    workers, kinds, source = rates["workers"], [], []
    for row in result["bills"]:
        of_pair = result["of_pairs"]["first"][row["scheme"]]
        low, high = (two_digits(1e9 * of_pair[end]) for end in ("low", "high"))
        middle = two_digits(1e9 * of_pair["median"])
        kinds.append(f"{LABELS[row['scheme']]} {middle} ns ({low} to {high})")
        source.append(two_digits(1e9 * row["by_source"]))
    return [
        "How this was worked out:",
        "",
        "- *Reading*: a scan of plain files by one worker for one key, "
        f"{1e9 * rates['read']['median']:.2f} ns a byte, with hashes and notes to resume from "
        "(`results/scan.json`).",
        "- *The first stage*, for a sequence and a key, was measured in this run with all "
        f"{result['setting']['keys']:,} keys at once, on {result['sample']:,} random sequences of "
        f"{result['setting']['mean_length']} residues in memory, by one thread, in rounds: "
        f"{'; '.join(kinds)}. `results/scan.json` would give {', '.join(source[:-1])} and "
        f"{source[-1]} ns: the time with many keys less that with one, by key (5,000 of two parts, "
        "64 of one nonce, one of 32 nonces), and by residue for block keys. With so few "
        "block keys, what is done once for a sequence counts as theirs." + _other_machine(result),
        f"- *Machines*: two workers were {workers['median']:.2f} times as fast as one (rounds: "
        f"{workers['low']:.2f} to {workers['high']:.2f}; `results/scan.json`). So a core counts "
        f"for {percent(workers['median'] / 2)} of itself, on every machine. More than two workers "
        "were not measured.",
        f"- *Pieces*: a core does whole pieces of {sizes['piece'] / 2**20:.0f} MiB, of which there "
        f"are {-(-result['bytes'] // sizes['piece']):,}. With nearly as many cores some do two, "
        "and the others wait.",
    ]


def _other_machine(result: dict[str, Any]) -> str:
    if not result["gpu"]:
        return ""
    cores = [two_digits(1e9 * row["core"]) for row in result["gpu"]["rows"]]
    return (
        f" A core of the machine of `results/scan-gpu.json` ({result['gpu']['machine']}) takes "
        f"{', '.join(cores)} ns: machines differ."
    )


def _limits(result: dict[str, Any]) -> list[str]:
    s, packed, bills = result["setting"], result["packed"], result["bills"]
    unpack = two_digits(1e-6 / result["rates"]["unpack"]["median"])
    ray = "; ".join(f"{LABELS[name]}: {duration(t)}" for name, t in packed["ray"].items())
    together = max(result["bytes"] / row["machines"][2]["seconds"] for row in bills)
    pieces = -(-result["bytes"] // result["source"]["sizes"]["piece"])
    lost = bills[-1]["total"]["median"] / pieces
    return [
        f"- **Packed files.** One thread unpacks a .gz file, {unpack} MB/s of what is in it, and a "
        f"scan unpacks one file after the other: {duration(packed['one_process'])} at least, "
        f"however many cores there are. With a process for each of {s['files']} files it is "
        f"{duration(packed['process_a_file'])} at least. Under Ray a packed file is one task for "
        f"one core, so that {s['files']} cores have work and no more ({ray}); so is a Parquet "
        "file. Unpack before, or split into more files.",
        f"- **The store.** 100 machines read up to {two_digits(together / 1e9)} GB/s together.",
        "- **The second stage** is Python for the most part. Threads of one process may wait for "
        "each other there; how long was not measured. Several processes, or Ray's, do not.",
        f"- **What is lost with a machine**: a piece of a file, {duration(lost)} "
        f"of a core with {LABELS[_USUAL]}, and no more (`--resume`).",
        "- **The end**: one process corrects and writes all hits.",
    ]


_ADVICE = [
    "- **Fewer keys in a scan.** Time goes with their number, and tests do. Who asks about one "
    "customer scans for the keys of that one.",
    "- **Fewer proteins.** Scan the representatives of clusters. A marked member is missed where "
    "its representative differs too much.",
    "- **Fewer nonces.** A key of one nonce takes a small part of the time of 32, and shorter "
    "designs; its secret lasts for fewer of them ([measured](results/secrecy.md)).",
    "- **`--fdr`**, where many hits are expected and some false ones can be borne.",
    "- **Longer designs or a larger delta.** Both are chosen before the design: `patternmark "
    "power` says what to expect. A larger delta costs likelihood "
    "([measured](results/detectors.md)).",
    "- **Derived keys.** `patternmark key derive` gives every customer a key of its own, and "
    "customers look for theirs with `patternmark identify`: few tests find short designs.",
    "- **A cluster.** `--engine ray` shares out the pieces of plain files and repeats those of "
    "lost machines ([how](scan.md#clusters)).",
]
