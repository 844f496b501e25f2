import pickle
from dataclasses import replace
from math import inf, log10

import numpy as np
import pytest

from patternmark import (
    Detector,
    Key,
    KeyFileError,
    ParameterError,
    Profile,
    SequenceError,
)
from patternmark.core.chain import KeyChain
from patternmark.core.schemes import Paper
from patternmark.core.secret import Secret
from patternmark.results import Status, format_p, p_value_of
from patternmark.workers import pickle_with_secrets

PARTS = ["ACDEFGHIKL", "MNPQRSTVWY"]


@pytest.fixture
def halves(secret: Secret) -> Key:
    return Key.of(secret, Profile(scheme=Paper()), PARTS)


def test_a_verdict_says_everything(halves: Key) -> None:
    detector = Detector(halves, "pattern", mask_repeats=False)
    verdict = detector.detect("AMAMAXAMAMAMA", id="toy")
    assert verdict.id == "toy"
    assert (verdict.length, verdict.num_tokens_scored, verdict.statistic) == (13, 12, 1 + 3)
    # Segments of 5 and 7 keys, all of whose windows alternate: (2/32) * (2/128).
    assert verdict.p_value == pytest.approx(2 / 32 * 2 / 128, rel=1e-12)
    assert verdict.log10_p == pytest.approx(log10(2 / 32 * 2 / 128), rel=1e-12)
    assert verdict.expected_statistic == pytest.approx((1 + 3) / 16)
    assert verdict.prediction
    assert verdict.signature == (
        f"key:{halves.key_id}|scheme:paper|l:2|alphabet:protein|delta_at:logits"
        "|detector:pattern|m:5|null:uniform|repeats:counted|fpr:0.001|v:0.2.0.dev0"
        "|scored:all|call:p"
    )


def test_json_keeps_the_promised_fields_in_order(halves: Key) -> None:
    fields = Detector(halves).detect("AM" * 20).to_dict()
    promised = (
        "id length num_tokens_scored detector statistic p_value log10_p prediction key_id signature"
    )
    assert [f for f in fields if f in promised.split()] == promised.split()


def test_prediction_is_at_most_the_rate(halves: Key) -> None:
    for fpr, called in ((2 / 32, True), (2 / 32 - 1e-9, False)):  # p is exactly 2/32
        detector = Detector(halves, "pattern", fpr=fpr, mask_repeats=False)
        assert detector.detect("AMAMA").prediction is called


def test_far_below_the_smallest_float(halves: Key) -> None:
    verdict = Detector(halves, "pattern", mask_repeats=False).detect("AM" * 2500)
    assert verdict.log10_p == pytest.approx(-4999 * log10(2), abs=1e-9)
    assert verdict.p_value == 5e-324  # rounded up, never to zero


def test_batches_judge_each_sequence_alone(halves: Key, rng: np.random.Generator) -> None:
    detector = Detector(halves, "pattern")
    batch = [rng.integers(0, 21, size=n) for n in (0, 3, 50, 700, 1500)]
    together = detector.detect_many(batch)
    alone = [detector.detect(ids, id=str(i + 1)) for i, ids in enumerate(batch)]
    assert together == alone
    assert detector.detect_many([]) == Detector(halves).detect_many([]) == []


def test_too_short_is_an_answer_of_its_own(halves: Key) -> None:
    detector = Detector(halves, "pattern", mask_repeats=False)
    cases = {
        "AMAM": (Status.NOTHING_TO_SCORE, "too short to tell at any FPR"),  # no pattern at all
        "AMAMAMAMA": (Status.TOO_SHORT, "too short to tell at FPR 0.001"),  # 2^-8 at best
        "XXXX": (Status.NOTHING_TO_SCORE, "nothing to score: no symbol"),
        "": (Status.NOTHING_TO_SCORE, "nothing to score: empty"),
        "A" * 100: (Status.NO_MARK, ""),
        "AM" * 50: (Status.MARKED, ""),
    }
    for sequence, (status, note) in cases.items():
        verdict = detector.detect(sequence)
        assert verdict.status is status
        assert verdict.note.startswith(note)
        assert verdict.prediction is (status is Status.MARKED)
        assert verdict.to_dict()["status"] == status.value
    assert detector.detect("XXXX").p_value == 1.0
    assert detector.detect("A" * 100).note == ""
    assert [status.value for status in Status] == [
        "marked", "no_mark", "too_short", "nothing_to_score",
    ]  # fmt: skip


def test_another_m_and_another_null(halves: Key) -> None:
    null = KeyChain.independent([0.25, 0.75])
    verdict = Detector(halves, "pattern", m=3, null=null, mask_repeats=False).detect("AMA")
    assert verdict.p_value == pytest.approx(0.25 * 0.75 * 0.25 + 0.75 * 0.25 * 0.75, rel=1e-12)
    assert "|m:3|null:0.25,0.75|" in verdict.signature


def test_what_cannot_happen_by_chance_has_p_zero(halves: Key) -> None:
    null = KeyChain.of(np.eye(2), [0.5, 0.5])
    verdict = Detector(halves, "pattern", null=null, mask_repeats=False).detect("AMAMA")
    assert (verdict.p_value, verdict.log10_p, verdict.prediction) == (0.0, -inf, True)
    assert verdict.to_dict()["log10_p"] is None


def test_named_patterns_fix_m(secret: Secret) -> None:
    key = Key.of(secret, Profile(scheme=Paper(pattern_length=3, patterns=((0, 0, 1),))), PARTS)
    assert Detector(key, "pattern", mask_repeats=False).detect("AAMAAM").statistic == 2
    with pytest.raises(ParameterError, match="another length"):
        Detector(key, "pattern", m=5)


def test_wrong_calls_are_refused(halves: Key) -> None:
    with pytest.raises(ParameterError, match="'magic' is unknown"):
        Detector(halves, "magic")
    for fpr in (0.0, 1.0, -1.0, float("nan")):
        with pytest.raises(ParameterError, match="false positive rate"):
            Detector(halves, fpr=fpr)
    with pytest.raises(SequenceError, match="sequence '2': character '1' at position 3"):
        Detector(halves).detect_many(["MKV", "MK1"])
    with pytest.raises(KeyFileError, match="public half"):
        Detector(halves.public())


def test_a_detector_travels_between_processes(halves: Key) -> None:
    detector = pickle.loads(pickle_with_secrets(Detector(halves)))
    assert detector.detect("AM" * 20) == Detector(halves).detect("AM" * 20)


def test_p_values_are_written_for_people() -> None:
    assert p_value_of(0.0) == 1.0
    assert p_value_of(-inf) == 0.0
    assert [format_p(x) for x in (0.0, -1.0, -12.34, -299.0, -4000.123, -inf)] == [
        "1", "0.1", "4.6e-13", "1e-299", "10^-4000.1", "0",
    ]  # fmt: skip


def test_verdicts_are_values(halves: Key) -> None:
    verdict = Detector(halves).detect("AM" * 20)
    assert replace(verdict, id="x") != verdict
