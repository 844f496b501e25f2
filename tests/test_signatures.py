"""Two runs that can differ in their verdict never share a signature."""

from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from patternmark import PROTEIN, Detector, Key, Profile, Verdict
from patternmark.combination import combine
from patternmark.core.chain import KeyChain
from patternmark.core.schemes import Blocks, Paper
from patternmark.core.secret import Secret
from patternmark.evidence import call_by_rank
from patternmark.plan.calibrate import count_false_positives, rank_p_values
from patternmark.search.candidates import Candidate
from patternmark.search.identify import Identifier
from patternmark.search.locate import Locator
from patternmark.signature import joined, keys_part, rates_part, scored_part, short_hash
from patternmark.statistics.block_ratio import BlockStatistic
from tests.conftest import Outcome
from tests.synthetic import marked, plain, write_fasta

FPRS = (1e-3, 1e-3 + 1e-12, 0.05)


def changes(key: Key) -> dict[str, dict]:
    """Return settings of a detector that differ in one thing from each other."""
    nulls = [KeyChain.independent([p, 1 - p]) for p in (0.25, 0.25000001)]
    return {
        "auto": {},
        **{name: {"detector": name} for name in ("lr", "phase", "slip", "local", "pattern")},
        "m": {"detector": "pattern", "m": 4},
        "null": {"detector": "pattern", "null": nulls[0]},
        "near null": {"detector": "pattern", "null": nulls[1]},
        "repeats": {"mask_repeats": False},
        **{f"fpr {fpr!r}": {"fpr": fpr} for fpr in FPRS[1:]},
        "key": {"key": key.derive("other")},
        "scheme": {"key": Key.of(key.require_secret(), Profile(scheme=Blocks()))},
    }


def every_verdict(key: Key, sequence: str) -> dict[str, Verdict]:
    """Return what all settings, masks and ways to call say of one sequence."""
    masks = {"half": np.arange(len(sequence)) % 2 == 0, "first": np.arange(len(sequence)) > 0}
    found = {}
    for name, options in changes(key).items():
        judge = Detector(**({"key": key} | options))
        found[name] = judge.detect(sequence)
        for which, mask in masks.items():
            found[f"{name}, {which}"] = judge.detect_many([sequence], scored=[mask])[0]
    for num_keys in (9, 19):
        (p,) = rank_p_values(
            Detector, key, Detector(key).read([PROTEIN.encode(sequence)]), num_keys
        )
        for decides in (True, False):
            name = f"rank {num_keys}, decides: {decides}"
            found[name] = call_by_rank(found["auto"], p, num_keys, decides=decides)
    return found


def test_different_settings_have_different_signatures(
    secret: Secret, rng: np.random.Generator
) -> None:
    key = Key.of(secret, Profile(scheme=Paper()))
    found = every_verdict(key, marked(key, 60, rng, delta=0.6))
    for (one, a), (other, b) in combinations(found.items(), 2):
        assert a.signature != b.signature, f"{one} and {other}"
    assert len({verdict.prediction for verdict in found.values()}) == 2  # and some do differ


def test_the_same_settings_have_the_same_signature(
    secret: Secret, rng: np.random.Generator
) -> None:
    key = Key.of(secret, Profile(scheme=Paper()))
    sequence = plain(50, rng) + "/" + plain(40, rng)
    everything = np.ones(91, dtype=bool)
    of_letters = PROTEIN.encode(sequence) >= 0  # a separator is no position that counts
    masks = [None, everything, of_letters]
    found = Detector(key).detect_many([sequence] * 3, scored=masks)
    assert len({verdict.signature for verdict in found}) == 1
    assert "|scored:all|" in found[0].signature
    assert Detector(replace(key)).signature == Detector(key, "auto", fpr=0.001).signature


def test_who_decides_is_signed(secret: Secret, rng: np.random.Generator) -> None:
    key = Key.of(secret, Profile(scheme=Paper()))
    verdict = Detector(key).detect(marked(key, 200, rng, delta=1.5))
    beaten = call_by_rank(verdict, 0.5, 99, decides=True)
    assert verdict.prediction
    assert (beaten.prediction, beaten.status.value, beaten.p_keys) == (False, "no_mark", 0.5)
    assert beaten.signature.endswith("|call:rank99")
    beside = call_by_rank(verdict, 0.5, 99, decides=False)
    assert (beside.prediction, beside.status.value) == (True, "marked")
    assert beside.signature.endswith("|call:p|null_keys:99")
    short = Detector(key).detect("ACDEF")
    assert call_by_rank(short, 0.5, 999, decides=True).status is short.status
    assert call_by_rank(short, 0.001, 999, decides=True).status.value == "marked"


def test_rates_of_positions_are_signed(secret: Secret, rng: np.random.Generator) -> None:
    key = Key.of(secret, Profile(scheme=Blocks(nonces=1)))
    judge = Detector(key, BlockStatistic.of(key, source="rates:test"))
    sequence = plain(30, rng)
    rates = [np.full((3, 30), rate) for rate in (0.7, 0.8)]
    found = judge.detect_many([sequence] * 2, rates=rates)
    assert len({verdict.signature for verdict in found}) == 2
    assert all(judge.made(verdict) for verdict in found)


def test_identify_signs_keys_rate_and_mask(secret: Secret, rng: np.random.Generator) -> None:
    master, ids = Key.of(secret, Profile(scheme=Paper())), PROTEIN.encode(plain(80, rng))
    keys = [Candidate(master.derive(str(i)), str(i)) for i in range(3)]
    mixed = [*keys, Candidate(Key.of(secret, Profile(scheme=Blocks(nonces=1))), "h")]
    searches = [
        Identifier(keys),
        Identifier(keys[:2]),
        Identifier(keys[::-1]),
        Identifier(keys, fpr=0.01),
        Identifier(keys, shortlist=2),
        Identifier(mixed),
    ]
    found = [search.identify([ids], ["x"])[0].signature for search in searches]
    found.append(searches[0].identify([ids], ["x"], [np.arange(80) > 3])[0].signature)
    assert len(set(found)) == len(found)
    assert Identifier(keys).identify([ids], ["y"])[0].signature == found[0]
    assert "|detector:auto|" in found[0]
    assert searches[0].identify([ids], ["x"])[0].to_dict()["signature"] == found[0]


def test_locate_signs_frames_and_mask(secret: Secret, rng: np.random.Generator) -> None:
    key, ids = Key.of(secret, Profile(scheme=Paper())), PROTEIN.encode(plain(60, rng))
    found = [
        Locator(key).in_protein(ids),
        Locator(key).in_protein(ids, np.arange(60) > 5),
        Locator(key, fpr=0.01).in_protein(ids),
        Locator(key.derive("other")).in_protein(ids),
        Locator(key).in_dna("ATGAAACCC" * 20),
    ]
    assert len({located.signature for located in found}) == len(found)


def test_combine_and_calibrate_sign(secret: Secret, rng: np.random.Generator) -> None:
    key, records = Key.of(secret, Profile(scheme=Paper())), [plain(60, rng) for _ in range(3)]
    mask = np.arange(60) > 5
    found = [
        combine(Detector(key), records).signature,
        combine(Detector(key), records, [None, mask, None]).signature,
        combine(Detector(key), records, [mask, None, None]).signature,
        combine(Detector(key, fpr=0.01), records).signature,
        combine(Detector(key, "phase"), records).signature,
        Detector(key).detect(records[0]).signature,
    ]
    assert len(set(found)) == len(found)
    encoded = [PROTEIN.encode(record) for record in records]
    counted = {count_false_positives(key, "phase", encoded, num_keys=n).signature for n in (2, 3)}
    assert len(counted) == 2


def test_detect_signs_the_null_of_keys(
    run, key_file: Path, tmp_path: Path, rng: np.random.Generator
) -> None:
    file = write_fasta(tmp_path / "x.fa", {"a": plain(60, rng)})

    def detect(*options: str) -> Outcome:
        return run("detect", file, "--key", key_file, "--fpr", "0.05", *options)

    ways = [(), ("--null-keys", "19"), ("--null", "keys", "--null-keys", "19")]
    ways.append(("--null", "keys", "--null-keys", "29"))
    found = [detect(*way, "--json").objects[0]["signature"] for way in ways]
    assert len(set(found)) == 4
    assert f"signature {found[2]}" in " ".join(detect(*ways[2]).out.split())


@pytest.mark.parametrize("pieces", [([b"ab", b"c"], [b"a", b"bc"]), ([b""], [])])
def test_hashes_know_where_pieces_end(pieces: tuple[list[bytes], list[bytes]]) -> None:
    one, other = map(short_hash, pieces)
    assert one != other
    assert len(one) == 32  # 128 bits


def test_parts_of_a_signature() -> None:
    ids = np.array([1, 2, 3])
    masks = [np.array(row, dtype=bool) for row in ([1, 1, 0], [1, 0, 1])]
    assert scored_part([ids], [None]) == scored_part([ids], [np.ones(3, dtype=bool)])
    assert scored_part([ids], [masks[0]]) != scored_part([ids], [masks[1]])
    assert scored_part([ids, ids], [masks[0], None]) != scored_part([ids, ids], [None, masks[0]])
    assert rates_part([None, None]) == ""
    assert keys_part(["a", "b"]).startswith("keys:2-")
    assert joined("a:1", "", "b:2") == "a:1|b:2"
