"""The parts of the page of `patternmark bench scale` about designs and natural proteins."""

from __future__ import annotations

from typing import Any

from patternmark_lab.bench.scale_length import FEWER_DELTAS, FEWER_SCHEME
from patternmark_lab.bench.scale_lines import (
    LABELS,
    amount,
    core_hours,
    length,
    percent,
    power_of_ten,
    table,
    two_digits,
)
from patternmark_lab.bench.scan_input import BLOCK_SCHEMES

_SHOWN_DELTAS = (1.0, 1.5)  # of what was measured in classes of length


def length_lines(result: dict[str, Any]) -> list[str]:
    """Return the table of lengths, and what it takes for granted."""
    log10_p = result["corrections"][0]["log10_p"]
    has_designs = "designs" in result
    heads = ["keys", "delta:", "agreement:", "half:", "95 %:"]
    if has_designs:
        heads += ["agreement of designs:", "spread:", "half:", "95 %:"]
    lines = [
        "From which length on half and 95 % of intact marked designs of ProteinMPNN have a p-value "
        f"of {power_of_ten(log10_p)} or less, by how many of their residues agree:",
        "",
        *table(*heads, "lost:"),
    ]
    for row in result["lengths"]:
        cells = [LABELS[row["scheme"]], f"{row['delta']:g}", *_cells(row.get("shipped"), False)]
        if has_designs:
            cells += _cells(row.get("measured"), True)
        of = row.get("alike") or row.get("shipped")
        lost = "" if of is None or of["lost"] is None else percent(of["lost"])
        lines.append(f"| {' | '.join([*cells, lost])} |")
    return [*lines, "", *_meaning(has_designs)]


def _cells(found: dict[str, Any] | None, with_spread: bool) -> list[str]:
    if found is None:
        return [""] * (4 if with_spread else 3)
    lengths = [length(found["half"]), length(found["most"])]
    if not with_spread:
        return [f"{found['rate']:.3f}", *lengths]
    return [f"{found['rate']:.3f} ± {found['error']:.3f}", f"{found['spread']:.3f}", *lengths]


def _meaning(has_designs: bool) -> list[str]:
    lines = [
        "- *Agreement* is how often marked residues agree with their key, as it ships with the "
        "package: measured by amino acid (`patternmark bench agreement`), here at natural "
        "frequencies.",
        "- The p-value is exact: the tail of a binomial count, times the ways to agree (2 phases; "
        "8 phases; 8 phases of 32 nonces). So is the share of designs. **Residues are taken to "
        "agree independently of each other, and all designs at one rate**, which "
        "makes the 95 % too short.",
        "- From the length given on, no longer one falls below the share. What is longer than "
        "2,048 residues is judged in segments of 2,048.",
        "- *Lost* is the chance that a design does not pass the first stage (`Screen.lost`), at "
        "the length where half are found. By its count it would not have been found anyway. "
        "Designs that repeat themselves may be lost however long they are ([why](scan.md)).",
    ]
    if has_designs:
        lines.insert(
            2,
            "- *Agreement of designs* was counted for this page, with its 95 % interval over "
            "designs. They differ: *spread* is the standard deviation of their rates beyond "
            "chance. The lengths beside it are exact for rates that follow a beta distribution (a "
            "beta-binomial count). **Rely on these.**",
        )
    return lines


def design_lines(result: dict[str, Any]) -> list[str]:
    """Return what was measured on designs, beside what was to be expected."""
    if "designs" not in result:
        return []
    designs = result["designs"]
    rows = {(row["scheme"], row["delta"]): row for row in designs["rows"]}
    lines = [
        "",
        f"**Held against designs** (`--structures`): {designs['backbones']} chains of "
        f"{rows['paper', 1.0]['classes'][0]['from']} residues and more, {designs['keys']} keys of "
        f"each kind for every chain, so {designs['rows'][0]['designs']['n']} designs of a kind and "
        f"a delta; ProteinMPNN {designs['model']}, T = {designs['temperature']:g}. In percent: "
        f"designs that `auto` gives {power_of_ten(designs['log10_p'])} or less, which is what a "
        "scan reports, with the 95 % interval (Clopper-Pearson); behind it what the count was to "
        "give if designs were alike, and as they differ.",
        "",
        *table("delta:", "residues", "designs:", *(f"{label}:" for label in LABELS.values())),
    ]
    for delta in _SHOWN_DELTAS:
        for place, first in enumerate(rows["paper", delta]["classes"]):
            cells = [_found(rows[scheme, delta]["classes"][place]) for scheme in LABELS]
            span = f"{first['from']} to {first['below'] - 1}"
            lines.append(f"| {delta:g} | {span} | {first['designs']} | {' | '.join(cells)} |")
    found = sum(row["found"] for row in designs["rows"])
    lost = sum(row["lost"] for row in designs["rows"])
    by_count = sum(one["by_count"] for row in designs["rows"] for one in row["classes"])
    return [
        *lines,
        "",
        f"Of all deltas and kinds together `auto` finds {found:,} designs, of which the first "
        f"stage loses {lost:,}; the count alone finds {by_count:,}.",
    ]


def _found(row: dict[str, Any]) -> str:
    if not row["designs"]:
        return ""
    share, expected = row["found"] / row["designs"], row["expected"]
    return (
        f"**{100 * share:.0f}** [{100 * row['low']:.0f}, {100 * row['high']:.0f}]; "
        f"{100 * expected['alike']:.0f}, {100 * expected['different']:.0f}"
    )


def natural_lines(result: dict[str, Any]) -> list[str]:
    """Return what passes the first stage of unmarked proteins that repeat themselves."""
    if "natural" not in result:
        return []
    natural = result["natural"]
    rows = {row["scheme"]: row for row in natural["rows"]}
    of_blocks = [rows[scheme] for scheme in BLOCK_SCHEMES]
    passed = sum(row["passed"] for row in of_blocks)
    pairs = sum(row["segments"] * row["keys"] for row in of_blocks)
    return [
        *(_repeats(result, natural, rows["paper"]) if rows["paper"]["passed"] else []),
        f"Of {amount(pairs)} pairs of the same proteins and block keys "
        f"{f'{passed:,}' if passed else 'none'} passed.",
        "",
    ]


def _repeats(result: dict[str, Any], natural: dict[str, Any], row: dict[str, Any]) -> list[str]:
    paid = next(bill for bill in result["bills"] if bill["scheme"] == "paper")
    times = row["passed"] / (row["segments"] * row["keys"]) * 10 ** result["passing"]
    share, low, high = (
        two_digits(1e3 * x)
        for x in (row["segments_passed"] / row["segments"], row["low"], row["high"])
    )
    hours = core_hours(paid["second"]["natural"]["median"])
    return [
        f"**Repeats are not chance.** Of {natural['sequences']:,} natural proteins (`--natural`: "
        f"{natural['mean_length']:.0f} residues on average) and {row['keys']:,} keys of two parts "
        f"{row['passed']:,} pairs passed by their counts, {amount(times)} times as many as by "
        f"chance. They are of {row['segments_passed']} segments ({share} in a thousand; {low} to "
        f"{high}, 95 % interval, were they unrelated), of which {percent(row['masked'])} are "
        "repeats (the median). So a scan masks repeats before it judges a segment in full, once "
        f"for all keys: {_left(row)} It took {1e3 * row['seconds']:.2g} ms a pair. Were the "
        f"proteins of this page as rich in repeats, {amount(paid['pairs']['natural'])} pairs would "
        f"pass by their counts, and take {hours} core-hours. That is counted below; metagenomes "
        "may have more repeats or "
        "fewer.",
        "",
    ]


def _left(row: dict[str, Any]) -> str:
    """Say what was left to judge in full, and what came of it."""
    if not row["left"]:
        return "no pair was left."
    smallest = row["smallest_log10_p"]
    best = "above 0.01" if smallest is None else power_of_ten(smallest)
    return f"{row['left']:,} pairs were left, of which the smallest p-value is {best}."


def fewer_lines(result: dict[str, Any]) -> list[str]:
    """Return what fewer tests make of the lengths."""
    heads = [f"delta {delta:g}, {share}:" for delta in FEWER_DELTAS for share in ("half", "95 %")]
    differ = ", as designs differ" if "designs" in result else ""
    lines = [
        f"The fewer tests, the shorter a design may be ({LABELS[FEWER_SCHEME]}{differ}):",
        "",
        *table("proteins:", "keys:", "correction", "log10 p:", *heads),
    ]
    setting = result["setting"]
    for row in result["fewer"]:
        name = "fpr" if row["hits"] is None else "fdr"
        hits = "" if row["hits"] is None else f", {row['hits']:,} hits"
        cells = [
            length(row["lengths"][f"{delta:g}"][share])
            for delta in FEWER_DELTAS
            for share in ("half", "most")
        ]
        lines.append(
            f"| {row['proteins']:,} | {row['keys']:,} | `--{name} {setting[name]:g}`{hits} "
            f"| {row['log10_p']:.2f} | {' | '.join(cells)} |"
        )
    return lines
