import numpy as np

from patternmark import PROTEIN, Detector, Key, Profile
from patternmark.core.alphabet import UNREAD
from patternmark.core.reading import read, read_many
from patternmark.core.schemes import Blocks, Paper
from patternmark.core.secret import Secret

MOTIF = "MKTAYIAKQRQISFVKSHFSRQ"


def test_unknown_and_unscored_symbols_say_nothing() -> None:
    ids = PROTEIN.encode("MKXV-A")
    scored = np.array([True, False, True, True, True, True])
    reading = read(ids, PROTEIN, scored)
    assert reading.symbols.tolist() == [10, UNREAD, UNREAD, 17, UNREAD, 0]
    assert reading.num_scored == 3
    assert ids.tolist() == PROTEIN.encode("MKXV-A").tolist()  # left as it was


def test_chains_are_slices_of_a_record() -> None:
    reading = read(PROTEIN.encode("MKV/AC:X/W"), PROTEIN)
    assert reading.chains == (slice(0, 3), slice(4, 6), slice(7, 8), slice(9, 10))
    assert [part.tolist() for part in reading.parts] == [[10, 8, 17], [0, 1], [18]]
    assert reading.num_scored == 6


def test_repeats_are_read_once_unless_told_otherwise() -> None:
    ids = PROTEIN.encode(MOTIF + "GDPNE" + MOTIF)
    once, twice = read(ids, PROTEIN), read(ids, PROTEIN, mask_repeats=False)
    assert once.num_scored == len(MOTIF) + 5
    assert (once.symbols[-len(MOTIF) :] == UNREAD).all()
    assert twice.num_scored == len(ids)


def test_a_copied_chain_counts_once_however_short() -> None:
    for chain in ("MKV", MOTIF):
        reading = read(PROTEIN.encode(f"{chain}/{chain}"), PROTEIN)
        assert len(reading.parts) == 1
        assert reading.num_scored == len(chain)


def test_nothing_is_a_reading() -> None:
    empty = read(PROTEIN.encode(""), PROTEIN)
    assert (empty.num_scored, empty.parts) == (0, [])


def test_records_are_read_each_by_itself() -> None:
    records = [PROTEIN.encode(text) for text in (MOTIF, MOTIF, "", "MKX/MK")]
    together = read_many(records, PROTEIN, [None] * 4)
    for reading, ids in zip(together, records, strict=True):
        alone = read(ids, PROTEIN)
        assert reading.symbols.tolist() == alone.symbols.tolist()
        assert reading.chains == alone.chains


def test_a_hardened_key_hears_a_distant_copy_as_news() -> None:
    """Its halves are others there; the paper's split is the same everywhere."""
    between = "".join(np.random.default_rng(4).choice(list("ACDEFGHIKLMNPQRSTVWY"), 4 * len(MOTIF)))
    tandem, copies = PROTEIN.encode(MOTIF + between + MOTIF), PROTEIN.encode(f"{MOTIF}/{MOTIF}")
    runs = PROTEIN.encode(MOTIF + "QQQQQQQQQQQQ")
    mostly = PROTEIN.encode(3 * (MOTIF + "EDHCGLSFNQ"))
    hardened = Detector(Key.generate(Profile(scheme=Blocks(nonces=1))))
    paper = Detector(Key.generate(Profile(scheme=Paper())))
    news, rest, low = (reading.num_scored for reading in hardened.read([tandem, copies, runs]))
    assert news == len(tandem)
    assert rest == len(MOTIF)  # the phase of another chain is unknown: it may be the same
    assert low < len(MOTIF) + 3
    assert paper.read([tandem])[0].num_scored == len(MOTIF) + len(between)
    # Where most is repeats, the same neighbours meet in block after block.
    assert hardened.read([mostly])[0].num_scored == len(MOTIF) + len("EDHCGLSFNQ")


def test_false_positives_on_a_protein_of_equal_repeats(rng: np.random.Generator) -> None:
    repeats = [np.tile(rng.integers(0, 20, size=31), 12) for _ in range(100)]
    hits = 0
    for number in range(10):
        key = Key.of(Secret(bytes([number] * 32)), Profile(scheme=Blocks(nonces=1)))
        hits += sum(verdict.log10_p <= -2.0 for verdict in Detector(key).detect_many(repeats))
    assert hits <= 18  # of 1,000 at 1 %; 89 where they count as news
