"""`patternmark attack`: change the records of a file to weaken their marks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from patternmark.api.attacking import WITH_BACKBONE, Attacking, AttackRequest
from patternmark.api.given import KeyOfFile
from patternmark.cli.options import (
    ATTACK,
    INPUT,
    AllowOpenKey,
    BackboneIfAny,
    Chains,
    Device,
    Fixed,
    FixedSeed,
    Json,
    Model,
    Overwrite,
    Temperature,
    Weights,
    option,
    output_file,
)
from patternmark.cli.output import STOPPED, Verbose, progress, results, say, shown_in, warn
from patternmark.core.keyfile import load_key
from patternmark.errors import ParameterError
from patternmark.io.records import input_name

_NEEDED = dict.fromkeys(WITH_BACKBONE, "--backbone") | {"oracle": "--key", "synonym": "--wordnet"}


def attack(
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE", help="FASTA of proteins, or one text per line; - for stdin."
        ),
    ] = None,
    name: Annotated[
        str | None, option(ATTACK, "--attack", metavar="NAME", help="The attack; see --list.")
    ] = None,
    epsilon: Annotated[
        float | None,
        option(ATTACK, metavar="X", help="Its strength, from 0 to 1; see --list."),
    ] = None,
    output: Annotated[Path | None, output_file("The file to write; - for stdout.")] = None,
    kind: Annotated[
        str | None,
        option(INPUT, metavar="NAME", help="protein or text; default: guess from the file."),
    ] = None,
    key: Annotated[
        Path | None,
        option(INPUT, metavar="FILE", help="oracle: the key file of the attacked detector."),
    ] = None,
    host: Annotated[
        Path | None,
        option(INPUT, metavar="FILE", help="splice: natural sequences; default: built-in ones."),
    ] = None,
    wordnet: Annotated[
        Path | None,
        option(INPUT, metavar="FOLDER", help="synonym: the folder with data.noun and so on."),
    ] = None,
    backbone: BackboneIfAny = None,
    chains: Chains = None,
    fixed: Fixed = "",
    list_attacks: Annotated[
        bool, option(ATTACK, "--list", help="List all attacks, and what they need.")
    ] = False,
    queries: Annotated[
        int,
        option(ATTACK, metavar="N", min=1, help="oracle: most questions to ask for each record."),
    ] = 500,
    answers: Annotated[
        str,
        option(
            ATTACK,
            metavar="NAME",
            help="oracle: what the detector answers: statistic, p or verdict (yes/no).",
        ),
    ] = "p",
    temperature: Temperature = 0.1,
    model: Model = "v_48_020",
    weights: Weights = None,
    as_json: Json = False,
    overwrite: Overwrite = False,
    seed: FixedSeed = 0,
    device: Device = "auto",
    allow_open_key: AllowOpenKey = False,
    verbose: Verbose = False,
) -> None:
    """Attack every record of a file, to test how much of the mark is left.

    Ids and the order of lines are kept. A record that cannot be read causes a warning; FASTA output
    leaves it out, and other output has an empty line. The attacks `redesign` and `rewrite` need
    --backbone.

    Example: patternmark attack in.fa --attack substitute --epsilon 0.1 -o out.fa
    """
    if list_attacks:
        _print_list(as_json=as_json)
        return
    if file is None or name is None or output is None:
        raise ParameterError("give FILE, --attack NAME and --output FILE; --list shows all attacks")
    loaded = None
    if key is not None:
        loaded = KeyOfFile(load_key(key, allow_open=allow_open_key, with_secret=True), key)
    request = AttackRequest(
        name=name,
        epsilon=epsilon,
        kind=kind,
        key=loaded,
        host=host,
        wordnet=wordnet,
        backbone=backbone,
        chains=chains,
        fixed=fixed,
        queries=queries,
        answers=answers,
        temperature=temperature,
        model=model,
        weights=weights,
        seed=seed,
        device=device,
    )
    job = Attacking(file, request, output=output, overwrite=overwrite, warn=warn, report=say)
    try:
        with progress("records") as bar:
            for _ in job.run(shown_in(bar)):
                pass  # the job writes each record
    except KeyboardInterrupt:
        say(f"stopped: {output} has {job.tally.records} attacked records")
        raise typer.Exit(STOPPED) from None
    result = job.facts | {
        "file": input_name(str(file)),
        "output": "standard output" if str(output) == "-" else str(output),
    }
    result |= job.tally.summary()
    if as_json:
        typer.echo(json.dumps(result), err=str(output) == "-")
    else:
        _print_summary(result)


def _print_list(*, as_json: bool) -> None:
    from patternmark.attacks import ATTACKS

    shown = ("name", "kind", "what", "epsilon", "needs")
    rows = [{field: getattr(attack, field) for field in shown} for attack in ATTACKS.values()]
    if as_json:
        typer.echo(json.dumps(rows))
        return
    table = Table(box=None, pad_edge=False)
    for title in ("attack", "on", "what", "epsilon is the", "needs"):
        table.add_column(title, overflow="fold")
    for row in rows:
        flag = f", {_NEEDED[row['name']]}" if row["name"] in _NEEDED else ""
        table.add_row(*list(row.values())[:-1], f"{row['needs']}{flag}")
    results.print(table)


def _print_summary(result: dict[str, Any]) -> None:
    unit = "words" if result["kind"] == "text" else "residues"
    text = (
        f"wrote {result['output']}: {result['records']} records attacked by {result['attack']} at "
        f"epsilon {result['epsilon']:g}; {result['symbols_before']:,} {unit} before, "
        f"{result['symbols_after']:,} after"
    )
    if result["share_replaced"] is not None:
        text += f"; {result['share_replaced']:.1%} were replaced where the length is the same"
    say(text)
    asked = result.get("asked", ())
    marked = [row for row in asked if row["marked_before"]]
    if asked:
        fell = [row for row in marked if not row["marked_after"]]
        say(
            f"{len(marked)} of {len(asked)} were called marked before; "
            f"{len(fell)} of these no longer are"
        )
    if marked:
        edits, queries = (sum(row[what] for row in marked) for what in ("edits", "queries"))
        say(f"on average {edits / len(marked):.1f} edits and {queries / len(marked):.0f} queries")
