"""The page of `patternmark bench oracle`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from patternmark.attacks.oracle import ANSWERS
from patternmark_lab.bench.text_secrecy import crossing

_TITLES = {"blocks": "Block keys, the default for proteins", "turns": "Keys for text"}
_ANSWERS = {"statistic": "the statistic", "p": "the p-value", "verdict": "the verdict alone"}
_HALF = 0.5  # of the attacks
_INTRODUCTION = """\
An attacker knows everything but the secret, and may ask a detector about sequences of its choice.
The detector (`auto`, default key, FPR {fpr:.1%}) answers with its statistic, with the p-value, or
with the verdict alone (`detect --verdict-only`).

- *Strip*: the attacker has a sequence that is called marked, and wants the answer "no mark". With
  numbers it tries edits one by one and makes first those that cost most evidence; with verdicts it
  makes edits in any order. The rest of its questions it uses to take edits back. It *falls* if the
  answer is "no mark" at the end, and *cheaply* if at most {cheap:.0%} of its symbols were changed.
- *Forge*: the attacker has a sequence of its own, and wants the answer "marked". It makes and takes
  back single edits, and keeps what raises the evidence. While an answer says nothing (p is 1, or
  the verdict is no) it tries other random sets of edits. It *passes* when the answer is "marked".

Proteins have {length} residues with natural frequencies, marked ones tilted by the agreement rates
of designs of delta {delta:g}; an edit replaces a letter by the other one of its public pair. Texts
are translations by the model that ships with the package at delta {text_delta:g}, forgeries begin
with {text_length} tokens of natural English; an edit replaces a token by another one from natural
English. What edits do to a fold or to a sentence is not judged here. A better attack may need fewer
questions: these numbers are upper bounds on what an attack needs.

Rates are in percent, with the exact 95 % interval (Clopper-Pearson) over sequences; those of one
key are alike, so see `half_width_over_keys` in `oracle.json` as well. *Changed* is the mean share
of changed symbols in successful attacks, in percent with Student's t.
"""


def to_markdown(result: dict[str, Any]) -> str:
    """Return the results page."""
    lines = [
        "# What a detector's answers give away",
        "",
        f"Made by `{_command(result)}` with patternmark {result['version']}, Python "
        f"{result['python']}, numpy {result['numpy']}.",
        "",
        _INTRODUCTION.format(**result),
        *_summary(result),
    ]
    for scheme in result["schemes"]:
        lines += _of_scheme(scheme, result["cheap"])
    return "\n".join(lines) + "\n"


def _command(result: dict[str, Any]) -> str:
    has_text = any(scheme["scheme"] == "turns" for scheme in result["schemes"])
    text = " --paragraphs PARAGRAPHS --natural SENTENCES" if has_text else ""
    return f"patternmark bench oracle{text} --seed {result['seed']} -o docs/results"


def _summary(result: dict[str, Any]) -> list[str]:
    lines = [
        "## Questions until half of the attacks succeed",
        "",
        "Interpolated between the numbers of questions that were measured.",
        "",
        "| keys | attack | " + " | ".join(_ANSWERS[answers] for answers in ANSWERS) + " |",
        "|---|---|" + "---|" * len(ANSWERS),
    ]
    for scheme in result["schemes"]:
        for title, attack, cell in (
            ("strip", "strip", "fell"),
            (f"strip with at most {result['cheap']:.0%} changed", "strip", "cheaply"),
            ("forge", "forge", "passed"),
        ):
            cells = " | ".join(_until_half(scheme[attack], answers, cell) for answers in ANSWERS)
            lines.append(f"| {_TITLES[scheme['scheme']]} | {title} | {cells} |")
    return lines


def _until_half(rows: Sequence[dict[str, Any]], answers: str, cell: str) -> str:
    curve = [(r["questions"], r[cell]["rate"]) for r in rows if r["answers"] == answers]
    least, most = curve[0][0], curve[-1][0]
    found = crossing(curve, _HALF)
    if found is None:
        return f"**more than {most:,}**"
    return f"**{least} or fewer**" if found <= least else f"**{found:,.0f}**"


def _of_scheme(scheme: dict[str, Any], cheap: float) -> list[str]:
    keys, each = scheme["keys"], scheme["sequences"]
    lines = [
        "",
        f"## {_TITLES[scheme['scheme']]}",
        "",
        f"{keys} keys with {each} marked sequences and {each} others each. Of the marked sequences "
        f"{_percent(scheme['blind'])} fall without any question if {cheap:.0%} of their symbols "
        "are edited at random places.",
    ]
    strip = (("falls", "fell", _percent), ("cheaply", "cheaply", _percent))
    changed = ("changed", "changed", _mean)
    lines += _table("Strip", scheme["strip"], (*strip, changed))
    return lines + _table("Forge", scheme["forge"], (("passes", "passed", _percent), changed))


def _table(
    title: str,
    rows: Sequence[dict[str, Any]],
    shown: Sequence[tuple[str, str, Callable[[Any], str]]],
) -> list[str]:
    counts = sorted({row["questions"] for row in rows})
    lines = [
        "",
        f"### {title}",
        "",
        "| answer | | " + " | ".join(f"{count:,} questions" for count in counts) + " |",
        "|---|---|" + "---|" * len(counts),
    ]
    for answers in ANSWERS:
        own = {row["questions"]: row for row in rows if row["answers"] == answers}
        for name, cell, show in shown:
            cells = " | ".join(show(own[count][cell]) for count in counts)
            lines.append(f"| {_ANSWERS[answers]} | {name} | {cells} |")
    return lines


def _percent(rate: dict[str, Any]) -> str:
    value, low, high = (f"{100 * rate[name]:.3g}" for name in ("rate", "low", "high"))
    return f"**{value}** [{low}, {high}] of {rate['n']}"


def _mean(found: dict[str, Any] | None) -> str:
    if found is None:
        return ""
    return f"{100 * found['mean']:.3g} ± {100 * found['half']:.2g}"
