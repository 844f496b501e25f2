"""`patternmark power`: how often a mark is found, or what it takes to find it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from patternmark.api.planning import GOAL, check_unknowns, smallest_that_suffices
from patternmark.cli.keys import check_options
from patternmark.cli.options import (
    DETECTION,
    EXPERT,
    MARK,
    Block,
    FixedSeed,
    Fpr,
    Json,
    Nonces,
    option,
    plot_file,
)
from patternmark.cli.output import Verbose, progress, results, say
from patternmark.core.profile import Profile
from patternmark.core.schemes import SCHEMES, Blocks, Scheme
from patternmark.evidence import DEFAULT_FPR
from patternmark.plan.power import DRAWS, Power, PowerStudy
from patternmark.statistics.rates import DELTAS

_LENGTHS = (50, 75, 100, 150, 200, 300, 400)


def power(
    scheme: Annotated[str, option(MARK, metavar="NAME", help="blocks or paper.")] = Blocks.name,
    delta: Annotated[
        float | None,
        option(
            MARK, metavar="X", help="Strength of the mark; default: the smallest that suffices."
        ),
    ] = None,
    nonces: Nonces = None,
    length: Annotated[
        int | None,
        option(
            DETECTION,
            metavar="N",
            help="Scored residues; default: the smallest number that suffices.",
        ),
    ] = None,
    tpr: Annotated[
        float | None,
        option(
            DETECTION,
            metavar="P",
            help="The rate of detection to reach, if --delta or --length is left out; default: "
            "0.95.",
        ),
    ] = None,
    fpr: Fpr = DEFAULT_FPR,
    as_json: Json = False,
    plot: Annotated[Path | None, plot_file("rates against length for several deltas")] = None,
    block: Block = None,
    draws: Annotated[
        int,
        option(EXPERT, metavar="N", min=1, help="Number of simulated sequences for each rate."),
    ] = DRAWS,
    seed: FixedSeed = 1,
    verbose: Verbose = False,
) -> None:
    """Predict how often a mark is found, or what it takes to find it.

    Give --delta and --length for the expected rate of detection; leave out one of them for the
    smallest value that reaches --tpr. Rates come from ProteinMPNN's designs.

    Example: patternmark power --length 150 --tpr 0.99
    """
    check_unknowns(delta, length, tpr)
    target = GOAL if tpr is None else tpr
    profile = Profile(scheme=_scheme(scheme, block=block, nonces=nonces))
    if plot is not None:
        from patternmark.report.plot import require_matplotlib

        require_matplotlib()
    with progress("rates") as bar:
        task = bar.add_task("simulating", total=None)

        def step(what: str) -> None:
            bar.update(task, description=what, advance=1)

        study = PowerStudy(profile, fpr, draws=draws, seed=seed, step=step)
        found = smallest_that_suffices(study, delta, length, target)
        curves = study.curves(_deltas(delta), _LENGTHS) if plot is not None else []
    facts: dict[str, Any] = {
        "scheme": scheme,
        "nonces": profile.scheme.tables()["scheme"].get("nonces"),
        "fpr": fpr,
        "sought": "delta" if delta is None else "length" if length is None else None,
        "target_tpr": None if delta is not None and length is not None else target,
    }
    if as_json:
        table = facts | found.to_dict()
        typer.echo(json.dumps(table | {"curves": [[p.to_dict() for p in c] for c in curves]}))
    else:
        _print(found, facts)
    if plot is not None:
        from patternmark.report.charts import plot_power

        plot_power(curves, str(plot), f"{_describe(facts)}, FPR {fpr:g}, by delta")
        say(f"wrote {plot}")


def _scheme(name: str, **sizes: int | None) -> Scheme:
    """Return a scheme of proteins with the sizes that were given."""
    given = {size: number for size, number in sizes.items() if number is not None}
    check_options(name, given)
    return SCHEMES[name](**given)  # type: ignore[arg-type]  # options were checked


def _deltas(delta: float | None) -> list[float]:
    return sorted({*DELTAS, *([] if delta is None else [delta])})


def _describe(facts: dict[str, Any]) -> str:
    nonces = f", {facts['nonces']} nonces" if facts["nonces"] else ""
    return f"scheme {facts['scheme']}{nonces}"


def _print(found: Power, facts: dict[str, Any]) -> None:
    needed = {"delta": f"delta {found.delta:g}", "length": f"{found.length} residues"}
    lines = []
    if facts["sought"]:
        what = needed[facts["sought"]]
        lines.append(f"needed for a rate of {facts['target_tpr']:g}: {what}")
    lines.append(
        f"delta {found.delta:g}, {found.length} residues, FPR {facts['fpr']:g}, "
        f"{_describe(facts)}: {found.tpr:.1%} found "
        f"(95 % interval {found.low:.1%} - {found.high:.1%}, {found.trials} simulated)"
    )
    results.print("\n".join(lines), highlight=False, soft_wrap=True)
