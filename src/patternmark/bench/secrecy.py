"""`patternmark bench secrecy`: what marked sequences of one key teach an attacker, as a curve.

Sequences are synthetic: natural letters tilted by the measured agreement rates under a fresh key.
For one key the attacker sees ever more of them, forges new ones and strips seen ones, and the
default detector judges at its default false positive rate.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patternmark.attacks.audit import DEFAULT_BUDGET, learn, strip_seen
from patternmark.attacks.forge import draw_unmarked, forge, strip
from patternmark.attacks.split import SplitKnowledge
from patternmark.bench.jobs import run_all
from patternmark.bench.report import environment
from patternmark.core.key import Key
from patternmark.core.profile import HARDENED, PAPER, Profile
from patternmark.core.schemes import Blocks, Paper
from patternmark.core.secret import Secret
from patternmark.detect import Detector
from patternmark.errors import ParameterError
from patternmark.evidence import DEFAULT_FPR
from patternmark.intervals import mean_interval, rate_interval
from patternmark.io.kept import Kept
from patternmark.rates import DELTAS
from patternmark.simulate import marked_sequences, natural_frequencies, rates_at

LENGTH = 400
SHORT_PERIOD = 16  # what a schedule must not be
_OUTCOMES = ("forged", "forced", "before", "stripped", "alone", "random")


@dataclass(frozen=True)
class Size:
    """How much is measured: fresh keys, sequences forged and stripped with each, sequences seen."""

    trials: int
    tries: int
    strips: int
    deltas: tuple[float, ...]
    nonces: tuple[int, ...]
    counts: tuple[int, ...]
    most: tuple[int, int] = (0, 0)  # a larger count, which so many of the keys are given as well


SIZES = {
    "smoke": Size(3, 16, 8, (0.5, 1.0), (1, 64), (1, 4, 32)),
    "full": Size(8, 64, 16, (0.5, 1.0), (1, 64, 1024), (1, 4, 32, 256, 1000), (10_000, 2)),
}


@dataclass(frozen=True)
class Trial:
    """One key: all its counts are measured by one process, on growing parts of one sample."""

    profile: Profile
    delta: float
    counts: tuple[int, ...]
    tries: int
    strips: int
    number: int
    seed: int

    @property
    def name(self) -> str:
        """What tells it from all others: equal names, equal results."""
        p = self.profile
        scheme = (
            f"{p.scheme}/{p.period}/{p.block}/{p.starts}/{p.nonces}" if p.is_hardened else PAPER
        )
        sizes = f"{max(self.counts)}/{self.tries}/{self.strips}"
        return f"{scheme}/{self.delta}/{sizes}/{self.seed}/{self.number}"


def run_trial(trial: Trial) -> dict[str, Any]:
    """Mark, learn, forge, strip and judge under one fresh key: how many of n are called marked."""
    digest = Secret(trial.seed.to_bytes(32, "big")).subkey(f"secrecy/{trial.name}")
    key = Key.of(Secret(digest), trial.profile)  # the same seed draws the same keys again
    rng = np.random.default_rng(list(digest))
    detector, letters = Detector(key), natural_frequencies()

    def judge(batch: Sequence[NDArray[np.int64]]) -> list[bool]:
        return [verdict.prediction for verdict in detector.detect_many(batch)]

    rates, strongest = (
        rates_at(strength, trial.profile.alphabet, trial.profile.scheme)
        for strength in (trial.delta, DELTAS[-1])
    )
    seen = list(marked_sequences(key, rates, rng.random((max(trial.counts), LENGTH))))
    before = judge(seen[: trial.strips])
    alone = judge(_stripped_alone(seen[: trial.strips], trial, rates, rng))
    unmarked = judge(draw_unmarked([LENGTH] * 2 * trial.tries, letters, rng))
    rows = []
    for count in trial.counts:
        knowledge = learn(seen[:count], trial.profile, trial.delta, rng)
        lengths = [LENGTH] * trial.tries
        _, stripped, random = strip_seen(
            seen[:count], knowledge, rates, letters, DEFAULT_BUDGET, trial.strips, rng
        )
        judged = {
            "forged": judge(forge(knowledge, lengths, rates, letters, rng)),
            "forced": judge(forge(knowledge, lengths, strongest, letters, rng)),
            "before": before[:count],
            "stripped": judge(stripped),
            "alone": alone[:count],
            "random": judge(random),
        }
        rank = knowledge.rank(key.partition) if isinstance(knowledge, SplitKnowledge) else None
        row: dict[str, Any] = {"sequences": count, "rank": rank}
        rows.append(row | {name: (sum(calls), len(calls)) for name, calls in judged.items()})
    return {
        "trial": trial.name,
        "scheme": trial.profile.scheme,
        "period": key.schedule.period,
        "nonces": key.schedule.nonces,
        "delta": trial.delta,
        "unmarked": (sum(unmarked), len(unmarked)),
        "rows": rows,
    }


def _stripped_alone(
    sequences: Sequence[NDArray[np.int64]],
    trial: Trial,
    rates: NDArray[np.float64],
    rng: np.random.Generator,
) -> list[NDArray[np.int64]]:
    """Strip each sequence with what it alone teaches: what is public, and its own letters."""
    result = []
    for sequence in sequences:
        knowledge = learn([sequence], trial.profile, trial.delta, rng)
        edits = round(DEFAULT_BUDGET * len(sequence))
        result.append(strip(sequence, knowledge, 0, rates, edits))
    return result


def secrecy_curve(
    profile: Profile,
    deltas: Sequence[float],
    nonces: Sequence[int],
    counts: Sequence[int],
    trials: int,
    seed: int,
    *,
    tries: int = 64,
    strips: int = 16,
    most: tuple[int, int] = (0, 0),
    workers: int = 1,
    partial: Path | None = None,
    step: Callable[[str], None] | None = None,
) -> dict[str, list[dict[str, Any]]]:
    """Return rates for every strength, number of nonces and number of seen sequences.

    "curve" has a row for each of these, "unmarked" the false positives of each scheme. `nonces`
    matter for hardened profiles alone. Every trial has a fresh key; with `partial`, a file that
    keeps finished trials, a run goes on where another stopped.
    """
    profiles = [profile]
    if profile.is_hardened:
        profiles = [replace(profile, nonces=number) for number in nonces]
    large, few = most
    work = [
        Trial(
            each,
            delta,
            tuple(sorted({*counts, large} if number < few else counts)),
            tries,
            strips,
            number,
            seed,
        )
        for each in profiles
        for delta in deltas
        for number in range(trials)
    ]
    kept = Kept(partial, "trial")
    before = {trial.name: kept.get(trial.name) for trial in work}
    finished = {name: done for name, done in before.items() if done is not None}
    left = [trial for trial in work if trial.name not in finished]
    # The slowest first, so that none of them is left for the end.
    left.sort(key=lambda trial: (-max(trial.counts), -trial.profile.nonces))
    for done in run_all(run_trial, left, workers):
        finished[done["trial"]] = done
        kept.add(done)
        if step is not None:
            step(f"{done['scheme']}, {done['nonces']} nonces, delta {done['delta']:g}")
    return _summarised([finished[trial.name] for trial in work])


def _summarised(trials: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Add up what differs in its key alone; rates get their intervals."""
    curve: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    nulls: dict[tuple[Any, ...], list[tuple[int, int]]] = {}
    for trial in trials:
        scheme = (trial["scheme"], trial["period"], trial["nonces"])
        nulls.setdefault(scheme, []).append(trial["unmarked"])
        for row in trial["rows"]:
            curve.setdefault((*scheme, trial["delta"], row["sequences"]), []).append(row)
    summary = []
    for setting, group in sorted(curve.items()):
        names = ("scheme", "period", "nonces", "delta", "sequences")
        line: dict[str, Any] = dict(zip(names, setting, strict=True)) | {"keys": len(group)}
        if group[0]["rank"] is not None:
            line["ranked_first"] = _rate([(int(row["rank"] == 1), 1) for row in group])
        summary.append(line | {name: _rate([row[name] for row in group]) for name in _OUTCOMES})
    unmarked = [
        {"scheme": scheme, "period": period, "nonces": nonces, "unmarked": _rate(counts)}
        for (scheme, period, nonces), counts in sorted(nulls.items())
    ]
    return {"curve": summary, "unmarked": unmarked}


def _rate(by_key: list[tuple[int, int]]) -> dict[str, Any]:
    """Return a rate with its number, its exact 95 % interval, and how far keys make it vary."""
    hits, n = (sum(count[i] for count in by_key) for i in (0, 1))
    low, high = rate_interval(hits, n)
    shares = [count[0] / count[1] for count in by_key]
    half = mean_interval(shares)["half"] if len(shares) > 1 else 0.0
    result = {"rate": hits / n, "hits": hits, "n": n, "low": low, "high": high}
    return result | {"half_width_over_keys": half}


def num_trials(size: Size) -> int:
    """Return how many keys a measurement of this size takes."""
    return size.trials * len(size.deltas) * (len(size.nonces) + 1) + size.trials


def run_secrecy_benchmark(
    size_name: str,
    seed: int,
    workers: int,
    step: Callable[[str], None],
    partial: Path | None = None,
) -> dict[str, Any]:
    """Measure the paper's scheme, the hardened one, and one of a period that is too short."""
    if size_name not in SIZES:
        raise ParameterError(f"--size is one of {', '.join(SIZES)}, not {size_name!r}")
    size = SIZES[size_name]
    few = tuple(count for count in size.counts if count <= 4)
    wanted = (
        (Profile(scheme=Paper()), size.deltas, (1,), size.counts, size.most),
        (Profile(scheme=Blocks()), size.deltas, size.nonces, size.counts, size.most),
        (Profile(scheme=Blocks()), (1.0,), (1,), few, (0, 0)),
    )
    result: dict[str, Any] = {
        "benchmark": "secrecy",
        **environment(),
        "size": size_name,
        "seed": seed,
        "length": LENGTH,
        "budget": DEFAULT_BUDGET,
        "fpr": DEFAULT_FPR,
        "curve": [],
        "unmarked": [],
    }
    for profile, deltas, nonces, counts, most in wanted:
        measured = secrecy_curve(
            profile,
            deltas,
            nonces,
            counts,
            size.trials,
            seed,
            tries=size.tries,
            strips=size.strips,
            most=most,
            workers=workers,
            partial=partial,
            step=step,
        )
        for name, rows in measured.items():
            result[name] += rows
    return result


_INTRODUCTION = """\
An attacker knows everything but the secret and sees marked sequences of {length} residues.

- *Forged*: new sequences with the mark it believes in, as strong as the real one, that the
  detector `auto` calls marked at a false positive rate of {fpr:.1%}; *forced*: the same, promoted
  as hard as at delta 1.5, at the price of quality. *Unmarked*: made the same way without a mark.
- *Before*: seen sequences as they are; *stripped*: with {budget:.0%} of their residues changed
  where the learned mark (and which letters follow it best, which is public) says it hurts most;
  *alone*: by someone who has seen this sequence and no other; *at random*: with as many random
  changes. What is public helps to strip without any key: a letter exchanged for the other of its
  pair changes its vote for certain, a random one half of the time.

Sequences are synthetic: natural letters, tilted by the agreement rates measured on designs; there
is no structure model. Keys are fresh. Rates are in percent, with the exact 95 % interval over
sequences; those of one key are alike, so see `half_width_over_keys` in `secrecy.json` as well.
"""


def to_markdown(result: dict[str, Any]) -> str:
    """Return the results page."""
    lines = [
        "# What marked sequences of one key teach",
        "",
        f"Made by `patternmark bench secrecy --size {result['size']} -o docs/results` with "
        f"patternmark {result['version']}, Python {result['python']}, numpy {result['numpy']}.",
        "",
        _INTRODUCTION.format(**result),
        "| scheme | delta | nonces | seen | keys | split found | forged | forced | before "
        "| stripped | alone | at random |",
        "|---|---:|---:|---:|---:|---|---|---|---|---|---|---|",
    ]
    for row in result["curve"]:
        found = _percent(row["ranked_first"]) if "ranked_first" in row else ""
        rates = " | ".join(_percent(row[outcome]) for outcome in _OUTCOMES)
        lines.append(
            f"| {_scheme(row)} | {row['delta']:g} | {row['nonces']} | {row['sequences']:,} "
            f"| {row['keys']} | {found} | {rates} |"
        )
    lines += ["", "| scheme | nonces | unmarked |", "|---|---:|---|"]
    lines += [
        f"| {_scheme(row)} | {row['nonces']} | {_percent(row['unmarked'])} |"
        for row in result["unmarked"]
    ]
    return "\n".join(lines) + "\n"


def _scheme(row: dict[str, Any]) -> str:
    return PAPER if row["scheme"] == PAPER else f"{row['scheme']}, period {row['period']}"


def _percent(rate: dict[str, Any]) -> str:
    value, low, high = (_short(100 * rate[name]) for name in ("rate", "low", "high"))
    return f"**{value}** [{low}, {high}] of {rate['n']:,}"


def _short(percent: float) -> str:
    return f"{percent:.2f}" if 0 < percent < 1 else f"{percent:.3g}"


def plot(result: dict[str, Any], path: Path) -> None:
    """Draw forged sequences taken for genuine against sequences seen."""
    from matplotlib.figure import Figure  # noqa: PLC0415  # not needed to measure

    deltas = sorted({row["delta"] for row in result["curve"]})
    figure = Figure(figsize=(4.5 * len(deltas), 3.6), layout="constrained", dpi=150)
    grid = figure.subplots(1, len(deltas), squeeze=False, sharey=True)[0]
    for axes, delta in zip(grid, deltas, strict=True):
        curves: dict[str, list[dict[str, Any]]] = {}
        for row in result["curve"]:
            if row["delta"] == delta:
                label = "paper" if row["scheme"] == PAPER else f"hardened, {row['nonces']} nonces"
                if row["period"] == SHORT_PERIOD:
                    label = f"period {SHORT_PERIOD}"
                curves.setdefault(label, []).append(row)
        for label, rows in curves.items():
            seen = [row["sequences"] for row in rows]
            low, high = ([row["forged"][end] for row in rows] for end in ("low", "high"))
            (line,) = axes.plot(seen, [row["forged"]["rate"] for row in rows], "o-", label=label)
            axes.fill_between(seen, low, high, color=line.get_color(), alpha=0.15, linewidth=0)
        axes.axhline(result["fpr"], color="black", linewidth=0.8, linestyle=":")
        axes.set(xscale="log", ylim=(-0.02, 1.02), title=f"delta {delta:g}")
        axes.set_xlabel("marked sequences seen")
        axes.legend(fontsize=8)
    grid[0].set_ylabel("forged, called marked (95 % interval)")
    figure.savefig(path)
