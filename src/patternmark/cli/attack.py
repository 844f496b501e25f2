"""`patternmark attack`: weaken the marks of a file, to see what is left of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from patternmark.cli.design import Chains, Device, Fixed, Model, Weights, load_model
from patternmark.cli.lines import refuse_own_input
from patternmark.cli.output import STOPPED, AllowOpenKey, Verbose, results, say, warn
from patternmark.errors import InputError, ParameterError
from patternmark.io.records import input_name

if TYPE_CHECKING:
    from patternmark.attacks.registry import Attack
    from patternmark.cli.attack_work import OnBackbone, Unit, Worker

_WITH_BACKBONE = ("redesign", "rewrite")
_KINDS = ("protein", "text")


def attack(
    file: Annotated[
        Path | None, typer.Argument(help="FASTA of proteins, or a text for each line; - for stdin.")
    ] = None,
    name: Annotated[str | None, typer.Option("--attack", help="Its name; see --list.")] = None,
    epsilon: Annotated[
        float | None, typer.Option(help="Its strength, from 0 to 1; see --list.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The file to write; - for stdout.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Same seed, same result.")] = 0,
    list_attacks: Annotated[bool, typer.Option("--list", help="List all attacks.")] = False,
    kind: Annotated[
        str | None, typer.Option(help="protein or text, for attacks on both; default: by the file.")
    ] = None,
    host: Annotated[
        Path | None, typer.Option(help="splice: natural sequences (FASTA); default: the package's.")
    ] = None,
    wordnet: Annotated[
        Path | None, typer.Option(help="synonym: the folder with data.noun and so on.")
    ] = None,
    backbone: Annotated[
        Path | None, typer.Option(help="redesign, rewrite: the structure of the designs.")
    ] = None,
    chains: Chains = None,
    fixed: Fixed = "",
    temperature: Annotated[float, typer.Option(help="redesign, rewrite: of sampling.")] = 0.1,
    model: Model = "v_48_020",
    weights: Weights = None,
    device: Device = "auto",
    key: Annotated[Path | None, typer.Option(help="oracle: the key of the detector.")] = None,
    queries: Annotated[
        int, typer.Option(min=1, help="oracle: questions it may ask of each record.")
    ] = 500,
    answers: Annotated[
        str, typer.Option(help="oracle: what it is told: p (a p-value) or verdict (yes or no).")
    ] = "p",
    as_json: Annotated[bool, typer.Option("--json", help="Print a summary as JSON.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the output.")] = False,
    allow_open_key: AllowOpenKey = False,
    verbose: Verbose = False,
) -> None:
    """Attack every record of a file; ids and the order of lines are kept.

    A record that cannot be read is named; it is left out of FASTA, and left empty among lines.
    """
    if list_attacks:
        _print_list(as_json=as_json)
        return
    if file is None or name is None or output is None:
        raise ParameterError("give FILE, --attack NAME and --output FILE; --list shows all attacks")
    chosen, strength = _chosen(name, epsilon)
    _check_options(
        name,
        {
            ("splice",): {"--host": host},
            ("synonym",): {"--wordnet": wordnet},
            _WITH_BACKBONE: {"--backbone": backbone, "--chains": chains, "--fixed": fixed},
            ("oracle",): {"--key": key},
        },
    )
    refuse_own_input(file, output)
    if str(output) != "-" and output.exists() and not overwrite:
        raise InputError(f"{output}: exists: pass --overwrite, or give another --output")
    worker: Worker
    if name == "oracle":
        worker, units, of_text = _oracle(
            key, file, queries, answers, strength, seed, allow_open_key
        )
    elif name in _WITH_BACKBONE:
        load = partial(load_model, model, weights, device)
        layout = (chains.split(",") if chains else None, fixed)
        on = _on_backbone(name, strength, seed, backbone, layout, temperature, load)
        worker, units, of_text = on, on.units(file), False
    else:
        worker, units, of_text = _editor(chosen, strength, seed, kind, file, host, wordnet)
    result = {
        "attack": name,
        "kind": _KINDS[of_text],
        "epsilon": strength,
        "seed": seed,
        "file": input_name(str(file)),
        "output": "standard output" if str(output) == "-" else str(output),
    }
    result |= _run(units, worker, output)
    if as_json:
        typer.echo(json.dumps(result), err=str(output) == "-")
    else:
        _tell(result)


def _chosen(name: str, epsilon: float | None) -> tuple[Attack, float]:
    """Find the attack; its strength may be left out where there is a natural one."""
    from patternmark.attacks.registry import check_epsilon, find_attack

    chosen = find_attack(name)
    if epsilon is None:
        if name != "oracle":
            raise ParameterError(f"give --epsilon; for {name} it is the {chosen.epsilon}")
        epsilon = 1.0
    check_epsilon(epsilon)
    return chosen, epsilon


def _check_options(name: str, options: dict[tuple[str, ...], dict[str, object]]) -> None:
    """Refuse what another attack would be told."""
    for attacks, given in options.items():
        for option, value in given.items():
            if value and name not in attacks:
                raise ParameterError(f"{option} goes with {' or '.join(attacks)}, not with {name}")


def _editor(
    chosen: Attack,
    epsilon: float,
    seed: int,
    kind: str | None,
    file: Path,
    host: Path | None,
    wordnet: Path | None,
) -> tuple[Worker, Iterator[Unit], bool]:
    from patternmark.attacks import splice_into
    from patternmark.attacks.text import replace_by_synonyms
    from patternmark.cli.attack_work import Editor, read_host

    if host is not None:
        chosen = splice_into(read_host(host))
    if wordnet is not None:
        chosen = replace(chosen, edit=partial(replace_by_synonyms, folder=wordnet))
    of_text = _is_text(chosen, kind, file)
    return Editor(chosen, epsilon, seed), _units(file, of_text), of_text


def _units(file: Path, of_text: bool) -> Iterator[Unit]:
    from patternmark.cli.attack_work import protein_units, text_units

    return text_units(file) if of_text else protein_units(file)


def _is_text(chosen: Attack, kind: str | None, file: Path) -> bool:
    from patternmark.cli.attack_work import looks_like_fasta

    if kind is not None and kind not in _KINDS:
        raise ParameterError(f"--kind is protein or text, not {kind!r}")
    if chosen.kind != "both":
        if kind not in (None, chosen.kind):
            raise ParameterError(f"{chosen.name} is an attack on {chosen.kind}, not on {kind}")
        return chosen.kind == "text"
    if kind is None and str(file) == "-":
        raise ParameterError(f"{chosen.name} of standard input: say --kind protein or --kind text")
    return kind == "text" if kind is not None else not looks_like_fasta(file)


def _oracle(
    key: Path | None,
    file: Path,
    queries: int,
    answers: str,
    epsilon: float,
    seed: int,
    allow_open: bool,
) -> tuple[Worker, Iterator[Unit], bool]:
    from patternmark.cli.attack_work import Oracle

    if key is None:
        raise ParameterError("the oracle attack asks a detector: give its key with --key")
    if answers not in ("p", "verdict"):
        raise ParameterError(f"--answers is p or verdict, not {answers!r}")
    oracle = Oracle(
        key, queries=queries, answers=answers, epsilon=epsilon, seed=seed, allow_open=allow_open
    )
    return oracle, _units(file, oracle.of_text), oracle.of_text


def _on_backbone(
    name: str,
    epsilon: float,
    seed: int,
    structure: Path | None,
    layout: tuple[list[str] | None, str],
    temperature: float,
    load: partial[Any],
) -> OnBackbone:
    if structure is None:
        raise ParameterError(f"{name} needs the structure of the designs: --backbone FILE")
    network, _ = load()
    from patternmark.cli.attack_work import OnBackbone
    from patternmark.design.plan import plan_design
    from patternmark.design.run import Designer, DesignOptions
    from patternmark.io.structures import read_backbone

    backbone = read_backbone(structure)
    for message in backbone.warnings:
        warn(f"{structure}: {message}")
    plan = plan_design(backbone, chains=layout[0], fixed=layout[1])
    designer = Designer(network, DesignOptions(temperature=temperature, seed=seed))
    manifest = not any(layout)
    return OnBackbone(designer, plan, structure, name, epsilon, seed, use_manifest=manifest)


def _run(units: Iterator[Unit], worker: Worker, output: Path) -> dict[str, Any]:
    from patternmark.cli.attack_work import Tally, run

    tally = Tally()
    try:
        run(units, worker, output, tally)
    except KeyboardInterrupt:
        say(f"stopped: {output} has {tally.records} attacked records")
        raise typer.Exit(STOPPED) from None
    return tally.summary()


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
        table.add_row(*row.values())
    results.print(table)


def _tell(result: dict[str, Any]) -> None:
    unit = "words" if result["kind"] == "text" else "residues"
    text = (
        f"wrote {result['output']}: {result['records']} records attacked by {result['attack']} at "
        f"epsilon {result['epsilon']:g}; {result['symbols_before']:,} {unit} before, "
        f"{result['symbols_after']:,} after"
    )
    if result["share_replaced"] is not None:
        text += f"; {result['share_replaced']:.1%} are others where the length is the same"
    say(text)
    asked = result.get("asked", ())
    marked = [row for row in asked if row["marked_before"]]
    if asked:
        fell = [row for row in marked if not row["marked_after"]]
        say(f"{len(marked)} of {len(asked)} were called marked before, {len(fell)} of these fell")
    if marked:
        edits, queries = (sum(row[what] for row in marked) for what in ("edits", "queries"))
        say(f"on average {edits / len(marked):.1f} edits and {queries / len(marked):.0f} queries")
