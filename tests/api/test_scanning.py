"""`scan` gives what the command gives, and reads its hits."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import patternmark as pm
from tests.conftest import Outcome
from tests.scanning.made import a_key, drawn, fasta, key_folder, marked

for needed in ("numba", "pyarrow", "xxhash"):
    pytest.importorskip(needed, reason="pip install 'patternmark[scan]'")

Run = Callable[..., Outcome]
KEYS = [a_key(number) for number in (1, 4, 5)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Thirty sequences, of which three are marked, in a folder."""
    rng = np.random.default_rng(5)
    sequences = [drawn(rng, int(n)) for n in rng.integers(30, 300, 30)]
    for number in range(3):
        sequences[10 * number] = marked(rng, KEYS[number], 260)
    made = tmp_path / "sequences"
    made.mkdir()
    (made / "a.fa").write_bytes(fasta(sequences))
    return made


def test_a_scan_is_that_of_the_command(run: Run, folder: Path, tmp_path: Path) -> None:
    keys = key_folder(tmp_path / "keys", KEYS)
    by_command, by_call = tmp_path / "command.parquet", tmp_path / "call.parquet"
    told = run("scan", folder, "--keys", keys, "-o", by_command, "--json")
    assert told.status == 0, told.err
    heard: list[tuple[str, int, int | None]] = []
    found = pm.scan(folder, keys, by_call, progress=lambda *step: heard.append(step))
    assert [found.to_dict()] == told.objects
    assert by_call.read_bytes() == by_command.read_bytes()
    assert json.loads((tmp_path / "call.parquet.json").read_text()) == found.manifest
    size = (folder / "a.fa").stat().st_size
    assert heard == [("bytes", 0, size), ("sequences", 30, None), ("bytes", size, size)]
    assert repr(found).startswith("<ScanResult sequences 30, keys 3, hits 3, output ")
    assert found.is_complete
    assert found.num_hits == 3


@pytest.mark.parametrize("kind", ["mapping", "keys", "files"])
def test_keys_are_given_in_many_ways(kind: str, folder: Path, tmp_path: Path) -> None:
    files = sorted(key_folder(tmp_path / "keys", KEYS).glob("*.key"))
    given = {
        "mapping": {f"team-{number}": key for number, key in enumerate(KEYS)},
        "keys": KEYS,
        "files": files,
    }
    names = {
        "mapping": {key.key_id: f"team-{number}" for number, key in enumerate(KEYS)},
        "keys": {key.key_id: key.key_id for key in KEYS},
        "files": {pm.load_key(file).key_id: file.stem for file in files},
    }
    found = pm.scan([folder / "a.fa"], given[kind], tmp_path / "h.parquet", fdr=0.01)
    hits = list(found.hits())
    assert [(hit.id, hit.key_id) for hit in hits] == [
        (f"s{10 * number}", KEYS[number].key_id) for number in range(3)
    ]
    assert [hit.key_name for hit in hits] == [names[kind][key.key_id] for key in KEYS]
    for hit in hits:
        assert hit.prediction
        assert hit.log10_p_of_pair < hit.log10_p < -2
        assert hit.p_value == pytest.approx(10**hit.log10_p)
        assert "fdr:0.01" in hit.signature
        assert json.loads(json.dumps(hit.to_dict()))["status"] == "marked"


def test_what_is_skipped_is_warned_of(folder: Path, tmp_path: Path) -> None:
    (folder / "b.fa.gz").write_bytes(b"\x1f\x8b no gzip")
    with pytest.warns(pm.PatternmarkWarning, match=r"b\.fa\.gz"):
        found = pm.scan(folder, KEYS, tmp_path / "h.parquet")
    assert not found.is_complete
    assert [problem["file"] for problem in found.skipped] == [str(folder / "b.fa.gz")]
    assert found.num_hits == 3


def test_what_cannot_work_is_refused(folder: Path, tmp_path: Path) -> None:
    for options, why in (
        ({"fpr": 0.1, "fdr": 0.1}, "not both"),
        ({"fdr": 2.0}, "between 0 and 1"),
        ({"engine": "abacus"}, "engine=NAME"),
        ({"workers": 0}, "workers=N"),
    ):
        with pytest.raises(pm.ParameterError, match=why):
            pm.scan(folder, KEYS, tmp_path / "h.parquet", **options)
    with pytest.raises(pm.ParameterError, match="is a folder"):
        pm.scan(folder, KEYS, tmp_path)
