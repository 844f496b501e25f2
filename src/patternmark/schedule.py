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
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
from numpy.typing import NDArray

from patternmark.alphabet import PROTEIN, Alphabet
from patternmark.derive import Secret
from patternmark.partition import Partition

# The perfect matching of greatest weight, where a pair weighs as often as ProteinMPNN's two best
# letters are these and less than the mark's strength apart (unmarked designs, 39 backbones).
PROTEIN_PAIRS = ("AE", "CQ", "DN", "FY", "GP", "HW", "IV", "KR", "LM", "ST")
DEFAULT_PERIOD, DEFAULT_BLOCK, DEFAULT_STARTS, DEFAULT_NONCES = 512, 4, 16, 64


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
        self._known: dict[int, NDArray[np.bool_]] = {}

    def promoted(self, nonce: int) -> NDArray[np.bool_]:
        """Which symbols each key of a nonce promotes: [P, V]."""
        if nonce not in self._known:
            self._known[nonce] = self._derive(nonce)
        return self._known[nonce]

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

    def _derive(self, nonce: int) -> NDArray[np.bool_]:
        first, second = self._pairs(f"{self._label}/{nonce}")
        blocks = self.period // self.block
        bits = np.unpackbits(self.secret_bits[nonce])[: self.bits].astype(bool)
        chosen = np.repeat(bits.reshape(blocks, len(first)), self.block, axis=0)  # [P, pairs]
        chosen[1::2] ^= True  # every second key of a block promotes the complement
        halves = np.zeros((self.period, self._alphabet.size), dtype=bool)
        halves[:, first] = chosen
        halves[:, second] = ~chosen[:, : len(second)]
        return halves

    def _pairs(self, label: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the symbols of each pair; an odd one out has no partner."""
        if self._alphabet == PROTEIN:
            both = protein_pairs()
            return both[:, 0], both[:, 1]
        order = self._alphabet.scored[
            self._secret.permutation(f"{label}/pairs", self._alphabet.num_scored)
        ]
        return order[0::2], order[1::2]

    @cached_property
    def bits(self) -> int:
        """How many secret bits one schedule holds."""
        return self.period // self.block * ((self._alphabet.num_scored + 1) // 2)

    def __repr__(self) -> str:
        return f"HardenedSchedule({self.nonces} nonces of {self.period} keys, hidden)"


Schedule = PartitionSchedule | HardenedSchedule
