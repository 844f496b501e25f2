"""All public parameters of a mark in one object that generator and detector both load."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from patternmark.core.alphabet import PROTEIN, Alphabet
from patternmark.core.promote import DELTA_AT, DeltaAt, check_delta
from patternmark.core.schemes import Scheme, default_scheme, scheme_of
from patternmark.core.tables import Table
from patternmark.errors import ParameterError

PROTEIN_DELTA = 1.0
TEXT_DELTA = 2.0  # found in about nine of ten texts of 100 tokens (docs/results/translation.md)


def default_delta(alphabet: Alphabet) -> float:
    """Return the strength of a mark where none is given."""
    return TEXT_DELTA if alphabet.has_many_symbols else PROTEIN_DELTA


@dataclass(frozen=True)
class Profile:
    """All public parameters of a key: what a key file contains besides the secret.

    The defaults depend on the alphabet: `Blocks` and a delta of 1 for proteins, `Turns` and 2 for
    text.

    >>> Profile().scheme, Profile().delta
    (Blocks(block=3, nonces=32), 1.0)
    """

    alphabet: Alphabet = PROTEIN
    scheme: Scheme = None  # type: ignore[assignment]  # __post_init__ sets the defaults
    delta: float = None  # type: ignore[assignment]
    delta_at: DeltaAt = "logits"

    def __post_init__(self) -> None:
        if self.scheme is None:
            object.__setattr__(self, "scheme", default_scheme(self.alphabet))
        if self.delta is None:
            object.__setattr__(self, "delta", default_delta(self.alphabet))
        self.scheme.check(self.alphabet)
        check_delta(self.delta)
        if self.delta_at not in DELTA_AT:
            allowed = " or ".join(DELTA_AT)
            raise ParameterError(f"delta_at must be {allowed}, not {self.delta_at!r}")

    def to_tables(self) -> dict[str, dict[str, Any]]:
        """Return the parameters as plain tables: the content of a key file except the secret."""
        return {
            "alphabet": {
                "name": self.alphabet.name,
                "size": self.alphabet.size,
                "unscored": list(self.alphabet.unscored),
                "sha256": self.alphabet.sha256,
            },
            **self.scheme.tables(),
            "promotion": {"delta": float(self.delta), "delta_at": self.delta_at},
        }

    @cached_property
    def canonical(self) -> str:
        """The tables as JSON text, sorted and without spaces; cached for thousands of keys."""
        return json.dumps(self.to_tables(), sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_tables(cls, tables: dict[str, Any]) -> Profile:
        """Read what `to_tables` returned; refuse unknown fields, which could change the mark."""
        tables = dict(tables)
        alphabet = _alphabet(Table("alphabet", tables))
        scheme = scheme_of(tables)
        promotion = Table("promotion", tables)
        delta = promotion.take_float("delta")
        delta_at = promotion.take("delta_at", str)
        promotion.finish()
        if tables:
            raise ParameterError(f"unknown table [{next(iter(tables))}]")
        return cls(alphabet, scheme, delta, delta_at)


def _alphabet(table: Table) -> Alphabet:
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
                "the key was made for another 'protein' alphabet than that of this version "
                f"({alphabet.sha256[:12]}, here {PROTEIN.sha256[:12]})"
            )
        if (alphabet.size, alphabet.unscored) != (PROTEIN.size, PROTEIN.unscored):
            raise ParameterError("[alphabet] size and unscored do not fit the protein alphabet")
        return PROTEIN
    if not alphabet.name.isprintable():
        raise ParameterError("[alphabet] name contains characters that cannot be printed")
    if not all(isinstance(i, int) and 0 <= i < alphabet.size for i in alphabet.unscored):
        raise ParameterError("[alphabet] unscored must list ids inside the alphabet")
    return alphabet
