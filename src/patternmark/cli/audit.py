"""`patternmark audit`: play the attacker on the marked sequences of one key."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from patternmark.api.auditing import OUTCOMES
from patternmark.api.auditing import audit as run_audit
from patternmark.cli.options import (
    ATTACK,
    INPUT,
    MARK,
    AllowOpenKey,
    BackboneIfAny,
    FixedSeed,
    Json,
    ManifestUsed,
    ProteinFiles,
    option,
)
from patternmark.cli.output import Verbose, progress, results, shown_in, tell, warn
from patternmark.core.keyfile import load_key
from patternmark.io.manifest_use import VERIFY


def audit(
    files: ProteinFiles,
    key: Annotated[
        Path | None,
        option(INPUT, metavar="FILE", help="The key file: only to judge what the attack achieved."),
    ] = None,
    manifest: ManifestUsed = VERIFY,
    backbone: BackboneIfAny = None,
    scheme: Annotated[
        str | None,
        option(MARK, metavar="NAME", help="paper or blocks; default: the key's, or blocks."),
    ] = None,
    delta: Annotated[
        float | None,
        option(MARK, metavar="X", help="Strength of the mark; default: the key's, or 1."),
    ] = None,
    tries: Annotated[
        int,
        option(ATTACK, metavar="N", min=1, help="Sequences to forge, and at most to strip."),
    ] = 100,
    budget: Annotated[
        float,
        option(
            ATTACK,
            metavar="X",
            min=0.0,
            max=1.0,
            help="Share of residues that stripping may change.",
        ),
    ] = 0.1,
    as_json: Json = False,
    seed: FixedSeed = 0,
    allow_open_key: AllowOpenKey = False,
    verbose: Verbose = False,
) -> None:
    """Learn the mark from marked sequences, then forge it and strip it.

    All sequences must carry the mark of one key. The attacker knows everything but the secret.
    --key only judges: how far up the true split ranks (paper's scheme), and how many forged
    sequences the detector takes for genuine. New sequences have the composition of the given ones.
    Of block marks the first chain of each record is attacked. A manifest next to a file
    is used if --key signed it, or with --manifest trust. With --backbone the attacker also
    knows what ProteinMPNN expected of each residue.

    Example: patternmark audit designs.fa --key lab.key
    """
    loaded = load_key(key, allow_open=allow_open_key, with_secret=True) if key else None
    with progress("") as bar:
        found = run_audit(
            [Path(file) for file in files],
            loaded,
            backbone=backbone,
            scheme=scheme,
            delta=delta,
            tries=tries,
            budget=budget,
            seed=seed,
            manifest=manifest,
            warn=warn,
            progress=shown_in(bar),
        )
    result = found.to_dict()
    if as_json:
        typer.echo(json.dumps(result))
    else:
        _print(result)
        for remark in found.manifests:
            tell(remark)


def _print(result: dict[str, Any]) -> None:
    def line(text: str) -> None:
        results.print(text, highlight=False, soft_wrap=True, markup=False)

    line(
        f"{result['sequences']} chains, {result['residues']:,} residues, scheme "
        f"{result['scheme']}, delta {result['delta']:g}"
    )
    line(_describe(result["learned"]))
    if result["key_id"] is None:
        line("give --key to count how many forged sequences the detector calls marked")
        return
    table = Table(box=None, pad_edge=False)
    table.add_column("called marked")
    for name in ("of", "rate", "95 % interval"):
        table.add_column(name, justify="right")
    table.add_column("what")
    for name, text in OUTCOMES.items():
        r = result[name]
        interval = f"{r['low']:.1%} - {r['high']:.1%}"
        table.add_row(str(r["hits"]), str(r["n"]), f"{r['rate']:.1%}", interval, text)
    results.print(table)
    line(
        f"key {result['key_id']}, detector auto at a false positive rate of {result['fpr']:g}; "
        f"edits: {result['budget']:.0%} of the residues"
    )


def _describe(learned: dict[str, Any]) -> str:
    if "splits" in learned:
        text = (
            f"likeliest of {learned['splits']:,} splits: posterior {learned['posterior']:.3g}, "
            f"{learned['gap']:.1f} nats above the next"
        )
        if learned["rank"] is not None:
            text += f"; the true split ranks {learned['rank']:,}"
        return text
    return (
        f"nonces believed to be in use: {learned['nonces']}; sequences of the best known: "
        f"{learned['largest']}; bits of it learned: {learned['bits_learned']:.0f} of "
        f"{learned['bits']:,}, if these do share it"
    )
