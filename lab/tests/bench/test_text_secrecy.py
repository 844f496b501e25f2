"""Secrecy of text keys: counted right, kept, and told by a page."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from patternmark import Key, Marker, Profile
from patternmark.core.secret import Secret
from patternmark.errors import InputError
from patternmark.io.kept import Kept
from patternmark.translation.translator import Translator
from patternmark_lab.bench import text_secrecy
from patternmark_lab.bench.pages import page_of
from patternmark_lab.bench.report import keep
from patternmark_lab.bench.text_secrecy import (
    BLOCK,
    FREQUENCIES,
    MODEL,
    PHASES,
    SENTENCES,
    WORDS,
    Size,
    crossing,
    run_text_secrecy_benchmark,
)
from patternmark_lab.bench.text_secrecy_page import to_markdown
from patternmark_lab.bench.text_secrecy_texts import FOR_FORGER, SCHEMES, Texts
from tests.synthetic import text, vocabulary

TOKENS = vocabulary(600)
GERMAN = [
    "Die Kommission hat einen neuen Vorschlag vorgelegt, und wir begrüßen ihn.",
    "Der Rat muss nun eine Entscheidung über die Hilfen für den Milchsektor treffen.",
]


class SyntheticTexts:
    """Texts that no model wrote."""

    delta, seed, most = 3.0, 1, 40

    def __init__(self) -> None:
        rng = np.random.default_rng(3)
        self.natural = [text(TOKENS, 15, rng) for _ in range(800)]

    def key(self, scheme: str, number: int) -> Key:
        return Key.of(Secret(bytes([number + 1]) * 32), Profile(TOKENS, SCHEMES[scheme]))

    def marked(self, scheme: str, number: int, count: int) -> list[np.ndarray]:
        marker = Marker(self.key(scheme, number), delta=self.delta)
        rng = np.random.default_rng(number)
        return [text(TOKENS, 75, rng, marker) for _ in range(min(count, self.most))]

    def forged(self, signs: np.ndarray, strength: float, most: int) -> list[np.ndarray]:
        assert strength == self.delta / 2
        return [signs[:75].argmax(axis=1)] * most


@pytest.fixture(scope="module")
def result() -> dict[str, Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_secrecy, "open_texts", lambda *_, **__: SyntheticTexts())
        size = Size(texts=30, keys=2, forgeries=10, translated=4)
        return run_text_secrecy_benchmark(Path("none"), Path("none"), size=size)


def passed(result: dict[str, Any], *how: str | int) -> dict[str, Any]:
    names = ("scheme", "attack", "forger", "texts")
    rows = [row for row in result["rows"] if tuple(row[name] for name in names) == how]
    assert len(rows) == 1
    return dict(rows[0])


@pytest.mark.slow
def test_forgeries_are_counted(result: dict[str, Any]) -> None:
    block = passed(result, "turns", BLOCK, WORDS, 30)
    assert block["passed"]["n"] == 20
    assert block["passed"]["rate"] > 0.9
    assert block["passed_any"]["rate"] <= block["passed"]["rate"]
    assert passed(result, "turns", FREQUENCIES, WORDS, 30)["passed"]["rate"] < 0.2
    assert passed(result, "paper", PHASES, SENTENCES, 30)["passed_any"] is None
    few, many = (passed(result, "turns", BLOCK, SENTENCES, n)["passed"]["rate"] for n in (1, 30))
    assert few < many
    assert passed(result, "turns", BLOCK, MODEL, 30)["passed"]["n"] == 8
    assert result["marked"]["turns"]["passed"]["n"] == 60
    ways = [(row["scheme"], row["attack"], row["forger"]) for row in result["one_in_ten"]]
    assert len(set(ways)) == len(ways) == 2 * (4 * 2 + 1)


@pytest.mark.slow
def test_page(result: dict[str, Any], tmp_path: Path) -> None:
    page = to_markdown(result)
    assert "--texts 30 --keys 2 --forgeries 10 --translated 4 --skip 1200 --delta 3" in page
    assert "| words in random order | frequencies | **more than 30** (more than 30) |" in page
    assert "| attack | passes by | 1 text | 3 texts | 10 texts | 30 texts |" in page
    keep(json.loads(json.dumps(result)), page, tmp_path)
    assert page_of(tmp_path / "text-secrecy.json")[1] == page


def test_too_few_paragraphs_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_secrecy, "open_texts", lambda *_, **__: SyntheticTexts())
    with pytest.raises(InputError, match="fewer than 41 paragraphs"):
        run_text_secrecy_benchmark(Path("none"), Path("none"), size=Size(texts=41, keys=1))


@pytest.mark.parametrize(
    ("curve", "texts"),
    [
        ([(1, 0.5), (10, 0.6)], 1.0),
        ([(1, 0.0), (10, 0.09)], None),
        ([(1, 0.0), (10, 0.1), (100, 0.0)], 10.0),
    ],
)
def test_crossing(curve: Sequence[tuple[int, float]], texts: float | None) -> None:
    assert crossing(curve) == pytest.approx(texts)


@pytest.mark.slow
def test_the_model_forges_what_is_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.set_num_threads(1)
    heard: list[str] = []
    texts = Texts(
        translator=Translator.open(),
        sources=[GERMAN[0]] * FOR_FORGER + GERMAN,
        natural=[],
        delta=4.0,
        seed=1,
        kept=Kept(tmp_path / "texts.jsonl"),
        step=heard.append,
    )
    key = texts.key("turns", 0)
    promoted = key.schedule.promoted_rows(np.arange(key.profile.scheme.num_keys))
    signs = np.where(promoted, 1.0, -1.0)

    def agreeing(some: list[np.ndarray]) -> float:
        return float(np.mean([(signs[np.arange(len(one)), one] > 0).mean() for one in some]))

    marked, forged = texts.marked("turns", 0, 2), texts.forged(signs, 2.0, 1)
    assert len(marked) == 2
    assert len(forged) == 1
    assert agreeing(marked) > 0.6
    assert agreeing(forged) > 0.6
    assert agreeing(texts.forged(-signs, 2.0, 1)) < 0.4
    for name in ("_translate", "_translate_believed"):
        monkeypatch.setattr(texts, name, pytest.fail)  # all is kept
    assert agreeing(texts.marked("turns", 0, 2)) == agreeing(marked)
    assert agreeing(texts.forged(signs, 2.0, 1)) == agreeing(forged)
    assert heard[0] == "marked/turns/0"
