from collections.abc import Callable
from dataclasses import replace
from itertools import product
from math import log, log10
from pathlib import Path

import numpy as np
import pytest

from patternmark import (
    PROTEIN,
    Alphabet,
    Detector,
    Key,
    Marker,
    ParameterError,
    Profile,
    Verdict,
    load_key,
)
from patternmark.combination import (
    Rule,
    combine,
    shared_log_ratios,
    spread_log_ratio,
)
from patternmark.core.reading import read_many
from patternmark.core.schemes import Blocks, Paper, Turns
from patternmark.core.secret import Secret
from patternmark.evidence import fisher
from patternmark.masks.similar import similar_groups
from patternmark.statistics.block_ratio import BlockStatistic
from tests.conftest import Outcome
from tests.synthetic import marked, plain, text, vocabulary, write_fasta

Run = Callable[..., Outcome]


def changed(sequence: str, share: float, rng: np.random.Generator) -> str:
    letters = np.array(list(sequence))
    places = rng.random(len(letters)) < share
    letters[places] = rng.choice(list(PROTEIN.letters[:20]), np.count_nonzero(places))
    return "".join(letters)


def test_like_records_are_grouped(rng: np.random.Generator) -> None:
    first, second = plain(200, rng), plain(200, rng)
    texts = [
        first,
        second,
        changed(first, 0.5, rng),  # half of the residues at equal positions
        plain(150, rng),
        "MKV" + second,  # shifted: no residue in its place
        plain(90, rng) + "/" + plain(90, rng),
        "X" * 200,  # nothing to compare
        "X" * 200,
    ]
    groups = similar_groups([PROTEIN.encode(text) for text in texts], PROTEIN)
    assert groups == ((0, 2), (1, 4), (3,), (5,), (6,), (7,))


def test_likeness_is_passed_on(rng: np.random.Generator) -> None:
    first = plain(400, rng)
    middle = first[:200] + plain(200, rng)
    last = plain(200, rng) + middle[200:]
    groups = similar_groups([PROTEIN.encode(t) for t in (first, last, middle)], PROTEIN)
    assert groups == ((0, 1, 2),)


def records_and_verdicts(
    key: Key, records: list[str], log_ps: list[float]
) -> tuple[Detector, list[str], list[Verdict]]:
    """Return records with verdicts that have the p-values wanted."""
    judge = Detector(key)
    made = judge.detect_many(records)
    pairs = zip(made, log_ps, strict=True)
    return judge, records, [replace(v, log10_p=log_p / log(10)) for v, log_p in pairs]


def combined_log_p(key: Key, records: list[str], log_ps: list[float]) -> float:
    judge, records, verdicts = records_and_verdicts(key, records, log_ps)
    return combine(judge, records, verdicts=verdicts).log_p


def test_within_a_group_the_best_counts_and_groups_multiply(
    secret: Secret, rng: np.random.Generator
) -> None:
    key = Key.of(secret, Profile(scheme=Paper()))
    one, other = plain(100, rng), plain(100, rng)
    copies = combined_log_p(key, [one] * 3, [-9.0, -3.0, -5.0])
    assert copies == pytest.approx(-9.0 + log(3))
    both = combined_log_p(key, [one, one, other], [-9.0, -3.0, -5.0])
    assert both == pytest.approx(fisher([-9.0 + log(2), -5.0]))
    assert combined_log_p(key, [one, one], [0.0, 0.0]) == 0.0
    assert combined_log_p(key, [], []) == 0.0
    assert combined_log_p(key, [one, other], [-float("inf"), 0.0]) == -float("inf")


def test_verdicts_save_measuring_and_must_be_of_the_detector(
    secret: Secret, rng: np.random.Generator
) -> None:
    key = Key.of(secret, Profile(scheme=Paper()))
    judge, records = Detector(key), [marked(key, 80, rng, delta=1.0) for _ in range(3)]
    verdicts = judge.detect_many(records)
    measured, known = combine(judge, records), combine(judge, records, verdicts=verdicts)
    assert measured.log_p == pytest.approx(known.log_p)
    assert measured.signature == known.signature
    with pytest.raises(ParameterError, match="was not made by this detector"):
        combine(Detector(key, "phase"), records, verdicts=verdicts)
    with pytest.raises(ParameterError, match="2 verdicts were given for 3 records"):
        combine(judge, records, verdicts=verdicts[:2])


def test_the_combined_p_value_holds_for_copies_and_strangers(
    secret: Secret, rng: np.random.Generator
) -> None:
    sequences = [plain(60, rng) for _ in range(4)]
    records = [sequences[0]] * 5 + sequences[1:]
    key, found = Key.of(secret, Profile(scheme=Paper())), []
    judge, _, verdicts = records_and_verdicts(key, records, [0.0] * 8)
    for _ in range(400):
        shared = rng.random()  # copies have one p-value between them
        p_values = [shared] * 5 + rng.random(3).tolist()
        pairs = zip(verdicts, p_values, strict=True)
        drawn = [replace(verdict, log10_p=log10(p)) for verdict, p in pairs]
        found.append(combine(judge, records, verdicts=drawn).log_p)
    for level in (0.05, 0.2):
        hits = np.count_nonzero(np.array(found) <= log(level))
        assert hits <= 400 * level + 4 * np.sqrt(400 * level)


def test_detect_adds_one_p_value_for_all(
    run: Run, key_file: Path, tmp_path: Path, rng: np.random.Generator
) -> None:
    key = load_key(key_file)
    weak = {f"m{i}": marked(key, 60, rng, delta=1.0) for i in range(12)}
    file = write_fasta(tmp_path / "x.fa", weak | {"unknown": "XXXX"})
    arguments = ["detect", file, "--key", key_file, "--detector", "phase", "--combine"]
    *single, together = run(*arguments, "--json").objects
    assert len(single) == 13
    assert (together["combined"], together["num_records"], together["num_groups"]) == (True, 12, 12)
    by_hand = fisher([v["log10_p"] * log(10) for v in single[:12]])
    assert together["log10_p"] == pytest.approx(by_hand / log(10))
    assert together["prediction"] is True
    assert together["p_value"] < min(v["p_value"] for v in single)
    assert "all together: p = " in run(*arguments).out
    assert "all together" not in run(*arguments[:-1]).out


def test_many_designs_on_one_backbone_count_once(
    run: Run, key_file: Path, tmp_path: Path, rng: np.random.Generator
) -> None:
    design = marked(load_key(key_file), 150, rng, delta=1.0)
    copies = {f"c{i}": changed(design, 0.2, rng) for i in range(8)}
    file = write_fasta(tmp_path / "x.fa", copies)
    *single, together = run(
        "detect", file, "--key", key_file, "--detector", "phase", "--combine", "--json"
    ).objects
    assert (together["num_records"], together["num_groups"]) == (8, 1)
    assert together["p_value"] == pytest.approx(min(1, 8 * min(v["p_value"] for v in single)))


@pytest.mark.parametrize("detector", ["auto", "phase", "lr"])
def test_unmarked_records_stay_unmarked_together(
    run: Run, key_file: Path, tmp_path: Path, rng: np.random.Generator, detector: str
) -> None:
    file = write_fasta(tmp_path / "x.fa", {f"u{i}": plain(120, rng) for i in range(40)})
    arguments = ["--key", key_file, "--detector", detector, "--combine", "--json"]
    together = run("detect", file, *arguments).objects[-1]
    assert together["num_groups"] == 40
    assert together["prediction"] is False


TOKENS = vocabulary(2000)
OF_TEXTS = {
    "paper": Profile(TOKENS, scheme=Paper()),
    "turns": Profile(TOKENS),
    "nonces": Profile(TOKENS, Turns(nonces=3)),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "detector"), [("paper", "phase"), ("turns", "auto"), ("nonces", "phase")]
)
def test_texts_that_begin_alike_are_no_evidence(
    name: str, detector: str, secret: Secret, rng: np.random.Generator
) -> None:
    greeting = rng.permutation(TOKENS.scored)[:10]  # "Mr President, I would like to thank ..."
    records = [np.append(greeting, rng.choice(TOKENS.scored, 30)) for _ in range(60)]
    assert len(similar_groups(records, TOKENS)) == 60  # less than a third is the same
    master = Key.of(secret, OF_TEXTS[name])
    judges = [Detector(master.derive(f"{i}"), detector) for i in range(60)]
    found = np.array([combine(d, records).log_p for d in judges])
    assert np.count_nonzero(found <= log(0.01)) <= 3
    assert np.count_nonzero(found <= log(0.1)) <= 14


@pytest.mark.slow
@pytest.mark.parametrize("name", OF_TEXTS)
def test_short_texts_show_their_mark_together(
    name: str, secret: Secret, rng: np.random.Generator
) -> None:
    key = Key.of(secret, OF_TEXTS[name])
    marker, judge = Marker(key, delta=2.0), Detector(key)
    records = [text(TOKENS, 25, rng, marker) for _ in range(40)]
    scored = [np.zeros(25, dtype=bool), *[None] * 39]  # a prompt alone says nothing
    found = combine(judge, records, scored)
    assert found.log_p < log(1e-6)
    assert (found.num_records, found.groups[0]) == (40, (1,))
    again = combine(judge, [records[1], records[1]])
    assert again.groups == ((0,),)
    assert again.log_p == pytest.approx(judge.detect(records[1]).log10_p * log(10))
    assert combine(judge, []).log_p == 0.0


@pytest.mark.parametrize("masks", [True, False])
def test_the_valid_rule_is_picked_whoever_calls(
    masks: bool, secret: Secret, rng: np.random.Generator
) -> None:
    """One marked text a hundred times says what it says once, also where repeats are counted."""
    key = Key.of(secret, OF_TEXTS["turns"])
    judge = Detector(key, mask_repeats=masks)
    records = [text(TOKENS, 40, rng, Marker(key, delta=2.0))] * 100
    found = combine(judge, records)
    assert found.how is Rule.COINS
    assert found.log_p == pytest.approx(Detector(key).detect(records[0]).log10_p * log(10))
    assert "|repeats:shared|" in found.signature
    protein = combine(Detector(Key.of(secret, Profile(scheme=Paper()))), [plain(50, rng)])
    assert protein.how is Rule.GROUPS
    table = protein.to_dict()
    assert table["method"] == "fisher over groups of similar records, bonferroni within"
    assert table["prediction"] is protein.prediction is False
    assert table["signature"] == protein.signature


def of_blocks(secret: Secret, nonces: int) -> Detector:
    return Detector(Key.of(secret, Profile(scheme=Blocks(nonces=nonces))))


def test_the_product_over_nonces_has_mean_one() -> None:
    """Over all coins: three records share the coins of each of four nonces in different ways."""
    total = 0.0
    for coins in product((0, 1), repeat=4):
        x = 2.0 * np.array(coins) - 1.0
        ratios = np.stack([1.0 + 0.9 * x, 1.0 + 0.9 * x, 1.0 - 0.3 * x])  # each of mean 1
        total += np.exp(spread_log_ratio(np.log(ratios))) / 16
    assert total == pytest.approx(1.0, abs=1e-12)
    assert spread_log_ratio(np.log([[3.0], [5.0]])) == pytest.approx(log(4.0))  # one nonce


class _AllCoins:
    """Every word of one block as a nonce: their mean is the mean over all keys."""

    block, nonces = 3, 1024

    def words(self, chain: int, blocks: int) -> np.ndarray:
        del chain
        return np.tile(np.arange(1024, dtype=np.uint16), (blocks, 1))


def test_letters_that_meet_one_coin_have_mean_one_together() -> None:
    texts = ["AEA", "AAA", "KRE", "AAA", "XSA"]
    readings = read_many([PROTEIN.encode(text) for text in texts], PROTEIN, [None] * 5)
    logs = shared_log_ratios(readings, BlockStatistic(_AllCoins()), 3)
    np.testing.assert_allclose(np.exp(logs).mean(axis=0), 1.0, atol=1e-12)


@pytest.mark.parametrize("nonces", [1, 32])
def test_block_marks_gain_from_many_records(
    nonces: int, secret: Secret, rng: np.random.Generator
) -> None:
    judge = of_blocks(secret, nonces)
    records = [marked(judge.key, 100, rng, delta=1.0) for _ in range(12)]
    verdicts = judge.detect_many(records)
    together = combine(judge, records, verdicts=verdicts)
    assert together.how is Rule.NONCES
    assert together.log10_p < min(v.log10_p for v in verdicts) - 2
    assert combine(judge, records).log_p == together.log_p
    assert len(together.groups) == 12
    alone = combine(judge, [*records[:1], "XXX"])
    assert alone.log10_p == pytest.approx(verdicts[0].log10_p)
    assert alone.groups == ((0,),)
    assert combine(judge, []).log_p == 0.0
    with pytest.raises(ParameterError, match="was not made by this detector"):
        combine(Detector(judge.key, "lr"), records, verdicts=verdicts)


def test_records_of_one_payload_speak_together(secret: Secret, rng: np.random.Generator) -> None:
    judge = of_blocks(secret, 32)
    promoted = judge.key.schedule.promoted_rows(judge.key.schedule.keys(0, 9, 60))[:, :20]
    law = np.cumsum(np.where(promoted, 0.66, 0.34), axis=1)
    records = [(rng.random((60, 1)) * law[:, -1:] > law).sum(axis=1) for _ in range(30)]
    best = min(verdict.log10_p for verdict in judge.detect_many(records))
    together = combine(judge, records)
    assert together.log10_p < best - 4


def test_copies_of_block_records_are_no_evidence(secret: Secret, rng: np.random.Generator) -> None:
    """Over keys, at most one in ten sets has p <= 0.1, also of records that are all alike."""
    one = plain(60, rng)
    records = [one, one, one[:40], "AE" * 30, "AE" * 30]
    keys = [Key.of(Secret(rng.bytes(32)), Profile(scheme=Blocks(nonces=2))) for _ in range(150)]
    hits = sum(combine(Detector(key), records).log_p <= log(0.1) for key in keys)
    assert hits <= 25  # 15 expected at most


@pytest.mark.slow
def test_unmarked_texts_of_several_nonces_do_not_add_up() -> None:
    """Small e-values count too: a product of those above 1 alone would grow with every text."""
    tokens = Alphabet.from_symbols("tokens", [f"t{i}" for i in range(3000)], unscored=[])
    rng = np.random.default_rng(5)
    texts = [rng.integers(3000, size=20) for _ in range(200)]
    for number in range(4):
        profile = Profile(tokens, Turns(nonces=2))
        key = Key.of(Secret(number.to_bytes(32, "big")), profile)
        assert combine(Detector(key), texts).log10_p > -2.0
