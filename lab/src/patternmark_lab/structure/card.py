"""The model card of a structure predictor: README.md, made from the facts in card.json."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from patternmark.io.files import write_json, write_text

CARD, README = "card.json", "README.md"
_FIGURES = {
    "q3": "Q3, all residues",
    "q3_per_chain": "Q3, mean over chains",
    "q3_inner": "Q3 without the coil at both ends of each chain",
    "q8": "Q8, all residues",
}


def write_card(folder: Path, facts: Mapping[str, Any]) -> None:
    """Write card.json and README.md."""
    write_json(folder / CARD, facts)
    write_text(folder / README, render(facts))


def render(facts: Mapping[str, Any]) -> str:
    """Return the card as Markdown."""
    settings, data = facts["settings"], facts["data"]
    parts = "".join(
        f"| {name} | {p['chains']:,} | {p['families']:,} | {p['residues']:,} |\n"
        for name, p in facts["parts"].items()
    )
    return f"""# Model card

Predicts the secondary structure of a protein, three or eight states of DSSP for each residue, from
its sequence alone. Use it to compare designs with each other and with their backbone. It does not
replace a predictor that sees alignments or a folded structure.

{facts["parameters"]:,} weights in half precision, SHA-256 `{facts["weights_sha256"]}`.

## Held-out accuracy

{_test(facts["test"])}
## Data

{data["file"]}, SHA-256 `{data["sha256"]}`.

| part | chains | families | residues |
| --- | --- | --- | --- |
{parts}
Near-identical chains are kept once. Two chains are related if a local alignment (BLOSUM62, gaps 11
and 1) scores 90 or more over 40 pairs of residues or more; a family holds all chains that are
related directly or through others. No family is in two parts, and no training chain has an
alignment that scores 75 or more with a held-out chain{
        "".join(f" or with a chain of {name}" for name in data["excluded"])
    }. A residue that was not seen in the crystal counts as coil, as in the data.

## How it was made

```bash
{facts["command"]}
```

{facts["steps"]:,} steps in {settings["minutes"]:g} minutes on {facts["device"]}, patternmark {
        facts["patternmark"]
    }.
{_notes(facts["notes"])}"""


def _test(test: Mapping[str, Any] | None) -> str:
    if test is None:
        return "Not measured: the data has no chains of the part 'test'.\n"
    rows = ""
    for name, title in _FIGURES.items():
        low, high = test["intervals"][name]
        rows += f"| {title} | {test[name]:.4f} | {low:.4f} to {high:.4f} |\n"
    return f"""{test["chains"]:,} chains of {test["families"]:,} families, {
        test["residues"]:,} residues; 95 % intervals of a bootstrap over families.

| | | 95 % |
| --- | --- | --- |
{rows}"""


def _notes(notes: list[str]) -> str:
    if not notes:
        return ""
    return "\n## Licence and acknowledgement\n\n" + "\n\n".join(notes) + "\n"
