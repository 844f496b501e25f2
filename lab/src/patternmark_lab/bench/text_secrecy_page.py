"""The page of `patternmark bench text-secrecy`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from patternmark.core.schemes import Paper, Turns
from patternmark_lab.bench.text_secrecy import ATTACKS, FORGERS, MODEL, SENTENCES, WORDS

_TITLES = {Turns.name: "The default scheme", Paper.name: "The paper's scheme"}
_FORGER_TITLES = {
    WORDS: "words in no order",
    SENTENCES: "natural sentences, picked",
    MODEL: "translations by the model",
}
_INTRODUCTION = """\
An attacker knows everything but the secret and has marked texts of one key: translations of
paragraphs of Europarl by the model that ships with the package, of delta {delta:g} (the likeliest
candidate), 50 to 100 tokens each. All are of one nonce and begin with its first key, as by default.
It also has 3,000 natural sentences. It learns

- *frequencies*: which tokens are more frequent than in natural text;
- *pairs*: which tokens follow each other more often than there;
- *phases*: which tokens stand at even places where others stand at odd ones;
- *block*: the same block by block, counted from the beginning of each text, which is known, and
  against natural text; slips where a text was split otherwise than it was made are found with it;

and writes new texts:

- *words in no order*: {length} of those it has seen, at places where it believes they are promoted.
  From one text that is hardly more than copying it in another order, which no key prevents;
- *natural sentences, picked*: of 300 sentences of natural English at a time the one that happens to
  follow the believed mark best, {length} tokens in all: readable, about nothing in particular;
- *translations by the model*: of new paragraphs, whatever the attacker has to say, with what it
  believes in promoted as strongly as the mark is. By one attack alone, from ten texts on.

A forgery passes where the detector `auto` calls it marked at p <= {fpr:.1%}; in the second row also
by `p_any`, the p-value that holds for any text, where it has one. Words and
sentences are judged by the tokens they were made of (who forges can keep those that read back),
translations by their text. Rates are in percent with exact
95 % intervals (Clopper-Pearson) over forgeries of {keys} keys. Those of one key are alike, so that
true intervals are wider: see `by_key` in `text-secrecy.json`. Few texts are learned from up to ten
times, from other ones each time. The settings of *block* and of picking were chosen on the first 75
texts of the two default keys of seed 1, so that other keys may fare a little better; a better
attack may also do better than these.
"""


def to_markdown(result: dict[str, Any]) -> str:
    """Return the results page."""
    lines = [
        "# What marked texts of one key teach",
        "",
        f"Made by `{_command(result)}` with patternmark {result['version']}, Python "
        f"{result['python']}, numpy {result['numpy']}.",
        "",
        _INTRODUCTION.format(**result),
        *_summary(result),
    ]
    for scheme, title in _TITLES.items():
        lines += ["", f"## {title}", "", _marked(result["marked"][scheme])]
        for forger in FORGERS:
            rows = [r for r in result["rows"] if (r["scheme"], r["forger"]) == (scheme, forger)]
            lines += _table(forger, rows) if rows else []
    return "\n".join(lines) + "\n"


def _command(result: dict[str, Any]) -> str:
    return (
        f"patternmark bench text-secrecy PARAGRAPHS --natural SENTENCES --texts {result['texts']} "
        f"--keys {result['keys']} --forgeries {result['forgeries']} --translated "
        f"{result['translated']} --skip {result['skipped']} --delta {result['delta']:g} --seed "
        f"{result['seed']} -o docs/results"
    )


def _summary(result: dict[str, Any]) -> list[str]:
    """Say from how many texts on one forgery in ten passes."""
    found = {(r["scheme"], r["attack"], r["forger"]): r for r in result["one_in_ten"]}
    lines = [
        "## Texts of one key until one forgery in ten passes",
        "",
        "Interpolated between the numbers of texts that were measured; in brackets by `p_any`.",
        "",
        "| forgery | attack | " + " | ".join(title.lower() for title in _TITLES.values()) + " |",
        "|---|---|" + "---|" * len(_TITLES),
    ]
    for forger, title in _FORGER_TITLES.items():
        for attack in ATTACKS:
            rows = [found.get((scheme, attack, forger)) for scheme in _TITLES]
            if any(rows):
                cells = " | ".join("" if row is None else _texts(row) for row in rows)
                lines.append(f"| {title} | {attack} | {cells} |")
    return lines


def _texts(row: dict[str, Any]) -> str:
    text = f"**{_number(row['texts'], row)}**"
    return f"{text} ({_number(row['texts_any'], row)})" if "texts_any" in row else text


def _number(texts: float | None, row: dict[str, Any]) -> str:
    if texts is None:
        return f"more than {row['most']:,}"
    return f"{row['least']:,} or fewer" if texts <= row["least"] else f"{texts:,.0f}"


def _marked(found: dict[str, Any]) -> str:
    by_any = "" if found["passed_any"] is None else f", by `p_any` {_percent(found['passed_any'])}"
    return f"Of the marked texts themselves the detector finds {_percent(found['passed'])}{by_any}."


def _table(forger: str, rows: Sequence[dict[str, Any]]) -> list[str]:
    counts = sorted({row["texts"] for row in rows})
    lines = [
        "",
        f"### {_FORGER_TITLES[forger][0].upper()}{_FORGER_TITLES[forger][1:]}",
        "",
        "| attack | passes by | " + " | ".join(map(_seen, counts)) + " |",
        "|---|---|" + "---|" * len(counts),
    ]
    for attack in ATTACKS:
        own = {row["texts"]: row for row in rows if row["attack"] == attack}
        for name, how in (("passed", "verdict"), ("passed_any", "`p_any`")):
            if own and all(row[name] for row in own.values()):
                cells = " | ".join(_percent(own[count][name]) for count in counts)
                lines.append(f"| {attack} | {how} | {cells} |")
    return lines


def _seen(count: int) -> str:
    return f"{count:,} text{'s' if count > 1 else ''}"


def _percent(rate: dict[str, Any]) -> str:
    value, low, high = (f"{100 * rate[name]:.3g}" for name in ("rate", "low", "high"))
    return f"**{value}** [{low}, {high}] of {rate['n']}"
