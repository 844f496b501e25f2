"""Mark sequences drawn from natural amino-acid frequencies: the smallest possible generator.

With a real model, use its own logits instead of `LOGITS` at each step, in the order in which it
decodes.

    python examples/natural_frequencies.py lab.key marked.fa unmarked.fa
"""

from __future__ import annotations

import sys

import numpy as np
from numpy.typing import NDArray

from patternmark import PROTEIN, Marker, load_key
from patternmark.core.alphabet import NO_KEY, PROTEIN_BACKGROUND

COUNT, LENGTH, TEMPERATURE = 8, 400, 1.0
with np.errstate(divide="ignore"):  # X never occurs, so its logit is -inf
    LOGITS = np.log(np.array(PROTEIN_BACKGROUND) / sum(PROTEIN_BACKGROUND))


def sample(logits: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.intp]:
    """Draw one symbol from each row of logits: [..., V] -> [...] (Gumbel's trick)."""
    return np.asarray(np.argmax(logits / TEMPERATURE + rng.gumbel(size=logits.shape), axis=-1))


def write_fasta(path: str, name: str, sequences: NDArray[np.intp]) -> None:
    with open(path, "w", encoding="ascii") as file:
        for number, sequence in enumerate(sequences, start=1):
            file.write(f">{name}-{number}\n{PROTEIN.decode(sequence)}\n")


def main(key_file: str, marked_file: str, unmarked_file: str) -> None:
    rng = np.random.default_rng(1)
    marker = Marker(load_key(key_file))
    logits = np.broadcast_to(LOGITS, (COUNT, LENGTH, len(LOGITS)))
    keys = marker.key_sequences([LENGTH] * COUNT)
    for path, name, chosen in (
        (marked_file, "marked", keys),
        (unmarked_file, "unmarked", np.full_like(keys, NO_KEY)),
    ):
        promoted = marker.promote(logits, chosen, temperature=TEMPERATURE)
        write_fasta(path, name, sample(promoted, rng))


if __name__ == "__main__":
    main(*sys.argv[1:])
