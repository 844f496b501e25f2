from pathlib import Path

import numpy as np
import pytest

from patternmark import Detector, Key, ParameterError
from patternmark.plot import plot_verdicts


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
    for path in (tmp_path / "absent" / "x.png", tmp_path / "x.xyz"):
        with pytest.raises(ParameterError, match="cannot be written"):
            plot_verdicts(detector, [verdict], ["MKV"], str(path))
