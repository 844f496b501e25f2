from pathlib import Path

import numpy as np
import pytest

from patternmark import Key, Marker, ParameterError, Profile
from patternmark.core.keyfile import save_key
from patternmark.core.schemes import Turns
from patternmark.core.secret import Secret

torch = pytest.importorskip("torch")

from patternmark.adapters import serving  # noqa: E402
from patternmark.adapters.serving import ServedMarks, ServerKey  # noqa: E402
from tests.adapters.tiny_models import NUM_COLUMNS, NUM_TOKENS, WORDS, words_key  # noqa: E402


def bias_of(marks: ServedMarks, slot: int, places: list[int]) -> np.ndarray:
    zeros = torch.zeros(len(places), NUM_COLUMNS)
    rows = marks.add_to(zeros, torch.full((len(places),), slot), torch.tensor(places)).numpy()
    assert not rows[:, NUM_TOKENS:].any()
    return rows[:, :NUM_TOKENS]


def expected(
    marker: Marker, seed: str, places: list[int], payload: int | None = None
) -> np.ndarray:
    own = Marker(marker.key, payload=payload)
    return own.bias(own.key_sequence(max(places) + 1, seed)[places], temperature=1.0)


def test_texts_have_the_keys_of_their_seed_and_payload(secret: Secret) -> None:
    marker = Marker(words_key(secret, scheme="turns", starts=512, nonces=16))
    marks = ServedMarks(marker)
    marks.open(0, "a")
    marks.open(5, "b", payload=9)
    marks.cover({0: 40, 5: 300})
    np.testing.assert_allclose(bias_of(marks, 0, [0, 7, 39]), expected(marker, "a", [0, 7, 39]))
    np.testing.assert_allclose(bias_of(marks, 5, [0, 299]), expected(marker, "b", [0, 299], 9))
    assert not bias_of(marks, 3, [0]).any()  # nothing was opened there
    marks.open(0, "c")
    assert not bias_of(marks, 0, [0, 7]).any()  # what the slot held before is gone


def test_a_text_longer_than_the_window_goes_on(secret: Secret) -> None:
    """Also one that comes back after it was set aside: it is opened again, far from its start."""
    marker = Marker(words_key(secret, scheme="turns", starts=512))
    marks = ServedMarks(marker)
    marks.open(0, "long")
    for length in range(1, 2 * serving.WINDOW, 50):
        marks.cover({0: length})
    last = [length - 256, length - 1]
    np.testing.assert_allclose(bias_of(marks, 0, last), expected(marker, "long", last))
    marks.open(0, "long")
    marks.cover({0: length})
    np.testing.assert_allclose(bias_of(marks, 0, last), expected(marker, "long", last))


def test_rows_are_shared_and_forgotten_when_they_are_too_many(
    secret: Secret, monkeypatch: pytest.MonkeyPatch
) -> None:
    marker = Marker(words_key(secret, scheme="turns", nonces=64))
    marks = ServedMarks(marker, slots=64)
    for slot in range(4):
        marks.open(slot, f"text {slot}", payload=3)
        marks.cover({slot: 8})
    shared = len(marks._promoted)
    assert shared <= 1 + 8 + serving._POSITIONS_AHEAD  # of one text
    monkeypatch.setattr(serving, "_CACHED_BYTES", 300 * NUM_TOKENS)
    for slot in range(64):
        marks.open(slot, f"text {slot}", payload=slot)
        marks.cover({slot: 8})
        assert len(marks._promoted) < 300 + 8 + serving._POSITIONS_AHEAD
    every = dict.fromkeys(range(64), 8 + serving._POSITIONS_AHEAD + 1)
    marks.cover(every)  # all at once, after forgetting
    for slot in (0, 63):
        want = expected(marker, f"text {slot}", [0, 9], slot)
        np.testing.assert_allclose(bias_of(marks, slot, [0, 9]), want)


def test_keys_that_promote_the_same_share_a_row(secret: Secret) -> None:
    """A block of 128 keys has a half and its complement, whatever its length."""
    key = Key.of(secret, Profile(WORDS, Turns(period=512, block=128)))
    marks = ServedMarks(Marker(key))
    marks.open(0, "text")
    marks.cover({0: 1000})
    assert len(marks._promoted) == 1 + 2 * 512 // 128
    np.testing.assert_allclose(
        bias_of(marks, 0, [0, 127, 128, 999]), expected(Marker(key), "text", [0, 127, 128, 999])
    )


def test_a_tempered_delta_follows_each_request(secret: Secret) -> None:
    marks = ServedMarks(Marker(words_key(secret, delta=2.0, delta_at="tempered")), slots=3)
    for slot, temperature in enumerate((0.5, 1.0, 0.0)):
        marks.open(slot, "seed", temperature=temperature)
    marks.cover(dict.fromkeys(range(3), 4))
    assert [float(bias_of(marks, slot, [0]).max()) for slot in range(3)] == [1.0, 2.0, 2.0]


def test_the_environment_says_what_a_server_marks_with(secret: Secret, tmp_path: Path) -> None:
    key = words_key(secret, scheme="turns", nonces=256)
    save_key(key, tmp_path / "text.key")
    set_by = {"PATTERNMARK_KEY": str(tmp_path / "text.key")}
    plain = ServerKey.from_environment(set_by)
    assert (plain.marker.delta, plain.marker.payload) == (3.0, None)
    own = ServerKey.from_environment(
        set_by | {"PATTERNMARK_DELTA": "1.5", "PATTERNMARK_PAYLOAD": "17"}
    )
    assert (own.marker.delta, own.marker.payload) == (1.5, 17)
    with pytest.raises(ParameterError, match="PATTERNMARK_KEY is not set"):
        ServerKey.from_environment({})
    with pytest.raises(ParameterError, match="PATTERNMARK_DELTA must be a number, not 'much'"):
        ServerKey.from_environment(set_by | {"PATTERNMARK_DELTA": "much"})


def test_requests_name_payloads_only_where_they_may(secret: Secret, tmp_path: Path) -> None:
    save_key(words_key(secret, scheme="turns", nonces=256), tmp_path / "text.key")
    set_by = {"PATTERNMARK_KEY": str(tmp_path / "text.key")}
    asked = {"patternmark_payload": 8}
    with pytest.raises(ParameterError, match="requests may not choose"):
        ServerKey.from_environment(set_by).payload_of(asked)
    allowing = ServerKey.from_environment(set_by | {"PATTERNMARK_PAYLOAD": "request"})
    assert (allowing.payload_of(asked), allowing.payload_of(None)) == (8, None)
    with pytest.raises(ParameterError, match="payloads from 0 to 255, not 256"):
        allowing.payload_of({"patternmark_payload": 256})
    with pytest.raises(ParameterError, match="must be a whole number, not '8'"):
        allowing.payload_of({"patternmark_payload": "8"})
    save_key(words_key(secret), tmp_path / "one.key")
    with pytest.raises(ParameterError, match="carries no payload"):
        ServerKey.from_environment(
            {"PATTERNMARK_KEY": str(tmp_path / "one.key"), "PATTERNMARK_PAYLOAD": "request"}
        )
