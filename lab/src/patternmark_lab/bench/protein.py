"""`patternmark bench protein`: the paper's Table 1 for PATTERN-MARK, on real backbones.

Every backbone gets one design for each key and delta, and one without a mark for each key. The
paper's detector (m = 5) judges. Quality is compared with the published sampler if it is installed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patternmark.core.alphabet import PROTEIN
from patternmark.core.key import Key
from patternmark.core.marker import Marker
from patternmark.core.profile import Profile
from patternmark.core.promote import Promotion
from patternmark.core.schemes import Paper
from patternmark.core.secret import Secret
from patternmark.detector import Detector
from patternmark.intervals import mean_interval, rate_interval
from patternmark.io.structures import Backbone, read_backbone
from patternmark_lab.bench.paper.numbers import DETECTION, FPRS
from patternmark_lab.bench.report import environment

DELTAS = (0.5, 0.75, 1.0, 1.25, 1.5)
LEVELS = FPRS
SHORTEST, LONGEST = 300, 500
TEMPERATURE = 0.1
# Table 1 of the paper: TPR in percent at these levels.
PAPER = {delta: rates for delta, (_, rates) in DETECTION["protein"]["pattern-mark"].items()}


def suitable_chains(
    files: Sequence[Path],
    most: int | None = None,
    shortest: int = SHORTEST,
    longest: float = LONGEST,
) -> list[Backbone]:
    """Return one chain with `shortest` to `longest` residues from each structure that has one."""
    chosen = []
    for file in files:
        backbone = read_backbone(file)
        for chain in backbone.chain_ids:
            rows = backbone.chain(chain)
            if shortest <= np.count_nonzero(backbone.is_complete[rows]) <= longest:
                chosen.append(_only(backbone, chain))
                break
        if most is not None and len(chosen) == most:
            break
    return chosen


def _only(backbone: Backbone, chain: str) -> Backbone:
    rows = backbone.chain(chain)
    return replace(
        backbone,
        coordinates=backbone.coordinates[rows],
        sequence=backbone.sequence[rows],
        chain_index=np.zeros(rows.stop - rows.start, dtype=np.int64),
        chain_ids=(chain,),
        residue_labels=backbone.residue_labels[rows],
        warnings=(),
    )


def numbered_keys(label: str, profile: Profile, count: int) -> list[Key]:
    """Return keys that depend only on the label, so that a benchmark can make them again."""
    secrets = [Secret(sha256(f"{label} {i}".encode()).digest()) for i in range(count)]
    return [Key.of(secret, profile) for secret in secrets]


def run_protein_benchmark(
    weights: Path,
    backbones: Sequence[Backbone],
    *,
    num_keys: int = 6,
    seed: int = 1,
    device: str = "cpu",
    published_samples: int = 0,
    step: Callable[[str], None] = lambda what: None,
) -> dict[str, Any]:
    """Design, detect, and compare quality; `step` is called for each finished backbone."""
    from patternmark.models.mpnn import ProteinMPNN  # noqa: PLC0415  # torch is an extra

    keys = numbered_keys(f"bench protein {seed}", Profile(scheme=Paper()), num_keys)
    conditions = [(key, delta) for key in keys for delta in DELTAS] + [(None, 0.0)] * num_keys
    model = ProteinMPNN.load(weights, device)
    log_p: list[list[float]] = []  # [backbones, conditions]: ln p of the marked ones
    nll, recovery, published = [], [], []
    for backbone in backbones:
        made = design_all(model, backbone, conditions, seed)
        log_p.append(_verdicts(conditions, made["sequences"]))
        nll.append(made["nll"])
        recovery.append(made["recovery"])
        if published_samples:
            published.append(_published(weights, backbone, published_samples, device, model))
        step(backbone.name)
    result: dict[str, Any] = {"benchmark": "protein", **environment()}
    result |= {
        "model": weights.stem,
        "device": device,
        "temperature": TEMPERATURE,
        "m": 5,
        "seed": seed,
        "num_keys": num_keys,
        "backbones": [b.name for b in backbones],
        "residues": int(sum(np.count_nonzero(b.is_complete) for b in backbones)),
        "detection": _detection_rates(conditions, np.array(log_p)),
        "quality": _quality(conditions, np.array(nll), np.array(recovery)),
    }
    if published:
        result["published"] = _published_summary(published)
    return result


def design_all(
    model: Any, backbone: Backbone, conditions: Sequence[tuple[Key | None, float]], seed: int
) -> dict[str, NDArray[Any]]:
    """Sample all conditions in one batch, each with its own keys and strength."""
    from patternmark.designing.plan import plan_design  # noqa: PLC0415
    from patternmark.models.sampler import sample  # noqa: PLC0415
    from patternmark_lab.generation.batch import designs_of, unmarked_task  # noqa: PLC0415

    plan = plan_design(backbone)
    nothing = np.zeros((1, PROTEIN.size), dtype=bool)
    unmarked = Promotion(nothing, np.zeros(plan.length, dtype=np.int64), 0.0)
    promotions = [unmarked] * len(conditions)
    for row, (key, delta) in enumerate(conditions):
        if key is not None:
            marker = Marker(key, delta=delta)
            promotions[row] = marker.prepare(plan.keys(marker, seed, [row])[0], TEMPERATURE)
    task = unmarked_task(plan, seed, range(len(conditions)), TEMPERATURE)
    task = replace(task, promotions=tuple(promotions))
    sampled = sample(model.prepare(model.encode(backbone)), task)
    return designs_of(plan, sampled)


def visible(sequence: NDArray[np.int64], backbone: Backbone) -> NDArray[np.int64]:
    """Return a design as it is printed: residues without coordinates are X."""
    return np.where(backbone.is_complete, sequence, PROTEIN.letters.index("X"))


def _verdicts(
    conditions: Sequence[tuple[Key | None, float]], sequences: NDArray[np.int64]
) -> list[float]:
    """Return log10 p of every marked sequence under its own key."""
    detectors: dict[str, Detector] = {}
    found = []
    for (key, _), sequence in zip(conditions, sequences, strict=True):
        if key is not None:
            as_published = Detector(key, "pattern", m=5, mask_repeats=False)
            detector = detectors.setdefault(key.key_id, as_published)
            found.append(detector.detect(sequence).log10_p)
    return found


def _detection_rates(
    conditions: Sequence[tuple[Key | None, float]], log10_p: NDArray[np.float64]
) -> list[dict[str, Any]]:
    deltas = np.array([delta for key, delta in conditions if key is not None])
    rows = []
    for delta in DELTAS:
        found = log10_p[:, deltas == delta]  # [backbones, keys]
        for level, paper in zip(LEVELS, PAPER[delta], strict=True):
            hits = found <= np.log10(level)
            low, high = rate_interval(int(hits.sum()), hits.size)
            by_key = mean_interval(hits.mean(axis=0))
            rows.append(
                {
                    "delta": delta,
                    "fpr": level,
                    "trials": hits.size,
                    "hits": int(hits.sum()),
                    "tpr": float(hits.mean()),
                    "low": low,
                    "high": high,
                    "paper": paper / 100,
                    "by_key": by_key,
                    "per_key": [float(x) for x in hits.mean(axis=0)],
                }
            )
    return rows


def _quality(
    conditions: Sequence[tuple[Key | None, float]],
    nll: NDArray[np.float64],
    recovery: NDArray[np.float64],
) -> list[dict[str, Any]]:
    """Return mean likelihood and recovery for each delta, with intervals over backbones."""
    deltas = np.array([delta for _, delta in conditions])
    return [
        {
            "delta": delta,
            "sequences": int(nll[:, deltas == delta].size),
            "nll": mean_interval(nll[:, deltas == delta].mean(axis=1)),
            "recovery": mean_interval(recovery[:, deltas == delta].mean(axis=1)),
            "nll_cost": mean_interval(
                nll[:, deltas == delta].mean(axis=1) - nll[:, deltas == 0].mean(axis=1)
            ),
        }
        for delta in (0.0, *DELTAS)
    ]


def _published(
    weights: Path, backbone: Backbone, samples: int, device: str, model: Any
) -> dict[str, float]:
    """Sample with the published code; our network, which computes the same, gives likelihoods."""
    import torch  # noqa: PLC0415

    from patternmark_lab.bench import published  # noqa: PLC0415

    made = published.published_samples(
        published.published_network(weights, device),
        published.features_of(backbone, samples, device),
        temperature=TEMPERATURE,
    )
    letters, order = made["S"], made["decoding_order"].expand(samples, -1)
    ranks = torch.argsort(order, dim=1)
    prepared = model.prepare(model.encode(backbone))
    log_p = prepared.log_probabilities(letters, ranks).gather(2, letters[..., None])[..., 0]
    known = torch.tensor(backbone.is_complete, device=letters.device)
    native = torch.tensor(backbone.sequence, device=letters.device)
    return {
        "samples": samples,
        "nll": float(-log_p[:, known].mean()),
        "recovery": float((letters == native)[:, known].double().mean()),
    }


def _published_summary(rows: list[dict[str, float]]) -> dict[str, Any]:
    return {
        "samples": int(sum(row["samples"] for row in rows)),
        "nll": mean_interval(np.array([row["nll"] for row in rows])),
        "recovery": mean_interval(np.array([row["recovery"] for row in rows])),
        "per_backbone": rows,
    }


def to_markdown(result: dict[str, Any]) -> str:
    """Return the results page, with our numbers and the paper's."""
    count = len(result["backbones"])
    trials = result["detection"][0]["trials"]
    lines = [
        "# Table 1 of the paper: PATTERN-MARK on proteins",
        "",
        f"Made by `patternmark bench protein STRUCTURES --keys {result['num_keys']} "
        f"--published {_samples(result)} -o docs/results` with patternmark {result['version']}: "
        f"ProteinMPNN {result['model']}, T = {result['temperature']}, {count} backbones of "
        f"{SHORTEST} to {LONGEST} residues (PoseBusters, one chain each), {result['num_keys']} "
        f"fresh keys, so {trials} marked sequences for each delta. delta is added to the logits. "
        f"The detector is the paper's, m = {result['m']}.",
        "",
        "## True positive rate in percent, by nominal false positive rate",
        "",
        "Each cell has our rate; in brackets the 95 % interval of the mean over keys, since keys "
        "differ more than sequences do (the JSON has the exact interval over sequences alone); "
        "then the paper's value, from about 800 sequences of its own backbones and an unstated "
        "number of keys; and the range over single keys.",
        "",
        "| delta | " + " | ".join(f"{100 * level:g} %" for level in LEVELS) + " |",
        "|---:|" + "---|" * len(LEVELS),
    ]
    for delta in DELTAS:
        cells = [_rate_cell(r) for r in result["detection"] if r["delta"] == delta]
        lines.append(f"| {delta} | " + " | ".join(cells) + " |")
    lines += [
        "",
        "## Quality",
        "",
        "Means over backbones with their 95 % intervals. The cost of the mark is the difference "
        "from unmarked designs on the same backbone.",
        "",
        "| | sequences | negative log-likelihood | cost of the mark | native recovery (%) |",
        "|---|---:|---:|---:|---:|",
    ]
    for row in result["quality"]:
        name = f"delta {row['delta']}" if row["delta"] else "no mark"
        cost = _interval(row["nll_cost"], 3) if row["delta"] else ""
        lines.append(
            f"| {name} | {row['sequences']:,} | {_interval(row['nll'], 3)} | {cost} "
            f"| {_interval(row['recovery'], 1, 100)} |"
        )
    if "published" in result:
        row = result["published"]
        lines.append(
            f"| published sampler, no mark | {row['samples']:,} | {_interval(row['nll'], 3)} | "
            f"| {_interval(row['recovery'], 1, 100)} |"
        )
    return "\n".join(lines) + "\n"


def _samples(result: dict[str, Any]) -> int:
    rows = result.get("published", {}).get("per_backbone", [{"samples": 0}])
    return int(rows[0]["samples"])


def _rate_cell(row: dict[str, Any]) -> str:
    over = row["by_key"]
    keys = f"{100 * min(row['per_key']):.0f}-{100 * max(row['per_key']):.0f}"
    return (
        f"**{100 * row['tpr']:.1f}** [{max(100 * over['low'], 0):.1f}, "
        f"{min(100 * over['high'], 100):.1f}]; "
        f"paper {100 * row['paper']:.1f}; keys {keys}"
    )


def _interval(row: dict[str, float], digits: int, scale: float = 1.0) -> str:
    mean, low, high = (f"{scale * row[k]:.{digits}f}" for k in ("mean", "low", "high"))
    return f"{mean} [{low}, {high}]"
