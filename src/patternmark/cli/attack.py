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
from patternmark.cli.output import STOPPED, Verbose, results, say, warn
from patternmark.designing.network import load_network
from patternmark.errors import InputError, ParameterError
from patternmark.io.lines import refuse_own_input
from patternmark.io.records import input_name

if TYPE_CHECKING:
    from patternmark.attacks.registry import Attack
    from patternmark.cli.attack_work import OnBackbone, Unit, Worker

_WITH_BACKBONE = ("redesign", "rewrite")
_KINDS = ("protein", "text")
_NEEDED = dict.fromkeys(_WITH_BACKBONE, "--backbone") | {"oracle": "--key", "synonym": "--wordnet"}


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
        option(ATTACK, metavar="N", min=1, help="oracle: questions it may ask for each record."),
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
    """Attack every record of a file, to see what is left of the mark.

    Ids and the order of lines are kept. A record that cannot be read is reported; it is left out of
    FASTA, and left empty among lines. The attacks `redesign` and `rewrite` need --backbone.

    Example: patternmark attack in.fa --attack substitute --epsilon 0.1 -o out.fa
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
        raise InputError(f"{output}: already exists: use --overwrite, or choose another --output")
    worker: Worker
    if name == "oracle":
        worker, units, of_text = _oracle(
            key, file, queries, answers, strength, seed, allow_open_key
        )
    elif name in _WITH_BACKBONE:
        load = partial(load_network, model, weights, device, say)
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
            raise ParameterError(f"give --epsilon: for {name}, it is the {chosen.epsilon}")
        epsilon = 1.0
    check_epsilon(epsilon)
    return chosen, epsilon


def _check_options(name: str, options: dict[tuple[str, ...], dict[str, object]]) -> None:
    """Refuse the options of other attacks."""
    for attacks, given in options.items():
        for flag, value in given.items():
            if value and name not in attacks:
                raise ParameterError(f"{flag} goes with {' or '.join(attacks)}, not with {name}")


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
        raise ParameterError(f"--kind must be protein or text, not {kind!r}")
    if chosen.kind != "both":
        if kind not in (None, chosen.kind):
            raise ParameterError(f"{chosen.name} is an attack on {chosen.kind}, not on {kind}")
        return chosen.kind == "text"
    if kind is None and str(file) == "-":
        raise ParameterError(
            f"standard input: give --kind protein or --kind text for {chosen.name}"
        )
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
    from patternmark.attacks.oracle import ANSWERS
    from patternmark.cli.attack_work import Oracle

    if key is None:
        raise ParameterError("the oracle attack needs the key of the detector: give --key FILE")
    if answers not in ANSWERS:
        raise ParameterError(f"--answers must be statistic, p or verdict, not {answers!r}")
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
    from patternmark.designing.plan import plan_design
    from patternmark.designing.run import Designer, DesignOptions
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
        flag = f", {_NEEDED[row['name']]}" if row["name"] in _NEEDED else ""
        table.add_row(*list(row.values())[:-1], f"{row['needs']}{flag}")
    results.print(table)


def _tell(result: dict[str, Any]) -> None:
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
