"""The sum over paths of a block mark: numba and numpy agree, and looks only leave terms out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from patternmark.core.alphabet import PROTEIN
from patternmark.core.blocks import PROTEIN_PAIRS, halves_of, pair_of_letter, side_of_letter
from patternmark.fast.compiled import force_loops
from patternmark.statistics.block_paths import (
    BlockChain,
    Component,
    Look,
    inverse_means,
    log_ratios,
    num_blocks,
)

LETTERS = 20
COMPONENTS = (
    Component(0, 0.003),
    Component(1, 0.02),
    Component(1, 0.25),
    Component(0, 0.004, "anywhere"),
    Component(1, 0.03, "anywhere"),
    Component(1, 0.01, "inside"),
    Component(1, 0.12, growth=-0.1),
    Component(0, 0.3, growth=0.27),
)


def draw_halves(rng: np.random.Generator, nonces: int, blocks: int) -> np.ndarray:
    """Return halves [nonces, blocks, letters and X]."""
    coins = rng.integers(2**16, size=(blocks, nonces), dtype=np.uint16)
    return halves_of(coins).transpose(1, 0, 2)


def other_letter() -> np.ndarray:
    """Return the other letter of each letter's pair: [LETTERS]."""
    pairs = [PROTEIN.encode(pair) for pair in PROTEIN_PAIRS]
    other = np.zeros(LETTERS, dtype=np.int64)
    for first, second in pairs:
        other[[first, second]] = second, first
    return other


def draw_chain(
    rng: np.random.Generator, length: int, half: np.ndarray | None = None, block: int = 3
) -> BlockChain:
    """Return a chain; one that is marked with the halves [J, V] has 75 % agreeing letters."""
    letters = rng.integers(LETTERS, size=length)
    if half is not None:
        agrees = half[np.arange(length) // block, letters] > 0
        letters = np.where(agrees | (rng.random(length) < 0.5), letters, other_letter()[letters])
    letters[rng.random(length) < 0.02] = LETTERS  # an unknown residue
    weights = np.where(letters < LETTERS, np.array([[0.6], [1.1]]) + 0.02 * letters, 0.0)
    return BlockChain(
        letters, weights, np.maximum(pair_of_letter()[letters], 0), side_of_letter()[letters]
    )


@pytest.mark.slow
@given(
    length=st.sampled_from([0, 1, 2, 3, 5, 8, 17, 40, 130]),
    nonces=st.integers(1, 4),
    block=st.sampled_from([1, 2, 3, 4, 5, 12]),
    marked=st.booleans(),
    shift=st.none() | st.integers(-150, 400),
    seed=st.integers(0, 2**32 - 1),
)
def test_numba_adds_up_what_numpy_does(length, nonces, block, marked, shift, seed):
    rng = np.random.default_rng(seed)
    halves = draw_halves(rng, nonces, num_blocks(length, block, COMPONENTS))
    chain = draw_chain(rng, length, halves[0] if marked else None, block)
    looks = [Look(c, np.arange(nonces), shift) for c in range(len(COMPONENTS))]
    found = []
    for compiled in (False, True):
        with force_loops(compiled) as used:
            if compiled and not used:
                pytest.skip("numba is not installed")
            found.append(log_ratios(chain, halves, block, COMPONENTS, looks))
    assert np.allclose(*found, rtol=0, atol=1e-9)  # -inf equals -inf: no path is in the band


@pytest.mark.parametrize("compiled", [False, True])
def test_a_look_leaves_out_terms_and_adds_none(compiled):
    rng = np.random.default_rng(3)
    halves = draw_halves(rng, 2, num_blocks(200, 3, COMPONENTS))
    chain = draw_chain(rng, 200, halves[0])
    with force_loops(compiled):
        everything = log_ratios(chain, halves, 3, COMPONENTS)
        for component in range(3, len(COMPONENTS)):
            for shift in (-50, 0, 100, 300):
                look = Look(component, np.array([0]), shift)
                found = log_ratios(chain, halves, 3, COMPONENTS, [look])
                assert found[0, component] <= everything[0, component] + 1e-12
                assert np.isneginf(np.delete(found.reshape(-1), component)).all()
                if shift == 0:  # where the chain lies: next to nothing is left out
                    assert found[0, component] == pytest.approx(everything[0, component], abs=1e-3)
                else:
                    assert found[0, component] < everything[0, component] - 5.0


@given(length=st.integers(0, 30), longest=st.integers(0, 7), seed=st.integers(0, 2**32 - 1))
def test_denominators_are_products_over_pairs(length, longest, seed):
    chain = draw_chain(np.random.default_rng(seed), length)
    signed = chain.weights[1] * chain.side
    for compiled in (False, True):
        with force_loops(compiled):
            means_of = inverse_means
            if compiled:
                means_of = pytest.importorskip(
                    "patternmark.statistics.block_path_loops"
                ).inverse_means
            found = means_of(chain, 1, longest)
        for end in range(length + 1):
            for size in range(longest + 1):
                if size > end:
                    assert found[size, end] == 0.0
                    continue
                piece = slice(end - size, end)
                sums = np.bincount(chain.pair[piece], signed[piece], minlength=LETTERS)
                wanted = 1.0 / np.prod(np.cosh(sums / 2.0))
                assert found[size, end] == pytest.approx(wanted, rel=1e-12)
