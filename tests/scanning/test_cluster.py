"""The same scan under Ray and Spark: the same hits, and a lost worker costs time alone."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from math import log10
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("numba", reason="pip install 'patternmark[scan]'")
arrow = pytest.importorskip("pyarrow", reason="pip install 'patternmark[scan]'")

from pyarrow import parquet  # noqa: E402

from patternmark.errors import InputError, PatternmarkError  # noqa: E402
from patternmark.scanning.batches import hit_schema, scan_batches  # noqa: E402
from patternmark.scanning.file_scan import Result, Scan  # noqa: E402
from patternmark.scanning.keyset import KeySet  # noqa: E402
from patternmark.scanning.result import corrected, write_hits  # noqa: E402
from patternmark.scanning.sizes import PIECE  # noqa: E402
from tests.scanning.made import a_key, drawn, fasta, marked  # noqa: E402

pytestmark = [
    pytest.mark.slow,
    # Ray leaves sockets to be closed when its process ends.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]
KEYS = [a_key(number) for number in (1, 4, 5)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A plain file of four pieces, and a compressed one."""
    import gzip

    found = tmp_path_factory.mktemp("cluster")
    rng = np.random.default_rng(3)
    one = fasta([drawn(rng, 300) for _ in range(3000)] + [marked(rng, KEYS[1], 260)])
    (found / "a.fa").write_bytes(one * (1 + 3 * PIECE // len(one)))
    (found / "b.fa.gz").write_bytes(gzip.compress(one, 1))
    return found


def a_scan(folder: Path, work: Path) -> Scan:
    files = tuple(str(folder / name) for name in ("a.fa", "b.fa.gz"))
    scan = Scan(files, KeySet(KEYS), work, workers=2)
    scan.begin(resume=False)
    return scan


def written(found: Result, file: Path) -> bytes:
    write_hits(corrected(found, fpr=0.01), file, [])
    return file.read_bytes()


class Killer(threading.Thread):
    """Kills one of Ray's workers once it is at work."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.killed: list[int] = []
        self.stopped = threading.Event()

    def run(self) -> None:
        while not self.stopped.is_set() and not self.killed:
            for process, name in _processes():
                if "ray::" in name and ("Map" in name or "scanned" in name):
                    time.sleep(0.3)  # in the middle of its piece
                    os.kill(process, signal.SIGKILL)
                    self.killed.append(process)
                    return
            time.sleep(0.02)


def _processes() -> Iterator[tuple[int, str]]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                yield int(entry.name), (entry / "cmdline").read_bytes().decode(errors="replace")
            except OSError:
                continue


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc").exists(), reason="it looks for processes in /proc")
def test_ray_gives_the_same_bytes_though_a_worker_is_killed(folder: Path, tmp_path: Path) -> None:
    ray = pytest.importorskip("ray", reason="pip install 'patternmark[cluster]'")
    from patternmark.scanning.cluster import run_on_ray

    alone = a_scan(folder, tmp_path / "local")
    expected = written(alone.run(), tmp_path / "local.parquet")
    shared = a_scan(folder, tmp_path / "ray")
    killer = Killer()
    killer.start()
    try:
        found = run_on_ray(shared, lambda size, records: None)
    finally:
        killer.stopped.set()
        ray.shutdown()
    assert killer.killed
    assert written(found, tmp_path / "ray.parquet") == expected
    copies = found.files[0].found.records // 3001  # of which each has one mark
    assert len(list(found.hits())) == copies + 1 > 20
    assert found.files[1].found.records == 3001


def test_a_file_that_changed_is_noticed(folder: Path, tmp_path: Path) -> None:
    """Even if its size and time are the same: what was scanned before is read again."""
    ray = pytest.importorskip("ray", reason="pip install 'patternmark[cluster]'")
    from patternmark.scanning.cluster import run_on_ray

    file = tmp_path / "a.fa"
    content = (folder / "a.fa").read_bytes()[: 2 * PIECE]
    file.write_bytes(content)
    scan = Scan((str(file),), KeySet(KEYS), tmp_path / "work", workers=2)
    scan.begin(resume=False)
    whole = scan.run().files[0].digest
    try:
        steps: list[tuple[int, int]] = []
        again = run_on_ray(scan, lambda *step: steps.append(step))
        assert again.files[0].digest == whole
        assert sum(size for size, _ in steps) == len(content)
        times = file.stat()
        at = content.rindex(b"\n", 0, -1) + 1
        file.write_bytes(
            content[:at] + (b"W" if content[at : at + 1] != b"W" else b"Y") + content[at + 1 :]
        )
        os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
        with pytest.raises(InputError, match=r"a\.fa: has changed, it is not what was scanned"):
            run_on_ray(scan, lambda *step: None)
    finally:
        ray.shutdown()


def test_no_cluster_is_told(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ray", reason="pip install 'patternmark[cluster]'")
    from patternmark.scanning.cluster import run_on_ray

    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))  # no cluster of others is found
    with pytest.raises(PatternmarkError, match="the Ray cluster at auto"):
        run_on_ray(a_scan(folder, tmp_path / "w"), lambda size, records: None, "auto")


def test_spark_maps_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As docs/scan.md shows it."""
    pytest.importorskip("pyspark", reason="pip install pyspark")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java")
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)  # of its workers
    from pyspark.sql import SparkSession

    rng = np.random.default_rng(4)
    sequences = [drawn(rng, 250) for _ in range(200)] + [marked(rng, KEYS[2], 260)]
    table = arrow.table({"id": [f"s{i}" for i in range(201)], "sequence": sequences})
    parquet.write_table(table, tmp_path / "in.parquet")
    session = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    spark = session.getOrCreate()
    try:
        frame = spark.read.parquet(str(tmp_path / "in.parquet")).repartition(3)
        schema = ", ".join(f"{field.name} {SPARK[str(field.type)]}" for field in hit_schema())
        hits = frame.mapInArrow(partial(scan_batches, screen=KeySet(KEYS)), schema).collect()
    finally:
        spark.stop()
    significant = [row for row in hits if row.log10_p + log10(201 * 3) <= -2]
    assert [(row.id, row.key_id) for row in significant] == [("s200", KEYS[2].key_id)]


SPARK = {"string": "string", "int64": "bigint", "double": "double"}
