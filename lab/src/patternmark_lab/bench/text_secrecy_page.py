"""The page of `patternmark bench text-secrecy`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from patternmark.core.schemes import Paper, Turns
from patternmark_lab.bench.text_secrecy import ATTACKS, FORGERS, MODEL, SENTENCES, WORDS

_TITLES = {Turns.name: "The default scheme", Paper.name: "The paper's scheme"}
_FORGER_TITLES = {
    WORDS: "words in random order",
    SENTENCES: "natural sentences, picked",
    MODEL: "translations by the model",
}
_INTRODUCTION = """\
An attacker knows everything but the secret and has marked texts of one key: translations of
paragraphs of Europarl by the model that ships with the package, with delta {delta:g} (the likeliest
candidate), 50 to 100 tokens each. All have one nonce and start with its first position key, as by
default. The attacker also has 3,000 natural sentences. It learns one of these:

- *frequencies*: which tokens are more frequent than in natural text;
- *pairs*: which tokens follow each other more often than in natural text;
- *phases*: which tokens stand at even places and which at odd places;
- *block*: the same for each block separately, compared with natural text. Blocks are counted from
  the start of each text, which is known. This attack also finds slips, where a text is tokenized
  differently from how it was written.

Then it writes new texts in one of these ways:

- *words in random order*: {length} tokens that it has seen, at places where it believes that they
  are promoted. From one text this is hardly more than a copy in another order, which no key
  prevents;
- *natural sentences, picked*: of 300 sentences of natural English at a time, the one that happens
  to follow the learned mark best, {length} tokens in all. The text is readable, but without a
  topic;
- *translations by the model*: translations of new paragraphs, so that the attacker can say what it
  wants. They promote what it has learned, as strongly as the mark does. This was measured only for
  one attack, and from ten texts on.

A forgery passes if the detector `auto` calls it marked at p <= {fpr:.1%}. A second row has the
share that also passes by `p_any`, the p-value that holds for any text, for schemes that have one.
Words and sentences are judged by the tokens that they were made of (a forger can keep those that
read back), and translations by their text. Rates are in percent with exact 95 % intervals
(Clopper-Pearson) over forgeries of {keys} keys. Forgeries of one key depend on each other, so that
true intervals are wider: see `by_key` in `text-secrecy.json`. For small numbers of texts, the
attacker learns up to ten times, from different texts. The settings of *block* and of picking were
chosen on the first 75 texts of the two default keys of seed 1, so that other keys may be slightly
safer. Better attacks than these may exist.
"""


def to_markdown(result: dict[str, Any]) -> str:
    """Return the results page."""
    lines = [
        "# What an attacker learns from marked texts of one key",
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
    """Return the table of the numbers of texts from which one forgery in ten passes."""
    found = {(r["scheme"], r["attack"], r["forger"]): r for r in result["one_in_ten"]}
    lines = [
        "## Texts of one key until one forgery in ten passes",
        "",
        "Interpolated between the measured numbers of texts; by `p_any` in brackets.",
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
    return f"The detector finds {_percent(found['passed'])} of the marked texts{by_any}."


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
