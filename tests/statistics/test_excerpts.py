"""Vocabularies of any size: the same verdicts as if all were laid out, in little memory."""

import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from patternmark import (
    Detector,
    Key,
    Marker,
    ParameterError,
    Profile,
    load_key,
    save_key,
)
from patternmark.combination import combine
from patternmark.core.alphabet import UNREAD
from patternmark.core.chain import KeyChain
from patternmark.core.reading import Reading
from patternmark.core.schemes import Paper, Turns
from patternmark.core.secret import Secret
from patternmark.fast import compiled
from patternmark.plan.calibrate import count_false_positives, rank_p_values
from patternmark.plan.power import PowerStudy
from patternmark.report.page import ReportEntry, render_report
from patternmark.report.plot import plot_verdicts
from patternmark.report.track import Tracker
from patternmark.search.locate import Locator
from patternmark.statistics import STATISTICS, Statistic, excerpts, make_statistic
from patternmark.statistics.excerpts import PerBatchStatistic
from patternmark.statistics.phases import LocalStatistic, PhaseStatistic, SlipStatistic
from patternmark.statistics.ratio import AutoStatistic, RatioStatistic, reads_all_tokens
from patternmark.statistics.texts import AnyTextStatistic, TextStatistic
from tests.synthetic import text, vocabulary

TOKENS = vocabulary(120)
PROFILES = {
    "paper": Profile(alphabet=TOKENS, scheme=Paper()),
    "three parts": Profile(
        alphabet=TOKENS, scheme=Paper(chain=KeyChain.cycle(3), pattern_length=3)
    ),
    "no cycle": Profile(
        alphabet=TOKENS,
        scheme=Paper(chain=KeyChain.of([[0.1, 0.9], [0.7, 0.3]], [0.5, 0.5]), pattern_length=2),
    ),
    "one nonce": Profile(alphabet=TOKENS, scheme=Turns(nonces=1)),
    "nonces": Profile(alphabet=TOKENS, scheme=Turns(period=64, block=4, starts=4, nonces=6)),
}
WHOLE: dict[str, Callable[[Key], Statistic]] = {
    "auto": AutoStatistic,
    "lr": RatioStatistic,
    "phase": PhaseStatistic,
    "slip": SlipStatistic,
    "local": LocalStatistic,
}
WHOLE_TEXTS: dict[str, Callable[[Key], Statistic]] = WHOLE | {
    "auto": TextStatistic,
    "lr": AnyTextStatistic,
}
LARGE = {
    "paper": Profile(alphabet=vocabulary(8000), scheme=Paper(), delta=2.0),
    "turns": Profile(alphabet=vocabulary(8000), scheme=Turns(nonces=1), delta=2.0),
}


def readings(key: Key, rng: np.random.Generator) -> list[Reading]:
    """Records of one chain and of three, with what is unread, marked and not."""
    marker = Marker(key, delta=2.0)
    found = []
    for length in (0, 1, 40, 130, 200):
        symbols = text(TOKENS, length, rng, marker if length > 100 else None)
        symbols[rng.random(length) < 0.1] = UNREAD
        found.append(Reading(symbols, (slice(0, length),)))
    symbols = text(TOKENS, 150, rng, marker)
    found.append(Reading(symbols, (slice(0, 70), slice(70, 75), slice(75, 150))))
    found.append(Reading(np.full(5, UNREAD), (slice(0, 5),)))
    return found


@pytest.mark.parametrize("use_loops", [True, False])
@pytest.mark.parametrize(
    "detector", [pytest.param(d, marks=pytest.mark.slow) if d == "auto" else d for d in WHOLE]
)
@pytest.mark.parametrize("name", PROFILES)
def test_verdicts_are_those_of_the_whole_alphabet(
    name: str,
    detector: str,
    use_loops: bool,
    secret: Secret,
    rng: np.random.Generator,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if use_loops:
        pytest.importorskip("numba")
    key = Key.of(secret, PROFILES[name])
    records = readings(key, rng)
    with compiled.force_loops(use_loops):
        try:
            whole = (WHOLE_TEXTS if reads_all_tokens(key.profile) else WHOLE)[detector](key)
        except ParameterError:
            with pytest.raises(ParameterError):
                make_statistic(detector, key)
            return
        made = make_statistic(detector, key)
        assert isinstance(made, PerBatchStatistic)
        assert (made.name, made.signature) == (whole.name, whole.signature)
        expected = whole.measure(records)
        assert made.measure(records) == expected  # every digit of every field
        assert made.measure([]) == []
        monkeypatch.setattr(excerpts, "_MAX_ENTRIES", 4)  # each record by itself
        for alone, found in zip(made.measure(records), expected, strict=True):
            numbers = [(m.statistic, m.log_p, m.log_p_floor) for m in (alone, found)]
            # Some nulls are summed in another order where a batch has another size.
            np.testing.assert_allclose(*numbers, rtol=1e-12, atol=1e-13)
            assert (alone.segment, alone.payload) == (found.segment, found.payload)
        for record, found in list(zip(records, expected, strict=True))[3:6]:
            curves = [s.null_curve(record, found.statistic) for s in (whole, made)]
            np.testing.assert_array_equal(curves[0].heights, curves[1].heights)


@pytest.mark.slow
@pytest.mark.parametrize("name", LARGE)
def test_text_is_marked_and_found(name: str, secret: Secret, rng: np.random.Generator) -> None:
    key = Key.of(secret, LARGE[name])
    tokens = key.profile.alphabet
    marked = [text(tokens, 120, rng, Marker(key)) for _ in range(6)]
    plain = [text(tokens, 120, rng) for _ in range(6)]
    for detector in STATISTICS:
        if detector == "pattern" and name == "turns":
            continue
        judge = Detector(key, detector)
        assert all(verdict.prediction for verdict in judge.detect_many(marked))
        assert not any(verdict.p_value < 1e-4 for verdict in judge.detect_many(plain))
    other = Detector(Key.of(Secret(bytes(32)), key.profile))
    assert not any(verdict.p_value < 1e-4 for verdict in other.detect_many(marked))


@pytest.mark.slow
@pytest.mark.parametrize("name", LARGE)
def test_all_that_goes_with_a_verdict(
    name: str, secret: Secret, rng: np.random.Generator, tmp_path: Path
) -> None:
    key = Key.of(secret, LARGE[name])
    tokens = key.profile.alphabet
    texts = [text(tokens, 90, rng, Marker(key)), text(tokens, 90, rng)]
    judge = Detector(key)
    verdicts = judge.detect_many(texts)
    both = np.concatenate([text(tokens, 200, rng), text(tokens, 250, rng, Marker(key))])
    segment = Locator(key).in_protein(both).segments[0]
    assert 100 < segment.start < 210  # chance may add some before the mark, at 200
    assert segment.end > 400
    track = Tracker(key).follow(judge.read([texts[0]])[0])
    assert np.nanmean(track.agreement) > 0.6
    page = render_report(
        judge, [ReportEntry(v, t) for v, t in zip(verdicts, texts, strict=True)], title="texts"
    )
    assert page.count("<details") == 2
    plot_verdicts(judge, verdicts, texts, str(tmp_path / "x.svg"))
    found = count_false_positives(key, "auto", [texts[1]], num_keys=3)
    assert (found.num_sequences, found.num_keys) == (1, 4)
    ranks = rank_p_values(Detector, key, judge.read(texts), 9)
    assert ranks[0] == 0.1
    together = combine(judge, texts)
    assert len(together.groups) == 2


@pytest.mark.slow
@pytest.mark.parametrize("scheme", [Paper(), Turns()])
def test_a_study_of_power_needs_no_table_of_all_keys(scheme: Paper | Turns) -> None:
    profile = Profile(alphabet=vocabulary(2000), scheme=scheme)
    study = PowerStudy(profile, 1e-3, draws=8)
    assert study.power(1.5, 200).tpr > study.power(0.0, 200).tpr


def peak_of(work: Callable[[], object]) -> float:
    """Return how many MB a piece of work needed at a time."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1] / 2**20
    finally:
        tracemalloc.stop()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("size", "scheme"),
    [(262_144, Paper()), (262_144, Turns(nonces=1)), (8_000, Turns(nonces=64))],
)
def test_little_memory_is_needed(
    size: int, scheme: Paper | Turns, secret: Secret, rng: np.random.Generator
) -> None:
    """All tables of a detector would take 0.5 to 9 GB."""
    tokens = vocabulary(size)
    texts = [rng.choice(tokens.scored, size=60, replace=False) for _ in range(20)]

    def work() -> None:
        key = Key.of(secret, Profile(alphabet=tokens, scheme=scheme))
        marker = Marker(key)
        bias = marker.prepare(marker.key_sequences([20, 20]), 1.0)
        bias.add_to(np.zeros((2, 2, size), dtype=np.float32), np.s_[:, :2])
        for detector in ("auto", "phase", "local"):
            Detector(key, detector).detect_many(texts)

    assert peak_of(work) < 200


def test_a_key_of_many_tokens_is_a_small_file(secret: Secret, tmp_path: Path) -> None:
    tokens = vocabulary(262_144)
    for number, scheme in enumerate((Paper(), Turns())):
        key = Key.of(secret, Profile(alphabet=tokens, scheme=scheme))
        file = tmp_path / f"{number}.key"
        save_key(key, file)
        assert file.stat().st_size < 1500
        again = load_key(file)
        some = np.array([5, 77, 262_143])
        for nonce in (0, again.schedule.nonces - 1):
            np.testing.assert_array_equal(
                again.schedule.promoted_to(nonce, some), key.schedule.promoted_to(nonce, some)
            )


def test_parts_of_unequal_size_are_no_halves(secret: Secret, rng: np.random.Generator) -> None:
    tokens = vocabulary(2000)
    order = rng.permutation(tokens.scored).tolist()
    key = Key.of(secret, Profile(tokens, scheme=Paper()), [order[:500], order[500:]])
    for detector in ("phase", "slip", "local"):
        # Of "the cat the dog the ..." one phase would have three tokens of four.
        with pytest.raises(ParameterError, match="half of the symbols"):
            Detector(key, detector)
    assert "null:markov" in Detector(key, "auto").signature
    middle = len(order) // 2
    even = Key.of(secret, Profile(tokens, scheme=Paper()), [order[:middle], order[middle:]])
    assert "null:markov" not in Detector(even, "auto").signature
    assert Detector(even, "phase").detect(order[:60]).p_value <= 1.0


def test_a_key_has_no_table_of_its_vocabulary() -> None:
    """Ten thousand keys of a large vocabulary must fit into a memory."""
    master = Key.generate(LARGE["turns"])
    tracemalloc.start()
    keys = [master.derive(str(number)) for number in range(200)]
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(keys) == 200
    assert size < 200 * 8000  # a byte for each token and key
