from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from patternmark import Detector, InputError, Key, ParameterError, Profile
from patternmark.core.alphabet import NO_KEY, PROTEIN
from patternmark.core.schemes import Blocks
from patternmark.core.secret import Secret
from patternmark.report.plot import _draw_track, plot_verdicts
from patternmark.report.track import AGREES, DIFFERS, WINDOW, Tracker
from tests.synthetic import marked, plain


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "magic"), [("x.png", b"\x89PNG"), ("x.svg", b"<?xml"), ("x.pdf", b"%PDF")]
)
def test_pictures_in_each_format(
    key: Key, tmp_path: Path, rng: np.random.Generator, name: str, magic: bytes
) -> None:
    detector = Detector(key)
    sequences = [rng.integers(0, 21, size=n) for n in (300, 2000, 3)]
    verdicts = detector.detect_many(sequences)
    plot_verdicts(detector, verdicts, sequences, str(tmp_path / name))
    content = (tmp_path / name).read_bytes()
    assert content.startswith(magic)
    assert len(content) > 5000


def test_a_picture_shows_id_and_p_value(key: Key, tmp_path: Path) -> None:
    detector = Detector(key)
    verdict = detector.detect("MKV" * 50, id="design-7")
    plot_verdicts(detector, [verdict], ["MKV" * 50], str(tmp_path / "x.svg"))
    svg = (tmp_path / "x.svg").read_text()
    assert "design-7" in svg
    assert key.key_id in svg


def test_a_picture_that_cannot_be_written_is_named(key: Key, tmp_path: Path) -> None:
    detector = Detector(key)
    verdict = detector.detect("MKV")
    with pytest.raises(ParameterError, match=r"x\.xyz: the picture cannot be written: Format"):
        plot_verdicts(detector, [verdict], ["MKV"], str(tmp_path / "x.xyz"))
    with pytest.raises(InputError, match=r"absent/x\.png: cannot be written: No such file"):
        plot_verdicts(detector, [verdict], ["MKV"], str(tmp_path / "absent" / "x.png"))


def test_the_track_of_a_block_mark(secret: Secret, rng: np.random.Generator) -> None:
    key = Key.of(secret, Profile(scheme=Blocks(nonces=2)))
    detector, tracker = Detector(key), Tracker(key)
    sequences = [marked(key, 150, rng) + plain(150, rng) + "XX", "XXX"]
    readings = detector.read([PROTEIN.encode(sequence) for sequence in sequences])
    half, nothing = (tracker.follow(reading) for reading in readings)
    assert np.nanmean(half.agreement[:150]) > 0.7
    assert np.nanmean(half.agreement[150:300]) < 0.65
    assert half.kinds[-1] == NO_KEY
    assert set(half.kinds.tolist()) == {AGREES, DIFFERS, NO_KEY}
    assert (nothing.kinds == NO_KEY).all()
    again = tracker.follow(readings[0])
    assert again.chance == half.chance


@pytest.mark.slow
def test_chance_agrees_with_the_best_of_many_nonces_as_unmarked_letters_do(
    secret: Secret, rng: np.random.Generator
) -> None:
    """More often than half: one record's share differs by 0.03 from another's, so ten are read."""
    key = Key.of(secret, Profile(scheme=Blocks()))
    readings = Detector(key).read([PROTEIN.encode(plain(300, rng)) for _ in range(10)])
    tracks = [Tracker(key).follow(reading) for reading in readings]
    chance = np.mean([track.chance for track in tracks])
    assert 0.51 < chance < 0.6
    agreement = np.mean([np.nanmean(track.agreement) for track in tracks])
    assert agreement == pytest.approx(chance, abs=0.03)


def test_a_picture_of_a_block_mark_shows_windows_alone(
    secret: Secret, rng: np.random.Generator
) -> None:
    """Windows that overlap would tell, by their differences, which letters agree."""
    key = Key.of(secret, Profile(scheme=Blocks(nonces=1)))
    (reading,) = Detector(key).read([PROTEIN.encode(marked(key, 310, rng))])
    axes = Figure().subplots()
    _draw_track(axes, Tracker(key).follow(reading), "black")
    positions = max((line.get_xdata() for line in axes.lines), key=len)
    assert len(positions) == 310 // WINDOW
    assert np.diff(positions).min() >= WINDOW
