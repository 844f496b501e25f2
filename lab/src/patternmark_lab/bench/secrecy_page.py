"""The page and the picture of `patternmark bench secrecy`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

_BLOCKS = "blocks"
_GOALS = (  # at delta 1 with the default shape: sequences seen, without and with the model
    (1, 0.003, 0.01),
    (32, 0.005, 0.02),
)
_INTRODUCTION = """\
An attacker knows everything but the secret and sees marked sequences of {length} residues.

- *Forged*: new sequences with the mark it believes in, as strong as the real one, that the
  detector `auto` calls marked at a false positive rate of {fpr:.1%}; *forced*: the same, promoted
  as hard as at delta 1.5, at the price of quality.
- *Before*: seen sequences as they are; *stripped*: with {budget:.0%} of their residues changed
  where the learned mark (and which letters follow it best, which is public) says it hurts most;
  *at random*: with as many random changes. The row of one sequence is someone who has seen this
  sequence and no other.
- *Nonces*: used in turn, as the counter beside a key file does, or drawn at random for each
  sequence. *Shared*: how many sequences the best known nonce has, in the mean; *bits*: what the
  attacker believes to know of its coins.

Sequences are synthetic: natural letters, tilted by the agreement rates measured on designs. Keys
are fresh: {measured} of the {planned} that this size has were measured. Rates are in percent, with
the exact 95 % interval over sequences; those of one key are alike, so see `half_width_over_keys`
in `secrecy.json` as well.

Sequences are judged by the nonces they may have and by the components of the detector that begin
at the first block. That was held against the detector itself: {same} of {n} verdicts are the same
({fast} and {detector} of them "marked"). C of p = C / E is that of blocks of
{block} for all, to compare them. Of sequences without a mark the detector calls
{unmarked} marked.
"""


def to_markdown(result: dict[str, Any]) -> str:
    """Return the results page."""
    check, default = result["check"], result["default"]
    lines = [
        "# What marked sequences of one key teach",
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
    """Say whether the run was finished."""
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
        verdict = "the rate is within it, its interval reaches beyond"
    else:
        verdict = "the rate is beyond it, its interval reaches within"
    return f"- {what}: {_percent(found)}; at most {100 * most:g}: {verdict}"


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
    """Hardiness beside forging, for each block and number of nonces."""
    shapes: dict[int, set[tuple[int, int]]] = {}
    for row in result["curve"]:
        if row["scheme"] == _BLOCKS:
            shapes.setdefault(row["sequences"], set()).add(_shape(row))
    largest = max(map(len, shapes.values()), default=0)
    # Columns that are nearly empty stay with the shapes they belong to, below.
    counts = sorted(count for count, own in shapes.items() if len(own) > largest / 2)
    lines = [
        "## Hardiness against forging",
        "",
        "Percent of marked sequences that are found, intact and after 10 % indels, and percent of "
        "honest forgeries that pass, by sequences seen (nonces in turn / at random). Empty cells "
        "were not measured.",
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
    """What an attacker with model and backbone reaches, on real designs."""
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
        f"{longest} residues, {model['keys']} keys of the default shape. The attacker knows how "
        "free the model was at each residue, but not the sampler's random numbers. Forgeries are "
        "designs on another backbone: letters believed to be promoted rise by the strength, "
        "letters believed not to be fall by it.",
        "",
        "| one design teaches | bits | least | most | coins that seem sure and are right |",
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
        f"Marked designs themselves: {own_nll['mean']:.3f} ± {own_nll['half']:.3f}.",
        "",
        "Stripping one design, a tenth of its residues changed, everything public but the key:",
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
    """Draw forged sequences against sequences seen, and hardiness against forging."""
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
