"""Every detector on sequences with and without a mark, for all schemes."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from patternmark import PROTEIN, Detector, Key, Marker, ParameterError, Profile
from patternmark.core.alphabet import PROTEIN_BACKGROUND, SEPARATOR, UNREAD, Alphabet
from patternmark.core.blocks import MAX_BLOCKS
from patternmark.core.schemes import Blocks, Paper, Turns
from patternmark.core.secret import Secret
from patternmark.evidence import fisher
from patternmark.null.local import LocalRules
from patternmark.report.page import ReportEntry, render_report
from patternmark.report.plot import plot_verdicts
from patternmark.report.track import AGREES, Tracker
from patternmark.statistics import DETECTORS
from patternmark.statistics.best_path import local_paths, slip_paths
from patternmark.statistics.phase_sums import double_period
from tests.conftest import SECRET_HEX

FREQUENCIES = np.array(PROTEIN_BACKGROUND) / sum(PROTEIN_BACKGROUND)
NONCES = 4
# For each amino acid as many tokens: a text has few of them twice.
EACH = 60
TOKENS = Alphabet.from_symbols(
    "tokens", [f"t{i}" for i in range(21 * EACH)], unscored=range(20 * EACH, 21 * EACH)
)
PROFILES = {
    "paper": Profile(scheme=Paper(), delta=2.0),
    "turns": Profile(TOKENS, Turns(period=64, block=4, starts=8, nonces=NONCES), delta=2.0),
    "blocks": Profile(scheme=Blocks(nonces=NONCES), delta=2.0),
}
CASES = [(scheme, name) for scheme in PROFILES for name in DETECTORS[scheme]]
OF_PROTEINS = [case for case in CASES if case[0] != "turns"]  # tokens have no separator
every_case = pytest.mark.parametrize(("scheme", "name"), CASES)


@cache
def key_of(scheme: str, secret: bytes = bytes.fromhex(SECRET_HEX)) -> Key:
    return Key.of(Secret(secret), PROFILES[scheme])


@cache
def detector_of(scheme: str, name: str) -> Detector:
    return Detector(key_of(scheme), name)


def marked(
    key: Key,
    length: int,
    rng: np.random.Generator,
    payload: int | None = None,
    seed: int = 1,
    chain: int = 0,
) -> np.ndarray:
    """Natural letters, tilted by the bias of their keys."""
    marker = Marker(key, payload=payload)
    keys = marker.key_sequence(length, seed=seed, chain=chain)
    each = key.profile.alphabet.size // len(FREQUENCIES)
    frequencies = np.repeat(FREQUENCIES / each, each)
    law = np.cumsum(frequencies * np.exp(marker.bias(keys, temperature=1.0)), axis=1)
    return (rng.random((length, 1)) * law[:, -1:] >= law[:, :-1]).sum(axis=1)


def plain(length: int, rng: np.random.Generator) -> np.ndarray:
    return rng.choice(PROTEIN.size, size=length, p=FREQUENCIES)


@every_case
def test_a_mark_is_found_by_its_key_alone(scheme: str, name: str, rng: np.random.Generator) -> None:
    design = marked(key_of(scheme), 300, rng)
    found = detector_of(scheme, name).detect(design)
    assert found.prediction
    assert found.log10_p < -6
    assert found.detector == name
    for other in (plain(300, rng), plain(80, rng)):
        assert detector_of(scheme, name).detect(other).log10_p > -3
    if scheme != "paper":  # a stranger's split may share much with the paper's
        stranger = Detector(key_of(scheme, bytes(32)), name)
        assert stranger.detect(design).log10_p > -3


@every_case
def test_p_values_are_never_above_one_and_nothing_has_one(scheme: str, name: str) -> None:
    detector = detector_of(scheme, name)
    nothing = "X/X" if (scheme, name) in OF_PROTEINS else "XX"
    each = EACH if scheme == "turns" else 1
    verdicts = detector.detect_many(
        [PROTEIN.encode(text) * each for text in ("", "XXXX", nothing, "A", "MK", "W" * 40)]
    )
    assert all(0.0 < v.p_value <= 1.0 and v.log10_p <= 0.0 for v in verdicts)
    for verdict in verdicts[:3]:
        assert verdict.p_value == 1.0
        assert verdict.note.startswith("nothing to score")
        assert not verdict.prediction
    assert "too short to tell" in verdicts[4].note
    assert str(verdicts[0].log10_p) == "0.0"


@pytest.mark.parametrize(("scheme", "name"), OF_PROTEINS)
def test_chains_of_a_record_add_up(scheme: str, name: str, rng: np.random.Generator) -> None:
    key, detector = key_of(scheme), detector_of(scheme, name)
    parts = [marked(key, n, rng, seed=5, chain=chain) for chain, n in enumerate((120, 110))]
    one, two = (detector.detect(part).log10_p for part in parts)
    both = detector.detect(np.concatenate([parts[0], [-1], parts[1]]))
    assert both.length == 230
    if name in ("phase", "slip"):
        expected = fisher([one * np.log(10), two * np.log(10)]) / np.log(10)
        assert both.log10_p == pytest.approx(expected, rel=1e-9)
    if name != "local":  # which looks for one stretch
        assert both.log10_p < min(one, two)


@every_case
def test_the_batch_does_not_matter(scheme: str, name: str, rng: np.random.Generator) -> None:
    detector = detector_of(scheme, name)
    batch = [plain(n, rng) for n in (0, 1, 3, 50, 53, 201, 400)]
    batch.append(marked(key_of(scheme), 150, rng))
    together = detector.detect_many(batch)
    for verdict, ids in zip(together, batch, strict=True):
        alone = detector.detect(ids)
        assert alone.log10_p == pytest.approx(verdict.log10_p, abs=1e-9)
        assert alone.statistic == pytest.approx(verdict.statistic, abs=1e-9)


def test_many_phases_are_walked_as_defined(rng: np.random.Generator) -> None:
    """Batches of paths against one path at a time, written down plainly."""
    rules, period = LocalRules(slip=6), 8
    signs = np.append(rng.choice([1, -1], size=(period, 4)), np.zeros((period, 1)), axis=1)
    windows = double_period(signs.astype(np.int8))
    symbols = rng.integers(0, 4, size=(3, 40))
    for place in range(10, 30):  # a stretch worth finding, in one phase
        agreeing = np.flatnonzero(signs[(3 + place) % period, :4] > 0)
        symbols[1, place] = agreeing[0] if len(agreeing) else UNREAD
    symbols[2, 30:] = UNREAD  # a shorter row, filled up
    best, stretches = slip_paths(windows, symbols, 3), local_paths(windows, symbols, rules)
    for row in range(3):
        global_score, local_score = np.zeros(period), np.zeros(period)
        highest = 0.0
        for place, symbol in enumerate(symbols[row]):
            sign = signs[(place + np.arange(period)) % period, symbol]
            if symbol != UNREAD:
                moved = np.maximum(np.roll(global_score, 1), np.roll(global_score, -1)) - 3
                global_score = np.maximum(global_score, moved) + sign
            for shift in (1, -1):
                local_score = np.maximum(local_score, np.roll(local_score, shift) - rules.slip)
            gains = np.where(sign > 0, rules.match, np.where(sign < 0, -rules.mismatch, 0))
            local_score = np.maximum(local_score, 0) + gains
            highest = max(highest, local_score.max())
        assert best[row] == global_score.max()
        assert stretches[row, 0] == highest
    assert stretches[1, 1] <= 12
    assert stretches[1, 2] >= 28


@pytest.mark.parametrize("scheme", ["blocks", "turns"])
@pytest.mark.parametrize("name", ["auto", "lr"])
def test_the_payload_is_read_back(scheme: str, name: str, rng: np.random.Generator) -> None:
    for payload in range(NONCES):
        verdict = detector_of(scheme, name).detect(
            marked(key_of(scheme), 250, rng, payload=payload)
        )
        assert verdict.payload == payload
        assert verdict.payload_error is not None
        assert verdict.payload_error < 1e-3
    unmarked = detector_of(scheme, name).detect(plain(250, rng))
    assert (unmarked.payload, unmarked.payload_error) == (None, None)


def test_an_unmarked_chain_does_not_hide_the_mark_of_another(rng: np.random.Generator) -> None:
    """Chains of a record have one nonce: it is chosen by all of them together."""
    key = Key.of(Secret(bytes(32)), Profile(scheme=Blocks()))
    detector = Detector(key)
    first, second = marked(key, 400, rng, seed=4), plain(100, rng)
    alone = detector.detect(first)
    beside = detector.detect(np.concatenate([first, [SEPARATOR], second]))
    assert beside.payload == alone.payload
    assert beside.log10_p < 0.6 * alone.log10_p < -6
    other = marked(key, 400, rng, seed=5)  # of another nonce: no chain of the same design
    assert detector.detect(np.concatenate([first, [SEPARATOR], other])).log10_p <= 0.0


@pytest.mark.slow
@pytest.mark.parametrize(("chains", "length"), [(4, 60), (12, 20)])
def test_records_of_many_short_chains_keep_to_the_rate(
    chains: int, length: int, rng: np.random.Generator
) -> None:
    """A product of ratios is no ratio of one long chain: its tail is bounded by one factor's."""
    hits = 0
    for number in range(10):
        key = Key.of(Secret(bytes([number] * 32)), Profile(scheme=Blocks(nonces=1)))
        parts = [[plain(length, rng) for _ in range(chains)] for _ in range(200)]
        records = [np.concatenate([np.append(p, SEPARATOR) for p in some])[:-1] for some in parts]
        hits += sum(v.log10_p <= -1.0 for v in Detector(key).detect_many(records))
    assert hits <= 230  # of 2000, at 10 %: two standard deviations above


def test_a_lost_symbol_does_not_hide_the_mark(rng: np.random.Generator) -> None:
    """With many nonces, the right one must be chosen by a part of the sequence."""
    key = Key.of(Secret(bytes(32)), Profile(scheme=Blocks()))
    detector = Detector(key, "lr")
    found = 0
    for seed in range(16):
        nonce = Marker(key).key_sequence(1, seed=seed)[0] // MAX_BLOCKS
        # Of strength 1, half of it beside its blocks.
        verdict = detector.detect(np.delete(marked(key, 401, rng, seed=seed), 200))
        assert verdict.payload in (nonce, None)
        found += verdict.prediction
    assert found >= 15


def test_a_stretch_is_found_where_it_lies(rng: np.random.Generator) -> None:
    for scheme in ("paper", "turns"):
        whole = np.concatenate([plain(100, rng), marked(key_of(scheme), 150, rng), plain(90, rng)])
        detector = detector_of(scheme, "local")
        found, alone = detector.detect(whole), detector.detect(whole[100:250])
        assert found.segment is not None
        # Beyond its ends chance may go on for a while, if that scores more.
        assert min(found.segment[1], 250) - max(found.segment[0], 100) >= 130
        assert found.statistic >= alone.statistic


def test_options_and_keys_that_do_not_fit_are_refused() -> None:
    for scheme in ("turns", "blocks"):
        with pytest.raises(ParameterError, match=f"not judge keys of the scheme '{scheme}'"):
            Detector(key_of(scheme), "pattern")
    with pytest.raises(ParameterError, match="use auto or lr"):
        Detector(key_of("blocks"), "phase")
    with pytest.raises(ParameterError, match="apply only to the detector 'pattern'"):
        Detector(key_of("paper"), "phase", m=5)


@pytest.mark.slow
@every_case
def test_every_verdict_has_its_picture_and_page(
    scheme: str, name: str, rng: np.random.Generator, tmp_path: Path
) -> None:
    detector, design = detector_of(scheme, name), marked(key_of(scheme), 130, rng)
    between = [SEPARATOR] if (scheme, name) in OF_PROTEINS else []
    two = np.concatenate([design[:70], between, plain(60, rng)]).astype(int)
    sequences = [design, plain(90, rng), two, np.array([20, 20]), np.array([3]), np.array([], int)]
    verdicts = detector.detect_many(sequences)
    plot_verdicts(detector, verdicts[2:5], sequences[2:5], str(tmp_path / "x.svg"))
    assert (tmp_path / "x.svg").stat().st_size > 5000
    entries = [ReportEntry(v, ids) for v, ids in zip(verdicts, sequences, strict=True)]
    html = render_report(detector, entries, title="x")
    body = html.split("</style>")[1]
    assert "nan" not in body
    assert "inf" not in body
    assert body.count("<svg") == 2 * len(sequences)
    legend = body[body.index('class="legend"') :].split("</p>")[0]
    assert ("part 2" in legend) is (scheme == "paper")
    assert ("<code>" in legend) is (scheme == "paper")
    assert ("learns the partition" in body) is (scheme == "paper")


@every_case
def test_curves_meet_the_verdict(scheme: str, name: str, rng: np.random.Generator) -> None:
    """The curve at the observed value is the p-value that was reported."""
    detector = detector_of(scheme, name)
    for ids in (plain(90, rng), marked(key_of(scheme), 90, rng)):
        reading, verdict = detector.read([ids])[0], detector.detect(ids)
        curve = detector.statistic.null_curve(reading, verdict.statistic)
        assert (np.diff(curve.values) > 0).all()
        if curve.is_tail:
            assert (np.diff(curve.heights) <= 1e-9).all()
            low = np.searchsorted(curve.values, curve.observed, side="right") - 1
            high = min(low + 1, len(curve.values) - 1)
            log_p = verdict.log10_p * np.log(10)
            assert curve.heights[high] - 1e-9 <= log_p <= curve.heights[low] + 1e-9
        else:
            tail = curve.heights[curve.values >= curve.observed].sum()
            assert tail == pytest.approx(verdict.p_value, rel=1e-3, abs=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["blocks", "turns"])
def test_the_track_of_a_key_follows_slips(scheme: str, rng: np.random.Generator) -> None:
    key = key_of(scheme)
    detector, tracker = detector_of(scheme, "auto"), Tracker(key)
    slipped = np.delete(marked(key, 301, rng), 150)
    track = tracker.follow(detector.read([slipped])[0])
    halves = np.nanmean(track.agreement[:150]), np.nanmean(track.agreement[150:])
    assert min(halves) > 0.75 > track.chance
    assert ((track.kinds == AGREES) == (track.agreement == 1.0)).all()
    shares, chances = [], []
    for _ in range(10):
        unmarked = tracker.follow(detector.read([plain(300, rng)])[0])
        shares.append(np.nanmean(unmarked.agreement))
        chances.append(unmarked.chance)
    assert np.mean(shares) == pytest.approx(np.mean(chances), abs=0.03)


def test_a_picture_of_blocks_does_not_tell_which_symbols_agree(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Its track has one point for each window: a count, not a place."""
    from matplotlib.axes import Axes

    drawn: list[np.ndarray] = []
    plot = Axes.plot

    def spy(axes: Axes, x: np.ndarray, *rest: object, **options: object) -> object:
        drawn.append(np.asarray(x))
        return plot(axes, x, *rest, **options)

    monkeypatch.setattr(Axes, "plot", spy)
    detector, ids = detector_of("blocks", "auto"), plain(310, rng)
    plot_verdicts(detector, [detector.detect(ids)], [ids], str(tmp_path / "x.svg"))
    assert (np.diff(drawn[0]) == 31).all()
    assert len(drawn[0]) == 10
