"""`patternmark bench exchanges`: how much evidence of a mark each pair of amino acids carries.

A key promotes one letter of each pair of a matching. The weight of a pair is the information about
its coin in the sampled letters. It is measured on unmarked designs of every third backbone, which
`patternmark bench detectors` leaves out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patternmark.core.alphabet import PROTEIN
from patternmark.io.structures import Backbone
from patternmark_lab.bench.matchings import (
    best_matching,
    certain_share,
    partners,
    spread_matchings,
    total_weight,
)
from patternmark_lab.bench.protein import TEMPERATURE
from patternmark_lab.bench.report import environment

NUMBERS = (1, 2, 4, 8)  # of matchings in a set
SPREADING = (0.1, 0.2, 0.4, 0.55, 0.7, 1.0, 5.0)
_SIMILAR_LOGITS = (
    1.0  # below the best other logit; such letters are about equally good to the model
)


@dataclass(frozen=True, eq=False)
class Unmarked:
    """Unmarked designs, and the logits from which each of their letters was drawn."""

    sequences: dict[str, list[str]]  # by the name of the backbone
    logits: NDArray[np.float64]  # [n, 20] of the scored letters, before division by the temperature

    @property
    def frequencies(self) -> NDArray[np.float64]:
        """The share of each scored letter in the designs: [20]."""
        text = "".join(design for designs in self.sequences.values() for design in designs)
        counts = np.bincount(PROTEIN.encode(text), minlength=PROTEIN.size)[PROTEIN.scored]
        return np.asarray(counts / counts.sum())


def measure_exchanges(
    weights: Path,
    backbones: Sequence[Backbone],
    *,
    designs: int = 8,
    seed: int = 1,
    device: str = "cpu",
    step: Callable[[str], None] = lambda what: None,
) -> dict[str, Any]:
    """Design without a mark, weigh every pair of letters, and measure sets of matchings."""
    made = unmarked_designs(
        weights, backbones, designs=designs, seed=seed, device=device, step=step
    )
    worth = pair_weights(made.logits, np.random.default_rng([seed, 0]))
    sets = []
    for number in NUMBERS:
        for spreading in SPREADING if number > 1 else (0.0,):
            found = spread_matchings(
                worth,
                made.frequencies,
                number,
                spreading=spreading,
                rng=np.random.default_rng([seed, number]),
            )
            sets.append({"spreading": spreading, **measure_set(made, worth, found, seed)})
            step(f"{number} matchings, spreading {spreading}")
    result: dict[str, Any] = {"benchmark": "exchanges", **environment()}
    return result | {
        "model": weights.stem,
        "temperature": TEMPERATURE,
        "delta": 1.0,
        "seed": seed,
        "backbones": list(made.sequences),
        "designs": designs,
        "residues": len(made.logits),
        "letters": "".join(PROTEIN.letters[i] for i in PROTEIN.scored),
        "frequencies": made.frequencies.round(5).tolist(),
        "weights": worth.round(7).tolist(),
        "sets": sets,
    }


def measure_set(
    made: Unmarked,
    weights: NDArray[np.float64],
    matchings: NDArray[np.int64],
    seed: int,
) -> dict[str, Any]:
    """Return the evidence, the cost and the secrecy of a set of matchings [M, 10, 2]."""
    rng = np.random.default_rng([seed, 1])
    coins = rng.random((len(made.logits), matchings.shape[1])) < 0.5
    effects = [effect_of(made.logits, pairs, coins) for pairs in matchings]
    best = best_matching(weights)
    most = effect_of(made.logits, best, coins).evidence.sum()
    return {
        "matchings": [
            ["".join(PROTEIN.letters[i] for i in PROTEIN.scored[pair]) for pair in pairs]
            for pairs in matchings
        ],
        "relative_weight": float(
            total_weight(weights, matchings).mean() / total_weight(weights, best[None])[0]
        ),
        "relative_evidence": float(np.mean([own.evidence.sum() for own in effects]) / most),
        "lost": float(np.mean([own.lost for own in effects])),
        "max_share": certain_share(matchings, made.frequencies),
        "rates": [own.rates.round(4).tolist() for own in effects],
        "agree_after": agreement_after(made.logits, matchings, weights, rng),
    }


def unmarked_designs(
    weights: Path,
    backbones: Sequence[Backbone],
    *,
    designs: int = 8,
    seed: int = 1,
    device: str = "cpu",
    step: Callable[[str], None] = lambda what: None,
) -> Unmarked:
    """Design without a mark on every third backbone; `step` is called for each one."""
    from patternmark.models.mpnn import ProteinMPNN  # noqa: PLC0415  # torch is an extra

    model = ProteinMPNN.load(weights, device)
    sequences: dict[str, list[str]] = {}
    logits = []
    for backbone in backbones[::3]:
        letters, own = _design(model, backbone, designs, seed)
        sequences[backbone.name] = ["".join(PROTEIN.letters[i] for i in row) for row in letters]
        logits.append(own[..., PROTEIN.scored].reshape(-1, PROTEIN.num_scored))
        step(backbone.name)
    return Unmarked(sequences, np.concatenate(logits))


def _design(
    model: Any, backbone: Backbone, designs: int, seed: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the designed letters [designs, n] and the logits they are from [designs, n, 21]."""
    import torch  # noqa: PLC0415

    from patternmark.designing.plan import plan_design  # noqa: PLC0415
    from patternmark.models.sampler import sample  # noqa: PLC0415
    from patternmark_lab.generation.batch import unmarked_task  # noqa: PLC0415

    plan = plan_design(backbone)
    task = unmarked_task(plan, seed, range(designs), TEMPERATURE)
    prepared = model.prepare(model.encode(backbone))
    sequences = sample(prepared, task).sequences
    # Residues that are not designed are known from the start, so their rank is 0.
    ranks = np.zeros((designs, plan.length), dtype=np.int64)
    order = task.steps[:, :, 0]
    np.put_along_axis(ranks, order, 1 + np.arange(order.shape[1])[None, :], axis=1)
    logits = prepared.logits(sequences, torch.tensor(ranks, device=sequences.device))
    chosen = plan.designed
    return sequences.cpu().numpy()[:, chosen], logits.double().cpu().numpy()[:, chosen]


@dataclass(frozen=True, eq=False)
class MatchingEffect:
    """Evidence and cost of a mark with one matching, in nats per residue."""

    evidence: NDArray[np.float64]  # [V] information on its coin in each letter
    rates: NDArray[np.float64]  # [V] share of promoted ones among the draws of each letter
    lost: float  # log-likelihood that the mark costs


def effect_of(
    logits: NDArray[np.float64],
    pairs: NDArray[np.int64],
    coins: NDArray[np.bool_],
    *,
    delta: float = 1.0,
    temperature: float = TEMPERATURE,
) -> MatchingEffect:
    """Measure a matching, given the logits of positions [n, V] and pairs [V / 2, 2].

    `coins` [n, V / 2] say whether a position promotes the first letter of each pair. Each position
    is measured with its coins and with the opposite coins.

    The evidence is the information on a coin in one letter: the mean log-ratio of a detector that
    knows the rate of each letter, but not the probabilities at the position. Two letters of one
    coin carry less than twice as much, which is not counted here.

    >>> laws = np.zeros((1, 2))  # two letters, equally likely
    >>> heads = np.ones((1, 1), dtype=bool)
    >>> effect_of(laws, np.array([[0, 1]]), heads, delta=np.log(3), temperature=1.0).rates
    array([0.75, 0.75])
    """
    promoted = np.empty(logits.shape, dtype=bool)
    promoted[:, pairs[:, 0]], promoted[:, pairs[:, 1]] = coins, ~coins
    log_p = logits - _log_sum(logits)
    unmarked = np.exp(logits / temperature - _log_sum(logits / temperature))
    agreed, missed, likelihood = np.zeros(logits.shape[1]), np.zeros(logits.shape[1]), 0.0
    for half in (promoted, ~promoted):
        biased = (logits + delta * half) / temperature
        marked = np.exp(biased - _log_sum(biased))
        agreed += (marked * half).sum(axis=0)
        missed += (marked * ~half).sum(axis=0)
        likelihood += float((marked * log_p).sum())
    drawn = 2 * len(logits)
    rates = agreed / (agreed + missed)
    evidence = agreed * np.log(2 * rates) + missed * np.log(2 * (1 - rates))
    before = float((unmarked * log_p).sum()) / len(logits)
    return MatchingEffect(evidence / drawn, rates, before - likelihood / drawn)


def _log_sum(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ln of the sum of exponentials along the last axis, kept with length 1."""
    highest = logits.max(axis=-1, keepdims=True)
    return np.asarray(highest + np.log(np.exp(logits - highest).sum(axis=-1, keepdims=True)))


def agreement_after(
    logits: NDArray[np.float64],
    matchings: NDArray[np.int64],
    weights: NDArray[np.float64],
    rng: np.random.Generator,
    *,
    delta: float = 1.0,
    temperature: float = TEMPERATURE,
) -> dict[str, float]:
    """Return how often letters agree with their coins, as marked and after each one is swapped.

    An attacker without the key may swap a letter for: its `partner` in most matchings (the heavier
    pair in a tie), the model's `second` choice, the partner in most matchings among letters that
    the model finds about as good as its second choice (`both`), or `any` other letter.

    A letter that the model likes but that was not drawn was probably not promoted. So the second
    choice disagrees more often than it agrees, under any matching.
    """
    rows = np.arange(len(logits))
    drawn = matchings[rng.integers(len(matchings), size=len(logits))]  # [n, V / 2, 2]
    coins = rng.random(drawn.shape[:2]) < 0.5
    promoted = np.empty(logits.shape, dtype=bool)
    promoted[rows[:, None], drawn[..., 0]] = coins
    promoted[rows[:, None], drawn[..., 1]] = ~coins
    noise = rng.gumbel(size=logits.shape)  # the greatest sum is a draw from the softmax
    letter = ((logits + delta * promoted) / temperature + noise).argmax(axis=1)
    others = logits.copy()
    others[rows, letter] = -np.inf
    # Weights are below 1, so they only decide between equal counts.
    likely = (partners(matchings, logits.shape[1]) + weights)[letter]
    near = others > others.max(axis=1, keepdims=True) - _SIMILAR_LOGITS
    swaps = {
        "none": letter,
        "partner": likely.argmax(axis=1),
        "second": others.argmax(axis=1),
        "both": np.where(near, likely, -1.0).argmax(axis=1),
        "any": (letter + rng.integers(1, logits.shape[1], size=len(rows))) % logits.shape[1],
    }
    return {name: float(promoted[rows, to].mean()) for name, to in swaps.items()}


def pair_weights(
    logits: NDArray[np.float64], rng: np.random.Generator, *, rounds: int = 4, delta: float = 1.0
) -> NDArray[np.float64]:
    """Return the weight of each pair of letters, averaged over pairings of the others: [V, V].

    Each of the `rounds` shuffles the letters and plays a tournament: V - 1 matchings in which
    every two letters are a pair once.
    """
    size = logits.shape[1]
    weights = np.zeros((size, size))
    for _ in range(rounds):
        order = rng.permutation(size)
        for pairs in tournament(size):
            coins = rng.random((len(logits), len(pairs))) < 0.5
            first, second = order[pairs].T
            evidence = effect_of(logits, order[pairs], coins, delta=delta).evidence
            weights[first, second] += (evidence[first] + evidence[second]) / rounds
    return np.asarray(weights + weights.T)


def tournament(size: int) -> list[NDArray[np.int64]]:
    """Return size - 1 matchings of an even number of players that share no pair.

    >>> [pairs.tolist() for pairs in tournament(4)]
    [[[3, 0], [1, 2]], [[3, 1], [2, 0]], [[3, 2], [0, 1]]]
    """
    others = size - 1
    steps = np.arange(1, size // 2)
    return [
        np.concatenate([[[others, turn]], np.stack([turn + steps, turn - steps], axis=1) % others])
        for turn in range(others)
    ]
