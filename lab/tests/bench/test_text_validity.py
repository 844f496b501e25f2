"""False positives on texts: counted right, and the null of `auto` made of other documents."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from lab.tests.bench.test_corpora import write_zip
from patternmark import Alphabet
from patternmark.null.mixture import GRID, MixtureNull
from patternmark.statistics.likelihood import TEXT_MIXTURE
from patternmark_lab.bench import text_null, text_validity
from patternmark_lab.bench.text_edits_page import to_markdown as edits_page
from patternmark_lab.bench.text_null import (
    check_documents,
    table_documents,
    table_of_corpora,
    upper_tail,
)
from patternmark_lab.bench.text_validity import (
    LENGTHS,
    LEVELS,
    LONG,
    MARKED,
    SCHEMES,
    run_text_validity_benchmark,
)
from patternmark_lab.bench.text_validity_page import to_markdown
from tests.conftest import Outcome

LETTERS = "abcdefghijkl"
WORDS = [a + b + c for a in LETTERS for b in LETTERS for c in LETTERS]
NUMBERS = {word: number for number, word in enumerate(WORDS)}
TOKENS = Alphabet.from_symbols("words", WORDS, unscored=[])


def document(rng: np.random.Generator, length: int) -> str:
    """Sentences of words that are not all equally frequent."""
    weights = 1.0 / (np.arange(len(WORDS)) + 30.0)
    words = rng.choice(len(WORDS), size=length, p=weights / weights.sum())
    return " ".join(WORDS[i] + (". " if n % 12 == 11 else "") for n, i in enumerate(words))


def encode(text: str) -> list[int]:
    words = (word.strip(".,|-").lower() for word in text.replace(",", " ").split())
    return [NUMBERS.get(word, 0) for word in words]


@pytest.fixture(autouse=True)
def few_hard_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_validity, "_HARD_TEXTS", 4)


@pytest.mark.slow
def test_every_source_is_counted(rng: np.random.Generator, tmp_path: Path) -> None:
    corpora = {name: [document(rng, 900), document(rng, 900)] for name in ("one", "other")}
    marked = [document(rng, 80)]
    sizes = {"num_keys": 2, "per_key": 3, "partial": tmp_path / "kept.jsonl"}
    numbers = {"numbers": corpora["one"]}
    made = run_text_validity_benchmark(corpora, numbers, marked, TOKENS, encode, **sizes)
    natural = [f"{corpus}, {length}" for length in LENGTHS for corpus in corpora]
    assert made["kinds"]["natural"] == natural  # and none is long enough for more
    assert LONG.keys().isdisjoint(LENGTHS)
    rows = {(row["scheme"], row["source"]): row for row in made["rates"]}
    sources = [name for some in made["kinds"].values() for name in some]
    assert set(rows) == {(scheme, source) for scheme in SCHEMES for source in sources}
    assert rows["turns", "one, 50 to 100 tokens"]["pairs"] == 2 * 3
    assert rows["turns", "one, 200 to 400 tokens"]["pairs"] == 2 * 2  # fewer of long texts
    assert rows["turns", made["kinds"][MARKED][0]]["pairs"] == 2 * 1
    for row in rows.values():
        for rates in row["rates"].values():
            hits = [rate["hits"] for rate in rates]
            assert len(hits) == len(LEVELS)
            assert hits == sorted(hits, reverse=True)
    heard: list[str] = []
    again = run_text_validity_benchmark(
        corpora, numbers, marked, TOKENS, encode, step=heard.append, **sizes
    )
    assert (again["rates"], heard) == (made["rates"], [])  # all was kept
    page = to_markdown(made)
    assert "| one, 50 to 100 tokens | 6 |" in page
    made["rates"][0]["rates"]["p_value"][1] = {"hits": 6, "interval": [0.5, 1.0]}
    source = made["rates"][0]["source"]
    assert f"- turns, {source}: `p_value` at 0.001" in to_markdown(made)
    assert "| turns: natural, all together |" in page


@pytest.mark.slow
def test_the_command_reads_a_folder(
    run: Callable[..., Outcome],
    rng: np.random.Generator,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    model = tokenizers.models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="aaa")
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    texts = {f"state_union/{year}-Truman.txt": document(rng, 900).encode() for year in (1945, 1946)}
    write_zip(tmp_path / "nltk_state_union.zip", texts)
    out, reader = tmp_path / "out", ["--tokenizer", tmp_path / "tokenizer.json"]
    sizes = ["--keys", 2, "--texts", 2, "--json", "-o", out]
    done = run("bench", "text-validity", tmp_path, *reader, *sizes)
    assert done.status == 0, done.err
    assert "left out: nltk_brown.zip" in done.err.replace("\n", " ")
    assert (out / "text-validity.md").read_text() == to_markdown(json.loads(done.out))
    nowhere = run("bench", "text-validity", out, *reader)
    assert nowhere.status != 0
    assert "holds none of the corpora" in nowhere.err.replace("\n", " ")
    monkeypatch.setattr(text_null, "PAIRS", {20: 400, 40: 400})
    table = run("bench", "text-null", tmp_path, *reader, "-o", tmp_path / "table.json")
    assert table.status == 0, table.err
    made = json.loads((tmp_path / "table.json").read_text())["turns"]
    assert (made["lengths"], made["mixture"]) == ([20, 40], TEXT_MIXTURE.digest)


def test_a_table_bounds_what_was_counted(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_e = np.log(rng.pareto(1.0, size=20_000) + 0.05)
    bound = upper_tail(log_e)
    counted = np.array([(log_e >= e).mean() for e in GRID])
    assert (np.exp(bound) >= counted).all()
    assert np.exp(bound[GRID == 3.0]) < 1.1 * counted[GRID == 3.0]
    assert np.diff(bound[-20:]) == pytest.approx(-0.5)  # Markov's tail beyond the counts
    monkeypatch.setattr(text_null, "PAIRS", {30: 300})
    corpora = {"one": [document(rng, 2000), document(rng, 2000)]}
    table = table_of_corpora(corpora, TOKENS, encode)
    null = MixtureNull.of_table(table["turns"])
    assert null.log_tail(np.array([20.0]), np.array([30]))[0] < -15.0


def test_tables_and_checks_share_no_document() -> None:
    documents = [f"document {i}" for i in range(7)]
    assert sorted(table_documents(documents) + check_documents(documents)) == documents
    assert not set(table_documents(documents)) & set(check_documents(documents))


def test_missed_goals_and_lost_cells_are_named() -> None:
    file = Path(__file__).parents[3] / "docs" / "results" / "text-edits.json"
    result = json.loads(file.read_text())
    for row in result["rows"]:
        for rate in row["rates"].values():
            rate["found"], rate["interval"] = row["n"], [0.99, 1.0]
    page = edits_page(result)
    assert "**missed**" not in page
    assert "finds fewer marks in 0 of" in page
    lost = next(row for row in result["rows"] if row["scheme"] == "paper")
    lost["rates"]["auto"] |= {"found": 0, "interval": [0.0, 0.1]}
    assert "In 2 of them the difference is larger than sampling error" in edits_page(result)
