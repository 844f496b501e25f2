"""`patternmark bench secrecy` with ProteinMPNN: an attacker who has the model and the backbone.

Keys have the default shape, and their nonces are used in turn. Every key marks a few designs on
every backbone. The attacker learns from each design alone and from all designs of a key together,
with and without the model's rates of positions, and then designs forgeries on the next backbone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from patternmark.attacks.audit import DEFAULT_BUDGET
from patternmark.attacks.block_coins import CoinKnowledge, learn_coins
from patternmark.attacks.forge import random_edits, strip
from patternmark.attacks.seen import Seen, by_letters
from patternmark.core.alphabet import PROTEIN, UNREAD
from patternmark.core.blocks import BlockSchedule
from patternmark.core.key import Key
from patternmark.core.marker import Marker
from patternmark.core.profile import Profile
from patternmark.designing.plan import DesignPlan, plan_design
from patternmark.errors import InputError
from patternmark.intervals import mean_interval
from patternmark.io.nonce_counter import counted_nonces
from patternmark.models.mpnn import Prepared, ProteinMPNN
from patternmark.models.sampler import sample
from patternmark.models.weights import weights_file
from patternmark.plan.simulate import natural_frequencies, rates_at
from patternmark_lab.bench.detectors import reported_backbones
from patternmark_lab.bench.protein import (
    LONGEST,
    SHORTEST,
    TEMPERATURE,
    numbered_keys,
    suitable_chains,
)
from patternmark_lab.bench.secrecy_judge import judge_fast
from patternmark_lab.bench.secrecy_rates import rate
from patternmark_lab.bench.secrecy_with_model import (
    Belief,
    forge_on,
    second_choices,
    seen_on,
    strip_by_model,
)
from patternmark_lab.generation.batch import designs_of, unmarked_task

DELTA = 1.0  # of the marked designs
STRENGTHS = {"honest": 1.0, "forced": 3.0}  # of the forgeries
_MIN_BACKBONES = 2  # designs on one, forgeries on the other
_SURE_SIGN = 0.9  # expected sign from which a coin counts as known


@dataclass(frozen=True)
class ModelSize:
    """The amount of work."""

    backbones: int
    keys: int
    designs: int  # of each key on each backbone
    tries: int  # forgeries of each kind from each design
    orders: int  # decoding orders that the attacker averages over


SIZES = {"smoke": ModelSize(2, 1, 1, 1, 2), "full": ModelSize(16, 4, 2, 2, 4)}


class _Place(NamedTuple):
    """A backbone with its plan, ready for designs."""

    plan: DesignPlan
    prepared: Prepared


class _Marked(NamedTuple):
    """One marked design, as an attacker sees it with and without the model."""

    key: int
    nonce: int
    place: int
    sequence: NDArray[np.int64]  # [L] of the backbone
    nll: float
    with_model: Seen
    without: Seen


def run_with_model(
    structures: Sequence[Path], size_name: str, seed: int, step: Callable[[str], None]
) -> dict[str, Any]:
    """Design, learn, forge on other backbones, strip, and judge."""
    size = SIZES[size_name]
    suitable = suitable_chains(structures, 3 * size.backbones)
    chosen = reported_backbones(suitable)[: size.backbones]
    if len(chosen) < _MIN_BACKBONES:
        raise InputError(
            f"give 3 structures or more with a chain of {SHORTEST} to {LONGEST} residues, because "
            "forgeries need another backbone than the designs, and every third structure is left "
            f"out; {len(suitable)} of the {len(structures)} given structures have such a chain"
        )
    model = ProteinMPNN.load(weights_file(), "cpu")
    places = []
    for backbone in chosen:
        places.append(_Place(plan_design(backbone), model.prepare(model.encode(backbone))))
    keys = numbered_keys(f"bench secrecy {seed}", Profile(delta=DELTA), size.keys)
    marked = []
    for number in range(len(places)):
        marked += _designs(places, number, keys, size, seed)
        step(f"designs on {places[number].plan.backbone.name}")
    stripped = _stripping(marked, places, keys, size, seed)
    step("stripped")
    forged = _forging(marked, places, keys, size, seed, step)
    return {
        "backbones": [place.plan.backbone.name for place in places],
        "keys": len(keys),
        "designs": len(marked),
        "delta": DELTA,
        "temperature": TEMPERATURE,
        "orders": size.orders,
        "strengths": STRENGTHS,
        "marked_nll": _mean([one.nll for one in marked]),
        **forged,
        "learned": {name: _learned(marked, keys, name) for name in ("with_model", "without")},
        "stripping": stripped,
    }


def _designs(
    places: Sequence[_Place], number: int, keys: Sequence[Key], size: ModelSize, seed: int
) -> list[_Marked]:
    """Design on one backbone with all keys."""
    plan, prepared = places[number]
    wanted = []
    for which, key in enumerate(keys):
        nonces = counted_nonces(key, number * size.designs, size.designs)
        wanted += [(which, key, nonce) for nonce in nonces]
    promotions = []
    for row, (_, key, nonce) in enumerate(wanted):
        marker = Marker(key)
        keys_of_row = plan.keys(marker, seed, [row], [nonce])[0]
        promotions.append(marker.prepare(keys_of_row, TEMPERATURE))
    task = unmarked_task(plan, seed, range(len(wanted)), TEMPERATURE)
    task = replace(task, promotions=tuple(promotions))
    made = designs_of(plan, sample(prepared, task))
    rates = rates_at(DELTA, PROTEIN, keys[0].profile.scheme.name)
    found = []
    for row, (which, key, nonce) in enumerate(wanted):
        sequence = made["sequences"][row]
        seen = seen_on(
            prepared, plan, sequence, key.profile, temperature=TEMPERATURE, orders=size.orders
        )
        (without,) = by_letters([seen.symbols], rates)
        found.append(
            _Marked(which, nonce, number, sequence, float(made["nll"][row]), seen, without)
        )
    return found


def _learn(seen: Sequence[Seen], key: Key, seed: int) -> CoinKnowledge:
    """Learn from designs of one key whose nonces are used in turn."""
    scheme = key.profile.scheme
    shared = -(-len(seen) // scheme.nonces)
    block = cast(BlockSchedule, key.schedule).block
    rng = np.random.default_rng(seed)
    return learn_coins(seen, block, scheme.nonces, rng, most_of_one=shared)


class _Forgery(NamedTuple):
    """A forgery: what it was learned from, and the nonces under which it may be found."""

    source: str
    kind: str
    key: int
    nonces: list[int]
    belief: Belief


def _forging(
    marked: Sequence[_Marked],
    places: Sequence[_Place],
    keys: Sequence[Key],
    size: ModelSize,
    seed: int,
    step: Callable[[str], None],
) -> dict[str, Any]:
    """Forge from one design on the next backbone, and from all designs of a key on every one."""
    wanted: dict[int, list[_Forgery]] = {number: [] for number in range(len(places))}
    for one in marked:
        knowledge = _learn([one.with_model], keys[one.key], seed)
        target = wanted[(one.place + 1) % len(places)]
        for kind, strength in STRENGTHS.items():
            belief = Belief(knowledge, strength)
            target += [_Forgery("one", kind, one.key, [one.nonce], belief)] * size.tries
    for which, key in enumerate(keys):
        own = [one for one in marked if one.key == which]
        knowledge = _learn([one.with_model for one in own], key, seed)
        best = np.flatnonzero(knowledge.nonce_of == knowledge.best).tolist()
        nonces = sorted({own[i].nonce for i in best})
        for number, target in wanted.items():
            if number in {own[i].place for i in best}:
                continue  # the forger would copy its own design there
            for kind, strength in STRENGTHS.items():
                target.append(_Forgery("all", kind, which, nonces, Belief(knowledge, strength)))
    hits: dict[tuple[str, str], list[bool]] = {}
    nll: dict[str, list[float]] = {}
    for number, target in wanted.items():
        plan, prepared = places[number]
        beliefs = [one.belief for one in target]
        # The orders and random numbers differ from those of the marked designs.
        made = forge_on(prepared, plan, beliefs, temperature=TEMPERATURE, seed=seed + 1)
        for row, forgery in enumerate(target):
            text = _visible(made["sequences"][row], plan)
            hit = judge_fast(keys[forgery.key], [text], forgery.nonces)[0]
            hits.setdefault((forgery.source, forgery.kind), []).append(hit)
            nll.setdefault(forgery.kind, []).append(float(made["nll"][row]))
        step(f"forgeries on {plan.backbone.name}")
    return {
        "forged": [
            {"source": source, "kind": kind, "found": rate([(sum(found), len(found))])}
            for (source, kind), found in hits.items()
        ],
        "forged_nll": {kind: _mean(values) for kind, values in nll.items()},
        "designs_of_a_key": len(marked) // len(keys),
    }


def _stripping(
    marked: Sequence[_Marked],
    places: Sequence[_Place],
    keys: Sequence[Key],
    size: ModelSize,
    seed: int,
) -> dict[str, Any]:
    """Change a tenth of the residues of single designs in several ways, and judge them."""
    hits: dict[str, list[bool]] = {}
    rates = rates_at(DELTA, PROTEIN, keys[0].profile.scheme.name)
    rng = np.random.default_rng([seed, 2])
    for one in marked[:: size.designs]:
        plan, prepared = places[one.place]
        symbols = one.with_model.symbols
        edits = round(DEFAULT_BUDGET * np.count_nonzero(symbols != UNREAD))
        by_model, by_letter = (
            _learn([seen], keys[one.key], seed) for seen in (one.with_model, one.without)
        )
        second = second_choices(
            prepared, plan, one.sequence, temperature=TEMPERATURE, orders=size.orders
        )[plan.backbone.chain(plan.chains[0])]
        edited = {
            "none": symbols,
            "random": random_edits(symbols, edits, natural_frequencies(), rng),
            "partners": strip(symbols, by_letter, 0, rates, edits),
            "partners, with model": strip(symbols, by_model, 0, rates, edits),
            "second choices": strip_by_model(one.with_model, second, edits),
        }
        for name, sequence in edited.items():
            text = np.where(sequence == UNREAD, _UNKNOWN, sequence)
            hits.setdefault(name, []).append(judge_fast(keys[one.key], [text], [one.nonce])[0])
    return {name: rate([(sum(found), len(found))]) for name, found in hits.items()}


def _learned(marked: Sequence[_Marked], keys: Sequence[Key], name: str) -> dict[str, Any]:
    """Return the bits that one design reveals, and how many of the coins held as sure are right."""
    bits, sure, right, residues = [], 0, 0, []
    for one in marked:
        seen: Seen = getattr(one, name)
        key = keys[one.key]
        knowledge = _learn([seen], key, 0)
        bits.append(knowledge.bits_learned)
        residues.append(int(np.count_nonzero(seen.symbols != UNREAD)))
        length, block = len(seen.symbols), knowledge.block
        schedule = cast(BlockSchedule, key.schedule)
        promoted = schedule.promoted_rows(schedule.keys(0, one.nonce, length))[::block]
        known = (
            knowledge.best_signs(length)[::block] > _SURE_SIGN
        )  # one letter of a pair, each coin once
        sure += int(known.sum())
        right += int((known & promoted).sum())
    return {
        "bits": _mean(bits),
        "least": float(min(bits)),
        "most": float(max(bits)),
        "residues": [min(residues), max(residues)],
        "sure": rate([(right, sure)]) if sure else None,
    }


_UNKNOWN = PROTEIN.letters.index("X")


def _visible(sequence: NDArray[np.int64], plan: DesignPlan) -> NDArray[np.int64]:
    """Return a design as it is printed: residues that are not designed are X."""
    return np.where(plan.designed, sequence, _UNKNOWN)


def _mean(values: Sequence[float]) -> dict[str, Any]:
    return {name: float(value) for name, value in mean_interval(values).items()}
