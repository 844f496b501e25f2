"""`patternmark bench text-validity`: whether the p-values are true for text.

What `bench validity` counts for proteins, here on natural English split into tokens: short texts,
of the length of a translated sentence or two, and longer ones. Nothing is left out for its
repeats, quotes or lists.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from patternmark.bench.corpora import Encoder, cut
from patternmark.bench.report import environment
from patternmark.bench.validity import count_all, described, summarised
from patternmark.core.alphabet import Alphabet
from patternmark.core.profile import Profile
from patternmark.core.schemes import Paper, Scheme, Turns
from patternmark.errors import ParameterError
from patternmark.io.kept import Kept

LENGTHS = {"50 to 100 tokens": (50, 100), "200 to 400 tokens": (200, 400)}
SCHEMES: dict[str, Scheme] = {
    "paper": Paper(),
    "turns R=1": Turns(),  # what keygen makes
    "turns R=64": Turns(nonces=64),
}
_MOST = 20_000  # texts of one corpus and length that are drawn from


def profiles_for(alphabet: Alphabet) -> dict[str, Profile]:
    """Return the schemes for an alphabet of tokens."""
    if not alphabet.has_many_symbols:
        raise ParameterError(f"alphabet {alphabet.name!r} has too few tokens for a text")
    return {name: Profile(alphabet, scheme) for name, scheme in SCHEMES.items()}


def run_text_validity_benchmark(
    corpora: dict[str, list[str]],
    alphabet: Alphabet,
    encode: Encoder,
    *,
    num_keys: int = 200,
    num_r64_keys: int | None = None,
    per_key: int = 1000,
    per_r1_key: int | None = None,
    per_r64_key: int | None = None,
    seed: int = 1,
    workers: int = 1,
    partial: Path | None = None,
    step: Callable[[str], None] = lambda what: None,
) -> dict[str, Any]:
    """Count false positives; `step` hears of every finished key.

    Every key judges so many texts of each corpus and length: `per_key` those of the paper's scheme,
    `per_r1_key` and `per_r64_key` (unless given, a fifth and a fiftieth) those of turns, which
    take longer.
    """
    if num_keys < 2:
        raise ParameterError("keys differ: give at least two, better some hundred")
    rng = np.random.default_rng(seed)
    sources = {
        f"{corpus}, {length}": cut(documents, encode, LENGTHS[length], _MOST, rng)
        for length in LENGTHS
        for corpus, documents in corpora.items()
    }
    profiles = profiles_for(alphabet)
    slower = (per_r1_key or -(-per_key // 5), per_r64_key or -(-per_key // 50))
    wanted = dict(zip(SCHEMES, (per_key, *slower), strict=True))
    keys = dict(zip(SCHEMES, (num_keys, num_keys, num_r64_keys or num_keys), strict=True))
    kept = Kept(partial)
    counted = count_all(sources, profiles, wanted, keys, seed, workers, kept, step)
    result: dict[str, Any] = {"benchmark": "text-validity", **environment()}
    return result | {
        "seed": seed,
        "alphabet": alphabet.name,
        "num_tokens": alphabet.size,
        "starts": Turns.starts,
        "num_keys": keys,
        "per_key": wanted,
        "sources": {name: described(some) for name, some in sources.items()},
        "rates": summarised([_pooled(key, list(corpora)) for key in counted], profiles),
        "by_corpus": summarised(counted, profiles),
    }


def _pooled(counted: dict[str, Any], corpora: Sequence[str]) -> dict[str, Any]:
    """Add the counts of all corpora up, for each length of texts."""
    pooled = {}
    for length in LENGTHS:
        some = [counted["counts"][f"{corpus}, {length}"] for corpus in corpora]
        hits = {
            detector: np.sum([one["hits"][detector] for one in some], axis=0).tolist()
            for detector in some[0]["hits"]
        }
        pooled[length] = {"pairs": sum(one["pairs"] for one in some), "hits": hits}
    return counted | {"counts": pooled}
