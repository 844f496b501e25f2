"""Attacks: what someone with marked sequences but without the key can remove, learn and forge.

    registry        every attack by its name, with a strength epsilon and a seed
    edits           substitutions, insertions, deletions, cutting, splicing of symbols
    text            words dropped, inserted, swapped, replaced by synonyms
    unicode_tricks  case, look-alikes, invisible characters: some of them `io.folding` undoes
    round_trip      a paraphrase: English to Portuguese and back
    redesign        the design model itself, without a mark (needs torch: import it by name)
    oracle          an attacker who may query the detector a limited number of times

Learning the secret: the attacker knows everything except the secret (Kerckhoffs): scheme, pairs,
block, number of nonces, strength, and how often marked letters agree with their keys.

    split        the paper's scheme on proteins: score every split of the alphabet
    block_coins  block marks: find which sequences share a nonce, pool their votes on every coin
    seen         how much each letter of a marked sequence tells about its coin
    tokens       a split of a large vocabulary: frequencies, pairs, and phases of tokens
    turn_coins   the default scheme for text: the coins of tokens in every block
    picking      natural sentences that happen to follow what was learned
    forge        new sequences with the learned mark; edits that strip it
    audit        all of it on the sequences of one key
"""

from patternmark.attacks.audit import Audit, audit_sequences
from patternmark.attacks.block_coins import CoinKnowledge, learn_coins
from patternmark.attacks.forge import Knowledge, forge, random_edits, strip
from patternmark.attacks.oracle import (
    OracleResult,
    oracle_attack,
    oracle_forge,
    partner_edits,
    protein_edits,
    text_edits,
    token_edits,
)
from patternmark.attacks.picking import TextKnowledge, pick_sentences
from patternmark.attacks.registry import ATTACKS, Attack, attacks_on, find_attack, splice_into
from patternmark.attacks.split import SplitKnowledge, learn_split
from patternmark.attacks.tokens import (
    PairKnowledge,
    TokenKnowledge,
    learn_frequencies,
    learn_pairs,
    learn_phases,
)
from patternmark.attacks.turn_coins import TurnKnowledge, learn_turns

__all__ = [
    "ATTACKS",
    "Attack",
    "Audit",
    "CoinKnowledge",
    "Knowledge",
    "OracleResult",
    "PairKnowledge",
    "SplitKnowledge",
    "TextKnowledge",
    "TokenKnowledge",
    "TurnKnowledge",
    "attacks_on",
    "audit_sequences",
    "find_attack",
    "forge",
    "learn_coins",
    "learn_frequencies",
    "learn_pairs",
    "learn_phases",
    "learn_split",
    "learn_turns",
    "oracle_attack",
    "oracle_forge",
    "partner_edits",
    "pick_sentences",
    "protein_edits",
    "random_edits",
    "splice_into",
    "strip",
    "text_edits",
    "token_edits",
]
