"""Keyed lists of symbols, the same on every machine: which symbols each token promotes.

Each row of a table has a label, and is made by SHAKE256 from the subkey with that label (see
`derive`), so that a few rows of a large vocabulary cost little. Rows are kept as bits: 8 MB for
8,000 tokens.

    fair lists      draw a 32-bit word for each scored symbol; the symbols with the smallest words
                    are in the list, ties in the order of ids
    random lists    draw a byte for each scored symbol, which is in the list if the byte is below
                    256 gamma
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from patternmark.core.alphabet import Alphabet
from patternmark.core.secret import Secret
from patternmark.errors import ParameterError

_BYTE = 256
Row = Callable[[int], NDArray[np.bool_]]  # number -> [V]


class Lists:
    """Lists of an alphabet's symbols, each made when it is first used."""

    def __init__(self, count: int, symbols: int, make: Row) -> None:
        self.count, self.symbols = count, symbols
        self._make = make
        self._bits = np.zeros((count, -(-symbols // 8)), dtype=np.uint8)
        self._made = np.zeros(count, dtype=bool)

    def whole(self) -> NDArray[np.bool_]:
        """Return all lists: [count, V]."""
        self._need(np.arange(self.count))
        return np.unpackbits(self._bits, axis=1, count=self.symbols).view(bool)

    def hold(self, lists: NDArray[np.int64], symbols: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Tell whether lists[i] holds symbols[i]: [n]."""
        self._need(np.unique(lists))
        return np.asarray((self._bits[lists, symbols >> 3] >> (7 - (symbols & 7))) & 1, dtype=bool)

    def _need(self, rows: NDArray[np.int64]) -> None:
        for row in rows[~self._made[rows]].tolist():
            self._bits[row] = np.packbits(self._make(row))
            self._made[row] = True


def fair_row(secret: Secret, label: str, alphabet: Alphabet, size: int) -> NDArray[np.bool_]:
    """Return a list of exactly `size` scored symbols: [V]."""
    words = secret.octets(label, 4 * alphabet.num_scored).view("<u4").astype(np.uint64)
    # The symbol's number in the low bits makes all words different.
    words = (words << np.uint64(32)) | np.arange(len(words), dtype=np.uint64)
    listed = np.zeros(alphabet.size, dtype=bool)
    listed[alphabet.scored[np.argpartition(words, size - 1)[:size]]] = True
    return listed


def random_row(secret: Secret, label: str, alphabet: Alphabet, limit: int) -> NDArray[np.bool_]:
    """Return a list that holds each scored symbol with probability limit / 256: [V]."""
    listed = np.zeros(alphabet.size, dtype=bool)
    listed[alphabet.scored] = secret.octets(label, alphabet.num_scored) < limit
    return listed


def list_size(gamma: float, alphabet: Alphabet) -> int:
    """Return the number of symbols in a fair list."""
    size = int(gamma * alphabet.num_scored)
    if not 0 < size < alphabet.num_scored:
        raise ParameterError(
            f"gamma = {gamma} puts {size} of {alphabet.num_scored} symbols in a list: it must be "
            "at least 1, and not all"
        )
    return size


def byte_limit(gamma: float) -> int:
    """Return 256 gamma: a symbol is in the list if its byte is below this limit."""
    limit = gamma * _BYTE
    if limit != int(limit) or not 0 < limit < _BYTE:
        raise ParameterError(f"gamma must be a multiple of 1/256 between 0 and 1, not {gamma}")
    return int(limit)


def colouring(secret: Secret, label: str, alphabet: Alphabet, colours: int) -> NDArray[np.int64]:
    """Return the colour of each scored symbol, or -1: [V]; colour classes differ by at most 1."""
    order = secret.permutation(label, alphabet.num_scored)
    colour = np.full(alphabet.size, -1)
    colour[alphabet.scored[order]] = np.arange(alphabet.num_scored) * colours // alphabet.num_scored
    return colour
