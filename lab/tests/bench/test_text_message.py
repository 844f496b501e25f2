"""Numbers in texts read back, keys of texts found among others: counted, kept, on a page."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from patternmark import Detector, Key, Profile
from patternmark.core.secret import Secret
from patternmark.errors import InputError, ParameterError
from patternmark.results import Verdict
from patternmark.translation.decode import Decoding
from patternmark.translation.translator import Translator
from patternmark_lab.bench.pages import page_of
from patternmark_lab.bench.report import keep
from patternmark_lab.bench.text_message import Read, calibration, run_text_message_benchmark
from patternmark_lab.bench.text_message_page import to_markdown
from tests.conftest import Outcome

GERMAN = [
    "Die Kommission hat einen neuen Vorschlag vorgelegt, und wir begrüßen die Hilfen für den "
    "Milchsektor, die im Haushalt des nächsten Jahres vorgesehen sind.",
    "Ich möchte die Mitglieder dieses Parlaments auffordern, über eine bessere Lösung für die "
    "Fischer an unseren Küsten zu reden, bevor der Rat eine Entscheidung trifft.",
]
ENGLISH = [
    "The Commission has presented a new proposal, and we welcome the aid for the dairy sector that "
    "is provided for in next year's budget.",
    "I should like to call on the Members of this Parliament to talk about a better solution for "
    "the fishermen on our coasts before the Council takes a decision.",
]
COPY = "I shall vote in favour of the report because the rules on fishing quotas are fair to all."


def measure(folder: Path, **others: Any) -> dict[str, Any]:
    file = folder / "long.tsv"
    rows = [("Kurz.", "Short."), (COPY, COPY), *zip(GERMAN, ENGLISH, strict=True)]
    file.write_text("".join("\t".join(row) + "\n" for row in rows), encoding="utf-8")
    torch.set_num_threads(1)
    how: dict[str, Any] = {
        "texts": 2,
        "nonces": (1, 256),
        "deltas": (8.0,),
        "as_needed": 0.0,
        "tokens": (15, 60),
        "decoding": Decoding(iterations=3, length_beam=1),
        "keys": 30,
        "skip": 0,
        "partial": folder / "kept.jsonl",
    }
    return run_text_message_benchmark(file, **how | others)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("message")


@pytest.fixture(scope="module")
def result(folder: Path) -> dict[str, Any]:
    return measure(folder)


@pytest.mark.slow
def test_numbers_are_counted(result: dict[str, Any]) -> None:
    assert result["texts"] == 2  # without what is English already
    rows = {(row["nonces"], row["case"][0]): row for row in result["rows"]}
    assert len(rows) == len(result["rows"]) == 6
    assert rows[1, "none"]["found"]["hits"] == 2
    assert "right" not in rows[1, "none"]
    for name in ("none", "word-drop", "window"):
        own = rows[256, name]
        assert sum(own[what]["hits"] for what in ("right", "wrong", "not_printed")) == 2
        assert own["found"]["hits"] == own["right"]["hits"] + own["wrong"]["hits"]
        assert own["found_any"]["hits"] <= own["found"]["hits"]
    assert rows[256, "none"]["right"]["hits"] == 2
    printed = sum(row["found"]["hits"] for row in result["rows"] if row["nonces"] > 1)
    assert result["calibration"][0]["wrong"]["n"] == printed
    assert [row["n"] for row in result["quality"]] == [2, 2]


@pytest.mark.slow
def test_the_right_key_comes_first(result: dict[str, Any]) -> None:
    owners = {(row["case"][0], row["length"]): row for row in result["owners"]}
    assert set(owners) == {(c, n) for c in ("none", "word-drop") for n in (75, None)}
    whole = owners["none", None]
    assert (whole["first"]["hits"], whole["named"]["hits"], whole["wrong"]["hits"]) == (2, 2, 0)
    assert whole["strangers"]["hits"] == 0
    assert 1 < whole["detections"] <= whole["detections_most"]


@pytest.mark.slow
def test_what_is_kept_is_not_translated_again(
    folder: Path, result: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    class AgainError(Exception):
        pass

    def refuse(*_: Any, **__: Any) -> None:
        raise AgainError

    monkeypatch.setattr(Translator, "translate", refuse)
    again = measure(folder)
    for name in ("rows", "quality", "calibration"):
        assert again[name] == result[name]
    with pytest.raises(AgainError):
        measure(folder, seed=2)
    monkeypatch.setattr(Translator, "weights_digest", "another model")
    with pytest.raises(AgainError):
        measure(folder)


@pytest.mark.slow
def test_page(result: dict[str, Any], tmp_path: Path) -> None:
    page = to_markdown(result)
    assert "bench text-message PARAGRAPHS --texts 2 --skip 0 --keys 30 -o" in page
    assert "### 8 bits (delta 8)" in page
    assert "| intact | 100.0 (15.8 to 100.0) |" in page
    assert "| | found | p_any | right | wrong | not printed |" in page
    assert "`identify` looks for one text at a time among 30 fresh keys" in page
    keep(json.loads(json.dumps(result)), page, tmp_path)
    assert page_of(tmp_path / "text-message.json")[1] == page


@pytest.mark.slow
def test_wrong_sizes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="3 paragraphs can be cut to 15 to 60 tokens, and the fi"):
        measure(tmp_path, skip=9)
    with pytest.raises(InputError, match="no paragraph can be cut to 500 to 600 tokens"):
        measure(tmp_path, tokens=(500, 600))
    with pytest.raises(ParameterError, match="--keys 0 is too small"):
        measure(tmp_path, keys=0)


@pytest.fixture
def verdict(secret: Secret) -> Verdict:
    from tests.synthetic import vocabulary

    return Detector(Key.of(secret, Profile(alphabet=vocabulary(50)))).detect([7] * 9)


def test_printed_probabilities_are_held_against_errors(verdict: Verdict) -> None:
    def read(payload: int | None, stated: float | None, true: int = 3) -> Read:
        return Read(replace(verdict, payload=payload, payload_error=stated), true)

    reads = [read(3, 1e-5), read(3, 0.5), read(4, 0.3), read(None, None), read(9, 1.0)]
    whole, *bins = calibration(reads)
    assert (whole["wrong"]["hits"], whole["wrong"]["n"]) == (2, 4)
    assert whole["stated"] == pytest.approx((1e-5 + 1.8) / 4)
    assert [(row["from"], row["to"], row["wrong"]["n"]) for row in bins] == [
        (0.0, 1e-3, 1),
        (0.1, 1.0, 3),
    ]
    assert calibration([read(None, None)]) == []


@pytest.mark.slow
def test_a_probability_that_is_too_small_is_named(result: dict[str, Any]) -> None:
    wrong = {"hits": 50, "n": 100, "rate": 0.5, "low": 0.4, "high": 0.6}
    row = {"from": 0.0, "to": 1.0, "stated": 0.1, "wrong": wrong}
    for stated, word in ((0.1, "**too small**"), (0.5, "| right |"), (0.9, "**too large**")):
        page = to_markdown(result | {"calibration": [row | {"stated": stated}]})
        assert word in page


def test_the_command_asks_for_its_file(run: Any) -> None:
    found: Outcome = run("bench", "text-message", "absent.tsv")
    assert found.status == 2
    assert "absent.tsv" in found.err
