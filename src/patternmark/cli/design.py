"""`patternmark design` and `patternmark score`: ProteinMPNN, with and without a mark."""

from __future__ import annotations

import json
import platform
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from patternmark import __version__
from patternmark.cli.options import (
    EXPERT,
    INPUT,
    OUTPUT,
    AllowOpenKey,
    Chains,
    Delta,
    Device,
    Fixed,
    FreshSeed,
    HomoOligomer,
    KeyFileIfMarked,
    Model,
    NoWatermark,
    Overwrite,
    Payload,
    Temperature,
    Tied,
    Weights,
    option,
    output_file,
)
from patternmark.cli.output import STOPPED, Verbose, errors, fail, say, warn
from patternmark.core.alphabet import PROTEIN
from patternmark.core.keyfile import load_key
from patternmark.core.marker import Marker
from patternmark.core.secret import fresh_seed
from patternmark.errors import InputError, ParameterError, PatternmarkError
from patternmark.io.designs import Manifest
from patternmark.io.nonce_counter import NonceCounter

if TYPE_CHECKING:
    from patternmark.designing.run import Designer
    from patternmark.models.mpnn import ProteinMPNN

SOME_FAILED = 3


def design(
    structures: Annotated[
        list[Path],
        typer.Argument(metavar="STRUCTURE", help="PDB or mmCIF files (.gz too), or folders."),
    ],
    output: Annotated[Path, output_file("The FASTA file to write.")],
    key: KeyFileIfMarked = None,
    chains: Chains = None,
    fixed: Fixed = "",
    tied: Tied = "",
    homo_oligomer: HomoOligomer = False,
    omit: Annotated[
        str, option(INPUT, metavar="LIST", help="Amino acids that are never used, such as CM.")
    ] = "",
    bias: Annotated[
        str, option(INPUT, metavar="LIST", help='Added to all logits: "A=-0.5,K=1".')
    ] = "",
    residue_bias: Annotated[
        Path | None,
        option(INPUT, metavar="FILE", help='The same by residue, as JSON: {"A10": {"P": 2}}.'),
    ] = None,
    delta: Delta = None,
    payload: Payload = None,
    no_watermark: NoWatermark = False,
    temperature: Temperature = 0.1,
    model: Model = "v_48_020",
    weights: Weights = None,
    count: Annotated[
        int, option(OUTPUT, "--count", "-n", metavar="N", min=1, help="Designs per structure.")
    ] = 1,
    overwrite: Overwrite = False,
    seed: FreshSeed = None,
    batch: Annotated[
        str, option(EXPERT, metavar="N", help="Sequences at a time, or auto.")
    ] = "auto",
    device: Device = "auto",
    allow_open_key: AllowOpenKey = False,
    verbose: Verbose = False,
) -> None:
    """Design marked sequences on backbones with ProteinMPNN.

    A run that was interrupted continues where it stopped.

    Example: patternmark design backbone.pdb --key lab.key -n 8 -o designs.fa
    """
    from patternmark.designing.fasta_file import DesignFile
    from patternmark.designing.run import Designer, DesignOptions
    from patternmark.io.structures import find_structures

    marker = None if no_watermark else _marker(key, delta, payload, allow_open_key)
    options = DesignOptions(temperature, seed, omit, _parse_bias(bias))
    per_residue, at_a_time = _read_residue_bias(residue_bias), _batch(batch)
    files = find_structures(structures)
    network, weight_facts = load_model(model, weights, device)
    layout = {
        "chains": chains.split(",") if chains else None,
        "fixed": fixed,
        "tied": tied,
        "homo_oligomer": homo_oligomer,
    }
    parameters = {
        **asdict(options),
        **layout,
        "count": count,
        "residue_bias": per_residue,
        "delta": marker.delta if marker else None,
        "delta_at": marker.key.profile.delta_at if marker else None,
        "payload": marker.payload if marker else None,
    }
    software = {"patternmark": __version__, "python": platform.python_version()}
    key_id = marker.key.key_id if marker else None
    drawn = fresh_seed() if seed is None else None
    facts = json.loads(json.dumps(parameters))
    manifest = Manifest(software, weight_facts, key_id, facts, drawn_seed=drawn)
    target = DesignFile(output, manifest, overwrite=overwrite)
    designer = Designer(network, replace(options, seed=target.seed), marker)
    counter = None
    if marker is not None and key is not None and seed is None:
        counter = NonceCounter.needed_for(marker, key, warn)
    job = _Job(designer, target, layout, count, at_a_time, per_residue, counter)
    try:
        failed = job.run(files)
    except KeyboardInterrupt:
        say(f"stopped: {output}: {target.kept}")
        raise typer.Exit(STOPPED) from None
    done = len(files) - failed
    if done:
        mark = f"marked with key {key_id}" if key_id else "without a mark"
        say(f"wrote {output}: {count} design(s) on each of {done} structure(s), {mark}")
    if failed:
        say(f"{failed} of {len(files)} structures could not be designed (see above)")
        raise typer.Exit(SOME_FAILED if done else 2)


class _Job:
    """Designs file after file; a bad one is named and passed over."""

    def __init__(
        self,
        designer: Designer,
        target: Any,
        layout: dict[str, Any],
        count: int,
        batch: int | None,
        residue_bias: dict[str, dict[str, float]],
        counter: NonceCounter | None,
    ) -> None:
        self._designer, self._target, self._layout = designer, target, layout
        self._count, self._batch, self._residue_bias = count, batch, residue_bias
        self._counter = counter

    def run(self, files: Sequence[Path]) -> int:
        """Design all files; return how many failed."""
        from patternmark.io.structures import structure_name

        failed = 0
        with _progress() as bar:
            overall = bar.add_task("structures", total=len(files))
            for file in files:
                try:
                    self._one(file, bar)
                except (InputError, ParameterError) as error:
                    failed += 1
                    reason = str(error).removeprefix(f"{structure_name(file)}: ")
                    fail(f"{file}: {reason.removeprefix(f'{file}: ')}")
                bar.advance(overall)
        return failed

    def _one(self, file: Path, bar: Progress) -> None:
        from patternmark.designing.fasta_file import native_header
        from patternmark.designing.plan import plan_design, residue_bias_table
        from patternmark.io.structures import read_backbone
        from patternmark.models.weights import file_sha256

        backbone = read_backbone(file)
        sha256 = file_sha256(file)
        if self._target.is_finished(backbone.name, sha256):
            return
        for message in backbone.warnings:
            warn(f"{file}: {message}")
        plan = plan_design(backbone, **self._layout)
        task = bar.add_task(backbone.name, total=self._count * len(plan.groups))

        def progress(letters: int) -> None:
            bar.advance(task, letters)

        designs = list(
            self._designer.design(
                plan,
                self._count,
                batch=self._batch,
                progress=progress,
                residue_bias=residue_bias_table(plan, self._residue_bias),
                nonces=self._nonces(backbone.name),
            )
        )
        native = self._designer.score_native(plan)
        seed = self._designer.seed if self._designer.marker is None else None
        facts = native_header(plan, native, self._target.model_name, seed)
        self._target.append(plan, file, sha256, facts, designs)
        bar.remove_task(task)

    def _nonces(self, name: str) -> list[int] | None:
        """Take the next nonces of the key for the designs on a structure, if it has several."""
        counter, count = self._counter, self._count
        if counter is None:
            return None
        return counter.nonces(self._target.first_number(name, lambda: counter.take(count)), count)


def _progress() -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    return Progress(
        *columns,
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=errors,
        transient=True,
        disable=not errors.is_terminal,
    )


def load_model(model: str, weights: Path | None, device: str) -> tuple[ProteinMPNN, dict[str, str]]:
    """Load the network; return it with the name and hash of its weights."""
    try:
        from patternmark.models.device import pick_device
    except ImportError:
        raise PatternmarkError(
            "designing needs torch: pip install 'patternmark[protein]'"
        ) from None
    from patternmark.models.mpnn import ProteinMPNN
    from patternmark.models.weights import WeightsError, file_sha256, weights_file

    place = pick_device(device)
    try:
        path = weights if weights is not None else weights_file(model, report=say)
    except WeightsError as error:
        raise WeightsError(f"{error} (see --weights)") from None
    if not path.is_file():
        raise InputError(f"{path}: no such checkpoint; name a .pt file with --weights")
    name = model if weights is None else path.name
    return ProteinMPNN.load(path, place), {"name": name, "sha256": file_sha256(path)}


def _marker(key: Path | None, delta: float | None, payload: int | None, allow_open: bool) -> Marker:
    if key is None:
        raise ParameterError("give --key FILE to mark the designs, or --no-watermark")
    loaded = load_key(key, allow_open=allow_open, with_secret=True)
    return Marker(loaded, delta=delta, payload=payload)


def _batch(text: str) -> int | None:
    if text == "auto":
        return None
    if not text.isdecimal() or int(text) < 1:
        raise ParameterError(f"--batch must be auto or a whole number from 1, not {text!r}")
    return int(text)


def _parse_bias(text: str) -> dict[str, float]:
    bias = {}
    for item in filter(None, text.split(",")):
        letter, _, value = item.partition("=")
        try:
            PROTEIN.encode(letter)
            bias[letter.strip().upper()] = float(value)
        except ValueError:
            raise ParameterError(
                f"--bias: {item!r} is not a letter and a number, such as A=-0.5"
            ) from None
    return bias


def _read_residue_bias(path: Path | None) -> dict[str, dict[str, float]]:
    if path is None:
        return {}
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return {str(r): {str(a): float(v) for a, v in row.items()} for r, row in content.items()}
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    except (ValueError, AttributeError, TypeError):
        raise InputError(f'{path}: must be JSON such as {{"A10": {{"P": 2.0}}}}') from None
