"""Translation with the model that ships with the package."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch

from patternmark import Detector, Key, Marker, Profile
from patternmark.core.schemes import Paper, Turns
from patternmark.core.secret import Secret
from patternmark.errors import ParameterError
from patternmark.models.mask_predict import mask_predict
from patternmark.translation.choice import line_number
from patternmark.translation.decode import Decoding, padded
from patternmark.translation.translator import LONGEST_PIECE, Translation, Translator

LINES = [
    "Wir begrüßen die Gewährung von 300 Mio EUR an zusätzlichen Hilfen für den Milchsektor.",
    "",
    "Ich möchte die Mitglieder dieses Parlaments auffordern, sich über eine schnellere und bessere "
    "Vorgehensweise Gedanken zu machen.",
    "Sie sollten nicht mit Mord davonkommen dürfen.",
]
FAST = Decoding(iterations=4, length_beam=2)


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


@cache
def translator() -> Translator:
    return Translator.open()


def a_key(**others: object) -> Key:
    profile = Profile(translator().vocabulary.alphabet(), **others)
    return Key.of(Secret(bytes(range(32))), profile)


def test_german_becomes_english() -> None:
    found = translator().translate(LINES, Decoding())
    assert [bool(translation.text) for translation in found] == [True, False, True, True]
    assert "300 million" in found[0].text
    assert "Parliament" in found[2].text or "House" in found[2].text
    assert found[0].log10_p is None


def test_a_line_is_translated_alike_whatever_stands_around_it() -> None:
    marker = Marker(a_key())
    together = translator().translate(LINES, FAST, marker, seed=5)
    alone = translator().translate([LINES[2]], FAST, marker, seed=5)
    assert alone[0] == together[2]
    other = translator().translate([LINES[2]], FAST, Marker(a_key(), delta=6.0), seed=5)
    assert other[0].text != alone[0].text


@pytest.mark.parametrize("scheme", ["paper", "turns"])
def test_the_mark_is_found_in_the_text(scheme: str) -> None:
    source = " ".join([LINES[0], LINES[2], LINES[3]])
    key = a_key()
    if scheme == "paper":
        key = Key.of(
            Secret(bytes(range(32))), Profile(translator().vocabulary.alphabet(), scheme=Paper())
        )
    marked = translator().translate([source], Decoding(), Marker(key, delta=5.0), seed=0)[0]
    plain = translator().translate([source], Decoding())[0]
    detector = Detector(key)
    texts = translator().codec.encode_batch([marked.text, plain.text])
    verdicts = detector.detect_many(texts)
    assert verdicts[0].p_value < 1e-3
    assert verdicts[0].log10_p == pytest.approx(marked.log10_p, abs=2.5)  # known keys, or a search
    assert verdicts[1].p_value > 1e-3


def test_the_likeliest_candidate_that_shows_its_mark_is_taken() -> None:
    marker = Marker(a_key(), delta=2.0)
    source = " ".join([LINES[0], LINES[2]])
    several = Decoding(iterations=4, length_beam=5)
    best = translator().translate([source], several, marker, seed=0, sure=1.0)[0]
    hopeless = translator().translate([source], several, marker, seed=0, sure=1e-300)[0]
    assert hopeless == best  # nothing is so sure: no quality is spent on it
    clear = translator().translate([source], several, marker, seed=0, sure=1e-2)[0]
    assert best.log10_p is not None
    assert clear.log10_p is not None
    assert clear == best or clear.log10_p <= -2.0


def test_lines_are_marked_as_strongly_as_they_need() -> None:
    quick = Decoding(iterations=4, length_beam=3)
    lines = [" ".join([LINES[0], LINES[2], LINES[3]]), LINES[0], ""]
    marker = Marker(a_key(), delta=6.0)

    def once(delta: float) -> list[Translation]:
        return translator().translate(lines, quick, marker.with_delta(delta), seed=0, sure=1e-2)

    found = translator().translate(lines, quick, marker, seed=0, sure=1e-2, passes=2)
    for made, weak, strong in zip(found, once(3.0), once(6.0), strict=True):
        assert made == (weak if weak.is_clear(1e-2) else strong)
    assert found[0].log10_p is not None
    assert found[0].log10_p <= -2.0
    assert found[2].text == ""


def test_keys_follow_positions_within_each_candidate() -> None:
    model = translator().model
    key = a_key()
    marker = Marker(key, delta=1e4)  # every token is one its key promotes
    ids = padded(translator().codec.encode_batch([LINES[3]]), model.config.pad, torch.device("cpu"))
    keys = marker.key_sequences([30], seed=1)
    memory = model.encode(ids)
    found = mask_predict(
        model,
        memory,
        torch.tensor([[9, 12]]),
        iterations=3,
        promotion=marker.prepare(keys, 1.0, like=model.embedding.weight),
    )
    for candidate in found.ranked()[0]:
        promoted = key.schedule.promoted_rows(keys[0, : len(candidate)])
        assert promoted[np.arange(len(candidate)), candidate].all()


def test_long_lines_are_translated_in_pieces_and_the_keys_run_on() -> None:
    source = " ".join([LINES[0], LINES[2], LINES[3]] * 4)
    assert len(translator().codec.encode_batch([source])[0]) > LONGEST_PIECE
    key = a_key()
    once = replace(FAST, length_beam=1)
    made = translator().translate([source], once, Marker(key, delta=1e4), seed=0, sure=1.0)[0]
    keys = Marker(key).key_sequence(len(made.tokens), 0, line_number(source))
    promoted = key.schedule.promoted_rows(keys)
    assert promoted[np.arange(len(made.tokens)), list(made.tokens)].all()


def test_without_a_seed_lines_get_fresh_keys_and_nonces_can_be_chosen() -> None:
    alphabet = translator().vocabulary.alphabet()
    key = Key.of(Secret(bytes(range(32))), Profile(alphabet, Turns(nonces=8)))
    marker, once = Marker(key, delta=1e4), replace(FAST, length_beam=1)
    lines = [LINES[0], LINES[2], LINES[0]]
    made = translator().translate(lines, once, marker, seed=3, sure=1.0, nonces=[5, 2, 7])
    for line, nonce, found in zip(lines, (5, 2, 7), made, strict=True):
        own = Marker(key, payload=nonce).key_sequence(len(found.tokens), 3, line_number(line))
        promoted = key.schedule.promoted_rows(own)
        assert promoted[np.arange(len(found.tokens)), list(found.tokens)].all()
    texts = {translator().translate([LINES[2]], once, marker)[0].text for _ in range(12)}
    assert len(texts) > 2  # of 8 nonces


def test_who_knows_the_seed_cannot_sample_a_marked_text_again() -> None:
    warm = replace(FAST, temperature=1.0, length_beam=1)
    silent = [Marker(key, delta=0.0) for key in (a_key(), a_key().derive("x"))]
    texts = [
        translator().translate([LINES[2]], warm, marker, seed=1)[0].text
        for marker in (None, *silent, silent[0])
    ]
    assert len(set(texts[:3])) == 3
    assert texts[3] == texts[1]


def test_sampling_follows_the_seed() -> None:
    warm = Decoding(iterations=3, length_beam=1, temperature=1.0)
    first, again, other = (
        translator().translate([LINES[2]], warm, seed=seed)[0].text for seed in (1, 1, 2)
    )
    assert first == again != other


def test_no_line_is_broken() -> None:
    never = set(translator().model.config.never)
    texts = translator().codec.decode_batch([[i] for i in range(translator().model.config.vocab)])
    assert all(i in never for i, text in enumerate(texts) if set(text) & set("\n\r\x0b\x0c\x85"))


def test_a_key_for_another_tokenizer_is_refused() -> None:
    with pytest.raises(ParameterError, match="make a key of the alphabet cmlm-de-en"):
        translator().translate(LINES, FAST, Marker(Key.generate(Profile(scheme=Paper()))))
