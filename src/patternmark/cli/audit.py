"""`patternmark audit`: play the attacker on the marked sequences of one key."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np
import typer
from numpy.typing import NDArray
from rich.table import Table

from patternmark.cli.options import (
    ATTACK,
    INPUT,
    MARK,
    AllowOpenKey,
    BackboneIfAny,
    FixedSeed,
    Json,
    ManifestUsed,
    ProteinFiles,
    option,
)
from patternmark.cli.output import Verbose, print_manifests, progress, results, warn
from patternmark.core.alphabet import PROTEIN, UNREAD
from patternmark.core.key import Key
from patternmark.core.keyfile import load_key
from patternmark.core.profile import Profile
from patternmark.core.schemes import SCHEMES, Blocks, Paper
from patternmark.errors import InputError, ParameterError
from patternmark.io.items import Item, RecordSource, read_items, signed_for_all
from patternmark.io.manifest_use import VERIFY, ManifestUse

if TYPE_CHECKING:
    from patternmark.attacks.block_coins import CoinKnowledge
    from patternmark.attacks.split import SplitKnowledge

_UNKNOWN = PROTEIN.letters.index("X")
_LEAST_RESIDUES = 2  # of a chain that can tell anything


def audit(
    files: ProteinFiles,
    key: Annotated[
        Path | None,
        option(INPUT, metavar="FILE", help="The key file: only to judge what the attack achieved."),
    ] = None,
    manifest: ManifestUsed = VERIFY,
    backbone: BackboneIfAny = None,
    scheme: Annotated[
        str | None,
        option(MARK, metavar="NAME", help="paper or blocks; default: the key's, or blocks."),
    ] = None,
    delta: Annotated[
        float | None,
        option(MARK, metavar="X", help="Strength of the mark; default: the key's, or 1."),
    ] = None,
    tries: Annotated[
        int,
        option(ATTACK, metavar="N", min=1, help="Sequences to forge, and at most to strip."),
    ] = 100,
    budget: Annotated[
        float,
        option(
            ATTACK,
            metavar="X",
            min=0.0,
            max=1.0,
            help="Share of residues that stripping may change.",
        ),
    ] = 0.1,
    as_json: Json = False,
    seed: FixedSeed = 0,
    allow_open_key: AllowOpenKey = False,
    verbose: Verbose = False,
) -> None:
    """Learn the mark from marked sequences, then forge it and strip it.

    All sequences must carry the mark of one key. The attacker knows everything but the secret.
    --key only judges: how far up the true split ranks (paper's scheme), and how many forged
    sequences the detector takes for genuine. New sequences have the composition of the given ones.
    Of block marks the first chain of each record is attacked. A manifest next to a file
    is used if --key signed it, or with --manifest trust. With --backbone the attacker also
    knows what ProteinMPNN expected of each residue.

    Example: patternmark audit designs.fa --key lab.key
    """
    from patternmark.attacks.audit import audit_sequences, check_attackable, first_chain_only
    from patternmark.detector import Detector

    loaded = load_key(key, allow_open=allow_open_key, with_secret=True) if key else None
    profile = _profile(loaded, scheme)
    check_attackable(profile)
    strength = profile.delta if delta is None else delta
    detector = Detector(loaded) if loaded else None

    def judge(batch: Sequence[NDArray[np.int64]]) -> int:
        # What was not read shows nothing to the detector either.
        texts = [np.where(sequence == UNREAD, _UNKNOWN, sequence) for sequence in batch]
        return sum(v.prediction for v in detector.detect_many(texts)) if detector else 0

    manifests = ManifestUse(manifest, [loaded] if loaded else [])
    if backbone is None:
        items = list(read_items(files, RecordSource(PROTEIN, manifests=manifests), warn))
    elif loaded is None:
        raise ParameterError("--backbone needs --key, whose parameters say what the model expects")
    else:
        items = _on_backbone(files, backbone, loaded, manifests)
    masks = profile.scheme.masks_repeats
    seen = _read(items, masks_repeats=masks, first_only=first_chain_only(profile))
    sequences = [one.symbols for one in seen]
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
            position_rates=_position_rates(seen, strength) if backbone else None,
        )
    result: dict[str, Any] = {
        "scheme": profile.scheme.name,
        "delta": strength,
        "seed": seed,
        "sequences": len(sequences),
        "residues": int(sum(np.count_nonzero(s >= 0) for s in sequences)),
        "key_id": loaded.key_id if loaded else None,
        "learned": _LEARNED[profile.scheme.name](found.knowledge, loaded),
        "backbone": None if backbone is None else str(backbone),
    }
    if detector is not None:
        signature = signed_for_all(detector.signature, items)
        result |= {"fpr": detector.fpr, "detector": signature, "budget": budget}
        result |= {name: _rate(getattr(found, name)) for name in _OUTCOMES}
    if as_json:
        typer.echo(json.dumps(result))
    else:
        _print(result)
        print_manifests(items)


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
        raise ParameterError(f"--scheme must be one of {', '.join(SCHEMES)}, not {scheme!r}")
    if key is None:
        return Profile() if scheme is None else Profile(scheme=SCHEMES[scheme]())
    if scheme not in (None, key.profile.scheme.name):
        raise ParameterError(
            f"key {key.key_id} has the scheme {key.profile.scheme.name}, not {scheme}"
        )
    return key.profile


class _Chain(NamedTuple):
    """One designed chain: its letters, and with a backbone what a model expects of each."""

    symbols: NDArray[np.int64]
    rates: NDArray[np.float64] | None  # [levels, n]


def _on_backbone(files: list[str], backbone: Path, key: Key, manifests: ManifestUse) -> list[Item]:
    from patternmark.designing.on_backbone import BackboneReader, BackboneSetting

    return list(BackboneReader(BackboneSetting(backbone), key, warn, manifests).items(files))


def _read(items: Iterable[Item], *, masks_repeats: bool, first_only: bool) -> list[_Chain]:
    """Return the designed chains of all records; native sequences carry no mark."""
    from patternmark.masks import read

    chains = []
    for item in items:
        if item.is_native:
            continue
        reading = read(item.symbols, PROTEIN, item.scored, mask_repeats=masks_repeats)
        for rows in reading.chains[:1] if first_only else reading.scored_chains:
            symbols = reading.symbols[rows]
            if np.count_nonzero(symbols >= 0) >= _LEAST_RESIDUES:
                chains.append(_Chain(symbols, None if item.rates is None else item.rates[:, rows]))
    if not chains:
        raise InputError("no sequence could be read, so there is nothing to attack")
    return chains


def _position_rates(seen: Sequence[_Chain], delta: float) -> list[NDArray[np.float64]]:
    from patternmark.statistics.expected_rates import level_of

    level = level_of(delta)
    return [one.rates[level] for one in seen if one.rates is not None]


def _learned_split(knowledge: SplitKnowledge, key: Key | None) -> dict[str, Any]:
    return {
        "splits": knowledge.num_splits,
        "posterior": knowledge.posterior,
        "gap": knowledge.gap,
        "rank": knowledge.rank(key.partition) if key else None,
    }


def _learned_coins(knowledge: CoinKnowledge, key: Key | None) -> dict[str, Any]:
    del key  # the attacker's own belief
    return {
        "nonces": knowledge.num_nonces,
        "largest": knowledge.largest,
        "bits": knowledge.num_coins,
        "bits_learned": knowledge.bits_learned,
    }


# What was learned in numbers: never a letter of the split or a coin of a schedule.
_LEARNED: dict[str, Callable[[Any, Key | None], dict[str, Any]]] = {
    Paper.name: _learned_split,
    Blocks.name: _learned_coins,
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
        f"nonces believed to be in use: {learned['nonces']}; sequences of the best known: "
        f"{learned['largest']}; bits of it learned: {learned['bits_learned']:.0f} of "
        f"{learned['bits']:,}, if these do share it"
    )
