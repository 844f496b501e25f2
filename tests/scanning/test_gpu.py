"""The GPU's products against the compiled loops: the same pairs, the same tally."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from patternmark import Key, ParameterError, Profile
from patternmark.core.schemes import Blocks

pytest.importorskip("numba", reason="pip install 'patternmark[scan]'")
torch = pytest.importorskip("torch", reason="pip install 'patternmark[protein]'")

from patternmark.scanning import gpu_block_stage as gpu_blocks  # noqa: E402
from patternmark.scanning import gpu_two_part as gpu  # noqa: E402
from patternmark.scanning.block_stage import BlockGroup  # noqa: E402
from patternmark.scanning.gpu_block_stage import GpuBlocks  # noqa: E402
from patternmark.scanning.gpu_two_part import TORCH_ON_CPU  # noqa: E402
from patternmark.scanning.judging import judge  # noqa: E402
from patternmark.scanning.keyset import LEVELS, LONGEST, KeySet  # noqa: E402
from patternmark.scanning.segments import padded, read_fasta  # noqa: E402
from tests.scanning.made import a_key, drawn, fasta, marked, marked_blocks  # noqa: E402
from tests.scanning.test_blocks import (  # noqa: E402
    LENGTHS,
    SHAPES,
    keys_of,
    promoted_letters,
    segments_of,
)

torch.set_num_threads(1)

NO_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
on_devices = pytest.mark.parametrize("device", [TORCH_ON_CPU, pytest.param("cuda", marks=NO_GPU)])
USUAL = {
    f"{nonces} nonces": Profile(scheme=Blocks(nonces=nonces)) for nonces in (1, 3, 32, 64, 100)
}


@on_devices
@pytest.mark.parametrize("at_once", [2**27, 3000, 1])
def test_the_same_pairs_and_tally(
    device: str, at_once: int, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu, "_PRODUCT_ENTRIES", at_once)
    keys = [a_key(number) for number in range(1, 200)]
    sequences = [drawn(rng, int(n)) for n in rng.integers(0, 400, 300)]
    sequences += [marked(rng, key, 200) for key in keys[:3]] + [drawn(rng, 2048), "A" * 2048]
    check_judged(keys, sequences, device, at_least=3)


@on_devices
def test_both_kinds_of_keys(device: str, rng: np.random.Generator) -> None:
    eight = [a_key(n, Blocks(nonces=8)) for n in range(20)]
    others = [a_key(n, Blocks(block=5, nonces=1)) for n in range(5)]
    keys = [*eight[:7], *(a_key(n) for n in range(1, 30)), *others, *eight[7:]]
    sequences = [drawn(rng, int(n)) for n in rng.integers(0, 700, 60)]
    sequences += [marked_blocks(rng, key, 250) for key in (*eight[::6], others[4])]
    sequences += [marked(rng, keys[9], 200), marked_blocks(rng, eight[3], 5000)]
    sequences += ["", "X" * 40, drawn(rng, 100) + "XX/" + drawn(rng, 90)]
    found = check_judged(keys, sequences, device, at_least=7)
    wanted = {key.key_id for key in (*eight[::6], others[4], keys[9])}
    assert wanted <= {hit["key_id"] for hit in found["hits"]}
    on_device, on_cpu = KeySet(keys, device), KeySet(keys)
    assert on_device.lost(0.7, 300) == on_cpu.lost(0.7, 300) < 1


def check_judged(keys: list[Key], sequences: list[str], device: str, at_least: int) -> dict:
    data = fasta(sequences)
    expected = judge(read_fasta(padded(data), len(data)), KeySet(keys)).to_table()
    found = judge(read_fasta(padded(data), len(data)), KeySet(keys, device)).to_table()
    assert found == expected
    assert expected["passed"] >= at_least
    return expected


def check(
    keys: list[Key], letters: np.ndarray, begins: np.ndarray, level: int, device: str
) -> np.ndarray:
    """See that both give the same; return the pairs."""
    group = BlockGroup(keys)
    expected, found = np.full(LEVELS, 7), np.full(LEVELS, 7)
    wanted = group.passing(letters, begins, level, expected)
    pairs = GpuBlocks(group, device).passing(letters, begins, level, found)
    np.testing.assert_array_equal(pairs, wanted)
    assert pairs.shape == wanted.shape
    assert pairs.dtype == wanted.dtype
    assert found.tolist() == expected.tolist()
    return pairs


@on_devices
@pytest.mark.parametrize("name", [*SHAPES, *USUAL])
def test_block_keys_of_any_shape(name: str, device: str, rng: np.random.Generator) -> None:
    keys = keys_of((SHAPES | USUAL)[name], 11)
    lengths = [*LENGTHS, *rng.integers(0, 600, 40).tolist(), 511, 513, 2047]
    letters, begins = segments_of(rng, lengths)
    assert len(check(keys, letters, begins, 1, device)) > 0
    check(keys, letters, begins, 3, device)


@on_devices
@pytest.mark.parametrize("nonces", [1, 64])
def test_block_marks_up_to_the_longest(nonces: int, device: str, rng: np.random.Generator) -> None:
    """What agrees everywhere, or nowhere, is as far from half as can be: 2,048."""
    keys = keys_of(Profile(scheme=Blocks(nonces=nonces)), 9)
    sizes = [60, 300, 512, 513, LONGEST, LONGEST]
    texts = [promoted_letters(keys[k], size, k % nonces, rng) for k, size in enumerate(sizes)]
    texts[1][::5] = 0
    letters, begins = np.concatenate(texts), np.cumsum([0, *sizes])
    pairs = check(keys, letters, begins, 10, device).tolist()
    assert all([k, k] in pairs for k in range(len(sizes)))
    check(keys, letters, begins, LEVELS, device)


@pytest.mark.parametrize("nonces", [1, 5])
def test_half_precision_is_exact(
    nonces: int, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a CPU it is slow, but rounds as a GPU does: odd numbers near 2,048 would show it."""
    for module in (gpu, gpu_blocks):
        monkeypatch.setattr(module, "kind_of", lambda device: torch.float16)
    keys = keys_of(Profile(scheme=Blocks(nonces=nonces)), 9)
    texts = [promoted_letters(keys[k], LONGEST, k % nonces, rng) for k in range(4)]
    for text, changed in zip(texts, (0, 1, 10, 100), strict=True):
        text[:changed] = 0
    letters = np.concatenate([*texts, *(text[: 2047 - k] for k, text in enumerate(texts))])
    begins = np.cumsum([0, *[LONGEST] * 4, *range(2047, 2043, -1)])
    for level in (1, LEVELS):
        assert len(check(keys, letters, begins, level, TORCH_ON_CPU)) >= 8
    sequences = [drawn(rng, 2048), drawn(rng, 2047), marked(rng, a_key(1), 2047, 1.0), "A" * 2047]
    check_judged([a_key(number) for number in range(1, 60)], sequences, TORCH_ON_CPU, at_least=1)


@on_devices
def test_one_residue_decides(device: str, rng: np.random.Generator) -> None:
    """Counts of a segment that is promoted throughout, cut off at every length."""
    key = keys_of(Profile(scheme=Blocks(nonces=3)), 1)[0]
    whole = promoted_letters(key, 120, 1, rng)
    letters = np.concatenate([whole[:n] for n in range(121)])
    begins = np.cumsum([0, *range(121)])
    for level in (1, 5, LEVELS):
        check([key], letters, begins, level, device)


@on_devices
@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("_PRODUCT_ENTRIES", 2**14),
        ("_SIGN_ENTRIES", 1),
        ("_SUM_ENTRIES", 5000),
        ("_COMPARED_PAIRS", 40),
    ],
)
def test_block_keys_and_segments_in_chunks(
    name: str, size: int, device: str, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_blocks, name, size)
    keys = keys_of(Profile(scheme=Blocks(nonces=2)), 21)
    letters, begins = segments_of(rng, rng.integers(0, 300, 50).tolist())
    assert len(check(keys, letters, begins, 1, device)) > 0


@on_devices
@given(
    block=st.sampled_from([1, 2, 3, 7, 20]),
    nonces=st.sampled_from([1, 5, 66]),
    number=st.integers(1, 10),
    lengths=st.lists(st.integers(0, 150), max_size=6),
    unknown=st.sampled_from([0.0, 0.2, 1.0]),
    level=st.integers(1, LEVELS),
    seed=st.integers(0, 2**32 - 1),
)
def test_any_shape(
    device: str,
    block: int,
    nonces: int,
    number: int,
    lengths: list[int],
    unknown: float,
    level: int,
    seed: int,
) -> None:
    profile = Profile(scheme=Blocks(block=block, nonces=nonces))
    letters, begins = segments_of(np.random.default_rng(seed), lengths, unknown)
    check(keys_of(profile, number, str(seed)), letters, begins, level, device)


def test_what_is_refused(rng: np.random.Generator) -> None:
    keys = keys_of(Profile(scheme=Blocks(nonces=2)), 1)
    screen, tally = GpuBlocks(BlockGroup(keys), TORCH_ON_CPU), np.zeros(LEVELS, dtype=np.int64)
    letters, begins = segments_of(rng, [LONGEST + 1])
    with pytest.raises(ParameterError, match="up to 2048"):
        screen.passing(letters, begins, 5, tally)
    with pytest.raises(ParameterError, match="non-decreasing"):
        screen.passing(letters, np.array([5, 4]), 5, tally)
    with pytest.raises(ParameterError, match="level"):
        screen.passing(letters, begins, 0, tally)
    with pytest.raises(ParameterError, match="tally"):
        screen.passing(letters, begins, 5, tally[:3])


@on_devices
def test_nothing_to_look_at(device: str) -> None:
    keys, empty = keys_of(Profile(), 1), np.zeros(0, dtype=np.uint8)
    check(keys, empty, np.array([0]), 5, device)
    check(keys, empty, np.array([0, 0, 0]), 1, device)
    check(keys, np.zeros(30, dtype=np.uint8), np.array([3, 20, 20, 30]), 1, device)
