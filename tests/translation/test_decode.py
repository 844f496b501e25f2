"""Batches of like length; a translation does not depend on its neighbours."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from patternmark.models.cmlm import CMLM
from patternmark.translation.decode import (
    Decoding,
    for_use,
    like_lengths,
    padded,
    translate_ids,
)
from tests.translation.small import PAIRS, codec, config


@given(st.lists(st.integers(0, 40), max_size=60), st.integers(1, 200))
def test_each_source_that_is_not_empty_is_in_one_batch(lengths: list[int], tokens: int) -> None:
    sources = [[7] * n for n in lengths]
    batches = list(like_lengths(sources, tokens))
    rows = [row for batch in batches for row in batch]
    assert sorted(rows) == [row for row, n in enumerate(lengths) if n]
    for batch in batches:
        assert len(batch) == 1 or len(batch) * max(lengths[row] for row in batch) <= tokens


def test_batches_end_where_padding_would_be_too_much() -> None:
    lengths = [3, 20, 19, 0, 18, 4, 4, 10]
    sources = [[7] * n for n in lengths]
    assert list(like_lengths(sources, 1000, 3)) == [[1, 2, 4], [7], [5, 6, 0]]
    assert list(like_lengths(sources, 1000, 2)) == [[1, 2], [4], [7], [5, 6, 0]]
    assert list(like_lengths(sources, 1000, 0)) == [[1], [2], [4], [7], [5, 6], [0]]
    assert list(like_lengths(sources, 20, 100)) == [[1], [2], [4], [7, 5], [6, 0]]


def test_padding_is_on_the_right() -> None:
    found = padded([[5, 6], [7, 8, 9]], 0, torch.device("cpu"))
    assert found.tolist() == [[5, 6, 0], [7, 8, 9]]


@pytest.mark.slow
def test_translations_do_not_depend_on_the_batch() -> None:
    torch.manual_seed(6)
    model = for_use(CMLM(config()))
    assert not model.training
    ids = [*codec().encode_batch([source for source, _ in PAIRS]), []]
    seen: list[int] = []
    large = translate_ids(model, ids, Decoding(batch_tokens=10_000), step=seen.append)
    small = translate_ids(model, ids, Decoding(batch_tokens=1))
    assert sum(seen) == len(PAIRS)
    assert large[-1] == []
    assert large == small
