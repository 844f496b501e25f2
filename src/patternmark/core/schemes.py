"""The three schemes: each is an object with the parameters of a mark, and draws position keys.

    Paper     the paper's: keys follow a Markov chain, each promotes one part of the alphabet
    Blocks    the default for proteins: each block promotes a half by secret coins (see `blocks`)
    Turns     the default for tokens of text: halves and complements take turns (see `turns`)

No other code asks which scheme it has. It uses what every scheme offers:

    name, signature       the name alone, and the name with all sizes for signatures of verdicts
    nonces                the number of independent schedules; a nonce may carry a payload
    num_keys, chance      keys are 0..num_keys-1; how often a symbol agrees with its key by chance
    is_cycle              whether the keys repeat in a circle
    has_default_shape     whether the simulated nulls that ship with the package hold for it
    masks_repeats         whether repeats must be left out so that p-values hold
    takes_parts           whether parts that were chosen elsewhere can be adopted
    check(alphabet)       raises ParameterError if the scheme is not made for this alphabet
    tables()              the parameters as the tables of a key file
    schedule(secret, alphabet, parts)    which symbols each key promotes
    draw_keys(secret, draw)              the keys of a batch of sequences: [batch, length]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from patternmark.core.alphabet import PROTEIN, Alphabet
from patternmark.core.blocks import MAX_BLOCKS, MAX_CHAINS, BlockSchedule
from patternmark.core.chain import KeyChain, check_patterns
from patternmark.core.partition import Partition, Parts, adopt_partition, derive_partition
from patternmark.core.secret import Secret
from patternmark.core.tables import Table, whole_numbers
from patternmark.core.turns import TurnSchedule
from patternmark.errors import ParameterError

DEFAULT_PATTERN_LENGTH = 5
DEFAULT_BLOCK = 3
MAX_NONCES = 2**12
MAX_TURN_KEYS = 2**25  # period times nonces: a payload of 16 bits with the usual period

Circle = Partition | TurnSchedule  # schedules whose keys repeat in a circle
CIRCLES: tuple[type[Circle], ...] = (Partition, TurnSchedule)
Schedule = Circle | BlockSchedule
_Kind = TypeVar("_Kind")


class Draw(NamedTuple):
    """Which keys to draw: those of one chain in each sequence of a batch."""

    length: int
    label: str  # with the number of a sequence, it selects the randomness
    numbers: Sequence[int]  # of the sequences
    nonces: NDArray[np.int64]  # the schedule of each sequence
    chain: int  # the number of the chain in its record

    @property
    def chain_label(self) -> str:
        """The label of this chain; the first chain of a record has the label itself."""
        return f"{self.label}/{self.chain}" if self.chain else self.label


@dataclass(frozen=True)
class Paper:
    """PATTERN-MARK as published: a Markov chain of a few keys, each promotes one part."""

    name: ClassVar[str] = "paper"
    masks_repeats: ClassVar[bool] = True
    takes_parts: ClassVar[bool] = True
    nonces: ClassVar[int] = 1

    chain: KeyChain = field(default_factory=KeyChain.alternating)
    background: tuple[int, ...] | None = None  # makes parts of equal mass; None: equal size
    pattern_length: int = DEFAULT_PATTERN_LENGTH
    patterns: tuple[tuple[int, ...], ...] | None = None  # None: those that the chain favours

    def __post_init__(self) -> None:
        if self.patterns is None:
            self.chain.favoured_steps(self.pattern_length)  # raises if there are no patterns
            return
        length = check_patterns(self.patterns, self.num_keys)
        if length != self.pattern_length:
            raise ParameterError(
                f"pattern_length is {self.pattern_length}, but the patterns have {length} keys"
            )

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

    def schedule(self, secret: Secret, alphabet: Alphabet, parts: Parts | None) -> Partition:
        if parts is None:
            return derive_partition(secret, alphabet, self.num_keys, self.background)
        if len(parts) != self.num_keys:
            raise ParameterError(f"{len(parts)} parts were given for {self.num_keys} keys")
        return adopt_partition(parts, alphabet)

    def draw_keys(self, secret: Secret, draw: Draw) -> NDArray[np.int64]:
        label, length = draw.chain_label, draw.length
        first = self.chain.draw_first(secret.uniforms(f"key start/{label}", draw.numbers))
        if self.chain.is_deterministic:  # nothing else is random: one look-up for the whole batch
            return self.chain.orbits(length)[first]
        keys = np.empty((len(draw.numbers), length), dtype=np.int64)
        for row, number in enumerate(draw.numbers):
            uniforms = secret.uniforms(f"key sequence/{label}/{number}", max(length - 1, 0))
            keys[row] = self.chain.follow(int(first[row]), uniforms.tolist())[:length]
        return keys


@dataclass(frozen=True)
class _CoinScheme:
    """What `Blocks` and `Turns` share: their parameters are a few sizes, their coins are fair."""

    name: ClassVar[str]
    takes_parts: ClassVar[bool] = False
    chance: ClassVar[float] = 0.5

    @property
    def signature(self) -> str:
        sizes = (f"{name}:{size}" for name, size in asdict(self).items())
        return "|".join([f"scheme:{self.name}", *sizes])

    def tables(self) -> dict[str, dict[str, Any]]:
        return {"scheme": {"name": self.name, **asdict(self)}}


@dataclass(frozen=True)
class Blocks(_CoinScheme):
    """Blocks that promote one half each, for proteins: hard to learn, and robust to edits."""

    name: ClassVar[str] = "blocks"
    masks_repeats: ClassVar[bool] = False
    is_cycle: ClassVar[bool] = False

    block: int = DEFAULT_BLOCK  # positions that share a half; chosen by `bench secrecy`
    nonces: int = 32

    def __post_init__(self) -> None:
        _check_whole("a block has", self.block, 64)
        _check_whole("nonces are", self.nonces, MAX_NONCES)

    @property
    def num_keys(self) -> int:
        return MAX_CHAINS * self.nonces * MAX_BLOCKS

    @property
    def has_default_shape(self) -> bool:
        return self.block == DEFAULT_BLOCK

    def check(self, alphabet: Alphabet) -> None:
        if alphabet != PROTEIN:
            other = f"alphabet {alphabet.name!r}: use 'turns' or 'paper'"
            raise ParameterError(f"the scheme 'blocks' marks proteins, not {other}")

    def schedule(self, secret: Secret, alphabet: Alphabet, parts: Parts | None) -> BlockSchedule:
        del alphabet, parts  # always proteins, always derived
        return BlockSchedule(secret, block=self.block, nonces=self.nonces)

    def draw_keys(self, secret: Secret, draw: Draw) -> NDArray[np.int64]:
        # Nothing is random: the nonce determines all keys.
        schedule = self.schedule(secret, PROTEIN, None)
        return schedule.keys(draw.chain, draw.nonces[:, None], draw.length)


@dataclass(frozen=True)
class Turns(_CoinScheme):
    """Halves of a vocabulary that take turns with their complements, for tokens of text."""

    name: ClassVar[str] = "turns"
    masks_repeats: ClassVar[bool] = True
    is_cycle: ClassVar[bool] = True

    period: int = 512  # keys of one nonce
    block: int = 128  # keys in a row that alternate between one half and its complement
    starts: int = 1  # keys that a sequence may begin with; more of them weaken short texts
    nonces: int = 1

    def __post_init__(self) -> None:
        period, block, starts = self.period, self.block, self.starts
        if period < 2 or period % 2 or period > MAX_TURN_KEYS:
            raise ParameterError(f"a period is an even number up to {MAX_TURN_KEYS}, not {period}")
        if block < 2 or block % 2 or period % block:
            raise ParameterError(f"a block is an even number that divides the period, not {block}")
        if starts < 1 or period % starts:
            raise ParameterError(f"starts must divide the period {period}; {starts} does not")
        _check_whole("nonces are", self.nonces, MAX_TURN_KEYS // period)

    @property
    def num_keys(self) -> int:
        return self.period * self.nonces

    @property
    def has_default_shape(self) -> bool:
        return (self.period, self.block, self.starts) == (Turns.period, Turns.block, Turns.starts)

    def check(self, alphabet: Alphabet) -> None:
        if alphabet == PROTEIN:
            raise ParameterError("the scheme 'turns' marks text: use 'blocks' for proteins")

    def schedule(self, secret: Secret, alphabet: Alphabet, parts: Parts | None) -> TurnSchedule:
        del parts  # always derived
        return TurnSchedule(secret, alphabet, **asdict(self))

    def draw_keys(self, secret: Secret, draw: Draw) -> NDArray[np.int64]:
        drawn = secret.uniforms(f"schedule start/{draw.chain_label}", draw.numbers) * self.starts
        first = drawn.astype(np.int64) * (self.period // self.starts)
        step = (first[:, None] + np.arange(draw.length)) % self.period
        return np.asarray(draw.nonces[:, None] * self.period + step)


Scheme = Paper | Blocks | Turns
SCHEMES: dict[str, type[Paper] | type[Blocks] | type[Turns]] = {
    scheme.name: scheme for scheme in (Blocks, Turns, Paper)
}


def default_scheme(alphabet: Alphabet) -> Scheme:
    """Return the default for an alphabet: `Blocks` for proteins, `Turns` for all others."""
    return Blocks() if alphabet == PROTEIN else Turns()


def of_kind(
    scheme: Scheme, schedule: Schedule, kind: type[_Kind] | tuple[type[_Kind], ...], what: str
) -> _Kind:
    """Return the schedule if it is of this kind, or else raise ParameterError."""
    if not isinstance(schedule, kind):
        raise ParameterError(f"a key of the scheme {scheme.name!r} has no {what}")
    return schedule


def scheme_of(tables: dict[str, Any]) -> Scheme:
    """Take the tables of a scheme out of those of a key file, and return the scheme."""
    table = Table("scheme", tables)
    name = table.take("name", str)
    if name == "hardened":
        raise ParameterError(
            "this key was made by an unreleased version (scheme 'hardened'), whose marks can no "
            "longer be read: make a new key with 'patternmark keygen' and mark again with it"
        )
    if name not in SCHEMES:
        raise ParameterError(f"scheme {name!r} is unknown: this version has {', '.join(SCHEMES)}")
    if name == Paper.name:
        return _paper_of(table, Table("detection", tables))
    sizes = {item.name: table.take(item.name, int) for item in fields(SCHEMES[name])}
    table.finish()
    return SCHEMES[name](**sizes)


def _paper_of(scheme: Table, detection: Table) -> Paper:
    chain = KeyChain.of(scheme.take("transition", list), scheme.take("initial", list))
    num_keys = scheme.take("num_keys", int)
    if num_keys != chain.num_keys:
        has = f"the chain has {chain.num_keys} keys"
        raise ParameterError(f"[scheme] num_keys is {num_keys}, but {has}")
    background = scheme.take("background", list, None)
    if background is not None:
        background = whole_numbers(background, "background")
    length = detection.take("pattern_length", int)
    patterns = detection.take("patterns", (str, list))
    if isinstance(patterns, list):
        patterns = tuple(whole_numbers(pattern, "a pattern") for pattern in patterns)
    elif patterns != "favoured":
        raise ParameterError(
            '[detection] patterns must be "favoured" or a list such as [[0, 1], [1, 0]]'
        )
    scheme.finish()
    detection.finish()
    return Paper(chain, background, length, None if patterns == "favoured" else patterns)


def _check_whole(what: str, value: int, largest: int) -> None:
    if type(value) is not int or not 1 <= value <= largest:
        raise ParameterError(f"{what} a whole number from 1 to {largest}, not {value}")
