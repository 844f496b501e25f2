"""Between the stages: what passed the first one only because a sequence repeats itself.

Repeats speak many times with one voice, and pass with one key in two or three: a few proteins made
of repeats would be most of the work of the second stage. Which residues repeat earlier ones does
not depend on a key. So it is found out once for a segment, with the mask that `auto` uses, and all
keys of two parts that it passed with are asked again by what is left, at the same limit.

Keys whose p-values need no mask (block keys) are not asked again: their repeats meet new coins in
every block, and hardly pass.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from patternmark.core.alphabet import PROTEIN
from patternmark.scanning.keyset import AMINO_ACIDS, KeySet
from patternmark.scanning.segments import Counted


def unrepeated(part: Counted, pairs: NDArray[np.int64], screen: KeySet) -> NDArray[np.int64]:
    """Leave out pairs (segment, key) of keys of two parts that pass by repeats alone."""
    column = screen.columns[pairs[:, 1]]  # of the key among those of two parts, or -1
    asked = np.flatnonzero(column >= 0)
    if not len(asked):
        return pairs
    segments, row = np.unique(pairs[asked, 0], return_inverse=True)
    texts = list(part.texts(segments.tolist()))
    different = {text: number for number, text in enumerate(dict.fromkeys(texts))}
    row = np.array([different[text] for text in texts])[row]
    counts, scored, at_odd = _counted(list(different), screen)
    # As in the compiled loops: twice the agreement, less what is scored.
    agreed = np.einsum("ij,ji->i", counts[row], screen.parts[:, column[asked]].astype(np.int64))
    off = np.abs(2 * agreed + (2 * at_odd - scored)[row])
    left = np.ones(len(pairs), dtype=bool)
    left[asked] = off >= screen.limits[scored, screen.passing - 1][row]
    return pairs[left]


def _counted(
    texts: Sequence[str], screen: KeySet
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Count letters that are read at even less odd places, [S, 20], all of them, the odd ones."""
    detector = screen.detector(int(screen.two_part[0]))  # any: the mask is the same for all
    readings = detector.read([PROTEIN.encode(text) for text in texts])
    numbers = np.full(PROTEIN.size + 1, -1, dtype=np.int64)  # index -1, what is not read: the last
    numbers[PROTEIN.encode(AMINO_ACIDS)] = np.arange(len(AMINO_ACIDS))
    counts = np.zeros((len(texts), 2, len(AMINO_ACIDS)), dtype=np.int64)
    for of_text, reading in zip(counts, readings, strict=True):
        letters = numbers[reading.symbols]
        for parity in (0, 1):
            own = letters[parity::2]
            of_text[parity] = np.bincount(own[own >= 0], minlength=len(AMINO_ACIDS))
    even, odd = counts[:, 0], counts[:, 1]
    return even - odd, counts.sum(axis=(1, 2)), odd.sum(axis=1)
