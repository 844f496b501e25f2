"""`patternmark train structure`: the small predictor of secondary structure."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from patternmark.cli.output import Verbose, progress, say
from patternmark.errors import ParameterError
from patternmark_lab.cli.train import DataNote, Device, Folder, command_line, train_app

if TYPE_CHECKING:
    from patternmark_lab.structure.chains import Chain


@train_app.command()
def structure(
    context: typer.Context,
    data: Annotated[
        Path,
        typer.Argument(metavar="CHAINS", help="Id, sequence, DSSP, separated by tabs; .xz too."),
    ],
    output: Folder,
    minutes: Annotated[float, typer.Option(help="Minutes of training.")] = 1.4,
    exclude: Annotated[
        list[Path] | None,
        typer.Option(help="Structures or folders; chains related to them are left out."),
    ] = None,
    prepared: Annotated[
        Path | None, typer.Option(help="Also write the chains with family and part to this file.")
    ] = None,
    batch_residues: Annotated[
        int, typer.Option(min=64, help="With padding; on a CPU use about 2,000.")
    ] = 65_536,
    lr: float = 3e-3,
    seed: Annotated[int, typer.Option(min=0)] = 1,
    device: Device = "auto",
    data_note: DataNote = None,
    verbose: Verbose = False,
) -> None:
    """Train a network that predicts helix, strand and coil from a sequence.

    Chains are clustered first, so that no training chain is related to a test chain. A table that
    was written with --prepared is used as it is. The folder gets a model card, README.md.
    """
    from patternmark.models.device import pick_device
    from patternmark.models.weights import file_sha256
    from patternmark.quality.predictor import PredictorConfig
    from patternmark_lab.structure.card import write_card
    from patternmark_lab.structure.training import Settings, card_facts, train

    if not 0.0 < minutes < 1e6 or not 0.0 < lr < 1.0:
        raise ParameterError("--minutes and --lr must be more than 0, and --lr less than 1")
    chains = _chains(data, exclude or [], prepared)
    settings = Settings(minutes, batch_residues, lr, seed=seed)
    with progress("%") as bar:
        task = bar.add_task("training", total=100.0)

        def report(row: dict[str, Any], done: float) -> None:
            text = f"step {row['step']:,}, loss {row['loss']:.3f}, Q3 {row['valid_q3']:.4f}"
            bar.update(task, description=text, completed=round(100.0 * done, 1))

        place = pick_device(device)
        predictor = train(output, chains, PredictorConfig(), settings, place, report)
    facts = card_facts(chains, settings, predictor, output)
    facts["data"] = {
        "file": data.name,
        "sha256": file_sha256(data),
        "excluded": [path.name for path in exclude or []],
    }
    facts |= {"command": command_line(context), "notes": data_note or []}
    write_card(output, facts)
    test = facts["test"]
    found = f", Q3 {test['q3']:.4f} on {test['chains']:,} held-out chains" if test else ""
    say(f"{output}: {facts['steps']:,} steps{found}")


def _chains(data: Path, exclude: list[Path], prepared: Path | None) -> list[Chain]:
    from patternmark_lab.structure.chains import prepare, read_chains, write_chains

    chains = read_chains(data)
    if chains[0].part:
        if exclude or prepared:
            raise ParameterError(f"{data}: is prepared already: leave out --exclude and --prepared")
        return chains
    with progress("chains") as bar:
        bar.add_task("clustering", total=None)
        chains = prepare(chains, _sequences(exclude), say)
    if prepared is not None:
        write_chains(prepared, chains)
        say(f"wrote {prepared}: {len(chains):,} chains")
    return chains


def _sequences(paths: list[Path]) -> list[str]:
    from patternmark.io.structure_files import find_structures
    from patternmark.io.structures import read_backbone

    backbones = [read_backbone(path) for path in find_structures(paths)]
    return [backbone.letters(chain) for backbone in backbones for chain in backbone.chain_ids]
