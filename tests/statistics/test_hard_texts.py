"""Texts made to fool a test that counts tokens: over keys, p-values hold for every one of them."""

import numpy as np
import pytest

from patternmark import Alphabet, Detector, Key, Profile
from patternmark.core.schemes import Paper, Turns
from patternmark.core.secret import Secret
from patternmark.intervals import binomial_tail

TOKENS = Alphabet.from_symbols("tokens", [f"t{i}" for i in range(1200)], unscored=[0])
PROFILES = {
    "paper": Profile(alphabet=TOKENS, scheme=Paper()),
    "turns": Profile(alphabet=TOKENS, scheme=Turns(starts=4, nonces=1)),
}
LUCK = 1e-5


def hard_texts() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(11)
    words = rng.permutation(TOKENS.scored)
    function_words, rest = words[:8], words[8:]
    zipf = np.minimum(rng.zipf(1.3, size=150), TOKENS.num_scored) - 1
    alternating = np.stack([rng.choice(function_words, 50), rng.choice(rest, 50)], axis=1)
    quote = rest[:31]
    comma, bullet = rest[40], rest[41]
    listed = [np.array([bullet, *rng.choice(rest, 3), comma]) for _ in range(25)]
    return {
        "one word": np.full(120, words[0]),
        "two words in turn": np.tile(words[:2], 60),
        "a verse of four words": np.tile(words[:4], 30),
        "every second a function word": alternating.ravel(),
        "a quote again and again": np.concatenate([rest[100:120], quote, quote, quote, quote]),
        "a list": np.concatenate(listed),
        "words as frequent as in English": words[zipf],
        "a round of the schedule later": np.concatenate([rest[:512], rest[:150]]),
    }


@pytest.mark.slow
@pytest.mark.parametrize("scheme", PROFILES)
def test_false_positives_over_keys(scheme: str) -> None:
    """Of detectors that count every coin once, and of the ratio that shares it among its places."""
    texts = list(hard_texts().values())
    detectors = ("phase", "slip", "local", "lr")
    detectors += ("pattern",) if scheme == "paper" else ()
    num_keys = 200 if scheme == "paper" else 40
    log_p = {name: np.zeros((num_keys, len(texts))) for name in detectors}
    for number in range(num_keys):
        key = Key.of(Secret(number.to_bytes(32, "big")), PROFILES[scheme])
        for name in detectors:
            judge = Detector(key, name)
            found = judge.measure(judge.read(texts))
            log_p[name][number] = [one.log_p for one in found]
    for name in detectors:
        check(log_p[name], name)


def check(log_p: np.ndarray, name: str) -> None:
    """Over keys, no hard text has small p-values more often than they say: [keys, texts]."""
    for column, text in enumerate(hard_texts()):
        for level in (0.1, 0.01):
            hits = int(np.count_nonzero(log_p[:, column] <= np.log(level)))
            assert binomial_tail(hits, len(log_p), level) > LUCK, (name, text, level, hits)


@pytest.mark.slow
def test_what_holds_for_any_text_holds_for_hard_ones() -> None:
    """No mask, no look at the text: `p_any` of the default detector, ."""
    texts = hard_texts()
    log_p_any = np.zeros((60, len(texts)))
    for number in range(60):
        key = Key.of(Secret(number.to_bytes(32, "big")), Profile(alphabet=TOKENS, scheme=Turns()))
        verdicts = Detector(key).detect_many(texts.values(), list(texts))
        log_p_any[number] = [np.log(one.p_any) for one in verdicts]
        for verdict in verdicts:
            assert verdict.num_tokens_scored == len(texts[verdict.id])
    check(log_p_any, "p_any")
    least = dict(zip(texts, np.exp(log_p_any).min(axis=0), strict=True))
    assert least["every second a function word"] < 0.1  # and not idle


def test_counting_each_place_in_full_would_not_hold() -> None:
    """The check of `p_any` can fail: one word over and over, as if all its places had own coins."""
    text, hits = hard_texts()["two words in turn"], 0
    for number in range(40):
        key = Key.of(Secret(number.to_bytes(32, "big")), Profile(alphabet=TOKENS, scheme=Turns()))
        judge = Detector(key, "lr")
        reading = judge.read([text])[0]._replace(times=None)
        hits += judge.measure([reading])[0].log_p <= np.log(0.01)
    assert hits > 5


def test_counting_repeats_would_not_hold() -> None:
    """The check above can fail: two words in turn, all of them counted."""
    hits = 0
    for number in range(60):
        key = Key.of(Secret(number.to_bytes(32, "big")), PROFILES["paper"])
        detector = Detector(key, "phase", mask_repeats=False)
        hits += detector.detect(hard_texts()["two words in turn"]).prediction
    assert hits > 20  # half of all keys part the two words
