"""`patternmark detect --backbone`: records on their backbone, with what ProteinMPNN expects."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from patternmark.cli.design import load_model
from patternmark.cli.fitting import Fitted, fitted_records
from patternmark.cli.items import Item
from patternmark.cli.output import warn
from patternmark.core.alphabet import PROTEIN, SEPARATOR
from patternmark.core.chain import KeyChain
from patternmark.core.key import Key
from patternmark.errors import ParameterError
from patternmark.io.records import Format
from patternmark.statistics import BACKBONE, Statistic, make_backbone

_UNKNOWN = PROTEIN.letters.index("X")
_SEED = 0  # of the decoding orders: the same for every verdict


class ChainLayout(NamedTuple):
    """What was designed on the structure, in the terms of `design`."""

    chains: str | None = None
    fixed: str = ""
    tied: str = ""


class Expectation(NamedTuple):
    """How the designs are supposed to have been made."""

    model: str = "v_48_020"
    weights: Path | None = None
    device: str = "auto"
    temperature: float = 0.1
    orders: int = 8


def check_backbone_options(
    backbone: Path | None, layout: ChainLayout, setting: Expectation, detector: str
) -> None:
    """Refuse options that do not go together."""
    if backbone is None:
        if any(layout) or setting != Expectation():
            raise ParameterError(
                "--chains, --fixed, --tied, --model, --weights, --device, --temperature and "
                "--orders need --backbone STRUCTURE"
            )
        if detector == BACKBONE:
            raise ParameterError("--detector backbone needs --backbone STRUCTURE")
    elif detector not in ("auto", BACKBONE):
        raise ParameterError(
            f"--backbone has its own detector: leave out --detector {detector} or --backbone"
        )


class BackboneReader:
    """Reads records that fit one structure, and expects of each residue what the model does."""

    def __init__(
        self,
        path: Path,
        layout: ChainLayout,
        setting: Expectation,
        key: Key,
        pattern_options: tuple[int | None, KeyChain | None] = (None, None),
    ) -> None:
        if any(option is not None for option in pattern_options):
            raise ParameterError("--m and probabilities in --null cannot be used with --backbone")
        if not 0 < setting.temperature < float("inf"):
            raise ParameterError(f"--temperature must be positive, not {setting.temperature}")
        make_backbone(key)  # refuses a key that it cannot judge before the network is loaded
        self._profile, self._path, self._setting = key.profile, path, setting
        network, facts = load_model(setting.model, setting.weights, setting.device)
        from patternmark.designing.plan import plan_design
        from patternmark.io.structures import read_backbone

        structure = read_backbone(path)
        for message in structure.warnings:
            warn(f"{path}: {message}")
        names = layout.chains.split(",") if layout.chains else None
        self._plan = plan_design(structure, chains=names, fixed=layout.fixed, tied=layout.tied)
        self._use_manifest = not any(layout)
        self._prepared = network.prepare(network.encode(structure))
        self.source = (
            f"backbone:{structure.name}|model:{facts['name']}|weights:{facts['sha256'][:16]}"
            f"|temperature:{setting.temperature:g}|orders:{setting.orders}|seed:{_SEED}"
        )

    def statistic(self, key: Key) -> Statistic:
        """Return what measures records of this backbone by a key."""
        return make_backbone(key, self.source)

    def items(self, files: list[str], format: Format) -> Iterator[Item]:
        """Read the records that fit; warn of the others by name."""
        for fitted in fitted_records(
            files, self._path, self._plan, use_manifest=self._use_manifest, format=format
        ):
            yield self._item(fitted)

    def _item(self, fitted: Fitted) -> Item:
        """Lay a record out along whole chains: keys count residues that are missing, too."""
        from patternmark.designing.expected import expected_rates

        rates = expected_rates(
            self._prepared,
            fitted.plan,
            fitted.sequence,
            self._profile,
            orders=self._setting.orders,
            temperature=self._setting.temperature,
            seed=_SEED,
        )
        given = np.zeros(len(fitted.sequence), dtype=bool)
        given[fitted.rows] = True
        letters = np.where(given, fitted.sequence, _UNKNOWN)
        rows = self._printed(fitted)
        is_letter = rows >= 0
        symbols = np.where(is_letter, letters[rows], SEPARATOR)
        scored = is_letter & fitted.counted[rows]
        return Item(fitted.file, fitted.record, symbols, scored, rates[:, rows])

    def _printed(self, fitted: Fitted) -> NDArray[np.int64]:
        """Return the residues of the record's chains, -1 between chains."""
        backbone = self._plan.backbone
        numbers = backbone.chain_index[fitted.rows]
        pieces: list[NDArray[np.int64]] = []
        for number in dict.fromkeys(numbers.tolist()):
            pieces += [np.array([-1]), np.flatnonzero(backbone.chain_index == number)]
        return np.concatenate(pieces[1:])
