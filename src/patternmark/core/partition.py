"""The paper's scheme splits the scored symbols of an alphabet into l parts, one for each key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import count

import numpy as np
from numpy.typing import NDArray

from patternmark.core.alphabet import NO_KEY, SEPARATOR, Alphabet
from patternmark.core.secret import Secret
from patternmark.errors import ParameterError

MASS_TOLERANCE = 0.01  # how far a part's share of the mass may be from 1/l, relative to 1/l
_TRIES_PER_TOLERANCE = 16  # shuffles that are tried before the tolerance doubles

Parts = tuple[str | tuple[int, ...], ...]  # letters, or token ids


@dataclass(frozen=True, eq=False)
class Partition:
    """The split of an alphabet, and so the schedule of the paper's scheme: key k promotes part k.

    `part_of[symbol]` is the key that promotes the symbol, or NO_KEY if it is never scored.
    """

    part_of: NDArray[np.int64]  # [V]
    num_parts: int

    nonces = 1

    @property
    def period(self) -> int:
        return self.num_parts

    @property
    def starts(self) -> NDArray[np.int64]:
        """The keys that a sequence may begin with: all."""
        return np.arange(self.num_parts)

    @cached_property
    def members(self) -> NDArray[np.bool_]:
        """Which symbols each key promotes: [l, V]."""
        return self.promoted_rows(self.starts)

    def promoted(self, nonce: int) -> NDArray[np.bool_]:
        """Return `members`, because this scheme has only one nonce."""
        del nonce
        return self.members

    def promoted_to(self, nonce: int, symbols: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which of some symbols each key promotes: [l, len(symbols)]."""
        del nonce
        return np.asarray(self.part_of[symbols] == self.starts[:, None])

    def promoted_rows(self, keys: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which symbols some keys promote: [len(keys), V]."""
        return np.asarray(self.part_of == np.asarray(keys)[:, None])

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """How many symbols each key promotes: [l]."""
        return np.bincount(self.part_of[self.part_of != NO_KEY], minlength=self.num_parts)

    @property
    def shares(self) -> NDArray[np.float64]:
        """The share of the scored symbols that each key promotes: [l]."""
        return np.asarray(self.sizes / self.sizes.sum())

    @property
    def is_fair(self) -> bool:
        """Whether the numbers of symbols that two keys promote differ by at most one."""
        return int(self.sizes.max() - self.sizes.min()) <= 1

    def masses(self, background: Sequence[float]) -> NDArray[np.float64]:
        """Return each part's share of a background distribution over symbols."""
        mass = self.members @ np.asarray(background, dtype=float)
        return np.asarray(mass / mass.sum())

    def reuses(self, lags: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return whether positions at these distances may share a secret bit: all may."""
        return np.ones(len(lags), dtype=bool)

    def __repr__(self) -> str:  # the parts are as secret as the key
        return f"Partition({self.num_parts} parts of {self.sizes.tolist()} symbols, hidden)"


def derive_partition(
    secret: Secret, alphabet: Alphabet, num_parts: int, background: Sequence[int] | None = None
) -> Partition:
    """Shuffle the scored symbols with the secret and deal them out to the parts in turn.

    With a background, shuffles are tried in order until every part's mass is within 1 % of 1/l.
    After every 16 shuffles the tolerance doubles, because one symbol may outweigh a part. All
    partitions that meet the bound are equally likely.
    """
    if not 2 <= num_parts <= alphabet.num_scored:
        name, most = alphabet.name, alphabet.num_scored
        wrong = f"it can be split into 2 to {most} parts, not {num_parts}"
        raise ParameterError(f"alphabet {name!r} has {most} scored symbols: {wrong}")
    label = f"partition/{alphabet.sha256}/{num_parts}"
    if background is None:
        return _deal(secret, f"{label}/0", alphabet, num_parts)
    weights = _check_background(background, alphabet)
    for attempt in count():
        candidate = _deal(secret, f"{label}/{attempt}", alphabet, num_parts)
        # In whole numbers, so that every machine accepts the same attempt.
        mass = [int(m) for m in candidate.members @ weights]
        error = max(abs(m * num_parts - sum(mass)) for m in mass) / sum(mass)
        if error <= MASS_TOLERANCE * 2 ** (attempt // _TRIES_PER_TOLERANCE):
            break
    return candidate


def adopt_partition(parts: Sequence[str | Sequence[int]], alphabet: Alphabet) -> Partition:
    """Make a partition from given parts; every scored symbol must be in exactly one of them."""
    if len(parts) < 2:
        raise ParameterError("a partition needs at least 2 parts, such as ACDEFGHIKL,MNPQRSTVWY")
    part_of = np.full(alphabet.size, NO_KEY, dtype=np.int64)
    for key, part in enumerate(parts):
        ids = alphabet.encode(part)
        if ids.size == 0:
            raise ParameterError(f"part {key + 1} is empty")
        unscored = ids[~alphabet.is_scored(ids)]
        if unscored.size:
            name = _symbol_name(alphabet, int(unscored[0]))
            raise ParameterError(f"part {key + 1} contains {name}, which is never scored")
        used, times = np.unique(ids, return_counts=True)
        again = used[(times > 1) | (part_of[used] != NO_KEY)]
        if again.size:
            name = _symbol_name(alphabet, int(again[0]))
            raise ParameterError(f"{name} is in two parts, or twice in one")
        part_of[ids] = key
    missing = alphabet.scored[part_of[alphabet.scored] == NO_KEY]
    if missing.size:
        names = ", ".join(_symbol_name(alphabet, int(s)) for s in missing[:5])
        more = f" and {missing.size - 5} more" if missing.size > 5 else ""
        raise ParameterError(f"no part contains {names}{more}: every scored symbol needs one")
    return Partition(part_of, len(parts))


def _deal(secret: Secret, label: str, alphabet: Alphabet, num_parts: int) -> Partition:
    order = secret.permutation(label, alphabet.num_scored)
    part_of = np.full(alphabet.size, NO_KEY, dtype=np.int64)
    part_of[alphabet.scored[order]] = np.arange(alphabet.num_scored) % num_parts
    return Partition(part_of, num_parts)


def _check_background(background: Sequence[int], alphabet: Alphabet) -> NDArray[np.int64]:
    weights = np.asarray(background)
    if weights.shape != (alphabet.size,) or not np.issubdtype(weights.dtype, np.integer):
        size = alphabet.size
        raise ParameterError(f"a background is a list of {size} whole numbers, one for each symbol")
    if np.any(weights < 0) or np.any(weights > 2**31) or weights[alphabet.scored].sum() == 0:
        raise ParameterError("background weights must lie in 0..2^31 and must not all be 0")
    return weights.astype(np.int64)


def _symbol_name(alphabet: Alphabet, symbol: int) -> str:
    if symbol == SEPARATOR:
        return "a chain separator"
    return repr(alphabet.letters[symbol]) if alphabet.letters else f"token {symbol}"
