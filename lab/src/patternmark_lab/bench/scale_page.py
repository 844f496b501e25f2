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
    table,
    two_digits,
    with_range,
)
from patternmark_lab.bench.scale_setting import SAMPLE, Setting
from patternmark_lab.bench.scale_tables import (
    design_lines,
    fewer_lines,
    length_lines,
    natural_lines,
)

_USUAL = "blocks"  # the default of keygen
_MGNIFY = "https://pmc.ncbi.nlm.nih.gov/articles/PMC9825492"


def to_markdown(result: dict[str, Any]) -> str:
    """Return the page."""
    setting = result["setting"]
    parts = {
        "Assumptions": _assumptions(result),
        "Tests and p-values": _tests(result),
        "How long designs must be": [*length_lines(result), *design_lines(result)],
        "Time and cost": _costs(result),
        "What does not scale": _limits(result),
        "What to do at that scale": [*fewer_lines(result), "", *_ADVICE],
    }
    lines = [
        f"# Scanning {amount(setting['proteins'])} proteins for {setting['keys']:,} keys: an "
        "estimate",
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
            f"at delta {delta:g} half of the designs are found from {length(found['half'])} "
            f"residues on, and 95 % from {length(found['most'])} on"
        )
    costs = []
    for row in result["bills"]:
        ten, repeats = row["machines"][1], row["second"].get("natural", {"median": 0.0})
        mostly = ", mostly for repeats" if repeats["median"] > row["total"]["median"] / 2 else ""
        costs.append(
            f"{LABELS[row['scheme']]}: {duration(ten['seconds'])} and {dollars(ten['dollars'])}"
            f"{mostly}"
        )
    for row in result["gpu"]["rows"][-1:] if result["gpu"] else ():
        one = duration(row["seconds"]["median"])
        costs.append(
            f"{LABELS[row['scheme']]} on one GPU instead: {one} and {dollars(row['dollars'])}"
        )
    whole = "all of MGnify, " if setting["proteins"] == Setting().proteins else ""
    return [
        f"How long does it take, and what does it cost, to look for the marks of "
        f"{setting['keys']:,} keys in {whole}{amount(setting['proteins'])} proteins?",
        "",
        f"- **p-value:** a hit needs {power_of_ten(log10_p)} or less, so that the chance of any "
        f"false hit in {amount(result['tests'])} tests is {percent(setting['fpr'])}.",
        f"- **Length** ({LABELS[_USUAL]}): {'; '.join(designs)}.",
        f"- **Time and cost**, on 10 machines of {setting['cores']} cores: {'; '.join(costs)}.",
    ]


def _made(result: dict[str, Any]) -> str:
    source = result["source"]
    gpu = " and from `results/scan-gpu.json`" if result["gpu"] else ""
    kept = [f"`--{name}`" for key, name in _KEPT.items() if key in result]
    return (
        "**No scan of this size was run.** All numbers are computed from rates measured on fewer "
        f"sequences and keys. Made by `patternmark bench scale{_options(result)} -o docs` with "
        "patternmark "
        f"{result['version']}, Python {result['python']}, numpy {result['numpy']}, on "
        f"{result['machine']}, from [`results/scan.json`](results/scan.md) (patternmark "
        f"{source['version']}, {source['machine']}){gpu}; all numbers are in `results/scale.json`."
        + (
            f" Measurements of {' and '.join(kept)} are kept until you give the option again."
            if kept
            else ""
        )
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
            "time: in proportion for block keys, nearly so for reading, not at all for the paper's "
            "scheme",
        ),
        (
            "segments of a protein",
            f"{s['segments']:g}",
            "segments",
            "tests, in proportion; only proteins above 2,048 residues have more than one",
        ),
        ("chance of any false hit", percent(s["fpr"]), "fpr", "the p-value, in proportion"),
        ("share of false hits", percent(s["fdr"]), "fdr", "the p-value, in proportion"),
        ("cores of a machine", f"{s['cores']}", "cores", "time, inversely"),
        ("a core for an hour", f"${s['core_hour']:.2f}", "core-hour", "cost, in proportion"),
        ("a GPU for an hour", f"${s['gpu_hour']:.2f}", "gpu-hour", "cost, in proportion"),
        ("MB/s that a machine reads", f"{s['disk']:g}", "disk", "time, if it is the limit"),
        ("files of the database", f"{s['files']}", "files", "time of packed files, inversely"),
    ]
    shown = [row for row in rows if row[2] != "gpu-hour" or result["gpu"]]
    return [
        *table("assumption", "value:", "option", "what depends on it"),
        *(f"| {what} | {value} | `--{name}` | {effect} |" for what, value, name, effect in shown),
        "",
        f"MGnify has [more than 2.4 billion]({_MGNIFY}) proteins. The other numbers, and the "
        f"prices, are rounded. A record has {header:.0f} bytes besides its residues, as in the "
        f"measurement: {result['bytes'] / 1e9:,.0f} GB in all.",
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
        "With `--fdr`, the more hits there are, the larger their p-values may be. With one hit it "
        "is as strict as `--fpr`.",
        "",
        f"With {s['keys']:,} keys, a pair passes **the first stage** if the p-value of its count "
        f"is 10^-{result['passing']} or less. "
        + (
            "Larger p-values are never reported, whatever `--fdr` allows."
            if is_cut
            else "All p-values in the table are smaller. A pair is lost if `auto` would give it "
            "such a p-value, but its count does not pass."
        )
        + " No count of false positives can confirm p-values of 10^-16: on real proteins false "
        "positives were [counted](results/validity.md) down to 10^-5.",
        "",
        *_second_stage(result),
        "",
        *natural_lines(result),
        *_alike(result),
    ]


def _second_stage(result: dict[str, Any]) -> list[str]:
    lines = [
        f"At most {amount(result['bills'][0]['pairs']['chance'])} pairs pass by chance. **The "
        "second stage** judges them with `auto`. Its time was measured in this run for a random "
        f"sequence of {result['setting']['mean_length']} residues and a key that was not used "
        "before, because hardly any two of these pairs have the same key:",
        "",
        *table(
            "keys", "`auto`, ms per pair:", "middle half:", "n:", "core-hours for chance pairs:"
        ),
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
        "**Many keys of the paper's scheme cannot be told apart.** There are only "
        f"{splits['splits']:,} splits of twenty amino acids. Of {result['setting']['keys']:,} "
        f"random keys, {percent(splits['share'])} have the same split as another key. On average "
        f"{two_digits(splits['one_swap'])} other keys differ from a key only by swapping one "
        "letter of each part, and these find its marks too. A hit tells you that a design is "
        "marked, but hardly by whom. Block keys have ten secret bits for each block and nonce.",
    ]


def _costs(result: dict[str, Any]) -> list[str]:
    lines = [
        "Core-hours. The brackets have the values of the fastest and of the slowest round; for the "
        "second stage, they come from the interval of the share of repeats:",
        "",
        *table("keys", "reading:", "first stage:", "second stage:", "all:"),
    ]
    for row in result["bills"]:
        read, first = (with_range(row["seconds"][name]) for name in ("read", "first"))
        second = row["second"]
        more = (
            with_range(second["natural"])
            if "natural" in second
            else core_hours(second["chance"]["median"])
        )
        label, total = LABELS[row["scheme"]], with_range(row["total"])
        lines.append(f"| {label} | {read} | {first} | {more} | {total} |")
    heads = [f"on {m['machines']:,}:" for m in result["bills"][0]["machines"]]
    lines += [
        "",
        f"Time and price on machines of {result['setting']['cores']} cores, with files that are "
        "not packed; all cores are paid for:",
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
        f"On {result['gpu']['gpu']}, computed from [`results/scan-gpu.json`](results/scan-gpu.md), "
        "from bytes in memory to the pairs that pass the first stage. Repeats also need the second "
        "stage, on CPU cores:",
        "",
        *table("keys", "GPU-hours:", "on 10 GPUs:", "cost:"),
    ]
    for row in result["gpu"]["rows"]:
        ten = duration(row["seconds"]["median"] / 10)
        hours, price = with_range(row["seconds"]), dollars(row["dollars"])
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
        "How these numbers were computed:",
        "",
        "- *Reading* takes the time of a scan of plain files by one worker for one key: "
        f"{1e9 * rates['read']['median']:.2f} ns per byte, including hashes and the notes to "
        "resume from (`results/scan.json`).",
        "- *The first stage* was measured in this run with all "
        f"{result['setting']['keys']:,} keys together, on {result['sample']:,} random sequences of "
        f"{result['setting']['mean_length']} residues in memory, with one thread. For a sequence "
        f"and a key it takes (range over rounds): {'; '.join(kinds)}. `results/scan.json` would "
        f"give {', '.join(source[:-1])} and {source[-1]} ns: the time with many keys minus the "
        "time with one key, divided by the number of keys (5,000 of the paper's scheme, 64 with "
        "one nonce, one with 32 nonces), and for block keys by residues. With so few block keys, "
        "the work that is done once for each sequence distorts that result."
        + _other_machine(result),
        f"- *Machines*: two workers were {workers['median']:.2f} times as fast as one (rounds: "
        f"{workers['low']:.2f} to {workers['high']:.2f}; `results/scan.json`). So each core counts "
        f"as {percent(workers['median'] / 2)} of a core, on every machine. More than two workers "
        "were not measured.",
        f"- *Pieces*: a core works on whole pieces of {sizes['piece'] / 2**20:.0f} MiB, of which "
        f"there are {-(-result['bytes'] // sizes['piece']):,}. With nearly as many cores as "
        "pieces, some cores get two pieces and the others wait.",
    ]


def _other_machine(result: dict[str, Any]) -> str:
    if not result["gpu"]:
        return ""
    cores = [two_digits(1e9 * row["core"]) for row in result["gpu"]["rows"]]
    return (
        f" Machines differ: a core of the machine in `results/scan-gpu.json` "
        f"({result['gpu']['machine']}) takes {', '.join(cores)} ns."
    )


def _limits(result: dict[str, Any]) -> list[str]:
    s, packed, bills = result["setting"], result["packed"], result["bills"]
    unpack = two_digits(1e-6 / result["rates"]["unpack"]["median"])
    ray = "; ".join(f"{LABELS[name]}: {duration(t)}" for name, t in packed["ray"].items())
    together = max(result["bytes"] / row["machines"][2]["seconds"] for row in bills)
    pieces = -(-result["bytes"] // result["source"]["sizes"]["piece"])
    lost = bills[-1]["total"]["median"] / pieces
    return [
        f"- **Packed files.** One thread unpacks a .gz file, at {unpack} MB/s of unpacked data, "
        "and a scan unpacks one file after the other. This takes at least "
        f"{duration(packed['one_process'])}, however many cores there are. With one process for "
        f"each of {s['files']} files it takes at least {duration(packed['process_a_file'])}. With "
        f"Ray, a packed file or a Parquet file is one task for one core, so that only {s['files']} "
        f"cores have work ({ray}). Unpack the files before the scan, or split them into more "
        "files.",
        f"- **Storage.** 100 machines read up to {two_digits(together / 1e9)} GB/s together.",
        "- **The second stage** is mostly Python. Threads of one process may wait for each other "
        "there; how long was not measured. Several processes, also those of Ray, do not wait.",
        f"- **A machine that fails** loses one piece of a file, that is {duration(lost)} of work "
        f"of each core with {LABELS[_USUAL]}. The rest is kept (`--resume`).",
        "- **The end**: a single process corrects and writes all hits.",
    ]


_ADVICE = [
    "- **Fewer keys in a scan.** Time and tests are proportional to the number of keys. If you ask "
    "about one customer, scan only for that customer's keys.",
    "- **Fewer proteins.** Scan the representatives of clusters. A marked member is missed if its "
    "representative differs too much.",
    "- **Fewer nonces.** A key with one nonce takes a small part of the time of 32 nonces, and "
    "finds shorter designs. But it stays secret for fewer designs "
    "([measured](results/secrecy.md)).",
    "- **`--fdr`**, if you expect many hits and can accept some false ones.",
    "- **Longer designs or a larger delta.** You choose both before you design: `patternmark "
    "power` says what to expect. A larger delta costs likelihood "
    "([measured](results/detectors.md)).",
    "- **Derived keys.** `patternmark key derive` gives every customer a separate key, and "
    "customers look for their own marks with `patternmark identify`: with few tests, short designs "
    "are found too.",
    "- **A cluster.** `--engine ray` distributes the pieces of plain files and repeats the pieces "
    "of machines that fail ([how](scan.md#clusters)).",
]
