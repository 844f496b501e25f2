"""The benchmark of translation on a few texts, with the model of the package."""

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

from patternmark import Detector
from patternmark.errors import InputError
from patternmark.translation.decode import Decoding
from patternmark.translation.translator import Translator
from patternmark_lab.bench.translation import (
    DETECTORS,
    ON_TOKENS,
    _trade_offs,
    cut_paragraphs,
    fresh_keys,
    run_translation_benchmark,
)
from patternmark_lab.bench.translation_page import plot, to_markdown

GERMAN = [
    "Wir begrüßen die Hilfen für den Milchsektor.",
    "Ich möchte die Mitglieder dieses Parlaments auffordern, über eine bessere Lösung zu reden.",
    "Die Kommission hat einen neuen Vorschlag vorgelegt.",
    "Der Rat muss nun eine Entscheidung treffen.",
]
ENGLISH = [
    "We welcome the aid for the dairy sector.",
    "I should like to call on the Members of this Parliament to talk about a better solution.",
    "The Commission has presented a new proposal.",
    "The Council must now take a decision.",
]
QUICK = Decoding(iterations=2, length_beam=2)


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


def paragraphs(folder: Path) -> Path:
    """Paragraphs of five and of ten sentences; the longer ones are to be cut."""
    file = folder / "long.tsv"
    rows = []
    for begin in range(4):
        which = [(begin + i) % 4 for i in range(5 + 5 * (begin % 2))]
        rows.append("\t".join(" ".join(text[i] for i in which) for text in (GERMAN, ENGLISH)))
    file.write_text("\n".join(["Kurz.\tShort.", *rows]) + "\n", encoding="utf-8")
    return file


def run(folder: Path, **others: Any) -> dict[str, Any]:
    how: dict[str, Any] = {"deltas": (6.0,), "most": 4, "num_keys": 3, "decoding": QUICK}
    how["choices"] = ("found", "likeliest")
    return run_translation_benchmark(paragraphs(folder), **how | others)


@cache
def translator() -> Translator:
    return Translator.open()


def test_paragraphs_are_cut_to_the_wanted_length(tmp_path: Path) -> None:
    found = cut_paragraphs(paragraphs(tmp_path), translator(), 10)
    lengths = [len(ids) for ids in translator().codec.encode_batch([b for _, b in found])]
    assert len(found) == 4
    assert all(50 <= length <= 100 for length in lengths)
    assert len(cut_paragraphs(paragraphs(tmp_path), translator(), 2)) == 2
    short = tmp_path / "short.tsv"
    short.write_text("Kurz.\tShort.\n")
    with pytest.raises(InputError, match="50 to 100 tokens"):
        cut_paragraphs(short, translator(), 2)


@pytest.mark.slow
def test_what_is_measured_is_on_the_page(tmp_path: Path) -> None:
    partial = tmp_path / "partial.jsonl"
    heard: list[str] = []
    some: dict[str, Any] = {"partial": partial, "choices": ("found",)}
    result = run(tmp_path, **some, at_once=3, step=heard.append)
    assert [row["n"] for row in result["settings"]] == [4] * 3
    assert heard[:2] == ["unmarked: 3 texts", "unmarked: 4 texts"]
    rates = [row["found"]["auto"]["0.001"]["rate"] for row in result["settings"][1:]]
    assert min(rates) >= 0.75  # so strong a mark is found
    unmarked = result["settings"][0]["found"]
    assert set(unmarked) == {f"{s}/{d}" for s in DETECTORS for d in (*DETECTORS[s], ON_TOKENS)}
    assert all(found["0.0001"]["rate"] == 0.0 for found in unmarked.values())
    page = to_markdown(result)
    assert f"BLEU {result['settings'][0]['bleu']:.2f}" in page
    assert len(re.findall(r"^\| 6 \|", page, re.MULTILINE)) == 2
    assert page.count("where 95% are found") == 1  # for the one choice
    plot(result, tmp_path / "page.png")
    assert (tmp_path / "page.png").stat().st_size > 10_000
    # A run that was stopped goes on from what is kept, and judges it alike.
    again = run(tmp_path, **some, at_once=3)
    assert again == result
    assert len(partial.read_text().splitlines()) == 6
    # What was kept of other parts is not taken for these.
    assert run(tmp_path, **some, at_once=2)["settings"][0]["n"] == 4
    assert len(partial.read_text().splitlines()) == 12


@pytest.mark.slow
def test_what_is_english_already_is_left_out(tmp_path: Path) -> None:
    file = paragraphs(tmp_path)
    copy = " ".join(ENGLISH * 2)
    file.write_text(f"{copy}\t{copy}\n{file.read_text(encoding='utf-8')}", encoding="utf-8")
    some: dict[str, Any] = {"deltas": (6.0,), "most": 5, "num_keys": 3, "decoding": QUICK}
    result = run_translation_benchmark(file, **some, choices=("as needed",))
    assert (result["texts"], result["english_already"]) == (5, 1)
    assert [row["n"] for row in result["settings"]] == [4, 4, 4]
    assert result["settings"][1]["choice"] == "as needed"
    assert "| BLEU, as needed, where 95% are found" in to_markdown(result)


@pytest.mark.slow
def test_each_text_is_judged_by_the_key_that_marked_it(tmp_path: Path) -> None:
    partial = tmp_path / "partial.jsonl"
    result = run(tmp_path, partial=partial, choices=("likeliest",))
    lines = partial.read_text(encoding="utf-8").splitlines()
    kept = {row["job"].split("/")[0]: row["texts"] for row in map(json.loads, lines)}
    texts = kept["turns, delta 6, likeliest"]
    keys = fresh_keys(translator().vocabulary.alphabet(), 3, 1)["turns"]
    found = [
        Detector(keys[i % 3]).detect(translator().codec.encode_batch([row["text"]])[0]).p_value
        for i, row in enumerate(texts)
    ]
    row = next(row for row in result["settings"] if row["scheme"] == "turns")
    assert row["found"]["auto"]["0.001"]["rate"] == sum(p <= 1e-3 for p in found) / 4


def test_what_is_lost_is_read_between_two_strengths() -> None:
    def row(bleu: float, rate: float) -> dict[str, Any]:
        found = {"auto": {"0.001": {"rate": rate}}}
        return {"scheme": "paper", "choice": "found", "bleu": bleu, "found": found}

    unmarked = {"bleu": 30.0}
    between = _trade_offs([unmarked, row(29.0, 0.90), row(27.0, 1.0)])
    assert between[0]["bleu_lost"] == pytest.approx(2.0)
    assert _trade_offs([unmarked, row(29.0, 0.90)])[0]["bleu_lost"] is None
