import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Outcome


@pytest.mark.slow
@pytest.mark.slow
def test_the_benchmark_runs_and_its_numbers_are_right(
    run: Callable[..., Outcome], tmp_path: Path
) -> None:
    done = run("bench", "null", "--json", "-o", tmp_path)
    assert done.status == 0
    result = json.loads(done.out)
    assert result == json.loads((tmp_path / "null.json").read_text())
    assert result["table"]["states"] == 4
    assert result["table"]["max_difference"] < 1e-9
    assert max(a["relative_error"] for a in result["accuracy"]) < 1e-9
    longest = result["growth"][-1]
    assert longest["n"] == 1_000_000
    assert longest["peak_kib"] < 50_000  # linear would be 7.6 MiB a vector; n^2 would be 7 TiB
