"""The page of `patternmark bench paper`, made from its result alone."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from patternmark.errors import InputError
from patternmark.io.bounded import LONGEST_RECORD, read_json
from patternmark_lab.bench.paper import tables
from patternmark_lab.bench.paper.conclusions import TITLES, in_short
from patternmark_lab.bench.paper.figures import FIGURES, has_figure
from patternmark_lab.bench.paper.findings import (
    MEASURES,
    Row,
    false_alarms,
    name_of_measure,
    num_null_keys,
    num_unmarked,
)
from patternmark_lab.bench.paper.numbers import BEST_PATTERN_LENGTH
from patternmark_lab.bench.paper.plan import (
    ATTACKS,
    NONE,
    ON_REQUEST,
    PAPER_ATTACK,
    PUBLISHED,
    REPORTED,
    selectable,
)
from patternmark_lab.bench.paper.run import CHAINS, LAYOUT, PARAGRAPHS, STRUCTURES, TASKS

_SECRECY = "secrecy.json"

_DIFFERENCES = {
    "protein": (
        "**Proteins** (on {device}). The same weights ({model}), T = {temperature:g}, on "
        "{backbones} chains of the PoseBusters set, {chain_lengths[0]} to {chain_lengths[1]} "
        "residues long, {residues:,} in all, and {keys} keys, each of which marks a design on "
        "every chain. The paper has 747 entries of 400 to 500 residues and does not mention keys. "
        "There is no pLDDT here, because ESMFold's weights are not in the package (`patternmark "
        "quality --plddt` uses them). These measures replace it: *likelihood lost*, the negative "
        "log-likelihood per residue (nats) under the design model, compared with designs without "
        "a mark; the same under other weights, which did not choose the letters; and the share of "
        "residues whose predicted secondary structure equals that of the backbone."
    ),
    "translation": (
        "**Translation** (on {device}). The package's own CMLM, German to English, on {texts} "
        "paragraphs of Europarl cut to {tokens[0]} to {tokens[1]} tokens, with {keys} keys in "
        "turn. The paper has a published Romanian-English checkpoint and 1,003 texts of news "
        "crawl. As model and data differ, compare schemes, and not the absolute numbers of BLEU "
        "and of detection. The paper's paraphrases are from ChatGPT, ours are round trips through "
        "another language. BLEU is `{bleu_signature}`."
    ),
}

_DATA = (
    f"`--data FOLDER` has `{STRUCTURES}/` (PDB or mmCIF files, or one .tar.xz of them), `{CHAINS}` "
    f"(id, tab, sequence) and `{PARAGRAPHS}` (German, tab, English). A task needs only its own "
    "files."
)


def to_markdown(result: dict[str, Any], beside: Path | None = None) -> str:
    """Return the results page; `beside` is a folder that may hold results of other benchmarks."""
    if result.get("layout") != LAYOUT:
        raise InputError(
            f"this version cannot read a result of patternmark {result.get('version', '?')}: make "
            "its page with that version, or measure again"
        )
    found = [result[task] for task in TASKS if task in result]
    lines = [*_introduction(result, found), *in_short(found), *_how_it_differs(found)]
    for summary in found:
        lines += _task(summary)
    lines += _secrecy(beside)
    return "\n".join(lines) + "\n"


def _introduction(result: dict[str, Any], found: list[Row]) -> list[str]:
    task = f" --task {found[0]['task']}" if len(found) == 1 else ""
    small = (
        ["", "**This is a run of size smoke, which only shows that everything works.**"]
        if result["size"] == "smoke"
        else []
    )
    missing = [name for name in TASKS if name not in result]
    left_out = ["", f"Not measured: {', '.join(missing)}."] if missing else []
    # The result may have a note that readers of older rows must know.
    left_out += ["", f"**{result['note']}**"] if "note" in result else []
    return [
        "# The paper's tables and figures, rerun",
        "",
        f"Made by `patternmark bench paper --data FOLDER --size {result['size']}{task} "
        f"-o docs/results` with patternmark {result['version']}, Python {result['python']}, numpy "
        f"{result['numpy']}, seed {result['seed']}. `patternmark bench page paper.json` makes this "
        "page again from `paper.json` alone. Schemes are described in "
        "[schemes.md](../schemes.md), attacks in [attacks.md](../attacks.md), and quality in "
        "[quality.md](../quality.md).",
        *_measured_again(result, found),
        *small,
        *left_out,
        *_without_rows(found),
        "",
        "Rates are percentages, with the wider of two 95 % intervals: the exact one over "
        "sequences, or the one over keys (Student's t), which differ more than sequences do. The "
        "number after a slash is the paper's own.",
    ]


def _without_rows(found: list[Row]) -> list[str]:
    """Name the schemes of this version that are missing in the result."""
    lines = []
    for summary in found:
        task = summary["task"]
        measured = {row["scheme"] for row in summary["detection"]}
        missing = [name for name in selectable(task) if name not in measured]
        if missing:
            slow = [f"`{name}`" for name in missing if name in ON_REQUEST[task]]
            lines += [
                "",
                f"{TITLES[task]}: these schemes were not measured: "
                + ", ".join(f"`{name}`" for name in missing)
                + (f"; {', '.join(slow)} is measured only with `--schemes`" if slow else "")
                + " ([descriptions](../schemes.md)).",
            ]
    return lines


def _measured_again(result: dict[str, Any], found: list[Row]) -> list[str]:
    """Say which rows are from a later run than the others."""
    lines = []
    for summary in found:
        measure = MEASURES[summary["task"]][0]
        first = next(row for row in summary["quality"] if row["cell"] == NONE)[measure]["mean"]
        for run in summary.get("reruns", ()):
            marks = [f"`{m}`" for name in run["schemes"] if (m := summary["marks"].get(name))]
            named = ", ".join(f"`{name}`" for name in run["schemes"])
            lines += [
                "",
                f"**{TITLES[summary['task']]}: rows and curves of {named} are from a later run**"
                + (f" (marks: {', '.join(marks)})" if marks else "")
                + f", by `patternmark bench paper --data FOLDER --size {result['size']} --task "
                f"{summary['task']} --schemes {','.join(run['schemes'])} --into "
                f"docs/results/paper.json` with patternmark {run['version']}, Python "
                f"{run['python']}, numpy {run['numpy']}, on {run['device']}. All others are from "
                "the run above. Inputs, keys, seeds, attacks and numbers of verdicts are the same. "
                "The loss of a mark is measured relative to unmarked outputs of the same run: "
                f"their {name_of_measure(measure)} ({measure}) is {run['unmarked'][measure]:.4f}, "
                f"and {first:.4f} in the run above.",
            ]
    return lines


def _how_it_differs(found: list[Row]) -> list[str]:
    lines = ["", "## What differs from the paper"]
    for summary in found:
        facts = summary | {"backbones": len(summary.get("backbones", ()))}
        lines += ["", _DIFFERENCES[summary["task"]].format(**facts)]
    return [*lines, "", _DATA]


def _figure(name: str, summary: Row) -> list[str]:
    if not has_figure(name, summary):
        return []
    return ["", f"![{FIGURES[name]}](paper-{summary['task']}-{name}.png)"]


def _task(summary: Row) -> list[str]:
    """Return all tables of a task, without those that were not measured."""
    task, level = summary["task"], tables.level_name(REPORTED)
    number = {"protein": "1", "translation": "2"}[task]
    starred = (
        [f"\\* has more false positives than {level} at its own p-value: see below.", ""]
        if false_alarms(summary)
        else []
    )
    return [
        "",
        f"## {TITLES[task]}",
        *_figure("tradeoff", summary),
        *_section(
            f"Found at a nominal {level} (Table {number})",
            [*starred, *tables.detection_at_a_glance(summary)],
        ),
        *_section("All levels, and quality (the appendix's table)", tables.all_levels(summary)),
        *_section(
            "At equal measured false positive rates",
            [
                f"Thresholds are measured on {num_unmarked(summary):,} verdicts of "
                f"{num_null_keys(summary)} keys on all unmarked outputs of the model together. "
                "Intervals include the uncertainty of thresholds, by resampling keys.",
                "",
                *tables.matched_rates(summary),
            ],
        ),
        *_section(
            f"At equal quality and a measured {level}",
            [
                "Ours is the largest rate of `default` at no larger loss, interpolated between two "
                "of its strengths on the normal scale. *Points* are our rate minus theirs; the "
                "interval includes the uncertainty of their loss.",
                "",
                *tables.equal_quality(summary),
            ],
        ),
        *_section("Quality", [*tables.qualities(summary), *_figure("quality", summary)]),
        *_robustness(summary),
        *_diversity(summary),
        *_ablations(summary),
        *_section(
            f"Length needed to find 95 % at a nominal {level}",
            [
                "Windows are cut from anywhere in a sequence; a shorter sequence is used whole. "
                "Rates are interpolated linearly between two lengths. Longer windows are more "
                "often near the start of the sequence, where schedules start.",
                "",
                *tables.lengths(summary),
                *_figure("length", summary),
            ],
        ),
        *_section(
            "False positives",
            [
                "Each cell has the measured rate with its interval, and the rate of the key with "
                "the most false positives. In bold cells the whole interval is above the nominal "
                "rate. *Unmarked* are the model's outputs without a mark; *natural* are "
                + ("chains of the PDB." if task == "protein" else "the references."),
                "",
                *tables.false_positives(summary),
                *_figure("false-positives", summary),
            ],
        ),
    ]


def _section(title: str, content: Iterable[str]) -> list[str]:
    lines = list(content)
    return ["", f"### {title}", "", *lines] if lines else []


def _robustness(summary: Row) -> list[str]:
    task, level = summary["task"], tables.level_name(REPORTED)
    measured = {row["how"] for row in summary["robustness"]}
    attack = PAPER_ATTACK[task]
    lines = []
    if attack in measured:
        lines += _section(
            f"The paper's attack, {attack}, at a nominal {level}", tables.paper_attack(summary)
        )
    others = tables.other_attacks(summary, by_model=False)
    lines += _section(f"Other attacks, at a measured {level}", others)
    lines += _section(
        f"Attacks with the design model itself, at a measured {level}",
        tables.other_attacks(summary, by_model=True),
    )
    missing = [name for name in (attack, *ATTACKS[task]) if name not in measured]
    if missing:
        lines += [
            "",
            f"Not measured, because packages for them were missing: {', '.join(missing)}.",
        ]
    return lines


def _diversity(summary: Row) -> list[str]:
    if "diversity" not in summary:
        return []
    text = "In bits, with jackknife intervals. Entropies grow with the number of residues."
    strongest = max(row["delta"] for row in summary["detection"])
    return _section(f"Diversity at delta {strongest:g}", [text, "", *tables.diversity(summary)])


def _ablations(summary: Row) -> list[str]:
    lines = []
    by_length = summary["ablation_m"]
    task = summary["task"]
    if by_length:
        best = max(by_length, key=lambda row: row["nominal"][f"{REPORTED:g}"]["rate"])
        delta = f"delta {best['delta']:g}"
        lines += [
            f"`{PUBLISHED}` with other pattern lengths m, {delta}. At "
            f"{tables.level_name(REPORTED)} m = {best['value']:g} is best; in the paper "
            f"{BEST_PATTERN_LENGTH[task]} is best.",
            "",
            *tables.ablation(by_length, "m", lambda row: float(row["value"])),
        ]
    by_stay = summary["ablation_stay"]
    if by_stay:
        lines += [
            "",
            f"With other transition matrices, delta {by_stay[0]['delta']:g}. The paper shows that "
            "a11 does not change quality, and uses 0.",
            "",
            *tables.ablation(by_stay, "a11", lambda row: float(row["stay"])),
            "",
            *tables.stay_quality(summary),
        ]
    if not lines:
        return []
    return _section("Ablations", [*lines, *_figure("ablations", summary)])


def _secrecy(beside: Path | None) -> list[str]:
    file = None if beside is None else beside / _SECRECY
    if file is None or not file.exists():
        return []
    try:
        found = read_json(file, LONGEST_RECORD)
        rows = tables.secrecy(found)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{file}: is not a result of `bench secrecy`: {error!r}") from None
    return [
        "",
        "## Secrecy",
        "",
        "What an attacker who knows everything but the key can do after seeing marked proteins of "
        "one key (delta 1; [all results](secrecy.md)):",
        "",
        *rows,
    ]
