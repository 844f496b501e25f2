"""Which symbols each key promotes, and in which order keys follow each other.

The paper's scheme has l keys whose parts split the alphabet; its chain says what follows what.
Its secret is the split alone: for two parts of 20 amino acids one of 92,378, soon found by trial.

The hardened scheme is a Markov chain of far more keys. A nonce r has a schedule of P keys that
follow each other in a circle, from one of a few starts. Blocks of a few keys take turns between a
half of the alphabet and its complement; each block has a half of its own. Halves are made of pairs
of symbols: from each pair a secret bit promotes one. So

- a sequence uses more than a thousand secret bits, and each nonce has its own. A period of 16
  keys would hold 80, and one marked sequence of 400 teaches most of them;
- what one key gains from a symbol that is frequent anyway, the next loses: a key is calibrated
  on any composition;
- within a block a lost symbol only swaps the two halves, as in the paper's scheme: longer blocks
  survive more insertions and deletions, shorter ones teach less;
- amino acids are paired with those a model would take instead (such as K and R). Promoting one of
  two that it can choose between shows in more positions than promoting any half does.

Other alphabets are paired by a secret shuffle.

A schedule of a vocabulary is far too large to be written out: 512 keys of 262,144 tokens. What is
asked for is derived from the packed bits: the rows of some keys (to mark), the columns of some
symbols (to detect). An `Excerpt` is a schedule of the symbols that a batch of sequences has.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
from numpy.typing import NDArray

from patternmark.alphabet import PROTEIN, Alphabet
from patternmark.derive import Secret
from patternmark.likelihood import UNREAD
from patternmark.partition import Partition

# The perfect matching of greatest weight, where a pair weighs as often as ProteinMPNN's two best
# letters are these and less than the mark's strength apart (unmarked designs, 39 backbones).
PROTEIN_PAIRS = ("AE", "CQ", "DN", "FY", "GP", "HW", "IV", "KR", "LM", "ST")
DEFAULT_PERIOD, DEFAULT_BLOCK, DEFAULT_STARTS, DEFAULT_NONCES = 512, 4, 16, 64
FEW_SYMBOLS = 64  # alphabets up to this size are laid out whole; of larger ones, what is used
_KEPT_PLACES = 2**24  # symbols times nonces whose shuffles are kept: 64 MiB


@cache
def protein_pairs() -> NDArray[np.int64]:
    """Return the pairs of amino acids of which a hardened key promotes one each: [pairs, 2]."""
    pairs = np.array([PROTEIN.encode(pair) for pair in PROTEIN_PAIRS])
    pairs.setflags(write=False)  # all schedules share it
    return pairs


@dataclass(frozen=True, eq=False)
class PartitionSchedule:
    """The paper's scheme in the same terms: one nonce, its keys the parts."""

    partition: Partition
    nonces: int = 1
    symbols = slice(None)  # all of the alphabet

    @property
    def period(self) -> int:
        return self.partition.num_parts

    @property
    def starts(self) -> NDArray[np.int64]:
        """The keys a sequence may begin with: any."""
        return np.arange(self.period)

    def promoted(self, nonce: int) -> NDArray[np.bool_]:
        """Which symbols each key promotes: [P, V]."""
        del nonce  # there is only one
        return self.partition.members

    def promoted_to(self, nonce: int, symbols: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of some symbols each key promotes: [P, len(symbols)]."""
        del nonce
        return np.asarray(self.partition.part_of[symbols] == np.arange(self.period)[:, None])

    def promoted_rows(self, keys: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which symbols some keys promote: [len(keys), V]."""
        return np.asarray(self.partition.part_of == np.asarray(keys)[:, None])

    @cached_property
    def shares(self) -> NDArray[np.float64]:
        """The share of the scored symbols that each key promotes, which is that of chance: [P]."""
        sizes = self.partition.sizes
        return np.asarray(sizes / sizes.sum())

    def reuses(self, lags: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether positions so far apart may meet the same secret: all, there is one split."""
        return np.ones(len(lags), dtype=bool)

    def __repr__(self) -> str:
        return f"PartitionSchedule({self.period} keys, hidden)"


class HardenedSchedule:
    """Schedules of `period` keys for each of `nonces`, derived from a secret.

    >>> schedule = HardenedSchedule(Secret(bytes(32)), PROTEIN, 8, block=4, nonces=2, starts=2)
    >>> schedule.promoted(1).sum(axis=1)  # ten of the twenty amino acids
    array([10, 10, 10, 10, 10, 10, 10, 10])
    """

    def __init__(
        self,
        secret: Secret,
        alphabet: Alphabet,
        period: int,
        *,
        block: int,
        nonces: int,
        starts: int,
    ) -> None:
        self._secret = secret
        self._alphabet = alphabet
        self.period, self.block, self.nonces = period, block, nonces
        self.starts = np.arange(starts) * (period // starts)
        self.shares = np.array([0.5])  # of chance: every bit is a fair coin
        self._known: dict[int, NDArray[np.bool_]] = {}
        self._known_places: dict[int, NDArray[np.int32]] = {}

    symbols = slice(None)  # all of the alphabet

    def promoted(self, nonce: int) -> NDArray[np.bool_]:
        """Which symbols each key of a nonce promotes: [P, V]."""
        if nonce in self._known:
            return self._known[nonce]
        halves = self.promoted_to(nonce, np.arange(self._alphabet.size))
        if self._alphabet.size <= FEW_SYMBOLS:
            self._known[nonce] = halves
        return halves

    def promoted_to(self, nonce: int, symbols: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of some symbols each key of a nonce promotes: [P, len(symbols)]."""
        place = self._places(nonce)[symbols]
        blocks = np.arange(self.period // self.block)
        bit = blocks[:, None] * self._pairs + (place >> 1)  # the number of each symbol's
        bits = self.secret_bits[nonce][bit >> 3] >> (~bit & 7).astype(np.uint8)
        chosen = np.repeat((bits ^ place).astype(np.uint8) & 1, self.block, axis=0).astype(bool)
        chosen[1::2] ^= True  # every second key of a block promotes the complement
        chosen[:, place < 0] = False
        return chosen

    def promoted_rows(self, keys: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which symbols some keys promote: [len(keys), V]; key = nonce * period + phase."""
        keys = np.asarray(keys, dtype=np.int64)
        nonce_of = keys // self.period
        if len(keys) and self._alphabet.size <= FEW_SYMBOLS:  # laid out whole, and kept
            nonces, which = np.unique(nonce_of, return_inverse=True)
            halves = np.stack([self.promoted(nonce) for nonce in nonces.tolist()])
            return np.asarray(halves[which, keys % self.period])
        rows = np.empty((len(keys), self._alphabet.size), dtype=bool)
        for nonce in np.unique(nonce_of).tolist():
            places = self._places(nonce)
            pair = (places >> 1).astype(np.intp)  # numpy would make it so for every block
            is_second, scored = (places & 1).astype(np.uint8), places >= 0
            own = np.flatnonzero(nonce_of == nonce)
            block_of = keys[own] % self.period // self.block
            for block in np.unique(block_of).tolist():
                bits = self._bits_of_block(nonce, block)
                half = (bits[pair] ^ is_second).view(bool) & scored
                complement = half ^ scored
                for row in own[block_of == block].tolist():
                    rows[row] = complement if keys[row] % 2 else half
        return rows

    def _bits_of_block(self, nonce: int, block: int) -> NDArray[np.uint8]:
        """Return a block's bits: [pairs], and up to seven more."""
        first = block * self._pairs
        octets = self.secret_bits[nonce][first >> 3 : (first + self._pairs + 7) >> 3]
        return np.unpackbits(octets)[first & 7 :]

    def reuses(self, lags: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether positions so far apart may meet the same block: neighbours, or after a round.

        A round may be some positions longer or shorter, where symbols were lost or gained.
        """
        past, near = lags % self.period, 2 * self.block
        return np.asarray((past < near) | (past > self.period - near))

    @cached_property
    def secret_bits(self) -> NDArray[np.uint8]:
        """The bits of every nonce, block by block and pair by pair, eight a byte: [R, bytes]."""
        return self.bits_of(self._secret)

    def bits_of(self, secret: Secret) -> NDArray[np.uint8]:
        """Return the bits that another secret has in a schedule of this shape: [R, bytes]."""
        each = -(-self.bits // 8)
        octets = secret.octets(self._label, self.nonces * each)
        return octets.reshape(self.nonces, each)

    @cached_property
    def _label(self) -> str:
        return f"schedule/{self._alphabet.sha256}/{self.period}/{self.block}"

    def _places(self, nonce: int) -> NDArray[np.int32]:
        """Return where each symbol stands in the order of pairs, -1 where it is unscored: [V].

        Places 2i and 2i + 1 are a pair, and a bit promotes the first; an odd one out comes last.
        """
        if self._alphabet == PROTEIN:
            return _protein_places()
        if nonce not in self._known_places:
            label = f"{self._label}/{nonce}/pairs"
            order = self._secret.permutation(label, self._alphabet.num_scored)
            if (len(self._known_places) + 1) * self._alphabet.size > _KEPT_PLACES:
                self._known_places.clear()
            self._known_places[nonce] = _places_in(self._alphabet.scored[order], self._alphabet)
        return self._known_places[nonce]

    @cached_property
    def _pairs(self) -> int:
        return (self._alphabet.num_scored + 1) // 2

    @cached_property
    def bits(self) -> int:
        """How many secret bits one schedule holds."""
        return self.period // self.block * self._pairs

    def __repr__(self) -> str:
        return f"HardenedSchedule({self.nonces} nonces of {self.period} keys, hidden)"


def _places_in(order: NDArray[np.int64], alphabet: Alphabet) -> NDArray[np.int32]:
    places = np.full(alphabet.size, -1, dtype=np.int32)
    places[order] = np.arange(len(order))
    return places


@cache
def _protein_places() -> NDArray[np.int32]:
    return _places_in(protein_pairs().ravel(), PROTEIN)


Schedule = PartitionSchedule | HardenedSchedule


@dataclass(frozen=True, eq=False)
class Excerpt:
    """A schedule of some symbols alone, which it numbers anew from 0; all else is the same.

    >>> schedule = HardenedSchedule(Secret(bytes(32)), PROTEIN, 8, block=4, nonces=2, starts=2)
    >>> excerpt = Excerpt.of(schedule, PROTEIN.encode("MKKM"))
    >>> excerpt.numbered(PROTEIN.encode("MKKM")), excerpt.promoted(1).shape
    (array([1, 0, 0, 1]), (8, 2))
    """

    whole: Schedule
    symbols: NDArray[np.int64]  # [U], ascending

    @classmethod
    def of(cls, whole: Schedule, symbols: NDArray[np.int64]) -> Excerpt:
        """Return the schedule of the symbols that occur; UNREAD is none."""
        used = np.unique(symbols)
        return cls(whole, used[used != UNREAD])

    def numbered(self, symbols: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the excerpt's own numbers of symbols; UNREAD stays."""
        numbers = np.searchsorted(self.symbols, symbols)
        return np.where(symbols == UNREAD, UNREAD, numbers)

    @property
    def period(self) -> int:
        return self.whole.period

    @property
    def nonces(self) -> int:
        return self.whole.nonces

    @property
    def starts(self) -> NDArray[np.int64]:
        return self.whole.starts

    @property
    def shares(self) -> NDArray[np.float64]:
        """What chance agrees with: not counted here, but what it is in the whole alphabet."""
        return self.whole.shares

    def promoted(self, nonce: int) -> NDArray[np.bool_]:
        """Which of its symbols each key of a nonce promotes: [P, U]."""
        return self.whole.promoted_to(nonce, self.symbols)
