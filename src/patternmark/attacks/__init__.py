"""What someone with marked sequences and no key can learn, forge and strip.

An attacker knows everything but the secret (Kerckhoffs): scheme, pairs, period, block, starts,
number of nonces, strength, and how often marked letters agree with their keys.

    split   the paper's scheme: score every split of the alphabet
    cells   the hardened scheme: align sequences, pool their votes on every secret bit
    forge   new sequences with the mark one believes in; edits that strip it
    audit   all of it on the sequences of one key
"""

from patternmark.attacks.audit import Audit, audit_sequences
from patternmark.attacks.cells import CellKnowledge, learn_cells
from patternmark.attacks.forge import Knowledge, forge, random_edits, strip
from patternmark.attacks.split import SplitKnowledge, learn_split

__all__ = [
    "Audit",
    "CellKnowledge",
    "Knowledge",
    "SplitKnowledge",
    "audit_sequences",
    "forge",
    "learn_cells",
    "learn_split",
    "random_edits",
    "strip",
]
