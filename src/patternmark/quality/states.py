"""The states of secondary structure, and their letters."""

from __future__ import annotations

# DSSP's states in the order of the network's outputs, and the three states that they are grouped
# into, as in most of the literature: helix G, H, I; strand B, E; coil.
STATES = "HGIEBTSL"
THREE = {"H": "H", "G": "H", "I": "H", "E": "E", "B": "E", "T": "C", "S": "C", "L": "C"}
THREE_STATES = "HEC"


def three_states(dssp: str) -> str:
    """Return helix, strand or coil for each of DSSP's states.

    >>> three_states("LLHHGGTEEBS")
    'CCHHHHCEEEC'
    """
    return "".join(THREE[state] for state in dssp)
