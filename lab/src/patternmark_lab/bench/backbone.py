"""`patternmark bench backbone`: how much weaker marks are found with the backbone.

Every backbone gets one design for each key, scheme and delta, judged with and without the backbone.
To count false positives, it also gets an unmarked design that is judged by many fresh keys. Every
third backbone is left out, because defaults were chosen on it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patternmark.core.alphabet import PROTEIN
from patternmark.core.key import Key
from patternmark.core.profile import Profile
from patternmark.core.schemes import Blocks, Paper
from patternmark.detector import Detector
from patternmark.intervals import rate_interval
from patternmark.io.structures import Backbone
from patternmark.statistics import BACKBONE, make_backbone
from patternmark_lab.bench.detectors import reported_backbones
from patternmark_lab.bench.protein import TEMPERATURE, design_all, numbered_keys
from patternmark_lab.bench.report import environment

DELTAS = (0.25, 0.5, 0.75)
LEVELS = (1e-2, 1e-3, 1e-4, 1e-5)
REPORTED = 1e-3
ORDERS = 8
SCHEMES = {"paper": Profile(scheme=Paper()), "blocks R=1": Profile(scheme=Blocks(nonces=1))}
DETECTORS = (BACKBONE, "auto")

LogPs = dict[tuple[str, float, str], list[float]]  # by scheme, delta and detector


def run_backbone_benchmark(
    weights: Path,
    backbones: Sequence[Backbone],
    *,
    num_keys: int = 2,
    null_keys: int = 100,
    seed: int = 1,
    device: str = "cpu",
    step: Callable[[str], None] = lambda what: None,
) -> dict[str, Any]:
    """Design and detect; `step` is called with the name of each finished backbone."""
    from patternmark.models.mpnn import ProteinMPNN  # noqa: PLC0415  # torch is an extra

    label = f"bench backbone {seed}"
    keys = {n: numbered_keys(f"{label} {n}", p, num_keys) for n, p in SCHEMES.items()}
    fresh = {n: numbered_keys(f"{label} fresh {n}", p, null_keys) for n, p in SCHEMES.items()}
    conditions: list[tuple[Key | None, float]] = [
        (key, delta) for name in SCHEMES for key in keys[name] for delta in DELTAS
    ]
    model = ProteinMPNN.load(weights, device)
    marked: LogPs = {}
    unmarked: LogPs = {}
    chosen = reported_backbones(backbones)
    for backbone in chosen:
        made = design_all(model, backbone, [*conditions, (None, 0.0)], seed)["sequences"]
        judge = _Judge(model, backbone)
        for (key, delta), sequence in zip(conditions, made, strict=False):
            if key is not None:
                name = next(name for name in SCHEMES if key in keys[name])
                _add(marked, name, delta, judge.log10_ps([key], sequence))
        for name in SCHEMES:
            _add(unmarked, name, 0.0, judge.log10_ps(fresh[name], made[-1]))
        step(backbone.name)
    result: dict[str, Any] = {"benchmark": "backbone", **environment()}
    return result | {
        "model": weights.stem,
        "temperature": TEMPERATURE,
        "orders": ORDERS,
        "seed": seed,
        "num_keys": num_keys,
        "null_keys": null_keys,
        "chains_read": len(backbones),
        "backbones": [backbone.name for backbone in chosen],
        "detection": _rows(marked),
        "false_positives": _rows(unmarked),
    }


class _Judge:
    """Judges designs of one backbone, with and without the backbone."""

    def __init__(self, model: Any, backbone: Backbone) -> None:
        from patternmark.designing.plan import plan_design  # noqa: PLC0415

        self._plan = plan_design(backbone)
        self._prepared = model.prepare(model.encode(backbone))

    def log10_ps(self, keys: Sequence[Key], sequence: NDArray[np.int64]) -> dict[str, list[float]]:
        """Return log10 p of one sequence for keys of one scheme and both detectors."""
        from patternmark.designing.expected import expected_rates  # noqa: PLC0415

        rates = expected_rates(
            self._prepared,
            self._plan,
            sequence,
            keys[0].profile,
            orders=ORDERS,
            temperature=TEMPERATURE,
        )
        shown = np.where(self._plan.designed, sequence, PROTEIN.letters.index("X"))
        found: dict[str, list[float]] = {name: [] for name in DETECTORS}
        for key in keys:
            aware = Detector(key, make_backbone(key)).detect_many([shown], rates=[rates])[0]
            found[BACKBONE].append(aware.log10_p)
            found["auto"].append(Detector(key).detect(shown).log10_p)
        return found


def _add(log10_ps: LogPs, scheme: str, delta: float, found: dict[str, list[float]]) -> None:
    for detector, values in found.items():
        log10_ps.setdefault((scheme, delta, detector), []).extend(values)


def _rows(log10_ps: LogPs) -> list[dict[str, Any]]:
    rows = []
    for (scheme, delta, detector), values in log10_ps.items():
        for level in LEVELS:
            hits = int(np.count_nonzero(np.array(values) <= np.log10(level)))
            low, high = rate_interval(hits, len(values))
            rows.append(
                {
                    "scheme": scheme,
                    "delta": delta,
                    "detector": detector,
                    "fpr": level,
                    "trials": len(values),
                    "hits": hits,
                    "rate": hits / len(values),
                    "low": low,
                    "high": high,
                }
            )
    return rows


def to_markdown(result: dict[str, Any]) -> str:
    """Return the results page."""
    count = len(result["backbones"])
    lines = [
        "# Detection with the backbone",
        "",
        f"Made by `patternmark bench backbone STRUCTURES --most {result['chains_read']} --keys "
        f"{result['num_keys']} --null-keys {result['null_keys']} -o docs/results` with "
        f"patternmark {result['version']}: ProteinMPNN {result['model']}, "
        f"T = {result['temperature']}, {count} PoseBusters chains of 300 to 500 "
        f"residues, {result['num_keys']} keys each, {result['orders']} decoding orders, which "
        "differ from those of the designs. 95 % intervals (Clopper-Pearson) are in brackets. "
        "Chains on which defaults were chosen are left out.",
        "",
        "## True positive rate in percent at p <= 0.1 %",
        "",
        "| scheme | delta | designs | `auto`: the sequence alone | `--backbone` |",
        "|---|---:|---:|---|---|",
    ]
    schemes = dict.fromkeys(row["scheme"] for row in result["detection"])
    for scheme in schemes:
        for delta in DELTAS:
            aware, alone = (
                _row(result["detection"], scheme, delta, name, REPORTED) for name in DETECTORS
            )
            lines.append(
                f"| {scheme} | {delta:g} | {aware['trials']} | {_percent(alone)} "
                f"| {_percent(aware, bold=True)} |"
            )
    lines += [
        "",
        "## False positive rate in percent: unmarked designs, fresh keys",
        "",
        f"One design on each backbone, judged by {result['null_keys']} keys. The trials of one "
        "design depend on each other, so these intervals, which assume independent trials, are too "
        "narrow.",
        "",
        "| scheme | nominal | trials | `auto` | `--backbone` |",
        "|---|---:|---:|---|---|",
    ]
    for scheme in schemes:
        for level in LEVELS[:-1]:
            aware, alone = (
                _row(result["false_positives"], scheme, 0.0, name, level) for name in DETECTORS
            )
            lines.append(
                f"| {scheme} | {100 * level:g} | {aware['trials']:,} | {_percent(alone, 3)} "
                f"| {_percent(aware, 3)} |"
            )
    return "\n".join(lines) + "\n"


def _row(
    rows: list[dict[str, Any]], scheme: str, delta: float, detector: str, level: float
) -> dict[str, Any]:
    wanted = (scheme, delta, detector, level)
    return next(r for r in rows if (r["scheme"], r["delta"], r["detector"], r["fpr"]) == wanted)


def _percent(row: dict[str, Any], digits: int = 1, *, bold: bool = False) -> str:
    rate, low, high = (f"{100 * row[name]:.{digits}f}" for name in ("rate", "low", "high"))
    return f"{f'**{rate}**' if bold else rate} ({low} to {high})"
