"""Records on the backbone they were designed for, with what ProteinMPNN expects of each letter."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from patternmark.core.alphabet import PROTEIN, SEPARATOR
from patternmark.core.key import Key
from patternmark.designing.network import DEFAULT_WEIGHTS, load_network
from patternmark.errors import ParameterError
from patternmark.io.items import Item, Warn
from patternmark.io.manifest_use import IGNORE, ManifestUse
from patternmark.statistics import Statistic, make_backbone

if TYPE_CHECKING:
    from patternmark.designing.fitting import Fitted

_UNKNOWN = PROTEIN.letters.index("X")
_SEED = 0  # of the decoding orders: the same for every verdict


@dataclass(frozen=True)
class BackboneSetting:
    """A structure, what was designed on it, and how, in the terms of `design`."""

    structure: Path
    chains: str | None = None
    fixed: str = ""
    tied: str = ""
    model: str = DEFAULT_WEIGHTS
    weights: Path | None = None
    device: str = "auto"
    temperature: float = 0.1
    orders: int = 8

    @property
    def has_layout(self) -> bool:
        """Whether it says itself what was designed; otherwise manifests do."""
        return bool(self.chains or self.fixed or self.tied)


class BackboneReader:
    """Reads records that fit one structure, and expects of each residue what the model does."""

    def __init__(
        self, setting: BackboneSetting, key: Key, warn: Warn, manifests: ManifestUse
    ) -> None:
        if not 0 < setting.temperature < float("inf"):
            raise ParameterError(f"a temperature must be positive, not {setting.temperature}")
        make_backbone(key)  # refuses a key that it cannot judge before the network is loaded
        self._profile, self.setting = key.profile, setting
        network, facts = load_network(setting.model, setting.weights, setting.device, warn)
        from patternmark.designing.plan import plan_design  # noqa: PLC0415  # needs gemmi
        from patternmark.io.structures import read_backbone  # noqa: PLC0415

        structure = read_backbone(setting.structure)
        for message in structure.warnings:
            warn(f"{setting.structure}: {message}")
        names = setting.chains.split(",") if setting.chains else None
        self.plan = plan_design(structure, chains=names, fixed=setting.fixed, tied=setting.tied)
        self._warn = warn
        self.manifests = ManifestUse(IGNORE) if setting.has_layout else manifests
        self._prepared = network.prepare(network.encode(structure))
        self.source = (
            f"backbone:{structure.name}|model:{facts['name']}|weights:{facts['sha256'][:16]}"
            f"|temperature:{setting.temperature:g}|orders:{setting.orders}|seed:{_SEED}"
        )

    def statistic(self, key: Key) -> Statistic:
        """Return what measures records of this backbone by a key."""
        return make_backbone(key, self.source)

    def items(self, fitting: Iterable[Fitted]) -> Iterator[Item]:
        """Expect something of each residue of records that fit."""
        yield from map(self._item, fitting)

    def _item(self, fitted: Fitted) -> Item:
        """Lay a record out along whole chains: keys count residues that are missing, too."""
        from patternmark.designing.expected import expected_rates  # noqa: PLC0415  # needs torch

        rates = expected_rates(
            self._prepared,
            fitted.plan,
            fitted.sequence,
            self._profile,
            orders=self.setting.orders,
            temperature=self.setting.temperature,
            seed=_SEED,
        )
        given = np.zeros(len(fitted.sequence), dtype=bool)
        given[fitted.rows] = True
        letters = np.where(given, fitted.sequence, _UNKNOWN)
        rows = self._printed(fitted)
        is_letter = rows >= 0
        symbols = np.where(is_letter, letters[rows], SEPARATOR)
        scored = is_letter & fitted.counted[rows]
        return Item(
            fitted.file,
            fitted.record,
            symbols,
            scored,
            rates[:, rows],
            manifest=fitted.manifest,
        )

    def _printed(self, fitted: Fitted) -> NDArray[np.int64]:
        """Return the residues of the record's chains, -1 between chains."""
        backbone = self.plan.backbone
        numbers = backbone.chain_index[fitted.rows]
        pieces: list[NDArray[np.int64]] = []
        for number in dict.fromkeys(numbers.tolist()):
            pieces += [np.array([-1]), np.flatnonzero(backbone.chain_index == number)]
        return np.concatenate(pieces[1:])
