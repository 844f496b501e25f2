"""`write_bias`: the mark as a file for ProteinMPNN, LigandMPNN or foundry."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, TypedDict, Unpack

from patternmark.api.given import GivenKey, key_file_of, key_of, warn_in_python
from patternmark.api.on_structures import GivenChains, GivenFiles, paths_of, plan_on
from patternmark.core.marker import Marker
from patternmark.errors import InputError, ParameterError
from patternmark.io.files import write_private
from patternmark.io.items import Warn
from patternmark.io.nonce_counter import NonceCounter
from patternmark.results import Result

RESIDUES_NAMED = 5  # of the residues that a program cannot name, in a warning


@dataclass(frozen=True, repr=False)
class BiasFile(Result):
    """A file with the mark for another design program: keep it as secret as the key.

    `usage` says how to pass it to that program. All sequences made with it share a key sequence.
    """

    file: Path
    tool: str
    key_id: str
    num_structures: int
    temperature: float
    usage: str
    has_tied_residues: bool

    def to_dict(self) -> dict[str, Any]:
        """Return the facts as plain values for JSON."""
        return {
            "file": str(self.file),
            "tool": self.tool,
            "key_id": self.key_id,
            "num_structures": self.num_structures,
            "temperature": self.temperature,
            "usage": self.usage,
            "has_tied_residues": self.has_tied_residues,
        }

    def cells(self) -> dict[str, str]:
        """Return the cells of a table row by the names of their columns."""
        return {"file": str(self.file), "for": self.tool, "key": self.key_id, "pass": self.usage}


class BiasOptions(TypedDict, total=False):
    """The options of `write_bias`, which explains them."""

    chains: GivenChains
    fixed: str
    tied: str
    homo_oligomer: bool
    temperature: float
    seed: int | None
    overwrite: bool


def write_bias_of(
    structures: Sequence[Path],
    marker: Marker,
    tool: str,
    output: Path,
    *,
    chains: GivenChains = None,
    fixed: str = "",
    tied: str = "",
    homo_oligomer: bool = False,
    temperature: float = 0.1,
    seed: int | None = None,
    overwrite: bool = False,
    key_file: Path | None = None,
    warn: Warn = warn_in_python,
) -> BiasFile:
    """Write the file of a marker, whose nonces a counter chooses if its key has a file."""
    from patternmark.adapters.bias_files import TOOLS, Biased  # noqa: PLC0415
    from patternmark.io.structure_files import find_structures  # noqa: PLC0415  # needs gemmi

    if tool not in TOOLS:
        raise ParameterError(f"tool=NAME must be one of {', '.join(TOOLS)}, not {tool!r}")
    counter = None
    if key_file is not None and seed is None:
        counter = NonceCounter.needed_for(marker, key_file, warn)
    biased = []
    for file in find_structures(structures):
        plan = plan_on(
            file, warn, chains=chains, fixed=fixed, tied=tied, homo_oligomer=homo_oligomer
        )
        nonce = None if counter is None else counter.nonces(counter.take(1), 1)[0]
        biased.append(
            Biased.of(file, plan, marker, temperature=temperature, seed=seed, nonce=nonce)
        )
    if not biased:
        raise InputError("no structure was found: give PDB files or folders of them")
    chosen = TOOLS[tool]
    write_private(output, chosen.text(biased), overwrite=overwrite)
    for structure in biased:
        if nameless := chosen.nameless(structure):
            more = ", ..." if len(nameless) > RESIDUES_NAMED else ""
            warn(
                f"{structure.file}: {chosen.name} cannot name {len(nameless)} residue(s), which "
                f"carry no mark: {', '.join(nameless[:RESIDUES_NAMED])}{more}"
            )
    usage = chosen.usage if len(biased) == 1 else chosen.usage_of_several
    return BiasFile(
        file=output,
        tool=chosen.name,
        key_id=marker.key.key_id,
        num_structures=len(biased),
        temperature=temperature,
        usage=usage.format(file=output),
        has_tied_residues=any(len(group) > 1 for one in biased for group in one.plan.groups),
    )


def write_bias(
    structures: GivenFiles,
    key: GivenKey,
    tool: str,
    output: PathLike[str] | str,
    *,
    delta: float | None = None,
    warn: Warn = warn_in_python,
    **options: Unpack[BiasOptions],
) -> BiasFile:
    """Write a bias file with which another design program makes marked sequences.

    `tool` is proteinmpnn, ligandmpnn or foundry. The file holds one key sequence, shared by all
    sequences made with it: write a new file for every run. It reveals what its keys promote: keep
    it as secret as the key. Options:

    - `chains`, `fixed`, `tied`, `homo_oligomer`: what is designed, as for `design`;
    - `delta`: the strength of the mark; `temperature`: that of the other program (0.1);
    - `seed`: the same seed gives the same key sequence;
    - `overwrite=True`: replace the file.
    """
    marker = Marker(key_of(key), delta=delta)
    return write_bias_of(
        paths_of(structures),
        marker,
        tool,
        Path(output),
        key_file=key_file_of(key),
        warn=warn,
        **options,
    )
