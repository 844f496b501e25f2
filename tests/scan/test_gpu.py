"""The GPU's product against the compiled loops: the same pairs, the same tally."""

import numpy as np
import pytest

pytest.importorskip("numba", reason="pip install 'patternmark[scan]'")
torch = pytest.importorskip("torch", reason="pip install 'patternmark[protein]'")

from patternmark.scan.gpu import GpuScreen  # noqa: E402
from patternmark.scan.judging import judge  # noqa: E402
from patternmark.scan.reading import padded, read_fasta  # noqa: E402
from patternmark.scan.screen import Screen  # noqa: E402
from tests.scan.made import a_key, drawn, fasta, marked  # noqa: E402

torch.set_num_threads(1)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_the_same_pairs_and_tally(device: str, rng: np.random.Generator) -> None:
    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("there is no GPU")
    keys = [a_key(number) for number in range(1, 200)]
    sequences = [drawn(rng, int(n)) for n in rng.integers(0, 400, 300)]
    sequences += [marked(rng, key, 200) for key in keys[:3]] + [drawn(rng, 2048), "A" * 2048]
    data = fasta(sequences)
    screen = Screen(keys)
    expected = judge(read_fasta(padded(data), len(data)), screen)
    other = Screen(keys)
    other.gpu = GpuScreen(other.parts, other.limits, device)
    found = judge(read_fasta(padded(data), len(data)), other)
    assert found.to_table() == expected.to_table()
    assert expected.passed >= 3
