"""Pairs are read with what is wrong named, cut after sentences, and put into batches whole."""

import lzma
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.tests.training.small import PARAGRAPHS, codec, corpus, write
from patternmark.errors import InputError
from patternmark_lab.training.corpus import (
    Corpus,
    Flat,
    aligned_sentences,
    as_lines,
    cut_to,
    join_pairs,
    longer_pairs,
    read_pairs,
    sentences,
)
from tests.translation.small import PAIRS

lengths = st.lists(st.tuples(st.integers(1, 60), st.integers(1, 60)), min_size=1, max_size=80)


def count(text: str) -> int:
    return len(codec().encode_batch([text])[0])


def words(text: str) -> int:
    return len(text.split())


def test_what_is_written_is_read(tmp_path: Path) -> None:
    assert read_pairs(write(tmp_path / "pairs.tsv", PAIRS)) == PAIRS
    packed = tmp_path / "pairs.tsv.xz"
    halves = [lzma.compress(as_lines(half).encode()) for half in (PAIRS[:7], PAIRS[7:])]
    packed.write_bytes(b"".join(halves))
    assert read_pairs(packed) == PAIRS


def test_breaks_inside_a_text_do_not_break_the_file(tmp_path: Path) -> None:
    file = write(tmp_path / "pairs.tsv", [("eins\tzwei\n", "one\r\ntwo"), PAIRS[0]])
    assert read_pairs(file) == [("eins zwei ", "one two"), PAIRS[0]]


def test_windows_lines_a_mark_of_order_and_more_columns_are_read(tmp_path: Path) -> None:
    file = tmp_path / "pairs.tsv"
    file.write_bytes("\ufeffJa.\tYes.\t0.9\r\n\r\nNein.\tNo.\r\n".encode())
    assert read_pairs(file) == [("Ja.", "Yes."), ("Nein.", "No.")]


def test_a_few_lines_that_are_no_pairs_are_named_and_left_out(tmp_path: Path) -> None:
    lines = as_lines(PAIRS * 6).encode().splitlines(keepends=True)
    lines[4:4] = [b"no tab here\n", b"Leer\t \n", b"M\xe4dchen\tgirl\n", b"again no tab\n"]
    file = tmp_path / "pairs.tsv"
    file.write_bytes(b"".join(lines))
    said: list[str] = []
    assert read_pairs(file, said.append) == PAIRS * 6
    assert said == [
        f"{file}: skipped: line 5 has no tab; line 6 has an empty side; line 7 is not UTF-8 and "
        "1 more"
    ]


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "pairs.tsv"
    with pytest.raises(InputError, match=r"pairs\.tsv: cannot be read: No such file"):
        read_pairs(file)
    file.write_text("Ja.\tYes.\nJa, Yes.\n")
    with pytest.raises(InputError, match=r"1 of 2 lines are not a source.*: line 2 has no tab"):
        read_pairs(file)
    file.write_text("\n\n")
    with pytest.raises(InputError, match="the file is empty"):
        read_pairs(file)
    cut = tmp_path / "cut.tsv.xz"
    cut.write_bytes(lzma.compress(as_lines(PAIRS).encode())[:-40])
    with pytest.raises(InputError, match=r"cut\.tsv\.xz: cannot be read"):
        read_pairs(cut)


def test_sentences_end_where_readers_see_them_end() -> None:
    text = "Herr Dr. Weber kam am 3. Mai. Um 5 Uhr ging er! „Warum?“ z. B. deshalb."
    assert sentences(text) == [
        "Herr Dr. Weber kam am 3. Mai.",
        "Um 5 Uhr ging er!",
        "„Warum?“ z. B. deshalb.",
    ]


@given(st.lists(st.sampled_from(PAIRS), min_size=1, max_size=6))
def test_joined_sentences_come_apart_again(pairs: list[tuple[str, str]]) -> None:
    assert aligned_sentences(join_pairs(pairs)) == pairs


def test_sentences_that_do_not_match_stay_together() -> None:
    pair = ("Er ging. Sie blieb.", "He left and she stayed.")
    assert aligned_sentences(pair) == [pair]


@given(st.sampled_from(PARAGRAPHS), st.integers(1, 40), st.integers(0, 30))
def test_a_cut_is_the_longest_beginning_that_fits(
    pair: tuple[str, str], low: int, more: int
) -> None:
    parts = aligned_sentences(pair)
    fits = [
        beginning
        for stop in range(1, len(parts) + 1)
        if low <= words((beginning := join_pairs(parts[:stop]))[1]) <= low + more
    ]
    assert cut_to(pair, low, low + more, words) == (fits[-1] if fits else None)


def test_longer_pairs_are_paragraphs_spans_and_rows_of_sentences() -> None:
    found = longer_pairs(PAIRS, PARAGRAPHS, seed=1, number=5)
    assert found == longer_pairs(PAIRS, PARAGRAPHS, seed=1, number=5)
    assert found[: len(PARAGRAPHS)] == PARAGRAPHS
    spans, rows = found[len(PARAGRAPHS) : -5], found[-5:]
    assert len(spans) == len(PARAGRAPHS)
    for span, paragraph in zip(spans, PARAGRAPHS, strict=True):
        assert len(aligned_sentences(span)) >= 2
        assert span[0] in paragraph[0]
        assert span[1] in paragraph[1]
    for row in rows:
        assert 2 <= len(aligned_sentences(row)) <= 5
        assert set(aligned_sentences(row)) <= set(PAIRS)


def test_a_corpus_keeps_ids_and_drops_what_is_no_translation() -> None:
    assert len(corpus()) == len(PAIRS)
    flat = corpus().target
    for number, (_, target) in enumerate(PAIRS):
        ids = flat.ids[flat.starts[number] : flat.starts[number + 1]]
        assert codec().decode_batch([ids.tolist()]) == [target]
    copied = "This sentence is English already."
    odd = [(copied, copied), ("Ja.", PARAGRAPHS[0][1]), ("Rom", "Rom")]
    assert len(Corpus.of(PAIRS + odd, codec(), 64)) == len(PAIRS) + 1  # a name stays
    shortest = min(max(count(a), count(b)) for a, b in PAIRS)
    assert len(Corpus.of(PAIRS, codec(), shortest)) < len(PAIRS)
    with pytest.raises(InputError, match=r"none of the 20 pairs.*more than 2 tokens"):
        Corpus.of(PAIRS, codec(), 2)


@given(lengths, st.integers(8, 200), st.integers(0, 5))
def test_batches_have_each_pair_once_and_no_more_tokens_than_they_may(
    pairs: list[tuple[int, int]], tokens: int, seed: int
) -> None:
    made = Corpus(*(Flat.of([[7] * n for n in side]) for side in zip(*pairs, strict=True)))
    batches = made.batches(tokens, np.random.default_rng(seed))
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(pairs)))
    for rows in batches:
        longest = max(max(pairs[row]) for row in rows)
        assert len(rows) == 1 or len(rows) * (-(-longest // 8) * 8) <= tokens


def test_batches_differ_between_epochs_and_not_between_calls() -> None:
    first, again, other = (
        [rows.tolist() for rows in corpus().batches(128, np.random.default_rng(seed))]
        for seed in ([1, 0], [1, 0], [1, 1])
    )
    assert first == again != other
