"""False positives on texts: counted right, corpus by corpus and together."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from patternmark import PROTEIN, Alphabet
from patternmark.bench.text_validity import (
    LENGTHS,
    SCHEMES,
    profiles_for,
    run_text_validity_benchmark,
)
from patternmark.bench.text_validity_page import to_markdown
from patternmark.bench.validity import LEVELS, detectors_of
from patternmark.errors import ParameterError
from tests.bench.test_corpora import write_zip
from tests.conftest import Outcome

WORDS = [f"w{i}" for i in range(520)]
TOKENS = Alphabet.from_symbols("words", WORDS, unscored=[])
SIZE = {"num_keys": 2, "num_r64_keys": 2, "per_key": 6, "per_r1_key": 4, "per_r64_key": 2}


def document(rng: np.random.Generator, length: int) -> str:
    """Words as unequally frequent as those of a language."""
    return " ".join(WORDS[i] for i in np.minimum(rng.zipf(1.3, size=length), len(WORDS)) - 1)


def encode(text: str) -> list[int]:
    return [int(word[1:]) for word in text.split()]


def test_corpora_are_counted_apart_and_together(rng: np.random.Generator) -> None:
    corpora = {name: [document(rng, 2500)] for name in ("one", "other")}
    result = run_text_validity_benchmark(corpora, TOKENS, encode, **SIZE)
    rows = {(r["scheme"], r["source"], r["detector"], r["nominal"]): r for r in result["rates"]}
    detectors = sum(len(detectors_of(profile)) for profile in profiles_for(TOKENS).values())
    assert len(rows) == detectors * len(LENGTHS) * len(LEVELS)
    assert len(result["by_corpus"]) == 2 * len(rows)
    for (scheme, length, detector, level), row in rows.items():
        where = {f"{name}, {length}" for name in corpora}
        parts = [
            part
            for part in result["by_corpus"]
            if part["source"] in where
            and (part["scheme"], part["detector"], part["nominal"]) == (scheme, detector, level)
        ]
        assert row["hits"] == sum(part["hits"] for part in parts)
        assert row["pairs"] == sum(part["pairs"] for part in parts)
    pairs = {s: rows[s, "50 to 100 tokens", "auto", 0.01]["pairs"] for s in SCHEMES}
    assert pairs == {"paper": 24, "turns R=1": 16, "turns R=64": 8}
    page = to_markdown(result)
    assert "--keys 2 --texts 6 --texts-r1 4 --texts-r64 2" in page
    assert "| paper | other, 200 to 400 tokens | 12 |" in page


def test_the_command_reads_a_folder(
    run: Callable[..., Outcome], rng: np.random.Generator, tmp_path: Path
) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    model = tokenizers.models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="w0")
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    write_zip(
        tmp_path / "nltk_state_union.zip",
        {"state_union/1945-Truman.txt": document(rng, 1500).encode()},
    )
    out = tmp_path / "out"
    sizes = ["--keys", 2, "--texts", 3, "--texts-r1", 2, "--texts-r64", 1, "--json", "-o", out]
    done = run(
        "bench", "text-validity", tmp_path, "--tokenizer", tmp_path / "tokenizer.json", *sizes
    )
    assert done.status == 0, done.err
    assert "left out: nltk_brown.zip" in done.err.replace("\n", " ")
    result = json.loads(done.out)
    assert (out / "text-validity.md").read_text() == to_markdown(result)
    assert (out / "text-validity.png").stat().st_size > 0
    nowhere = run("bench", "text-validity", out, "--tokenizer", tmp_path / "tokenizer.json")
    assert nowhere.status != 0
    assert "none of the corpora is here" in nowhere.err.replace("\n", " ")


def test_a_small_alphabet_makes_no_texts() -> None:
    with pytest.raises(ParameterError, match="too few tokens"):
        profiles_for(PROTEIN)
