"""The designs of `bench paper`: all schemes, strengths and keys on a backbone, in one batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patternmark.attacks.redesign import Redesigner
from patternmark.core.alphabet import PROTEIN
from patternmark.designing.plan import plan_design
from patternmark.designing.run import Designer, DesignOptions
from patternmark.io.kept import Kept
from patternmark.io.structures import Backbone
from patternmark.models.device import device_name
from patternmark.models.mpnn import ProteinMPNN
from patternmark.quality.design_measures import Judges, measure_designs
from patternmark.quality.predictor import shipped_predictor
from patternmark_lab.bench.paper.material import ByKey, Material, devices_of
from patternmark_lab.bench.paper.plan import NONE, REWRITTEN, Cell, Size, cells
from patternmark_lab.bench.protein import TEMPERATURE, visible
from patternmark_lab.generation.batch import design_schemes
from patternmark_lab.schemes import Scheme

# Attacks with the design model itself, and their strengths.
MODEL_ATTACKS = (("redesign", 0.3), ("rewrite", 1.0))
_LETTERS = np.array(list(PROTEIN.letters))


class DesignStage:
    """Designs on one backbone after the other, and keeps the designs of each."""

    def __init__(
        self,
        weights: Path,
        others: Sequence[Path],
        size: Size,
        seed: int,
        device: str,
        kept: Kept,
        schemes: Sequence[str] = (),
    ) -> None:
        """Load the models; `schemes` names the schemes that mark (empty: all of them)."""
        self.size, self.seed, self._kept = size, seed, kept
        self.model = ProteinMPNN.load(weights, device)
        self._others = {file.stem: ProteinMPNN.load(file, device) for file in others}
        self._predictor = shipped_predictor(device)
        self.cells = cells("protein", size, schemes)
        keys = range(size.keys)
        self._schemes: list[Scheme | None] = [
            cell.of_key(number, seed, PROTEIN) for cell in self.cells for number in keys
        ]
        self._schemes += [None] * size.keys
        # Designs are numbered among all schemes, so that a rerun of some schemes repeats them.
        every = cells("protein", size)
        places = [*(every.index(cell) for cell in self.cells), len(every)]
        self._numbers = [place * size.keys + number for place in places for number in keys]
        self._designer = Designer(self.model, DesignOptions(temperature=TEMPERATURE, seed=seed))

    @property
    def attacked(self) -> list[Cell]:
        """The cells that the model attacks: some schemes at the largest strength."""
        strongest = max(self.size.protein_deltas)
        return [cell for s in REWRITTEN if (cell := Cell(s, strongest)) in self.cells]

    def run(
        self, backbones: Sequence[Backbone], natural: Sequence[str], step: Callable[[str], None]
    ) -> Material:
        """Design on all backbones; `step` is called for each."""
        rows = []
        for backbone in backbones:
            name = f"{backbone.name}/{self.size}/seed {self.seed}"
            row = self._kept.get(name)
            if row is None:
                made_on = device_name(self.model.device)
                row = {"job": name, "device": made_on, **self._design(backbone)}
                self._kept.add(row)
            rows.append(row)
            step(f"designs on {backbone.name}")
        lengths = [len(row["designs"][NONE][0]) for row in rows]
        about = {
            "backbones": [b.name for b in backbones],
            "residues": int(sum(np.count_nonzero(b.is_complete) for b in backbones)),
            "chain_lengths": [min(lengths), max(lengths)],
            "temperature": TEMPERATURE,
            "device": devices_of(rows),
        }
        return self._material(rows, natural, about)

    def _design(self, backbone: Backbone) -> dict[str, Any]:
        found = design_schemes(
            self.model,
            backbone,
            self._schemes,
            self.seed,
            temperature=TEMPERATURE,
            numbers=self._numbers,
        )
        sequences = found["sequences"]
        names = [*(cell.name for cell in self.cells), NONE]
        by_cell = dict(zip(names, sequences.reshape(len(names), self.size.keys, -1), strict=True))
        plan = plan_design(backbone)
        prepared = {
            name: model.prepare(model.encode(backbone)) for name, model in self._others.items()
        }
        measured = measure_designs(plan, list(sequences), Judges(prepared, self._predictor))
        columns = [
            {"nll": nll} | row.values() for nll, row in zip(found["nll"], measured, strict=True)
        ]
        quality: dict[str, dict[str, list[float]]] = {}
        for number, row in enumerate(columns):
            cell = quality.setdefault(names[number // self.size.keys], {})
            for measure, value in row.items():
                cell.setdefault(measure, []).append(round(float(value), 5))
        attacked = self._attack(Redesigner(self._designer, plan), by_cell)
        designs = {name: self._printed(rows, backbone) for name, rows in by_cell.items()}
        return {"designs": designs, "quality": quality, "attacked": attacked}

    def _attack(
        self, redesigner: Redesigner, by_cell: dict[str, NDArray[np.int64]]
    ) -> dict[str, dict[str, list[str]]]:
        """Rewrite designs of a few keys with the model, all together."""
        names, keys = [cell.name for cell in self.attacked], self.size.rewritten_keys
        sequences = [ids for name in names for ids in by_cell[name][:keys]]
        found = {}
        for attack, epsilon in MODEL_ATTACKS:
            made = redesigner.attack(attack).attack_all(sequences, epsilon, self.seed)
            printed = self._printed(made, redesigner.plan.backbone)
            starts = range(0, len(printed), keys)
            rows = [printed[start : start + keys] for start in starts]
            found[f"{attack}/{epsilon:g}"] = dict(zip(names, rows, strict=True))
        return found

    def _printed(
        self, sequences: Sequence[NDArray[np.int64]] | NDArray[np.int64], backbone: Backbone
    ) -> list[str]:
        return ["".join(_LETTERS[visible(np.asarray(ids), backbone)]) for ids in sequences]

    def _material(
        self, rows: Sequence[dict[str, Any]], natural: Sequence[str], about: dict[str, Any]
    ) -> Material:
        def by_key(tables: Sequence[dict[str, list[str]]], name: str) -> ByKey:
            return [list(own) for own in zip(*(table[name] for table in tables), strict=True)]

        designs = [row["designs"] for row in rows]
        attacked = {
            (attack, epsilon): {
                cell: by_key([row["attacked"][f"{attack}/{epsilon:g}"] for row in rows], cell.name)
                for cell in self.attacked
            }
            for attack, epsilon in MODEL_ATTACKS
        }
        quality: dict[str, dict[str, list[float]]] = {}
        for row in rows:
            for name, measures in row["quality"].items():
                for measure, values in measures.items():
                    # Backbones are the units: designs on one backbone depend on each other.
                    quality.setdefault(name, {}).setdefault(measure, []).append(
                        float(np.mean(values))
                    )
        return Material(
            task="protein",
            marked={cell: by_key(designs, cell.name) for cell in self.cells},
            unmarked=[text for table in designs for text in table[NONE]],
            natural=list(natural),
            attacked=attacked,
            quality=quality,
            about=about,
        )
