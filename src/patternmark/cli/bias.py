"""`patternmark bias`: the mark as a file for ProteinMPNN, LigandMPNN or foundry."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from patternmark.api.biasing import BiasFile, write_bias_of
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
    every run. Give the --temperature of the other program. The file reveals what its
    keys promote: keep it as secret as the key.

    Example: patternmark bias 1abc.pdb --key lab.key --for ligandmpnn -o bias.json
    """
    marker = Marker(load_key(key, allow_open=allow_open_key, with_secret=True), delta=delta)
    _explain(
        write_bias_of(
            structures,
            marker,
            tool,
            output,
            chains=chains,
            fixed=fixed,
            tied=tied,
            homo_oligomer=homo_oligomer,
            temperature=temperature,
            seed=seed,
            overwrite=overwrite,
            key_file=key,
            warn=warn,
        )
    )


def _explain(written: BiasFile) -> None:
    """Print what was written, how to use it, and what to keep in mind."""
    say(
        f"wrote {written.file}: one key sequence of key {written.key_id} for "
        f"{written.num_structures} structure(s), for {written.tool} at temperature "
        f"{written.temperature}"
    )
    say(f"pass {written.usage}; name the same chains, fixed and tied residues there")
    say("the file shows the parts of the key: only you can read it (mode 0600); keep it secret")
    if written.tool == "foundry":
        say("foundry copies the bias into the CIF files it writes: pass --write_structures False")
    say("all sequences made with it share this key sequence: write a new file for every run")
    if written.has_tied_residues:
        say("tied residues repeat a letter: give one copy of each tied chain to detect, not all")
