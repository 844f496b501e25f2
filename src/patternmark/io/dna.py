"""Translate DNA or RNA in six reading frames, and map residues back to nucleotides."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

FRAMES = (1, 2, 3, -1, -2, -3)
_NUCLEOTIDES = frozenset("ACGTUN")
_AMBIGUOUS = frozenset("RYSWKMBDHV-")
_LEAST_LETTERS = 30  # a shorter sequence of A, C, G and T could be a peptide

_BASES = "TCAG"
_STANDARD = "FFLLSSSSYY**CC*WLLLLPPPPHHQQRRRRIIIMTTTTNNKKSSRRVVVVAAAADDEEGGGG"
_CODE = {
    a + b + c: _STANDARD[16 * i + 4 * j + k]
    for i, a in enumerate(_BASES)
    for j, b in enumerate(_BASES)
    for k, c in enumerate(_BASES)
}
_COMPLEMENT = str.maketrans("ACGTRYKMBVDH", "TGCAYRMKVBHD")


@dataclass(frozen=True)
class Frame:
    """One reading frame of a chain: 1, 2, 3 from its start, -1, -2, -3 from its end backwards."""

    number: int
    protein: str
    num_nucleotides: int

    def nucleotides(self, start: int, end: int) -> tuple[int, int]:
        """Return the half-open range of residues start..end on the given strand, from 0."""
        low, high = (abs(self.number) - 1 + 3 * residue for residue in (start, end))
        if self.number > 0:
            return low, high
        return self.num_nucleotides - high, self.num_nucleotides - low


def looks_like_dna(sequence: str) -> bool:
    """Tell whether a sequence is long and has only A, C, G, T, U and N, less than half of them N.

    >>> looks_like_dna("acgt" * 10), looks_like_dna("MKTAYIAKQRQISFVKSHFSRQLEERLGLIEV")
    (True, False)
    """
    letters = [letter for letter in sequence.upper() if letter not in "/:"]
    known = sum(letter != "N" for letter in letters)
    is_dna = set(letters) <= _NUCLEOTIDES and known > 0.5 * len(letters)
    return is_dna and len(letters) >= _LEAST_LETTERS


def first_bad_nucleotide(sequence: str) -> int | None:
    """Return the position of the first letter that is not a nucleotide, or None."""
    allowed = _NUCLEOTIDES | _AMBIGUOUS | set("/:")
    return next((i for i, letter in enumerate(sequence.upper()) if letter not in allowed), None)


def frames_of(chain: str) -> Iterator[Frame]:
    """Translate a chain by the standard code; unknown codons are X, stops are *.

    >>> [frame.protein for frame in frames_of("ATGAAATAG")]
    ['MK*', '*N', 'EI', 'LFH', 'YF', 'IS']
    """
    forward = chain.upper().replace("U", "T")
    backward = forward.translate(_COMPLEMENT)[::-1]
    for number in FRAMES:
        strand = forward if number > 0 else backward
        starts = range(abs(number) - 1, len(strand) - 2, 3)
        protein = "".join(_CODE.get(strand[at : at + 3], "X") for at in starts)
        yield Frame(number, protein, len(chain))
