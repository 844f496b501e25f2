"""Write v1.json, the published test vectors: `python -m vectors.make`.

Each case has all steps, so that a port to another language can be checked at every step:

    paper     secret -> parts -> key sequence -> bias -> sequence -> recovered keys -> count -> p
    blocks    secret -> words -> keys -> bias -> sequence -> letters and weights
                  -> ln E by nonce and component -> E -> p_any -> C -> p_value
    turns     secret -> schedule -> keys -> text -> tokens read, and how often each occurs
                  -> E -> p_any -> p_value

The secrets here are published: never use them for anything else.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from math import exp
from pathlib import Path
from typing import Any

import numpy as np

from patternmark import PROTEIN, Alphabet, Detector, Key, Marker, Profile
from patternmark.core.alphabet import PROTEIN_BACKGROUND, UNREAD
from patternmark.core.blocks import BlockSchedule
from patternmark.core.chain import KeyChain
from patternmark.core.reading import Reading
from patternmark.core.schemes import Blocks, Paper, Turns
from patternmark.core.secret import Secret
from patternmark.core.turns import TurnSchedule
from patternmark.null.block_bound import log_c
from patternmark.statistics.block_ratio import MIXTURE, BlockStatistic
from patternmark.statistics.patterns import target_patterns
from patternmark.statistics.rates import agreement_rates
from patternmark.statistics.recover import recover
from vectors import port

TOKENS = ["<pad>", "<s>", "</s>", *(f"w{i}" for i in range(61))]
MANY_TOKENS = [f"w{i}" for i in range(560)]
TEMPERATURE = 0.1
SHOWN_BLOCKS = 4  # blocks whose coins are written to the vector


def profiles() -> dict[str, Profile]:
    """Return the cases of the paper's scheme: its defaults, and other values of each parameter."""
    three = KeyChain.of([[0.1, 0.6, 0.3], [0.3, 0.1, 0.6], [0.6, 0.3, 0.1]], [0.25, 0.25, 0.5])
    tokens = Alphabet.from_symbols("tokenizer:example", TOKENS, [0, 1, 2])
    return {
        "paper": Profile(scheme=Paper()),
        "mass-balanced": Profile(
            scheme=Paper(background=PROTEIN_BACKGROUND), delta=0.75, delta_at="tempered"
        ),
        "three-keys": Profile(scheme=Paper(chain=three, pattern_length=3)),
        "named-patterns": Profile(
            scheme=Paper(chain=three, pattern_length=2, patterns=((0, 1), (1, 2), (2, 0))),
            delta=2.0,
        ),
        "tokens": Profile(alphabet=tokens, scheme=Paper(pattern_length=4), delta=3.0),
    }


def block_cases() -> dict[str, tuple[Profile, Record]]:
    """Return the cases of the block scheme: parameters, and a record with its edit."""
    small = Profile(scheme=Blocks(nonces=3))
    return {
        "blocks": (Profile(), Record((90,), payload=17)),
        "blocks-two-chains": (small, Record((60, 45), edit="third chain copies the first")),
        "blocks-unknown": (small, Record((80,), edit="every ninth residue is unknown")),
        "blocks-indels": (small, Record((120,), edit="residues 20 and 71 lost, one after 40")),
        "blocks-piece": (small, Record((150,), edit="residues 61 to 110")),
        "blocks-long": (
            Profile(scheme=Blocks(block=4, nonces=2), delta=0.75, delta_at="tempered"),
            Record((230,), payload=1),
        ),
    }


@dataclass(frozen=True)
class Record:
    """A record that follows its key: the lengths of its chains, and how it is edited."""

    lengths: tuple[int, ...]
    payload: int | None = None
    edit: str = ""

    def apply_edit(self, chains: list[str]) -> str:
        """Return the edited record, as a detector gets it."""
        first = chains[0]
        edits = {
            "": "/".join(chains),
            "third chain copies the first": "/".join([*chains, first]),
            "every ninth residue is unknown": "".join(
                "X" if i % 9 == 8 else letter for i, letter in enumerate(first)
            ),
            "residues 20 and 71 lost, one after 40": (
                first[:19] + first[20:40] + "W" + first[40:70] + first[71:]
            ),
            "residues 61 to 110": first[60:110],
        }
        return edits[self.edit]


def block_case(name: str, profile: Profile, record: Record) -> dict[str, Any]:
    """Compute one vector of the block scheme with the package, up to the verdict of `auto`."""
    raw = _published_secret(name)
    key = Key.of(Secret(raw), profile)
    marker = Marker(key, payload=record.payload)
    schedule = key.schedule
    assert isinstance(schedule, BlockSchedule)  # noqa: S101
    keys = [
        marker.key_sequence(n, seed=3, index=1, chain=chain)
        for chain, n in enumerate(record.lengths)
    ]
    sequence = record.apply_edit(
        [_write_chain(marker.bias(row, temperature=1.0) > 0) for row in keys]
    )
    # Without screens the package skips no components, even if they add almost nothing.
    statistic = BlockStatistic(schedule, screens=False)
    detector = Detector(key, statistic)
    reading = detector.read([PROTEIN.encode(sequence)])[0]
    verdict = detector.detect(sequence)
    return {
        "name": name,
        "secret": raw.hex(),
        "parameters": profile.to_tables(),
        "key_id": key.key_id,
        "seed": 3,
        "index": 1,
        "payload": record.payload,
        "nonce": int(marker.nonces(3, [1])[0]),
        "words_of_first_blocks": schedule.words(0, SHOWN_BLOCKS).tolist(),
        "key_sequences": [row.tolist() for row in keys],
        "temperature": TEMPERATURE,
        "bias_of_first_two_positions": marker.bias(keys[0][:2], temperature=TEMPERATURE).tolist(),
        "edit": record.edit,
        "sequence": sequence,
        "letters": [part.tolist() for part in reading.parts],
        "weights_of_first_letters": _weights(reading),
        **_mixed(statistic, reading),
        "log_e": verdict.statistic,
        "p_any": verdict.p_any,
        "c": exp(log_c.at(schedule.block, MIXTURE.digest, max(map(_scored, reading.parts)))),
        "p_value": verdict.p_value,
        "marked": verdict.prediction,
        "payload_found": verdict.payload,
    }


def turn_cases() -> dict[str, tuple[Profile, int | None]]:
    """Return the cases of the scheme for text, each with its payload."""
    tokens = Alphabet.from_symbols("tokenizer:example", MANY_TOKENS, [0, 1, 2])  # 557 scored: odd
    return {
        "turns": (Profile(tokens, delta=2.0), None),
        "turns-payload": (Profile(tokens, Turns(nonces=2)), 1),
        "turns-small": (Profile(tokens, Turns(period=64, block=2, starts=4, nonces=2)), None),
    }


def turn_case(name: str, profile: Profile, payload: int | None) -> dict[str, Any]:
    """Compute one vector of the scheme for text with the package, up to the verdict of `auto`."""
    raw = _published_secret(name)
    key = Key.of(Secret(raw), profile)
    marker = Marker(key, payload=payload)
    keys = marker.key_sequence(90, seed=3, index=1)
    nonce = int(marker.nonces(3, [1])[0])
    schedule = key.schedule
    assert isinstance(schedule, TurnSchedule)  # noqa: S101
    promoted = schedule.promoted(nonce)
    text = _write_text(marker.bias(keys, temperature=1.0) > 0)
    detector = Detector(key)
    reading, verdict = detector.read([text])[0], detector.detect(text)
    assert reading.times is not None  # noqa: S101
    return {
        "name": name,
        "secret": raw.hex(),
        "symbols": MANY_TOKENS,
        "parameters": profile.to_tables(),
        "key_id": key.key_id,
        "seed": 3,
        "index": 1,
        "payload": payload,
        "nonce": nonce,
        "key_sequence": keys.tolist(),
        "promoted_by_first_key": np.flatnonzero(promoted[0]).tolist(),
        "schedule_sha256": hashlib.sha256(np.packbits(promoted).tobytes()).hexdigest(),
        "temperature": TEMPERATURE,
        "strength": marker.strength(TEMPERATURE),
        "text": text.tolist(),
        "read": reading.symbols.tolist(),
        "times": reading.times.tolist(),
        "log_e": verdict.statistic,
        "p_any": verdict.p_any,
        "p_value": verdict.p_value,
        "marked": verdict.prediction,
    }


def case(name: str, profile: Profile, symbols: list[str]) -> dict[str, Any]:
    """Compute one vector of the paper's scheme with the package."""
    raw = _published_secret(name)
    key = Key.of(Secret(raw), profile)
    marker = Marker(key)
    keys = marker.key_sequence(40, seed=3, index=1)
    bias = marker.bias(keys[:2], temperature=TEMPERATURE)
    sequence = _follow(keys, key.partition.members, profile.alphabet)
    detector = Detector(key, "pattern", mask_repeats=False)
    recovered = recover(detector.read([sequence]), key.partition)
    verdict = detector.detect(sequence)
    segments, count = list(recovered.segments[0]), int(verdict.statistic)
    scheme = profile.scheme
    assert isinstance(scheme, Paper)  # noqa: S101
    patterns = [list(p) for p in target_patterns(scheme).patterns]
    return {
        "name": name,
        "secret": raw.hex(),
        "symbols": symbols,
        "parameters": profile.to_tables(),
        "key_id": key.key_id,
        "part_of": key.partition.part_of.tolist(),
        "seed": 3,
        "index": 1,
        "key_sequence": keys.tolist(),
        "temperature": TEMPERATURE,
        "bias_of_first_two_positions": bias.tolist(),
        "sequence": sequence.tolist(),
        "recovered_keys": recovered[0].tolist(),
        "segments": segments,
        "patterns": patterns,
        "count": count,
        "p_value": str(port.p_value(segments, patterns, profile.scheme.num_keys, count)),
        "log10_p": verdict.log10_p,
    }


def _published_secret(name: str) -> bytes:
    return hashlib.sha256(f"patternmark test vector {name}".encode()).digest()


def _write_chain(promoted: np.ndarray) -> str:
    """Return a chain of promoted letters [n, V], except at every fourth position."""
    letters = [np.flatnonzero(row)[i * 7 % 10] for i, row in enumerate(promoted)]
    letters[3::4] = [i * 5 % 20 for i in range(len(letters[3::4]))]
    return PROTEIN.decode(letters)


def _write_text(promoted: np.ndarray) -> np.ndarray:
    """Return a text of promoted tokens [n, V], with misses and a repeated token."""
    text = np.array([np.flatnonzero(row)[i * 31 % 200] for i, row in enumerate(promoted)])
    text[4::5] = 3 + np.arange(len(text[4::5])) * 41 % 557
    text[[9, 11, 24, 40, 41, 57, 70, 83]] = text[8]  # nine times, which counts as ten
    text[20] = 1  # unscored
    return text


def _weights(reading: Reading) -> list[list[float]]:
    rates = agreement_rates(PROTEIN, Blocks.name)[:, reading.parts[0][:2]]
    weights: list[list[float]] = np.log(rates / (1.0 - rates)).tolist()
    return weights


def _mixed(statistic: BlockStatistic, reading: Reading) -> dict[str, Any]:
    """Return the components of E, and ln of the ratio of each nonce [R] and component."""
    branches = statistic.branches(reading)
    kinds = [
        [c.level, c.slip, c.growth, c.begins, branch.shift, exp(weight)]
        for branch in branches
        for c, weight in zip(branch.components, branch.log_weights, strict=True)
    ]
    pieces = statistic.pieces(reading)
    ratios = [statistic._of_chains(pieces, branch) for branch in branches]
    return {"mixture": kinds, "log_ratios": np.concatenate(ratios, axis=1).tolist()}


def _scored(part: np.ndarray) -> int:
    return int(np.count_nonzero(part != UNREAD))


def _symbols(profile: Profile) -> list[str]:
    return list(PROTEIN.letters) if profile.alphabet == PROTEIN else TOKENS


def _follow(keys: np.ndarray, members: np.ndarray, alphabet: Alphabet) -> np.ndarray:
    """Make a sequence that mostly follows the keys, with one unscored symbol and some misses."""
    sequence = np.array([np.flatnonzero(members[k])[i % 5] for i, k in enumerate(keys)])
    sequence[17] = alphabet.unscored[0]
    for miss in (5, 11, 30):
        sequence[miss] = alphabet.scored[miss % alphabet.num_scored]
    return sequence


def main() -> None:
    vectors = [case(name, profile, _symbols(profile)) for name, profile in profiles().items()]
    vectors += [block_case(name, *case) for name, case in block_cases().items()]
    vectors += [turn_case(name, *case) for name, case in turn_cases().items()]
    lines = ",\n".join(json.dumps(vector) for vector in vectors)
    Path(__file__).with_name("v1.json").write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
