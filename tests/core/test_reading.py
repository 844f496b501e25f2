import numpy as np
import pytest

from patternmark import PROTEIN, Detector, Key, Profile
from patternmark.core.alphabet import UNREAD
from patternmark.core.reading import read_many
from patternmark.core.schemes import Blocks, Paper
from patternmark.masks import find_repeated_evidence, read
from patternmark.statistics.block_ratio import BlockStatistic

MOTIF = "MKTAYIAKQRQISFVKSHFSRQ"


def test_unknown_and_unscored_symbols_say_nothing() -> None:
    ids = PROTEIN.encode("MKXV-A")
    scored = np.array([True, False, True, True, True, True])
    reading = read(ids, PROTEIN, scored)
    assert reading.symbols.tolist() == [10, UNREAD, UNREAD, 17, UNREAD, 0]
    assert reading.num_scored == 3
    assert ids.tolist() == PROTEIN.encode("MKXV-A").tolist()  # left as it was


def test_chains_are_slices_of_a_record() -> None:
    (reading,) = read_many([PROTEIN.encode("MKV/AC:X/W")], PROTEIN, [None])
    assert reading.chains == (slice(0, 3), slice(4, 6), slice(7, 8), slice(9, 10))
    assert [part.tolist() for part in reading.parts] == [[10, 8, 17], [0, 1], [18]]
    assert reading.num_scored == 6


def test_repeats_are_read_once_where_they_are_masked() -> None:
    ids = PROTEIN.encode(MOTIF + "GDPNE" + MOTIF)
    once, twice = read(ids, PROTEIN), read_many([ids], PROTEIN, [None])[0]
    assert once.num_scored == len(MOTIF) + 5
    assert (once.symbols[-len(MOTIF) :] == UNREAD).all()
    assert twice.num_scored == len(ids)


def test_a_copied_chain_counts_once_however_short() -> None:
    for chain in ("MKV", MOTIF):
        record = PROTEIN.encode(f"{chain}/{chain}")
        for reading in (read(record, PROTEIN), read_many([record], PROTEIN, [None])[0]):
            assert len(reading.parts) == 1
            assert reading.num_scored == len(chain)
        (both,) = read_many([record], PROTEIN, [None], drop_copies=False)
        assert both.num_scored == 2 * len(chain)


def test_nothing_is_a_reading() -> None:
    empty = read(PROTEIN.encode(""), PROTEIN)
    assert (empty.num_scored, empty.parts) == (0, [])


def test_records_are_read_each_by_itself() -> None:
    records = [PROTEIN.encode(text) for text in (MOTIF, MOTIF, "", "MKX/MK")]
    nothing = [None] * 4
    together = read_many(
        records, PROTEIN, nothing, find_repeated_evidence(records, PROTEIN, nothing)
    )
    for reading, ids in zip(together, records, strict=True):
        alone = read(ids, PROTEIN)
        assert reading.symbols.tolist() == alone.symbols.tolist()
        assert reading.chains == alone.chains


def test_nothing_is_masked_for_blocks() -> None:
    """Its ratio is exact for repeats; copies of a chain alone are left out."""
    tandem, copies = PROTEIN.encode(3 * MOTIF), PROTEIN.encode(f"{MOTIF}/{MOTIF}/AC")
    blocks = Detector(Key.generate(Profile(scheme=Blocks(nonces=1))))
    paper = Detector(Key.generate(Profile(scheme=Paper())))
    assert [r.num_scored for r in blocks.read([tandem, copies])] == [66, 24]
    assert [r.num_scored for r in paper.read([tandem, copies])] == [22, 24]
    counting = Detector(paper.key, mask_repeats=False)
    assert [r.num_scored for r in counting.read([tandem, copies])] == [66, 46]
    # Even a caller who wants all repeats to count gets no copy for blocks: it has no new coin.
    every = Detector(blocks.key, mask_repeats=False)
    assert [r.num_scored for r in every.read([tandem, copies])] == [66, 24]


class DrawnKeys:
    """Many keys at once, as the nonces of one."""

    block, nonces = 3, 500

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng

    def words(self, chain: int, blocks: int) -> np.ndarray:
        return self._rng.integers(1024, size=(blocks, self.nonces), dtype=np.uint16)


@pytest.mark.parametrize("period", [1, 2, 3, 6, 31])
def test_repeats_need_no_mask_for_blocks(period: int, rng: np.random.Generator) -> None:
    """E is at least 20 under at most 5 % of keys, whatever repeats in the sequence."""
    statistic = BlockStatistic(DrawnKeys(rng), screens=False)
    for _ in range(2):
        ids = np.tile(rng.integers(0, 20, size=period), 62 // period)
        (reading,) = read_many([ids], PROTEIN, [None])
        found = np.exp(statistic.log_ratios(reading))
        assert np.mean(found >= 20.0) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 500)
        assert np.median(found) < 1.0
