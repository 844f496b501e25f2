"""The schemes of a mark, each an object that owns its parameters and knows how keys are drawn.

    Paper     the paper's: keys follow a Markov chain, each promotes one part of the alphabet
    Blocks    the default for proteins: blocks of one half with secret coins (see `blocks`)
    Turns     the default for tokens of text: halves and complements take turns (see `turns`)

No code outside asks which scheme it has: it uses what every scheme offers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from patternmark.core.alphabet import PROTEIN, Alphabet
from patternmark.core.blocks import MAX_BLOCKS, MAX_CHAINS, BlockSchedule
from patternmark.core.chain import KeyChain
from patternmark.core.partition import Parts, partition_of
from patternmark.core.patterns import Patterns
from patternmark.core.schedule import PartitionSchedule
from patternmark.core.secret import Secret
from patternmark.core.tables import Table, whole_numbers
from patternmark.core.turns import TurnSchedule
from patternmark.errors import ParameterError

DEFAULT_PATTERN_LENGTH = 5
DEFAULT_BLOCK = 3
MAX_NONCES = 2**12
MAX_TURN_KEYS = 2**20  # period times nonces

Schedule = PartitionSchedule | BlockSchedule | TurnSchedule


def circle_of(schedule: Schedule) -> PartitionSchedule | TurnSchedule:
    """Return a schedule whose keys come round, or refuse one that never does."""
    if isinstance(schedule, BlockSchedule):
        raise ParameterError("keys of the scheme 'blocks' never come round: they have no phases")
    return schedule


def blocks_of(schedule: Schedule) -> BlockSchedule:
    """Return a schedule of blocks, or refuse another."""
    if not isinstance(schedule, BlockSchedule):
        raise ParameterError("only keys of the scheme 'blocks' have blocks of one half")
    return schedule


class Scheme(Protocol):
    """What every scheme offers to marking and detecting."""

    name: ClassVar[str]
    masks_repeats: ClassVar[bool]  # whether p-values need repeated evidence to be left out
    takes_parts: ClassVar[bool]  # whether a partition may be adopted from elsewhere

    @property
    def signature(self) -> str:
        """Name and sizes, for signatures of verdicts."""

    @property
    def is_cycle(self) -> bool:
        """Whether keys follow each other in a circle, from any start or an even few."""

    @property
    def has_default_shape(self) -> bool:
        """Whether the simulated nulls that ship with the package hold for it."""

    @property
    def nonces(self) -> int:
        """How many independent schedules there are; a nonce may carry a payload."""

    @property
    def num_keys(self) -> int:
        """Keys are numbered from 0 to this."""

    @property
    def chance(self) -> float:
        """How often a symbol agrees with its key by chance."""

    def check(self, alphabet: Alphabet) -> None:
        """Refuse an alphabet that the scheme is not made for."""

    def tables(self) -> dict[str, dict[str, Any]]:
        """Return the parameters as the tables of a key file."""

    def schedule(self, secret: Secret, alphabet: Alphabet, parts: Parts | None) -> Schedule:
        """Derive which symbols each key promotes."""

    def draw_keys(
        self,
        secret: Secret,
        length: int,
        label: str,
        numbers: Sequence[int],
        nonces: NDArray[np.int64],
        chain: int,
    ) -> NDArray[np.int64]:
        """Draw the keys of sequences: [len(numbers), length].

        `label` and the sequence's number select the randomness, `nonces` [len(numbers)] the
        schedule of each, and `chain` is the number of the chain in its record.
        """


@dataclass(frozen=True)
class Paper:
    """PATTERN-MARK as published: a chain of few keys, each with one part of the alphabet."""

    name: ClassVar[str] = "paper"
    masks_repeats: ClassVar[bool] = True
    takes_parts: ClassVar[bool] = True
    nonces: ClassVar[int] = 1

    chain: KeyChain = field(default_factory=KeyChain.alternating)
    background: tuple[int, ...] | None = None  # parts of equal mass under it; None: equal count
    pattern_length: int = DEFAULT_PATTERN_LENGTH
    patterns: tuple[tuple[int, ...], ...] | None = None  # None: those the chain favours

    def __post_init__(self) -> None:
        self.target_patterns()  # refuses a target set that does not fit the chain

    @property
    def num_keys(self) -> int:
        return self.chain.num_keys

    @property
    def signature(self) -> str:
        return f"scheme:{self.name}|l:{self.num_keys}"

    @property
    def is_cycle(self) -> bool:
        keys = np.arange(self.num_keys)
        follows = np.array_equal(self.chain.likeliest_next(), (keys + 1) % len(keys))
        return self.chain.is_deterministic and follows and len(set(self.chain.initial)) == 1

    @property
    def has_default_shape(self) -> bool:
        return self.is_cycle and self.num_keys == 2

    @property
    def chance(self) -> float:
        return 1.0 / self.num_keys

    def check(self, alphabet: Alphabet) -> None:
        """Accept any alphabet."""
        del alphabet

    def target_patterns(self, length: int | None = None) -> Patterns:
        """Return T; another `length` than the key's only where T follows from the chain."""
        if self.patterns is None:
            return Patterns.favoured(self.chain, self.pattern_length if length is None else length)
        targets = Patterns.of(self.patterns, self.num_keys)
        if targets.length != self.pattern_length:
            raise ParameterError(
                f"pattern_length is {self.pattern_length}, but the patterns have "
                f"{targets.length} keys"
            )
        if length not in (None, targets.length):
            raise ParameterError(
                f"this key names its target patterns, of length {targets.length}: "
                f"another length (m = {length}) is not possible"
            )
        return targets

    def tables(self) -> dict[str, dict[str, Any]]:
        scheme: dict[str, Any] = {
            "name": self.name,
            "num_keys": self.num_keys,
            "transition": [list(row) for row in self.chain.transition],
            "initial": list(self.chain.initial),
        }
        if self.background is not None:
            scheme["background"] = list(self.background)
        named = None if self.patterns is None else [list(p) for p in self.patterns]
        detection = {"pattern_length": self.pattern_length, "patterns": named or "favoured"}
        return {"scheme": scheme, "detection": detection}

    def schedule(self, secret: Secret, alphabet: Alphabet, parts: Parts | None) -> Schedule:
        partition = partition_of(secret, alphabet, self.num_keys, self.background, parts)
        return PartitionSchedule(partition)

    def draw_keys(
        self,
        secret: Secret,
        length: int,
        label: str,
        numbers: Sequence[int],
        nonces: NDArray[np.int64],
        chain: int,
    ) -> NDArray[np.int64]:
        del nonces  # there is only one
        label = f"{label}/{chain}" if chain else label
        first = self.chain.draw_first(secret.uniforms(f"key start/{label}", numbers))
        if self.chain.is_deterministic:  # no further randomness: one look-up for the whole batch
            return self.chain.orbits(length)[first]
        keys = np.empty((len(numbers), length), dtype=np.int64)
        for row, number in enumerate(numbers):
            uniforms = secret.uniforms(f"key sequence/{label}/{number}", max(length - 1, 0))
            keys[row] = self.chain.follow(int(first[row]), uniforms.tolist())[:length]
        return keys


@dataclass(frozen=True)
class Blocks:
    """Blocks of one half for proteins: secret, hardy, and exact for any sequence."""

    name: ClassVar[str] = "blocks"
    masks_repeats: ClassVar[bool] = False
    takes_parts: ClassVar[bool] = False
    chance: ClassVar[float] = 0.5  # every coin is fair

    is_cycle: ClassVar[bool] = False

    block: int = (
        DEFAULT_BLOCK  # positions that promote one half; chosen by `bench secrecy`, see the docs
    )
    nonces: int = 32

    @property
    def signature(self) -> str:
        return _signature(self.tables())

    @property
    def has_default_shape(self) -> bool:
        return self.block == DEFAULT_BLOCK

    def __post_init__(self) -> None:
        _check_whole("a block has", self.block, 64)
        _check_whole("nonces are", self.nonces, MAX_NONCES)

    @property
    def num_keys(self) -> int:
        return MAX_CHAINS * self.nonces * MAX_BLOCKS

    def check(self, alphabet: Alphabet) -> None:
        if alphabet != PROTEIN:
            raise ParameterError(
                f"the scheme 'blocks' marks proteins, not alphabet {alphabet.name!r}: "
                "take 'turns' or 'paper'"
            )

    def tables(self) -> dict[str, dict[str, Any]]:
        return {"scheme": {"name": self.name, "block": self.block, "nonces": self.nonces}}

    def schedule(self, secret: Secret, alphabet: Alphabet, parts: Parts | None) -> Schedule:
        del alphabet, parts
        return BlockSchedule(secret, block=self.block, nonces=self.nonces)

    def draw_keys(
        self,
        secret: Secret,
        length: int,
        label: str,
        numbers: Sequence[int],
        nonces: NDArray[np.int64],
        chain: int,
    ) -> NDArray[np.int64]:
        del label, numbers  # the nonce decides everything
        schedule = BlockSchedule(secret, block=self.block, nonces=self.nonces)
        first = schedule.keys(chain, 0, length)
        return np.asarray(first[None] + np.asarray(nonces)[:, None] * MAX_BLOCKS)


@dataclass(frozen=True)
class Turns:
    """Halves of a vocabulary that take turns with their complements, for tokens of text."""

    name: ClassVar[str] = "turns"
    masks_repeats: ClassVar[bool] = True
    takes_parts: ClassVar[bool] = False
    chance: ClassVar[float] = 0.5
    is_cycle: ClassVar[bool] = True

    period: int = 512  # keys of one nonce
    block: int = 4  # keys in a row that promote one half or its complement
    starts: int = 1  # how many keys a sequence may begin with: each costs a short text evidence
    nonces: int = 1

    def __post_init__(self) -> None:
        if self.period < 2 or self.period % 2 or self.period > MAX_TURN_KEYS:
            raise ParameterError(
                f"a period is an even number up to {MAX_TURN_KEYS}, not {self.period}"
            )
        if self.block < 2 or self.block % 2 or self.period % self.block:
            raise ParameterError(
                f"a block is an even number that divides the period, not {self.block}"
            )
        if self.starts < 1 or self.period % self.starts:
            raise ParameterError(
                f"starts divide the period of {self.period} evenly, which {self.starts} does not"
            )
        _check_whole("nonces are", self.nonces, MAX_TURN_KEYS // self.period)

    @property
    def num_keys(self) -> int:
        return self.period * self.nonces

    @property
    def signature(self) -> str:
        return _signature(self.tables())

    @property
    def has_default_shape(self) -> bool:
        return (self.period, self.block) == (Turns.period, Turns.block)

    def check(self, alphabet: Alphabet) -> None:
        if alphabet == PROTEIN:
            raise ParameterError("the scheme 'turns' marks text: take 'blocks' for proteins")

    def tables(self) -> dict[str, dict[str, Any]]:
        fields = ("period", "block", "starts", "nonces")
        return {"scheme": {"name": self.name} | {name: getattr(self, name) for name in fields}}

    def schedule(self, secret: Secret, alphabet: Alphabet, parts: Parts | None) -> Schedule:
        del parts
        return TurnSchedule(
            secret,
            alphabet,
            self.period,
            block=self.block,
            nonces=self.nonces,
            starts=self.starts,
        )

    def draw_keys(
        self,
        secret: Secret,
        length: int,
        label: str,
        numbers: Sequence[int],
        nonces: NDArray[np.int64],
        chain: int,
    ) -> NDArray[np.int64]:
        label = f"{label}/{chain}" if chain else label
        drawn = secret.uniforms(f"schedule start/{label}", numbers) * self.starts
        first = drawn.astype(np.int64) * (self.period // self.starts)
        step = (first[:, None] + np.arange(length)) % self.period
        return np.asarray(np.asarray(nonces)[:, None] * self.period + step)


SCHEMES: dict[str, type[Paper] | type[Blocks] | type[Turns]] = {
    scheme.name: scheme for scheme in (Blocks, Turns, Paper)
}


def default_scheme(alphabet: Alphabet) -> Scheme:
    """Return the safe choice for an alphabet."""
    return Blocks() if alphabet == PROTEIN else Turns()


def scheme_of(tables: dict[str, Any]) -> Scheme:
    """Take the tables of a scheme out of those of a key file, and return what they describe."""
    table = Table("scheme", tables)
    name = table.take("name", str)
    if name == "hardened":
        raise ParameterError(
            "this key was made by an unreleased version (scheme 'hardened'), whose marks are no "
            "longer read: make a new key with 'patternmark keygen' and mark anew"
        )
    if name not in SCHEMES:
        raise ParameterError(f"scheme {name!r} is not known: this version has {', '.join(SCHEMES)}")
    if name == Paper.name:
        return _paper_of(table, Table("detection", tables))
    sizes = {item.name: table.take(item.name, int) for item in fields(SCHEMES[name])}
    table.finish()
    return SCHEMES[name](**sizes)


def _paper_of(scheme: Table, detection: Table) -> Paper:
    chain = KeyChain.of(scheme.take("transition", list), scheme.take("initial", list))
    num_keys = scheme.take("num_keys", int)
    if num_keys != chain.num_keys:
        raise ParameterError(
            f"[scheme] num_keys is {num_keys}, but the chain has {chain.num_keys} keys"
        )
    background = scheme.take("background", list, None)
    patterns = detection.take("patterns", (str, list))
    if isinstance(patterns, str) and patterns != "favoured":
        raise ParameterError(
            '[detection] patterns is "favoured" or a list of patterns such as [[0, 1], [1, 0]]'
        )
    length = detection.take("pattern_length", int)
    scheme.finish()
    detection.finish()
    return Paper(
        chain=chain,
        background=None if background is None else whole_numbers(background, "background"),
        pattern_length=length,
        patterns=None
        if isinstance(patterns, str)
        else tuple(whole_numbers(pattern, "a pattern") for pattern in patterns),
    )


def _signature(tables: dict[str, dict[str, Any]]) -> str:
    sizes = dict(tables["scheme"])
    return "|".join([f"scheme:{sizes.pop('name')}", *(f"{n}:{x}" for n, x in sizes.items())])


def _check_whole(what: str, value: int, largest: int) -> None:
    if type(value) is not int or not 1 <= value <= largest:
        raise ParameterError(f"{what} a whole number from 1 to {largest}, not {value}")
