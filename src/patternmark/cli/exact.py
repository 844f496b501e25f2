"""Options of `patternmark detect --exact`: the p-value of this very sequence, from drawn keys."""

from __future__ import annotations

from typing import Annotated

import typer

from patternmark.results import Verdict, format_p
from patternmark.statistics.block_exact import DRAWS

Exact = Annotated[
    bool,
    typer.Option(
        "--exact", help="Call by the p-value of this very sequence, from drawn keys: slow."
    ),
]
Draws = Annotated[
    int | None, typer.Option(min=10, help=f"With --exact: keys to draw; default {DRAWS}.")
]
Seed = Annotated[
    int | None, typer.Option(min=0, help="With --exact: the seed of an earlier run, to repeat it.")
]


def exact_cell(verdict: Verdict) -> str:
    """Return the cell with the exact p-value and its error."""
    if verdict.log10_p_exact is None or verdict.p_exact_error is None:
        return ""
    return f"{format_p(verdict.log10_p_exact)} (± {100 * verdict.p_exact_error:.2g} %)"
