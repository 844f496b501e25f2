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

_SHOWN_DELTAS = (1.0, 1.5)  # in the table of classes of length


def length_lines(result: dict[str, Any]) -> list[str]:
    """Return the table of lengths, and its assumptions."""
    log10_p = result["corrections"][0]["log10_p"]
    has_designs = "designs" in result
    heads = ["keys", "delta:", "agreement:", "half:", "95 %:"]
    if has_designs:
        heads += ["agreement of designs:", "spread:", "half:", "95 %:"]
    lines = [
        "The lengths from which on half and 95 % of the intact marked designs of ProteinMPNN have "
        f"a p-value of {power_of_ten(log10_p)} or less, computed from how often their residues "
        "agree:",
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
        "- *Agreement* is how often marked residues agree with their key. The rates are those in "
        "the package, measured for each amino acid (`patternmark bench agreement`) and averaged "
        "with natural frequencies.",
        "- The p-value is exact: the tail of a binomial count, times the number of ways to agree "
        "(2 phases; 8 phases; 8 phases of 32 nonces). The share of designs is exact too, **if "
        "residues agree independently and all designs have the same rate**. As designs differ, the "
        "lengths for 95 % are too short.",
        "- The share is reached at the given length and at all longer ones. Designs of more than "
        "2,048 residues are judged in segments of 2,048.",
        "- *Lost* is the chance that a design does not pass the first stage (`KeySet.lost`), at "
        "the length where half are found. By its count it would not be found anyway. Designs with "
        "repeats may be lost at any length ([why](scan.md)).",
    ]
    if has_designs:
        lines.insert(
            2,
            "- *Agreement of designs* was counted for this page, with its 95 % interval over "
            "designs. Designs differ: *spread* is the standard deviation of their rates beyond "
            "chance. The lengths to the right of it are exact if the rates follow a beta "
            "distribution, so that counts are beta-binomial. **Rely on these.**",
        )
    return lines


def design_lines(result: dict[str, Any]) -> list[str]:
    """Return the shares of designs found, measured and expected."""
    if "designs" not in result:
        return []
    designs = result["designs"]
    rows = {(row["scheme"], row["delta"]): row for row in designs["rows"]}
    lines = [
        "",
        f"**Compared with designs** (`--structures`): {designs['backbones']} chains of "
        f"{rows['paper', 1.0]['classes'][0]['from']} residues or more, {designs['keys']} keys of "
        f"each scheme for every chain, so {designs['rows'][0]['designs']['n']} designs for each "
        f"scheme and delta; ProteinMPNN {designs['model']}, T = {designs['temperature']:g}. The "
        "table has the percentage of designs that a scan reports, because `auto` gives "
        f"{power_of_ten(designs['log10_p'])} or less, with the 95 % interval (Clopper-Pearson). "
        "Then follow two percentages that are expected from the count: if all designs had the same "
        "rate, and with their spread.",
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
        f"For all deltas and schemes together, `auto` finds {found:,} designs, of which the first "
        f"stage loses {lost:,}. The count alone finds {by_count:,}.",
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
    """Return how many unmarked proteins pass the first stage because of repeats."""
    if "natural" not in result:
        return []
    natural = result["natural"]
    rows = {row["scheme"]: row for row in natural["rows"]}
    of_blocks = [rows[scheme] for scheme in BLOCK_SCHEMES]
    passed = sum(row["passed"] for row in of_blocks)
    pairs = sum(row["segments"] * row["keys"] for row in of_blocks)
    return [
        *(_repeats(result, natural, rows["paper"]) if rows["paper"]["passed"] else []),
        f"Of {amount(pairs)} pairs of these proteins and block keys, "
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
        f"**Repeats pass the first stage.** Of {natural['sequences']:,} natural proteins "
        f"(`--natural`: {natural['mean_length']:.0f} residues on average) and {row['keys']:,} keys "
        f"of the paper's scheme, {row['passed']:,} pairs passed by their counts, {amount(times)} "
        f"times as many as by chance. They come from {row['segments_passed']} segments ({share} in "
        f"a thousand; 95 % interval {low} to {high}, if the segments were unrelated). The median "
        f"of their shares of repeats is {percent(row['masked'])}. So a scan masks "
        f"repeats once for all keys before `auto` judges a segment: {_left(row)} It took "
        f"{1e3 * row['seconds']:.2g} ms per pair. If the proteins of this page have as many "
        f"repeats, {amount(paid['pairs']['natural'])} pairs will pass by their counts, and take "
        f"{hours} core-hours, which are included below. Metagenomes may have more or fewer "
        "repeats.",
        "",
    ]


def _left(row: dict[str, Any]) -> str:
    """Say how many pairs were left for `auto`, and their smallest p-value."""
    if not row["left"]:
        return "no pair was left."
    smallest = row["smallest_log10_p"]
    best = "above 0.01" if smallest is None else power_of_ten(smallest)
    return f"{row['left']:,} pairs were left, of which the smallest p-value is {best}."


def fewer_lines(result: dict[str, Any]) -> list[str]:
    """Return the table of lengths for fewer tests."""
    heads = [f"delta {delta:g}, {share}:" for delta in FEWER_DELTAS for share in ("half", "95 %")]
    differ = ", with the spread of designs" if "designs" in result else ""
    lines = [
        f"With fewer tests, shorter designs are found ({LABELS[FEWER_SCHEME]}{differ}):",
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
