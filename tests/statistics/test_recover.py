from itertools import groupby

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from patternmark import PROTEIN
from patternmark.core.alphabet import NO_KEY
from patternmark.core.chain import KeyChain
from patternmark.core.partition import adopt_partition
from patternmark.core.reading import Reading, read_many
from patternmark.statistics.patterns import Patterns
from patternmark.statistics.recover import agreement, recover, running_mean
from tests.oracles import count_naively

PARTITION = adopt_partition(["ACDEFGHIKL", "MNPQRSTVWY"], PROTEIN)
sequences = st.lists(
    st.lists(st.integers(0, 20), max_size=40).map(lambda x: np.array(x, dtype=np.int64)), max_size=8
)


def as_written(ids: np.ndarray) -> Reading:
    return read_many([ids], PROTEIN, [None])[0]


def test_letters_tell_their_keys() -> None:
    recovered = recover([as_written(PROTEIN.encode("AMX-cn"))], PARTITION)
    assert recovered[0].tolist() == [0, 1, NO_KEY, NO_KEY, 0, 1]
    assert recovered.segments == [(2, 2)]
    assert recovered.num_scored.tolist() == [4]


@given(sequences)
def test_a_batch_is_its_sequences(batch: list[np.ndarray]) -> None:
    together = recover([as_written(ids) for ids in batch], PARTITION)
    assert len(together) == len(batch)
    targets = Patterns.favoured(KeyChain.alternating(), 3)
    counts = together.count_marks(targets.hits(together.keys))
    for i, ids in enumerate(batch):
        keys = PARTITION.part_of[ids].tolist()
        assert together[i].tolist() == keys
        assert together.num_scored[i] == sum(k != NO_KEY for k in keys)
        runs = sorted(len(list(g)) for scored, g in groupby(k != NO_KEY for k in keys) if scored)
        assert together.segments[i] == tuple(runs)
        assert counts[i] == count_naively(keys, set(targets.patterns))


def test_agreement_is_known_between_scored_neighbours_alone() -> None:
    track = agreement(np.array([0, 1, 1, NO_KEY, 0, 1]), KeyChain.alternating())
    np.testing.assert_array_equal(track, [np.nan, 1, 0, np.nan, np.nan, 1])


def test_running_mean_leaves_the_unknown_out() -> None:
    values = np.array([np.nan, 1.0, 0.0, np.nan, np.nan, np.nan])
    np.testing.assert_allclose(running_mean(values, 3), [1, 0.5, 0.5, 0, np.nan, np.nan])
    assert running_mean(np.array([]), 31).shape == (0,)
    assert running_mean(np.array([1.0, 0.0]), 31).tolist() == [0.5, 0.5]
