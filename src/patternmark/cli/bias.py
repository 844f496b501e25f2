"""`patternmark bias`: the mark as a file for ProteinMPNN, LigandMPNN or foundry."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from patternmark.cli.options import (
    OUTPUT,
    AllowOpenKey,
    Chains,
    Delta,
    Fixed,
    FreshSeed,
    HomoOligomer,
    KeyFile,
    Overwrite,
    Temperature,
    Tied,
    option,
    output_file,
)
from patternmark.cli.output import Verbose, say, warn
from patternmark.core.keyfile import load_key
from patternmark.core.marker import Marker
from patternmark.errors import InputError, ParameterError
from patternmark.io.files import write_private
from patternmark.io.nonce_counter import NonceCounter

if TYPE_CHECKING:
    from patternmark.adapters.bias_files import Biased, Tool

_NAMED = 5


def bias(
    structures: Annotated[
        list[Path],
        typer.Argument(metavar="STRUCTURE", help="PDB files (.gz too), or folders."),
    ],
    key: KeyFile,
    tool: Annotated[
        str, option(OUTPUT, "--for", metavar="NAME", help="proteinmpnn, ligandmpnn or foundry.")
    ],
    output: Annotated[Path, output_file("The file to write.")],
    chains: Chains = None,
    fixed: Fixed = "",
    tied: Tied = "",
    homo_oligomer: HomoOligomer = False,
    delta: Delta = None,
    temperature: Temperature = 0.1,
    overwrite: Overwrite = False,
    seed: FreshSeed = None,
    allow_open_key: AllowOpenKey = False,
    verbose: Verbose = False,
) -> None:
    """Write a bias file with which another design program makes marked sequences.

    The file holds one key sequence, shared by all sequences made with it: write a new file for
    every run. Give the --temperature that the other program will use. The file reveals what its
    keys promote: keep it as secret as the key.

    Example: patternmark bias 1abc.pdb --key lab.key --for ligandmpnn -o bias.json
    """
    from patternmark.adapters.bias_files import TOOLS, Biased
    from patternmark.designing.plan import plan_design
    from patternmark.io.structures import find_structures, read_backbone

    if tool not in TOOLS:
        raise ParameterError(f"--for must be one of {', '.join(TOOLS)}, not {tool!r}")
    marker = Marker(load_key(key, allow_open=allow_open_key, with_secret=True), delta=delta)
    names = chains.split(",") if chains else None
    counter = None if seed is not None else NonceCounter.needed_for(marker, key, warn)
    biased = []
    for file in find_structures(structures):
        backbone = read_backbone(file)
        for message in backbone.warnings:
            warn(f"{file}: {message}")
        plan = plan_design(
            backbone, chains=names, fixed=fixed, tied=tied, homo_oligomer=homo_oligomer
        )
        nonce = None if counter is None else counter.nonces(counter.take(1), 1)[0]
        biased.append(
            Biased.of(file, plan, marker, temperature=temperature, seed=seed, nonce=nonce)
        )
    if not biased:
        raise InputError("found no structure to write a bias for")
    text = TOOLS[tool].text(biased)
    write_private(output, text, overwrite=overwrite)
    _explain(TOOLS[tool], biased, output, marker, temperature)


def _explain(
    tool: Tool, biased: list[Biased], output: Path, marker: Marker, temperature: float
) -> None:
    """Say what was written, how to use it, and what to keep in mind."""
    for structure in biased:
        if nameless := tool.nameless(structure):
            shown = ", ".join(nameless[:_NAMED]) + (", ..." if len(nameless) > _NAMED else "")
            warn(
                f"{structure.file}: {tool.name} cannot name {len(nameless)} residue(s), which "
                f"carry no mark: {shown}"
            )
    say(
        f"wrote {output}: one key sequence of key {marker.key.key_id} for {len(biased)} "
        f"structure(s), for {tool.name} at temperature {temperature}"
    )
    usage = tool.usage if len(biased) == 1 else tool.usage_of_several
    say(f"pass {usage.format(file=output)}; name the same chains, fixed and tied residues there")
    say("the file shows the parts of the key: only you can read it (mode 0600); keep it secret")
    if tool.name == "foundry":
        say("foundry copies the bias into the CIF files it writes: pass --write_structures False")
    say("all sequences made with it share this key sequence: write a new file for every run")
    if any(len(group) > 1 for structure in biased for group in structure.plan.groups):
        say("tied residues repeat a letter: give one copy of each tied chain to detect, not all")
