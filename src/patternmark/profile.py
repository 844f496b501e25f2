"""All public parameters of a mark in one object that generator and detector both load."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from patternmark.alphabet import PROTEIN, Alphabet
from patternmark.chain import KeyChain
from patternmark.errors import ParameterError
from patternmark.evidence import DEFAULT_FPR
from patternmark.patterns import Patterns
from patternmark.promote import DELTA_AT, DeltaAt, check_delta
from patternmark.schedule import (
    DEFAULT_BLOCK,
    DEFAULT_NONCES,
    DEFAULT_PERIOD,
    DEFAULT_STARTS,
)

PAPER, HARDENED = "paper", "hardened"
SCHEMES = (PAPER, HARDENED)
DEFAULT_PATTERN_LENGTH = 5
MOST_KEYS = 2**20

# A text has little evidence: every further place where a mark may begin costs some.
TEXT_STARTS, TEXT_NONCES = 1, 1
TEXT_DELTA = 2.0  # what a text bears and shows (`patternmark bench translation`)
SURE = DEFAULT_FPR  # the p-value at which the mark of a translation is to be clear


@dataclass(frozen=True)
class Profile:
    """What a key file says besides its secret.

    >>> profile = Profile()
    >>> profile.num_keys, profile.target_patterns().length, profile.delta_at
    (2, 5, 'logits')
    """

    alphabet: Alphabet = PROTEIN
    scheme: str = PAPER
    chain: KeyChain = field(default_factory=KeyChain.alternating)
    background: tuple[int, ...] | None = None  # parts of equal mass under it; None: of equal count
    pattern_length: int = DEFAULT_PATTERN_LENGTH
    patterns: tuple[tuple[int, ...], ...] | None = None  # None: those the chain favours
    period: int = DEFAULT_PERIOD  # the hardened scheme's keys of one nonce
    block: int = DEFAULT_BLOCK  # keys in a row that promote one half or its complement
    starts: int = DEFAULT_STARTS  # how many of them a sequence may begin with
    nonces: int = DEFAULT_NONCES
    delta: float = 1.0
    delta_at: DeltaAt = "logits"

    def __post_init__(self) -> None:
        if self.scheme not in SCHEMES:
            raise ParameterError(
                f"scheme {self.scheme!r} is not known: this version has {', '.join(SCHEMES)}"
            )
        check_delta(self.delta)
        if self.delta_at not in DELTA_AT:
            raise ParameterError(f"delta_at is one of {', '.join(DELTA_AT)}, not {self.delta_at!r}")
        if self.is_hardened:
            self._check_schedule()
        else:
            self.target_patterns()  # refuses a target set that does not fit the chain

    @classmethod
    def for_text(cls, alphabet: Alphabet, **others: Any) -> Profile:
        """Return the usual parameters for texts: hardened, with one start and one nonce."""
        usual: dict[str, Any] = {"starts": TEXT_STARTS, "nonces": TEXT_NONCES, "delta": TEXT_DELTA}
        return cls(alphabet, HARDENED, **(usual | others))

    @property
    def is_hardened(self) -> bool:
        return self.scheme == HARDENED

    @property
    def num_keys(self) -> int:
        """The paper's l; a hardened scheme has a period of keys for each nonce."""
        return self.period * self.nonces if self.is_hardened else self.chain.num_keys

    def target_patterns(self, length: int | None = None) -> Patterns:
        """Return T; another `length` than the key's only where T follows from the chain."""
        if self.is_hardened:
            raise ParameterError("target patterns belong to the paper's scheme, not to a hardened")
        if self.patterns is None:
            wanted = self.pattern_length if length is None else length
            return Patterns.favoured(self.chain, wanted)
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

    def to_tables(self) -> dict[str, dict[str, Any]]:
        """Return the parameters as plain tables: what the key file holds and the key id covers."""
        if self.is_hardened:
            return {
                "alphabet": self._alphabet_table(),
                "scheme": {
                    "name": self.scheme,
                    "period": self.period,
                    "block": self.block,
                    "starts": self.starts,
                    "nonces": self.nonces,
                },
                "promotion": {"delta": float(self.delta), "delta_at": self.delta_at},
            }
        scheme: dict[str, Any] = {
            "name": self.scheme,
            "num_keys": self.num_keys,
            "transition": [list(row) for row in self.chain.transition],
            "initial": list(self.chain.initial),
        }
        if self.background is not None:
            scheme["background"] = list(self.background)
        return {
            "alphabet": self._alphabet_table(),
            "scheme": scheme,
            "detection": {
                "pattern_length": self.pattern_length,
                "patterns": "favoured"
                if self.patterns is None
                else [list(p) for p in self.patterns],
            },
            "promotion": {"delta": float(self.delta), "delta_at": self.delta_at},
        }

    @cached_property
    def canonical(self) -> str:
        """The tables as JSON text, sorted and without spaces: thousands of keys may share it."""
        return json.dumps(self.to_tables(), sort_keys=True, separators=(",", ":"))

    def _alphabet_table(self) -> dict[str, Any]:
        return {
            "name": self.alphabet.name,
            "size": self.alphabet.size,
            "unscored": list(self.alphabet.unscored),
            "sha256": self.alphabet.sha256,
        }

    def _check_schedule(self) -> None:
        if self.period < 2 or self.period % 2 or self.period > MOST_KEYS:
            raise ParameterError(f"a period is an even number up to {MOST_KEYS}, not {self.period}")
        if self.block < 2 or self.block % 2 or self.period % self.block:
            raise ParameterError(
                f"a block is an even number that divides the period, not {self.block}"
            )
        if self.starts < 1 or self.period % self.starts:
            raise ParameterError(
                f"starts divide the period of {self.period} evenly, which {self.starts} does not"
            )
        if not 1 <= self.nonces <= MOST_KEYS // self.period:
            raise ParameterError(
                f"nonces are a number from 1 to {MOST_KEYS // self.period}, not {self.nonces}"
            )

    @classmethod
    def from_tables(cls, tables: dict[str, Any]) -> Profile:
        """Read what `to_tables` wrote; refuse unknown fields, which could change the mark."""
        tables = dict(tables)
        alphabet = _alphabet(_Table("alphabet", tables))
        scheme = _Table("scheme", tables)
        promotion = _Table("promotion", tables)
        name = scheme.take("name", str)
        delta = float(promotion.take("delta", (int, float)))
        delta_at = promotion.take("delta_at", str)
        promotion.finish()
        if name == HARDENED:
            sizes = {
                field: scheme.take(field, int) for field in ("period", "block", "starts", "nonces")
            }
            scheme.finish()
            _refuse_unknown(tables)
            return cls(alphabet=alphabet, scheme=name, delta=delta, delta_at=delta_at, **sizes)
        detection = _Table("detection", tables)
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
        profile = cls(
            alphabet=alphabet,
            scheme=name,
            chain=chain,
            background=None if background is None else _whole_numbers(background, "background"),
            pattern_length=detection.take("pattern_length", int),
            patterns=None
            if isinstance(patterns, str)
            else tuple(_whole_numbers(p, "a pattern") for p in patterns),
            delta=delta,
            delta_at=delta_at,
        )
        for table in (scheme, detection):
            table.finish()
        _refuse_unknown(tables)
        return profile


def _refuse_unknown(tables: dict[str, Any]) -> None:
    if tables:
        raise ParameterError(f"unknown table [{next(iter(tables))}]")


class _Table:
    """One table of a key file: fields are taken out by name and type, none may be left over."""

    def __init__(self, name: str, tables: dict[str, Any]) -> None:
        self._name = name
        content = tables.pop(name, None)
        if not isinstance(content, dict):
            raise ParameterError(f"the table [{name}] is missing")
        self._content = dict(content)

    def take(self, field: str, kind: type | tuple[type, ...], default: Any = ...) -> Any:
        value = self._content.pop(field, default)
        if value is ...:
            raise ParameterError(f"[{self._name}] has no field {field!r}")
        if value is not default and (not isinstance(value, kind) or isinstance(value, bool)):
            raise ParameterError(f"[{self._name}] {field} has the wrong type")
        return value

    def finish(self) -> None:
        if self._content:
            raise ParameterError(
                f"[{self._name}] has an unknown field {next(iter(self._content))!r}"
            )


def _alphabet(table: _Table) -> Alphabet:
    alphabet = Alphabet(
        name=table.take("name", str),
        size=table.take("size", int),
        unscored=tuple(table.take("unscored", list)),
        sha256=table.take("sha256", str),
    )
    table.finish()
    if alphabet.name == PROTEIN.name:
        if alphabet.sha256 != PROTEIN.sha256:
            raise ParameterError(
                "the key was made for another 'protein' alphabet than this version's "
                f"({alphabet.sha256[:12]}, here {PROTEIN.sha256[:12]})"
            )
        return PROTEIN
    if not all(isinstance(i, int) and 0 <= i < alphabet.size for i in alphabet.unscored):
        raise ParameterError("[alphabet] unscored must list ids inside the alphabet")
    return alphabet


def _whole_numbers(value: Any, what: str) -> tuple[int, ...]:
    if not isinstance(value, list) or not all(type(number) is int for number in value):
        raise ParameterError(f"{what} must be a list of whole numbers")
    return tuple(value)
