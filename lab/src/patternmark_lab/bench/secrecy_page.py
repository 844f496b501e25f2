"""The page and the picture of `patternmark bench secrecy`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

_BLOCKS = "blocks"
_GOALS = (  # largest rates at delta 1, default shape: sequences seen, without and with the model
    (1, 0.003, 0.01),
    (32, 0.005, 0.02),
)
_INTRODUCTION = """\
An attacker knows everything but the secret and sees marked sequences of {length} residues.

- *Forged*: the attacker writes new sequences with the mark it has learned, as strong as the real
  one. The number is the share that the detector `auto` calls marked at a false positive rate of
  {fpr:.1%}. *Forced*: the same, promoted as strongly as at delta 1.5, which costs quality.
- *Before*: the seen sequences as they are. *Stripped*: with {budget:.0%} of their residues changed
  where the attacker expects the most damage, from the learned mark and from the letters that follow
  marks best (which is public). *At random*: with as many random changes. In the row of one
  sequence, the attacker has seen only that sequence.
- *Nonces* are used in turn, as the counter beside a key file does, or drawn at random for each
  sequence. *Shared* is the mean number of sequences with the best known nonce. *Bits* is
  the attacker's own estimate of how much it knows about the coins of that nonce.

Sequences are synthetic: natural letters, tilted by the agreement rates measured on designs. Keys
are fresh: {measured} of the {planned} keys of this size were measured. Rates are in percent, with
the exact 95 % interval over sequences. Sequences of one key depend on each other, so see
`half_width_over_keys` in `secrecy.json` as well.

Sequences are judged only under the nonces that they may have, and by the components of the detector
that begin at the first block. Compared with the detector itself, {same} of {n} verdicts are the
same ({fast} and {detector} of them "marked"). To compare block sizes, all use the C of p = C / E
of blocks of {block}. Of the sequences without a mark, the detector calls {unmarked} marked.
"""


def to_markdown(result: dict[str, Any]) -> str:
    """Return the results page."""
    check, default = result["check"], result["default"]
    lines = [
        "# What an attacker learns from marked sequences of one key",
        "",
        f"{_made(result)} `patternmark bench secrecy --size {result['size']}` with "
        f"patternmark {result['version']}, Python {result['python']}, numpy {result['numpy']}.",
        "",
        _INTRODUCTION.format(
            **{name: result[name] for name in ("length", "fpr", "budget")},
            **{name: check[name] for name in ("same", "n", "fast", "detector")},
            **result["trials"],
            block=default["block"],
            unmarked=_percent(result["unmarked"]),
        ),
        *_goals(result),
        *_shapes(result),
        *_curve(result, "## The default shape", lambda row: _shape(row) == _default(result)),
        *_curve(result, "## The paper's scheme", lambda row: row["scheme"] != _BLOCKS),
        *_model(result.get("model")),
        *_curve(
            result,
            "## Every other shape",
            lambda row: row["scheme"] == _BLOCKS and _shape(row) != _default(result),
        ),
    ]
    return "\n".join(lines) + "\n"


def _made(result: dict[str, Any]) -> str:
    """Return the beginning of the line on the command, which says if the run was finished."""
    trials = result["trials"]
    if trials["measured"] == trials["planned"]:
        return "Made by"
    return "Put together from the finished parts of an unfinished run of"


def _shape(row: dict[str, Any]) -> tuple[int, int]:
    return row["block"], row["nonces"]


def _default(result: dict[str, Any]) -> tuple[int, int]:
    return result["default"]["block"], result["default"]["nonces"]


def _goals(result: dict[str, Any]) -> list[str]:
    lines = []
    for count, without, with_model in _GOALS:
        rows = _rows(result["curve"], _default(result), 1.0, count, "in turn")
        if rows:
            lines.append(_goal(f"{count} seen, without the model", rows[0]["forged"], without))
        found = _forgeries(result.get("model"), "one" if count == 1 else "all", "honest")
        if found is not None:
            lines.append(_goal(f"{count} seen, with model and backbone", found, with_model))
    return ["## Goals: forgeries of honest quality at delta 1, nonces in turn", "", *lines, ""]


def _goal(what: str, found: dict[str, Any], most: float) -> str:
    if found["high"] <= most:
        verdict = "reached"
    elif found["low"] > most:
        verdict = "**missed**"
    elif found["rate"] <= most:
        verdict = "reached by the rate, but not by its whole interval"
    else:
        verdict = "missed by the rate, but not by its whole interval"
    return f"- {what}: {_percent(found)}; the goal of at most {100 * most:g} is {verdict}"


def _forgeries(model: dict[str, Any] | None, source: str, kind: str) -> dict[str, Any] | None:
    for row in model["forged"] if model else ():
        if (row["source"], row["kind"]) == (source, kind):
            return dict(row["found"])
    return None


def _rows(
    curve: Sequence[dict[str, Any]], shape: tuple[int, int], delta: float, count: int, how: str
) -> list[dict[str, Any]]:
    return [
        row
        for row in curve
        if row["scheme"] == _BLOCKS
        and (_shape(row), row["delta"], row["sequences"]) == (shape, delta, count)
        and (row["draw"] == how or row["nonces"] == 1)
    ]


def _shapes(result: dict[str, Any]) -> list[str]:
    """Return the table of robustness and forging, for each block size and number of nonces."""
    shapes: dict[int, set[tuple[int, int]]] = {}
    for row in result["curve"]:
        if row["scheme"] == _BLOCKS:
            shapes.setdefault(row["sequences"], set()).add(_shape(row))
    largest = max(map(len, shapes.values()), default=0)
    # Columns that would be nearly empty are only in the tables of single shapes, below.
    counts = sorted(count for count, own in shapes.items() if len(own) > largest / 2)
    lines = [
        "## Robustness and forging",
        "",
        "Percentage of marked sequences that are found, intact and after 10 % indels, and "
        "percentage of forgeries (*forged*) that pass, by the number of sequences seen (nonces in "
        "turn / at random). Empty cells were not measured.",
        "",
        "| block | nonces | delta | intact | 10 % indels | "
        + " | ".join(f"forged from {count:,}" for count in counts)
        + " |",
        "|---:|---:|---:|---|---|" + "---|" * len(counts),
    ]
    for row in result["hardiness"]:
        cells = []
        for count in counts:
            found = [
                _rows(result["curve"], _shape(row), row["delta"], count, how)
                for how in ("in turn", "at random")
            ]
            texts = [f"{_short(100 * rows[0]['forged']['rate'])}" for rows in found if rows]
            cells.append(" / ".join(texts if row["nonces"] > 1 else texts[:1]))
        lines.append(
            f"| {row['block']} | {row['nonces']} | {row['delta']:g} | {_percent(row['intact'])} "
            f"| {_percent(row['indels'])} | {' | '.join(cells)} |"
        )
    return [*lines, ""]


_COLUMNS = ("forged", "forced", "before", "stripped", "random")


def _curve(
    result: dict[str, Any], title: str, wanted: Callable[[dict[str, Any]], bool]
) -> list[str]:
    rows = [row for row in result["curve"] if wanted(row)]
    if not rows:
        return []
    lines = [
        title,
        "",
        "| block | nonces | delta | seen | keys | shared | bits | forged | forced | before "
        "| stripped | at random |",
        "|---|---|---:|---:|---:|---:|---:|---|---|---|---|---|",
    ]
    for row in rows:
        if row["scheme"] == _BLOCKS:
            place = f"{row['block']} | {row['nonces']} {row['draw'] if row['nonces'] > 1 else ''}"
            learned = f"{row['largest']:.3g} | {row['bits']:.0f}"
        else:
            place, learned = "paper | ", f"split found: {_percent(row['ranked_first'])} | "
        rates = " | ".join(_percent(row[name]) for name in _COLUMNS)
        lines.append(
            f"| {place} | {row['delta']:g} | {row['sequences']:,} | {row['keys']} | {learned} "
            f"| {rates} |"
        )
    return [*lines, ""]


def _model(model: dict[str, Any] | None) -> list[str]:
    """Return the section on an attacker with model and backbone, on real designs."""
    if model is None:
        return []
    learned, of_key = model["learned"], model["designs_of_a_key"]
    sources = {"one": "one design", "all": f"{of_key} designs of a key, nonces in turn"}
    shortest, longest = learned["with_model"]["residues"]
    lines = [
        "## With ProteinMPNN: an attacker who has model and backbone",
        "",
        f"{model['designs']} designs of delta {model['delta']:g} at temperature "
        f"{model['temperature']:g} on {len(model['backbones'])} backbones, {shortest} to "
        f"{longest} residues, {model['keys']} keys of the default shape. The attacker knows the "
        "model's probabilities at each residue, but not the sampler's random numbers. Forgeries "
        "are designs on another backbone: the logits of letters that the attacker believes to be "
        "promoted rise by the strength, those of the partners fall by it.",
        "",
        "| what one design reveals | bits | least | most | coins held as sure that are right |",
        "|---|---|---:|---:|---|",
    ]
    for name, text in (("without", "without the model"), ("with_model", "with the model")):
        own = learned[name]
        sure = "" if own["sure"] is None else _percent(own["sure"])
        lines.append(
            f"| {text} | **{own['bits']['mean']:.0f}** ± {own['bits']['half']:.0f} "
            f"| {own['least']:.0f} | {own['most']:.0f} | {sure} |"
        )
    lines += [
        "",
        "| learned from | forged | strength | called marked | negative log-likelihood |",
        "|---|---|---:|---|---|",
    ]
    for row in model["forged"]:
        nll = model["forged_nll"][row["kind"]]
        lines.append(
            f"| {sources[row['source']]} | {row['kind']} | {model['strengths'][row['kind']]:g} "
            f"| {_percent(row['found'])} | {nll['mean']:.3f} ± {nll['half']:.3f} |"
        )
    own_nll = model["marked_nll"]
    lines += [
        "",
        f"The marked designs themselves have {own_nll['mean']:.3f} ± {own_nll['half']:.3f}.",
        "",
        "Stripping one design: the attacker knows everything but the key and changes a tenth of "
        "the residues:",
        "",
        "| edits | still found |",
        "|---|---|",
        *(f"| {name} | {_percent(found)} |" for name, found in model["stripping"].items()),
        "",
    ]
    return lines


def _percent(rate: dict[str, Any]) -> str:
    value, low, high = (_short(100 * rate[name]) for name in ("rate", "low", "high"))
    return f"**{value}** [{low}, {high}] of {rate['n']:,}"


def _short(percent: float) -> str:
    return f"{percent:.2f}" if 0 < percent < 1 else f"{percent:.3g}"


def plot(result: dict[str, Any], path: Path) -> None:
    """Draw forging against sequences seen, and forging against robustness."""
    from matplotlib.figure import Figure  # noqa: PLC0415  # not needed to measure

    figure = Figure(figsize=(9.5, 3.8), layout="constrained", dpi=150)
    seen, shapes = figure.subplots(1, 2)
    block, nonces = _default(result)
    curves: dict[str, list[dict[str, Any]]] = {}
    for row in result["curve"]:
        if row["delta"] == 1.0 and row["block"] in (None, block):
            label = f"{row['nonces']} nonces {row['draw']}" if row["nonces"] > 1 else "1 nonce"
            label = "paper" if row["block"] is None else label
            if row["nonces"] in (1, nonces, 256):
                curves.setdefault(label, []).append(row)
    for label, rows in curves.items():
        style = "s--" if label.endswith("random") else "o-"
        at = [row["sequences"] for row in rows]
        (line,) = seen.plot(at, [row["forged"]["rate"] for row in rows], style, label=label)
        low, high = ([row["forged"][end] for row in rows] for end in ("low", "high"))
        seen.fill_between(at, low, high, color=line.get_color(), alpha=0.12, linewidth=0)
    seen.axhline(result["fpr"], color="black", linewidth=0.8, linestyle=":")
    seen.set(xscale="log", ylim=(-0.02, 1.02), title=f"delta 1, blocks of {block}")
    seen.set(xlabel="sequences seen", ylabel="forgeries taken for genuine")
    seen.legend(fontsize=7)
    for row in result["hardiness"]:
        if row["delta"] == 1.0 and row["nonces"] == nonces:
            for count, marker in ((1, "o"), (32, "s"), (256, "^")):
                found = _rows(result["curve"], _shape(row), 1.0, count, "in turn")
                if found:
                    place = row["indels"]["rate"], found[0]["forged"]["rate"]
                    shapes.plot(*place, marker, color=f"C{row['block']}")
                    shapes.annotate(
                        f"{row['block']}", place, textcoords="offset points", xytext=(4, 4)
                    )
    shapes.set(title=f"delta 1, {nonces} nonces: block sizes", ylim=(-0.02, 1.02))
    shapes.set(xlabel="found after 10 % indels", ylabel="forged from 1 (o), 32 (s), 256 (^)")
    figure.savefig(path)
