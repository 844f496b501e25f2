"""All public parameters of a mark in one object that generator and detector both load."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from patternmark.alphabet import PROTEIN, Alphabet
from patternmark.chain import KeyChain
from patternmark.errors import ParameterError
from patternmark.patterns import Patterns
from patternmark.promote import DELTA_AT, DeltaAt, check_delta

SCHEMES = ("paper",)
DEFAULT_PATTERN_LENGTH = 5


@dataclass(frozen=True)
class Profile:
    """What a key file says besides its secret.

    >>> profile = Profile()
    >>> profile.num_keys, profile.target_patterns().length, profile.delta_at
    (2, 5, 'logits')
    """

    alphabet: Alphabet = PROTEIN
    scheme: str = "paper"
    chain: KeyChain = field(default_factory=KeyChain.alternating)
    background: tuple[int, ...] | None = None  # parts of equal mass under it; None: of equal count
    pattern_length: int = DEFAULT_PATTERN_LENGTH
    patterns: tuple[tuple[int, ...], ...] | None = None  # None: those the chain favours
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
        self.target_patterns()  # refuses a target set that does not fit the chain

    @property
    def num_keys(self) -> int:
        """The paper's l."""
        return self.chain.num_keys

    def target_patterns(self, length: int | None = None) -> Patterns:
        """Return T; another `length` than the key's only where T follows from the chain."""
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
        scheme: dict[str, Any] = {
            "name": self.scheme,
            "num_keys": self.num_keys,
            "transition": [list(row) for row in self.chain.transition],
            "initial": list(self.chain.initial),
        }
        if self.background is not None:
            scheme["background"] = list(self.background)
        return {
            "alphabet": {
                "name": self.alphabet.name,
                "size": self.alphabet.size,
                "unscored": list(self.alphabet.unscored),
                "sha256": self.alphabet.sha256,
            },
            "scheme": scheme,
            "detection": {
                "pattern_length": self.pattern_length,
                "patterns": "favoured"
                if self.patterns is None
                else [list(p) for p in self.patterns],
            },
            "promotion": {"delta": float(self.delta), "delta_at": self.delta_at},
        }

    @classmethod
    def from_tables(cls, tables: dict[str, Any]) -> Profile:
        """Read what `to_tables` wrote; refuse unknown fields, which could change the mark."""
        tables = dict(tables)
        alphabet = _alphabet(_Table("alphabet", tables))
        scheme = _Table("scheme", tables)
        detection = _Table("detection", tables)
        promotion = _Table("promotion", tables)
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
            scheme=scheme.take("name", str),
            chain=chain,
            background=None if background is None else _whole_numbers(background, "background"),
            pattern_length=detection.take("pattern_length", int),
            patterns=None
            if isinstance(patterns, str)
            else tuple(_whole_numbers(p, "a pattern") for p in patterns),
            delta=float(promotion.take("delta", (int, float))),
            delta_at=promotion.take("delta_at", str),
        )
        for table in (scheme, detection, promotion):
            table.finish()
        if tables:
            raise ParameterError(f"unknown table [{next(iter(tables))}]")
        return profile


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
