"""The page of `patternmark bench text-validity`."""

from __future__ import annotations

from typing import Any

from patternmark.bench.text_validity import LENGTHS
from patternmark.bench.validity import LEVELS, TOLERATED
from patternmark.bench.validity_page import HOW_TO_READ, level_name, schemes_of, verdicts
from patternmark.statistics import STATISTICS


def to_markdown(result: dict[str, Any]) -> str:
    """Return the results page."""
    rows = result["rates"]
    lines = [
        "# Are the p-values true for text?",
        "",
        f"Made by `{_command(result)}` with patternmark {result['version']}, Python "
        f"{result['python']}, numpy {result['numpy']}. {_sources(result)}",
        "",
        HOW_TO_READ.format(tolerated=TOLERATED, num_keys=result["num_keys"]["paper"]),
        "![False positives over the nominal rate](text-validity.png)",
        "",
        *verdicts(rows, list(LENGTHS), lambda length: f"texts of {length}"),
    ]
    lines += ["", "## Corpus by corpus", "", *_by_corpus(result)]
    return "\n".join(lines) + "\n"


def _command(result: dict[str, Any]) -> str:
    keys, texts = result["num_keys"], result["per_key"]
    options = f"--keys {keys['paper']}"
    if keys["turns R=64"] != keys["paper"]:
        options += f" --keys-r64 {keys['turns R=64']}"
    options += (
        f" --texts {texts['paper']} --texts-r1 {texts['turns R=1']} "
        f"--texts-r64 {texts['turns R=64']}"
    )
    return f"patternmark bench text-validity FOLDER --tokenizer FILE {options} -o docs/results"


def _sources(result: dict[str, Any]) -> str:
    keys = ", ".join(
        f"{count} ({scheme}, {result['per_key'][scheme]:,} texts of each corpus and length)"
        for scheme, count in result["num_keys"].items()
    )
    drawn = "; ".join(
        f"{name}: {about['sequences']:,}" for name, about in result["sources"].items()
    )
    return (
        f"Texts are natural English in the tokens of {result['alphabet']} "
        f"({result['num_tokens']:,}), cut from whole documents; none is left out for its repeats. "
        f"Fresh keys: {keys}; those of turns have {result['starts']} starts. Each judges a random "
        f"part of the texts ({drawn})."
    )


def _by_corpus(result: dict[str, Any]) -> list[str]:
    """Return measured over nominal rates of every corpus, for all detectors at the middle level."""
    rows = result["by_corpus"]
    level = LEVELS[1]
    names = STATISTICS
    lines = [
        f"Measured over nominal rates at {level_name(level)}, with the number of false positives:",
        "",
        "| scheme | texts | pairs | " + " | ".join(f"`{name}`" for name in names) + " |",
        "|---|---|---:|" + "---:|" * len(names),
    ]
    for scheme in schemes_of(rows):
        for source in result["sources"]:
            some = {
                row["detector"]: row
                for row in rows
                if (row["scheme"], row["source"], row["nominal"]) == (scheme, source, level)
            }
            cells = [
                f"{some[name]['ratio']:.2f} ({some[name]['hits']})" if name in some else ""
                for name in names
            ]
            pairs = next(iter(some.values()))["pairs"]
            lines.append(f"| {scheme} | {source} | {pairs:,} | " + " | ".join(cells) + " |")
    return lines
