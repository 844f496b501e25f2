"""`patternmark detect --exact`: the p-value of each very sequence, by drawing keys."""

from __future__ import annotations

from secrets import randbits
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer
from rich.progress import Progress

from patternmark.cli.combined import readings_of
from patternmark.core.key import Key
from patternmark.detector import Detector
from patternmark.errors import ParameterError
from patternmark.evidence import call_by_exact_p
from patternmark.results import Verdict, format_p
from patternmark.statistics.block_exact import DRAWS, EXACT

if TYPE_CHECKING:
    from patternmark.cli.detect import Judged

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


class Drawing(NamedTuple):
    """How many keys are drawn for a sequence, and from which seed."""

    draws: int
    seed: int


def drawing_of(
    exact: bool, draws: int | None, seed: int | None, key: Key, *, by_keys: bool
) -> Drawing | None:
    """Return what --exact asks for; None without it."""
    if not exact:
        if draws is not None or seed is not None:
            raise ParameterError("--draws and --seed belong to --exact")
        return None
    if by_keys:
        raise ParameterError("--exact and --null keys both decide the call: give one of them")
    scheme = key.profile.scheme.name
    if scheme not in EXACT:
        raise ParameterError(
            f"--exact needs a key of the scheme {' or '.join(EXACT)}: key {key.key_id} is of "
            f"{scheme!r}; for it, compare with fresh keys: --null keys"
        )
    # A seed that is known beforehand would let someone choose a sequence that it misjudges.
    return Drawing(draws or DRAWS, randbits(32) if seed is None else seed)


def judge_exactly(
    judged: list[Judged], judge: Detector, drawing: Drawing | None, bar: Progress
) -> list[Judged]:
    """Add the p-value of each very sequence, and call by it."""
    if drawing is None or not judged:
        return judged
    find = EXACT[judge.key.profile.scheme.name]
    task = bar.add_task("drawing keys", total=drawing.draws * len(judged))
    found = []
    for (verdict, item), reading in zip(judged, readings_of(judged, judge), strict=True):
        exact = find(
            judge.statistic,  # type: ignore[arg-type]  # that of the scheme
            reading,
            verdict.statistic,
            draws=drawing.draws,
            seed=drawing.seed,
            step=lambda: bar.advance(task),
        )
        called = call_by_exact_p(
            verdict, exact.log_p, exact.relative_error, drawing.draws, drawing.seed
        )
        found.append((called, item))
    bar.remove_task(task)
    return found


def exact_cell(verdict: Verdict) -> str:
    """Write the p-value of a very sequence and its error for people."""
    if verdict.log10_p_exact is None or verdict.p_exact_error is None:
        return ""
    return f"{format_p(verdict.log10_p_exact)} (± {100 * verdict.p_exact_error:.2g} %)"
