"""Each scheme's bias as its description has it: one position at a time, symbol by symbol."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from patternmark import Alphabet
from patternmark.core.secret import Secret
from patternmark_lab.schemes import EMPTY, OUTSIDE, SCHEMES, Scheme
from patternmark_lab.schemes.baselines import Multikey, Soft, SoftByStep, Unigram
from patternmark_lab.schemes.pattern import ByKey
from patternmark_lab.schemes.peers import DMark, Expected, LeftRight, Tango
from patternmark_lab.schemes.rivals import UMR

TINY = Alphabet.from_symbols("tiny", [f"t{i}" for i in range(14)], [0, 13])
MANY = Alphabet.from_symbols("many", [f"w{i}" for i in range(600)], range(5))

BY_BIAS = [name for name, kind in SCHEMES.items() if kind.by_bias]
Likeliest = Callable[[int], list[tuple[int, float]]]  # place -> tokens with probabilities


def a_secret(number: int) -> Secret:
    return Secret(number.to_bytes(32, "big"))


def plain_bias(  # noqa: PLR0912  # one branch for each scheme
    scheme: Scheme,
    tokens: list[int],
    place: int,
    *,
    previous: int = EMPTY,
    likeliest: Likeliest = lambda place: [],
    key: int = -1,
    logits: np.ndarray | None = None,
) -> np.ndarray:
    """Return the bias [V] of one open place among tokens."""
    alphabet = scheme.alphabet
    bias = np.zeros(alphabet.size)

    def at(there: int) -> int:
        return tokens[there] if 0 <= there < len(tokens) else OUTSIDE

    def known_or_likely(there: int) -> list[tuple[int, float]]:
        if at(there) == EMPTY:
            return likeliest(there)
        return [(at(there), 1.0)] if at(there) >= 0 else []

    left, right = at(place - 1), at(place + 1)
    if isinstance(scheme, UMR):
        assert logits is not None
        return _shifted(scheme, left, right, np.asarray(logits, dtype=float))
    for v in alphabet.scored.tolist():
        if isinstance(scheme, Soft):
            context = previous if isinstance(scheme, SoftByStep) else left
            unseen = context < 0 or context in alphabet.unscored
            row = alphabet.size if unseen else context
            bias[v] = scheme.delta * _in(scheme, row, v)
        elif isinstance(scheme, Unigram):
            bias[v] = scheme.delta * scheme.greens[v]
        elif isinstance(scheme, Multikey):
            bias[v] = scheme.delta * scheme.greens[key][v]
        elif isinstance(scheme, Tango):
            tap = at(place - 2) if at(place - 2) >= 0 else at(place + 2)
            if tap >= 0 and tap not in alphabet.unscored:
                wanted = (0 - scheme.colour_of[tap]) % 3
                bias[v] = scheme.delta * (scheme.colour_of[v] == wanted)
        elif isinstance(scheme, LeftRight):
            if left >= 0:
                bias[v] += scheme.delta * _in(scheme, left, v)
            if right >= 0:
                bias[v] += scheme.delta * _in(scheme, alphabet.size + 1 + right, v)
        elif isinstance(scheme, DMark):
            for token, _ in known_or_likely(place - 1)[:1]:
                bias[v] += scheme.delta * _in(scheme, token, v)
            for token, _ in known_or_likely(place + 1)[:1]:
                bias[v] += scheme.delta * _in(scheme, v, token)
        elif isinstance(scheme, Expected):
            for token, p in known_or_likely(place - 1):
                bias[v] += scheme.delta / 2 * p * _in(scheme, token, v)
            for token, p in known_or_likely(place + 1):
                bias[v] += scheme.delta / 2 * p * _in(scheme, v, token)
        elif isinstance(scheme, ByKey):
            bias[v] = scheme.delta * (key >= 0 and scheme.promoted(np.array([key]))[0, v])
        else:
            raise AssertionError(scheme)
    return bias


def _shifted(scheme: UMR, left: int, right: int, logits: np.ndarray) -> np.ndarray:
    """Move probability to the left neighbour's list, then to those whose list holds the right."""
    p = np.exp(logits - logits.max())
    p /= p.sum()
    new = p.copy()
    scored = set(scheme.alphabet.scored.tolist())
    for token, is_left in ((left, True), (right, False)):
        lists = set()
        if token in scored:
            pairs = {v: (left, v) if is_left else (v, right) for v in scored}
            lists = {v for v, pair in pairs.items() if _in(scheme, *pair)}
        inside, outside = (sum(new[v] for v in some) for some in (lists, scored - lists))
        moved = min(scheme.delta, 1) * min(max(scheme.delta, 1) * inside, outside)
        for v in scored if moved > 0 else ():
            new[v] *= 1 + (moved / inside if v in lists else -moved / outside)
    some = sorted(v for v in scored if p[v] > 0)
    bias = np.zeros(len(p))
    bias[some] = np.log(np.maximum(new[some] / p[some], 1e-30))
    return bias


def _in(scheme: Soft | LeftRight | DMark | Expected | UMR, row: int, symbol: int) -> bool:
    return bool(_whole(scheme)[row, symbol])


@cache
def _whole(scheme: Soft | LeftRight | DMark | Expected | UMR) -> np.ndarray:
    return scheme.greens.whole()
