"""Remove pairs that passed the first stage only because a sequence repeats itself.

The copies of a repeat agree with a two-part key all together or not at all. So a repetitive
sequence passes for every second or third such key, and a few of them would be most of the work of
the second stage. Which residues repeat earlier ones does not depend on the key. So the mask that
`auto` uses is made once for a segment, and each two-part key is tested again on the residues that
are left, at the same limit.

Block keys are not tested again. Their p-values need no mask, because a repeat meets new coins in
every block, and so repeats rarely pass.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from patternmark.core.alphabet import PROTEIN
from patternmark.scanning.keyset import AMINO_ACIDS, KeySet
from patternmark.scanning.segments import Counted


def unrepeated(part: Counted, pairs: NDArray[np.int64], screen: KeySet) -> NDArray[np.int64]:
    """Leave out pairs (segment, key) of two-part keys that pass by repeats alone."""
    column = screen.columns[pairs[:, 1]]  # the number of the key among two-part keys, or -1
    asked = np.flatnonzero(column >= 0)
    if not len(asked):
        return pairs
    segments, row = np.unique(pairs[asked, 0], return_inverse=True)
    texts = list(part.texts(segments.tolist()))
    different = {text: number for number, text in enumerate(dict.fromkeys(texts))}
    row = np.array([different[text] for text in texts])[row]
    counts, scored, at_odd = _count_letters(list(different), screen)
    # As in the compiled loops: twice the agreeing residues, less the scored ones.
    agreed = np.einsum("ij,ji->i", counts[row], screen.parts[:, column[asked]].astype(np.int64))
    off = np.abs(2 * agreed + (2 * at_odd - scored)[row])
    left = np.ones(len(pairs), dtype=bool)
    left[asked] = off >= screen.limits[scored, screen.passing - 1][row]
    return pairs[left]


def _count_letters(
    texts: Sequence[str], screen: KeySet
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Count what the mask keeps: each letter at even less odd places, [S, 20], all, and at odd."""
    detector = screen.detector(int(screen.two_part[0]))  # all these keys have the same mask
    readings = detector.read([PROTEIN.encode(text) for text in texts])
    numbers = np.full(PROTEIN.size + 1, -1, dtype=np.int64)  # the last entry: masked, index -1
    numbers[PROTEIN.encode(AMINO_ACIDS)] = np.arange(len(AMINO_ACIDS))
    counts = np.zeros((len(texts), 2, len(AMINO_ACIDS)), dtype=np.int64)
    for of_text, reading in zip(counts, readings, strict=True):
        letters = numbers[reading.symbols]
        for parity in (0, 1):
            own = letters[parity::2]
            of_text[parity] = np.bincount(own[own >= 0], minlength=len(AMINO_ACIDS))
    even, odd = counts[:, 0], counts[:, 1]
    return even - odd, counts.sum(axis=(1, 2)), odd.sum(axis=1)
