"""`patternmark bench validity`: whether the p-values are valid.

False positives of every detector are counted at small nominal rates, under many fresh keys, on
natural sequences, on designs of ProteinMPNN without a mark and with the mark of another key, and on
sequences written on purpose (`validity_written`). No sequence is left out because of repeats or
length. Every key judges all designs and a random part of the natural sequences.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from math import log
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from patternmark.core.alphabet import PROTEIN
from patternmark.core.key import Key
from patternmark.core.profile import Profile
from patternmark.core.reading import Reading
from patternmark.detector import Detector
from patternmark.errors import InputError, ParameterError, SequenceError
from patternmark.evidence import markov
from patternmark.intervals import binomial_tail, mean_interval, rate_interval
from patternmark.io.kept import Kept
from patternmark.io.records import Problem, read_records
from patternmark.io.structures import Backbone
from patternmark.statistics import DETECTORS, make_statistic
from patternmark.statistics.ratio import AutoStatistic, RatioStatistic
from patternmark_lab.bench.detector_designs import SCHEMES
from patternmark_lab.bench.jobs import run_all
from patternmark_lab.bench.protein import TEMPERATURE, design_all, numbered_keys, visible
from patternmark_lab.bench.report import environment
from patternmark_lab.bench.validity_written import COUNTED, count_records, judge_written

LEVELS = (1e-2, 1e-3, 1e-4, 1e-5)
TOLERATED = 1.1  # times the nominal rate
SHORTEST = 50  # residues of a chain for designs; there is no upper limit
NATURAL, DESIGNED = "natural", "designed"
# Designs that another key marked, and the scheme of that key.
OTHERS = {"marked by another paper key": "paper", "marked by another block key": "blocks"}
OTHER_DELTA = 1.5
_BATCH = 1024  # readings that are measured together; with many nonces each takes much memory
_SLOW_SHARE = 5  # keys with many nonces are slow and judge one sequence in 5 by default

Symbols = NDArray[np.int64]


def detectors_of(profile: Profile) -> tuple[str, ...]:
    """Return all detectors for keys of a profile."""
    return DETECTORS[profile.scheme.name]


def read_unmarked(files: Iterable[str]) -> tuple[list[Symbols], int]:
    """Return the proteins in files, and the number of records that are not proteins."""
    sequences, skipped = [], 0
    for file in files:
        for record in read_records(file):
            if isinstance(record, Problem):
                skipped += record.skipped
                continue
            try:
                sequences.append(PROTEIN.encode(record.sequence))
            except SequenceError:
                skipped += 1
    return sequences, skipped


@dataclass(frozen=True, eq=False)
class PackedReadings:
    """Readings end to end, in few bytes, because every process holds all of them."""

    symbols: NDArray[np.integer]
    ends: NDArray[np.int64]  # [records]
    chains: list[tuple[slice, ...]]

    @classmethod
    def of(cls, readings: Sequence[Reading]) -> PackedReadings:
        """Pack the readings that have scored positions."""
        scored = [reading for reading in readings if reading.num_scored]
        rows = [reading.symbols for reading in scored] or [np.zeros(0, dtype=np.int64)]
        ends = np.cumsum([len(reading.symbols) for reading in scored], dtype=np.int64)
        largest = max((int(row.max(initial=0)) for row in rows), default=0)
        kind = np.min_scalar_type(-largest - 1)  # UNREAD is negative
        symbols = np.concatenate([row.astype(kind) for row in rows])
        return cls(symbols, ends, [reading.chains for reading in scored])

    def __len__(self) -> int:
        return len(self.chains)

    def take(self, numbers: Sequence[int]) -> list[Reading]:
        """Unpack the readings with these numbers."""
        starts = np.append(0, self.ends)
        return [
            Reading(self.symbols[starts[i] : starts[i + 1]].astype(np.int64), self.chains[i])
            for i in numbers
        ]


class Job(NamedTuple):
    """One key of a scheme, all of whose detectors judge the same readings."""

    scheme: str
    number: int


@dataclass(frozen=True, eq=False)
class Judge:
    """Judges the readings of a job; each process has one of these."""

    readings: dict[str, dict[str, PackedReadings]]  # by scheme and source
    per_key: dict[str, int]  # sequences of a source that a key of a scheme judges
    seed: int
    profiles: dict[str, Profile] = field(default_factory=lambda: SCHEMES)

    def __call__(self, job: Job) -> dict[str, Any]:
        """Count the readings that each detector calls marked at each level."""
        key = key_of(job, self.seed, self.profiles)
        detectors = detectors_of(key.profile)
        counts = {}
        for source, packed in self.readings[job.scheme].items():
            chosen = self._choose(job, source, len(packed))
            hits = dict.fromkeys(detectors, np.zeros(len(LEVELS), dtype=np.int64))
            for at in range(0, len(chosen), _BATCH):
                readings = packed.take(chosen[at : at + _BATCH])
                for detector, log_p in log_ps(key, detectors, readings).items():
                    hits[detector] = hits[detector] + [np.sum(log_p <= log(x)) for x in LEVELS]
            found = {detector: count.tolist() for detector, count in hits.items()}
            counts[source] = {"pairs": len(chosen), "hits": found}
        return {"scheme": job.scheme, "key": job.number, "key_id": key.key_id, "counts": counts}

    def _choose(self, job: Job, source: str, count: int) -> list[int]:
        """Choose all designs, or a random part that depends on the key's number alone."""
        if source in (DESIGNED, *OTHERS) or self.per_key[job.scheme] >= count:
            return list(range(count))
        rng = np.random.default_rng([self.seed, job.number])
        return [int(i) for i in rng.permutation(count)[: self.per_key[job.scheme]]]


def key_of(job: Job, seed: int, profiles: dict[str, Profile] = SCHEMES) -> Key:
    """Return the key of a job."""
    label = f"bench validity {seed} {job.scheme} {job.number}"
    return numbered_keys(label, profiles[job.scheme], 1)[0]


def log_ps(
    key: Key, detectors: Sequence[str], readings: Sequence[Reading]
) -> dict[str, NDArray[np.float64]]:
    """Return ln p of every reading by each detector."""
    found = {}
    for name in detectors:
        if name == RatioStatistic.name:
            continue  # computed with auto
        measured = make_statistic(name, key).measure(readings)
        found[name] = np.array([one.log_p for one in measured])
        if name == AutoStatistic.name:
            # Both detectors use one ratio with two nulls, so compute the slow ratio once.
            found[RatioStatistic.name] = markov(np.array([one.statistic for one in measured]))
    return found


def run_validity_benchmark(
    natural: Sequence[Symbols],
    *,
    num_keys: int = 200,
    per_key: int = 25_000,
    per_default_key: int | None = None,
    weights: Path | None = None,
    backbones: Sequence[Backbone] = (),
    samples: int = 4,
    draws: int = 512,
    record_keys: int = 400,
    seed: int = 1,
    device: str = "cpu",
    workers: int = 1,
    partial: Path | None = None,
    step: Callable[[str], None] = lambda what: None,
) -> dict[str, Any]:
    """Count false positives; `step` is called for every finished backbone and key.

    Every key judges `per_key` natural sequences; a key with many nonces judges `per_default_key`,
    by default a fifth as many. On each of the `backbones`, `samples` sequences are designed without
    a mark and with the mark of another key of each scheme. `draws` likely keys judge sequences
    written on purpose, `record_keys` fresh keys judge records of many chains. The file `partial`
    keeps finished jobs, so that a later run can continue.
    """
    if num_keys < 2:
        raise ParameterError("--keys must be at least 2, better some hundred: keys differ")
    kept = Kept(partial)
    sources = {NATURAL: list(natural)}
    if backbones:
        if weights is None:
            raise ParameterError("designs need the weights of a model")
        sources |= _designs(weights, backbones, samples, seed, device, kept, step)
    slow = per_default_key or -(-per_key // _SLOW_SHARE)
    wanted = {s: slow if p.scheme.nonces > 1 else per_key for s, p in SCHEMES.items()}
    numbers = dict.fromkeys(SCHEMES, num_keys)
    counted = count_all(sources, SCHEMES, wanted, numbers, seed, workers, kept, step)
    written = judge_written(natural, draws=draws, seed=seed, workers=workers, step=step)
    records = count_records(
        dict.fromkeys(COUNTED, record_keys), seed=seed, workers=workers, step=step
    )
    result: dict[str, Any] = {"benchmark": "validity", **environment()}
    return result | {
        "seed": seed,
        "num_keys": num_keys,
        "per_key": {scheme: min(count, len(natural)) for scheme, count in wanted.items()},
        "sources": {name: describe(some) for name, some in sources.items()},
        "model": weights.stem if weights and backbones else None,
        "temperature": TEMPERATURE,
        "samples": samples if backbones else 0,
        "backbones": len(backbones),
        "rates": summarise(counted, SCHEMES),
        "written": written,
        "records": records,
    }


def describe(sequences: Sequence[Symbols]) -> dict[str, int]:
    """Return the number of sequences, and their shortest, median and longest length."""
    lengths = [len(symbols) for symbols in sequences]
    shape = {"shortest": min(lengths), "median": int(np.median(lengths)), "longest": max(lengths)}
    return {"sequences": len(sequences), **shape}


def _read(profile: Profile, sources: dict[str, list[Symbols]]) -> dict[str, PackedReadings]:
    """Read all sequences with any key of the scheme: a reading does not depend on the secret."""
    reader = Detector(numbered_keys("reader", profile, 1)[0], "auto")
    return {name: PackedReadings.of(reader.read(some)) for name, some in sources.items()}


def _designs(
    weights: Path,
    backbones: Sequence[Backbone],
    samples: int,
    seed: int,
    device: str,
    kept: Kept,
    step: Callable[[str], None],
) -> dict[str, list[Symbols]]:
    """Design on every backbone, without a mark and with marks of keys that are not tested."""
    from patternmark.models.mpnn import ProteinMPNN  # noqa: PLC0415  # torch is an extra

    conditions: dict[str, list[tuple[Key | None, float]]] = {DESIGNED: [(None, 0.0)] * samples}
    for source, scheme in OTHERS.items():
        keys = numbered_keys(f"bench validity {seed} {source}", SCHEMES[scheme], samples)
        conditions[source] = [(key, OTHER_DELTA) for key in keys]
    model = None
    sequences: dict[str, list[Symbols]] = {source: [] for source in conditions}
    for backbone in backbones:
        shape = sha256(backbone.coordinates.tobytes()).hexdigest()[:16]
        name = f"designs/{weights.stem}/{backbone.name}/{shape}/{samples}/{seed}"
        done = kept.get(name)
        if done is None:
            model = model or ProteinMPNN.load(weights, device)
            every = [condition for some in conditions.values() for condition in some]
            made = design_all(model, backbone, every, seed)["sequences"]
            letters = [PROTEIN.decode(visible(row, backbone)) for row in made]
            done = {"job": name, "sequences": letters}
            kept.add(done)
        for number, source in enumerate(conditions):
            own = done["sequences"][number * samples : (number + 1) * samples]
            sequences[source] += [PROTEIN.encode(letters) for letters in own]
        step(f"designing: {backbone.name}")
    return sequences


def count_all(
    sources: dict[str, list[Symbols]],
    profiles: dict[str, Profile],
    per_key: dict[str, int],
    num_keys: dict[str, int],
    seed: int,
    workers: int,
    kept: Kept,
    step: Callable[[str], None],
) -> list[dict[str, Any]]:
    """Return the counts of all keys of all schemes; kept counts are not counted again."""
    readings = {scheme: _read(profile, sources) for scheme, profile in profiles.items()}
    if not all(len(packed) for packed in readings["paper"].values()):
        raise InputError("no sequence could be judged")
    judge = Judge(readings, per_key, seed, profiles)
    digest = sha256()
    for name, some in sources.items():
        for symbols in some:
            digest.update(f"{name} {len(symbols)} ".encode() + symbols.tobytes())
    about = f"{seed}/{digest.hexdigest()[:16]}"
    # The slowest jobs come first, so that none of them is left for the end.
    jobs = [Job(scheme, n) for scheme in reversed(profiles) for n in range(num_keys[scheme])]
    means = {scheme: _signatures(profile) for scheme, profile in profiles.items()}
    names = {
        job: f"{job.scheme}/{per_key[job.scheme]}/{about}/{means[job.scheme]}/{job.number}"
        for job in jobs
    }
    finished: dict[Job, dict[str, Any]] = {}
    for job in jobs:
        if (known := kept.get(names[job])) is not None:
            finished[job] = known
            step(f"kept: {job.scheme}")
    for done in run_all(judge, [job for job in jobs if job not in finished], workers):
        job = Job(done["scheme"], done["key"])
        finished[job] = {"job": names[job], **done}
        kept.add(finished[job])
        step(f"counting: {job.scheme}")
    return [finished[job] for job in jobs]


def _signatures(profile: Profile) -> str:
    """Return a hash of the weights, tables and parameters of all detectors."""
    key = numbered_keys("reader", profile, 1)[0]
    signatures = [make_statistic(name, key).signature for name in detectors_of(profile)]
    return sha256("|".join(signatures).encode()).hexdigest()[:8]


def summarise(
    counted: Sequence[dict[str, Any]], profiles: dict[str, Profile]
) -> list[dict[str, Any]]:
    """Return a row for every scheme, source, detector and level."""
    rows = []
    for scheme, profile in profiles.items():
        keys = [key for key in counted if key["scheme"] == scheme]
        for source in keys[0]["counts"]:
            pairs = np.array([key["counts"][source]["pairs"] for key in keys])
            for detector in detectors_of(profile):
                hits = np.array([key["counts"][source]["hits"][detector] for key in keys])
                for column, level in enumerate(LEVELS):
                    where = {"scheme": scheme, "source": source, "detector": detector}
                    ids = [key["key_id"] for key in keys]
                    rows.append(where | _rate(level, hits[:, column], pairs, ids))
    return rows


def _rate(
    level: float, hits: NDArray[np.int64], pairs: NDArray[np.int64], key_ids: Sequence[str]
) -> dict[str, Any]:
    """Return the rate over keys [keys], its two intervals, the worst key, and whether it is ok."""
    count, trials = int(hits.sum()), int(pairs.sum())
    low, high = rate_interval(count, trials)
    by_key = mean_interval(hits / pairs)
    wider = max((low, high), (by_key["low"], by_key["high"]), key=lambda ends: ends[1] - ends[0])
    fpr = count / trials
    worst = int(np.argmax(hits / pairs))
    its_hits, its_pairs = int(hits[worst]), int(pairs[worst])
    its_low, its_high = rate_interval(its_hits, its_pairs)
    return {
        "nominal": level,
        "pairs": trials,
        "hits": count,
        "fpr": fpr,
        "ratio": fpr / level,
        "low": low,
        "high": high,
        "by_key": by_key,
        "ok": fpr <= TOLERATED * level or wider[0] <= TOLERATED * level,
        "worst_key": {
            "key_id": key_ids[worst],
            "pairs": its_pairs,
            "hits": its_hits,
            "fpr": its_hits / its_pairs,
            "low": its_low,
            "high": its_high,
            # Bound on the chance that the worst of all keys is as bad if each has the nominal rate.
            "chance": min(1.0, len(hits) * binomial_tail(its_hits, its_pairs, level)),
        },
    }
