"""`patternmark audit`: play the attacker on the marked sequences of one key."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from rich.table import Table

from patternmark.cli.output import AllowOpenKey, Verbose, progress, results
from patternmark.core.alphabet import PROTEIN
from patternmark.core.key import Key
from patternmark.core.keyfile import load_key
from patternmark.core.profile import HARDENED, Profile
from patternmark.core.schemes import SCHEMES
from patternmark.errors import InputError, ParameterError

_LEAST_RESIDUES = 2  # of a chain that can tell anything


def audit(
    files: Annotated[
        list[str], typer.Argument(metavar="FILE...", help="Marked sequences of one key.")
    ],
    key: Annotated[
        Path | None, typer.Option(help="The key file: judges what the attack made of them.")
    ] = None,
    scheme: Annotated[
        str | None, typer.Option(help=f"{' or '.join(SCHEMES)}; default: the key's, or hardened.")
    ] = None,
    delta: Annotated[
        float | None, typer.Option(help="Strength of the mark; default: the key's, or 1.")
    ] = None,
    tries: Annotated[
        int, typer.Option(min=1, help="Sequences to forge, and at most to strip.")
    ] = 100,
    budget: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Share of residues that stripping may change.")
    ] = 0.1,
    seed: Annotated[int, typer.Option(min=0, help="Same seed, same attack.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    allow_open_key: AllowOpenKey = False,
    verbose: Verbose = False,
) -> None:
    """Learn the mark from sequences without the key, then forge it and strip it.

    The attacker knows everything but the secret. --key only judges: how far up the true split
    ranks (paper's scheme), how many forged sequences the detector takes for genuine. New sequences
    have the composition of the given ones; no structure model is involved.
    """
    from patternmark.attacks.audit import audit_sequences, check_attackable
    from patternmark.detect import Detector

    loaded = load_key(key, allow_open=allow_open_key, with_secret=True) if key else None
    profile = _profile(loaded, scheme)
    check_attackable(profile)
    strength = profile.delta if delta is None else delta
    detector = Detector(loaded) if loaded else None

    def judge(batch: Sequence[NDArray[np.int64]]) -> int:
        letters = ["".join(PROTEIN.letters[i] for i in sequence) for sequence in batch]
        return sum(v.prediction for v in detector.detect_many(letters)) if detector else 0

    sequences = _read(files)
    with progress("") as bar:
        bar.add_task(f"attacking {len(sequences)} sequences", total=None)
        found = audit_sequences(
            sequences,
            profile,
            np.random.default_rng(seed),
            delta=strength,
            judge=judge if detector else None,
            tries=tries,
            budget=budget,
        )
    result: dict[str, Any] = {
        "scheme": profile.scheme,
        "delta": strength,
        "seed": seed,
        "sequences": len(sequences),
        "residues": int(sum(np.count_nonzero(s >= 0) for s in sequences)),
        "key_id": loaded.key_id if loaded else None,
        "learned": _learned(found.knowledge, loaded),
    }
    if detector is not None:
        result |= {"fpr": detector.fpr, "detector": detector.signature, "budget": budget}
        result |= {name: _rate(getattr(found, name)) for name in _OUTCOMES}
    if as_json:
        typer.echo(json.dumps(result))
    else:
        _print(result)


_OUTCOMES = {
    "forged": "new sequences with the mark the attacker believes in",
    "forced": "the same, promoted as hard as at delta 1.5",
    "unmarked": "new sequences made the same way, without a mark",
    "before": "given sequences, as they are",
    "stripped": "given sequences, edited where the learned key says they agree",
    "random": "given sequences, as many random edits",
}


def _profile(key: Key | None, scheme: str | None) -> Profile:
    if scheme is not None and scheme not in SCHEMES:
        raise ParameterError(f"--scheme is one of {', '.join(SCHEMES)}, not {scheme!r}")
    if key is None:
        return Profile(scheme=scheme or HARDENED)
    if scheme not in (None, key.profile.scheme):
        raise ParameterError(f"key {key.key_id} is of the scheme {key.profile.scheme}")
    return key.profile


def _read(files: list[str]) -> list[NDArray[np.int64]]:
    """Return the designed chains of all records; native sequences carry no mark."""
    from patternmark.cli.items import Source, read_items
    from patternmark.core.reading import read

    sequences = []
    for item in read_items(files, Source(PROTEIN)):
        if item.record.design is not None and item.record.design.is_native:
            continue
        reading = read(item.symbols, PROTEIN, item.scored)
        sequences += [part for part in reading.parts if np.sum(part >= 0) >= _LEAST_RESIDUES]
    if not sequences:
        raise InputError("no sequence could be read: there is nothing to attack")
    return sequences


def _learned(knowledge: Any, key: Key | None) -> dict[str, Any]:
    """Return what was learned in numbers: never a letter of the split or a sign of a schedule."""
    from patternmark.attacks.split import SplitKnowledge

    if isinstance(knowledge, SplitKnowledge):
        return {
            "splits": knowledge.num_splits,
            "posterior": knowledge.posterior,
            "gap": knowledge.gap,
            "rank": knowledge.rank(key.partition) if key else None,
        }
    return {
        "schedules": knowledge.num_schedules,
        "largest": knowledge.largest,
        "bits": knowledge.geometry.size,
        "bits_learned": knowledge.bits_learned,
    }


def _rate(count: Any) -> dict[str, Any]:
    from patternmark.intervals import rate_interval

    low, high = rate_interval(count.hits, count.n)
    return {
        "hits": count.hits,
        "n": count.n,
        "rate": count.hits / count.n,
        "low": low,
        "high": high,
    }


def _print(result: dict[str, Any]) -> None:
    def line(text: str) -> None:
        results.print(text, highlight=False, soft_wrap=True, markup=False)

    line(
        f"{result['sequences']} chains, {result['residues']:,} residues, scheme "
        f"{result['scheme']}, delta {result['delta']:g}"
    )
    line(_described(result["learned"]))
    if result["key_id"] is None:
        line("with --key: how many forged sequences the detector takes for genuine")
        return
    table = Table(box=None, pad_edge=False)
    table.add_column("called marked")
    for name in ("of", "rate", "95 % interval"):
        table.add_column(name, justify="right")
    table.add_column("what")
    for name, text in _OUTCOMES.items():
        r = result[name]
        interval = f"{r['low']:.1%} - {r['high']:.1%}"
        table.add_row(str(r["hits"]), str(r["n"]), f"{r['rate']:.1%}", interval, text)
    results.print(table)
    line(
        f"key {result['key_id']}, detector auto at a false positive rate of {result['fpr']:g}; "
        f"edits: {result['budget']:.0%} of the residues"
    )


def _described(learned: dict[str, Any]) -> str:
    if "splits" in learned:
        text = (
            f"likeliest of {learned['splits']:,} splits: posterior {learned['posterior']:.3g}, "
            f"{learned['gap']:.1f} nats above the next"
        )
        if learned["rank"] is not None:
            text += f"; the true split ranks {learned['rank']:,}"
        return text
    return (
        f"schedules believed to be in use: {learned['schedules']}; sequences of the best known: "
        f"{learned['largest']}; bits of it learned: {learned['bits_learned']:.0f} of "
        f"{learned['bits']:,}, if these are rightly aligned"
    )
