"""Scans from end to end: what is found, that nothing is lost or doubled, and bad input."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from math import log10
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("numba", reason="pip install 'patternmark[scan]'")
arrow = pytest.importorskip("pyarrow", reason="pip install 'patternmark[scan]'")
pytest.importorskip("xxhash", reason="pip install 'patternmark[scan]'")

from pyarrow import parquet  # noqa: E402

from patternmark import Detector  # noqa: E402
from patternmark.core.schemes import Blocks  # noqa: E402
from patternmark.errors import InputError, PatternmarkError  # noqa: E402
from patternmark.io.files import held  # noqa: E402
from patternmark.io.kept import Kept  # noqa: E402
from patternmark.scanning import cluster, sizes, sources  # noqa: E402
from patternmark.scanning import file_scan as files  # noqa: E402
from patternmark.scanning.batches import count_tests, hit_schema, scan_batches  # noqa: E402
from patternmark.scanning.file_scan import Scan  # noqa: E402
from patternmark.scanning.keyset import KeySet  # noqa: E402
from patternmark.scanning.result import (  # noqa: E402
    COLUMNS,
    Written,
    corrected,
    manifest,
    signatures,
    write_hits,
)
from tests.conftest import Outcome, no_file_over  # noqa: E402
from tests.scanning.made import (  # noqa: E402
    a_key,
    drawn,
    fasta,
    key_folder,
    marked,
    marked_blocks,
)
from tests.stopped import run_stopped  # noqa: E402

Run = Callable[..., Outcome]
# Half of what one of them promotes, another does: a mark of one says nothing of the others.
KEYS = [a_key(number) for number in (1, 4, 5, 23, 153)]


@pytest.fixture(scope="module")
def content() -> bytes:
    """400 sequences, of which every fiftieth is marked, by one key after the other."""
    rng = np.random.default_rng(5)
    sequences = [drawn(rng, int(n)) for n in rng.integers(30, 500, 400)]
    for number in range(0, 400, 50):
        sequences[number] = marked(rng, KEYS[number // 50 % 5], 260)
    return fasta(sequences)


EXPECTED = {(f"s{number}", KEYS[number // 50 % 5].key_id) for number in range(0, 400, 50)}


def hits_of(file: Path) -> list[dict[str, Any]]:
    return list(parquet.read_table(file).to_pylist())


def test_marks_are_found_with_their_keys(run: Run, content: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.fa").write_bytes(content)
    folder = key_folder(tmp_path / "keys", KEYS)
    done = run("scan", tmp_path / "a.fa", "--keys", folder, "-o", tmp_path / "h.parquet", "--json")
    assert done.status == 0, done.err
    (manifest,) = done.objects
    assert manifest == json.loads((tmp_path / "h.parquet.json").read_text())
    assert manifest["records"] == 400
    assert manifest["tests"] == manifest["segments"] * 5 == 2000
    assert not (tmp_path / "h.parquet.scan").exists()
    rows = hits_of(tmp_path / "h.parquet")
    assert {(row["id"], row["key_id"]) for row in rows} == EXPECTED
    assert [name for name, _ in COLUMNS] == list(rows[0])
    lines = content.split(b">")
    for row in rows:
        assert content[row["offset"] :].startswith(b">" + row["id"].encode() + b" ")
        key = next(key for key in KEYS if key.key_id == row["key_id"])
        text = b"".join(lines[int(row["id"][1:]) + 1].splitlines()[1:]).decode()
        verdict = Detector(key).detect(text)
        assert row["log10_p"] == verdict.log10_p
        assert row["log10_p_corrected"] == pytest.approx(verdict.log10_p + log10(2000))
        assert row["detector"] == "auto"
    pairs = manifest["histogram"]["pairs"]
    assert pairs == sorted(pairs, reverse=True)
    assert abs(pairs[0] - 200) < 80  # 10 % of what is unmarked


def test_keys_of_both_schemes_in_one_scan(run: Run, tmp_path: Path) -> None:
    rng = np.random.default_rng(11)
    own = [a_key(7, Blocks()), a_key(8, Blocks(nonces=1))]
    sequences = [drawn(rng, 300) for _ in range(60)]
    sequences[10] = marked(rng, KEYS[3], 250)
    sequences[20] = "X*" + marked_blocks(rng, own[0], 300)[2:]
    sequences[30] = "M" + marked_blocks(rng, own[1], 300)
    sequences[40] = marked_blocks(rng, own[0], 512) + drawn(rng, 2048)
    (tmp_path / "a.fa").write_bytes(fasta(sequences))
    folder = key_folder(tmp_path / "keys", [KEYS[3], *own])
    done = run("scan", tmp_path / "a.fa", "--keys", folder, "-o", tmp_path / "h.parquet", "--json")
    assert done.status == 0, done.err
    rows = hits_of(tmp_path / "h.parquet")
    expected = [("s10", KEYS[3]), ("s20", own[0]), ("s30", own[1]), ("s40", own[0])]
    found = {(row["id"], row["key_id"]) for row in rows}
    assert found == {(name, key.key_id) for name, key in expected}
    for row in rows:
        key = next(key for _, key in expected if key.key_id == row["key_id"])
        if row["id"] != "s40":
            assert row["log10_p"] == Detector(key).detect(sequences[int(row["id"][1:])]).log10_p
    screen = KeySet([KEYS[3], *own])
    assert screen.lost(0.85, 300, key=1) < 1e-9 < screen.lost(0.6, 300, key=1)


def test_every_format_gives_the_same_hits(run: Run, content: bytes, tmp_path: Path) -> None:
    zstandard = pytest.importorskip("zstandard")
    folder = key_folder(tmp_path / "keys", KEYS)
    records = [record.split(b"\n", 1) for record in content.split(b">")[1:]]
    ids = [head.split()[0].decode() for head, _ in records]
    letters = [body.replace(b"\n", b"").decode() for _, body in records]
    table = arrow.table({"id": ids, "sequence": letters})
    (tmp_path / "a.fa").write_bytes(content)
    (tmp_path / "a.fa.gz").write_bytes(gzip.compress(content))
    (tmp_path / "a.fa.zst").write_bytes(zstandard.compress(content))
    (tmp_path / "crlf.fa").write_bytes(content.replace(b"\n", b"\r\n"))
    fastq = "".join(f"@{i}\n{s}\n+\n{'I' * len(s)}\n" for i, s in zip(ids, letters, strict=True))
    (tmp_path / "a.fq").write_text(fastq)
    parquet.write_table(table, tmp_path / "a.parquet", row_group_size=37)
    with arrow.ipc.new_file(tmp_path / "a.arrow", table.schema) as writer:
        writer.write_table(table, max_chunksize=53)
    found = []
    for name in ("a.fa", "a.fa.gz", "a.fa.zst", "crlf.fa", "a.fq", "a.parquet", "a.arrow"):
        output = tmp_path / f"{name}.hits"
        done = run("scan", tmp_path / name, "--keys", folder, "-o", output)
        assert done.status == 0, done.err
        rows = hits_of(output)
        found.append([(r["id"], r["key_id"], r["log10_p"], r["p_corrected"]) for r in rows])
    assert {row[:2] for row in found[0]} == EXPECTED
    assert all(rows == found[0] for rows in found)


def test_pieces_and_workers_change_nothing(
    content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.fa").write_bytes(content)
    (tmp_path / "a.gz").write_bytes(gzip.compress(content))
    written = []
    for number, (piece, workers) in enumerate([(2**25, 1), (3000, 1), (3000, 3), (500, 2)]):
        monkeypatch.setattr(sizes, "PIECE", piece)
        monkeypatch.setattr(sizes, "STREAM_READ", min(piece, 777))
        work = tmp_path / f"w{number}"
        scan = Scan((str(tmp_path / "a.fa"), str(tmp_path / "a.gz")), KeySet(KEYS), work, workers)
        scan.begin(resume=False)
        found = scan.run()
        assert found.files[0].found.to_table() == found.files[1].found.to_table()
        write_hits(corrected(found, fpr=0.01), tmp_path / f"h{number}", [])
        written.append((tmp_path / f"h{number}").read_bytes())
    assert len(set(written)) == 1


@pytest.mark.slow
def test_a_killed_scan_goes_on_and_nobody_can_tell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """kill -9 at several places: the bytes of both results are those of a run without it."""
    rng = np.random.default_rng(8)
    folder = key_folder(tmp_path / "keys", KEYS)
    one = fasta([drawn(rng, 300) for _ in range(600)] + [marked(rng, KEYS[2], 200)])
    inputs = tmp_path / "in"
    inputs.mkdir()
    for number in range(3):
        (inputs / f"{number}.fa").write_bytes(one * 40)
    (inputs / "3.fa.gz").write_bytes(gzip.compress(one * 20, 1))
    small = "from patternmark.scanning import sizes; sizes.PIECE = 2**17\n"
    monkeypatch.setenv("PATTERNMARK_ALLOW_OPEN_KEY", "1")

    def command(output: Path, *more: str) -> list[str]:
        options = ["scan", str(inputs), "--keys", str(folder), "--workers", "2"]
        return [*options, "-o", str(output), *more]

    def finish(*arguments: str) -> subprocess.CompletedProcess[str]:
        program = [sys.executable, "-c", f"{small}from patternmark.cli import main; main()"]
        return subprocess.run([*program, *arguments], check=False, capture_output=True, text=True)

    whole = tmp_path / "whole.parquet"
    assert finish(*command(whole)).returncode == 0
    assert len(hits_of(whole)) == 140
    killed = tmp_path / "killed.parquet"
    done = tmp_path / "killed.parquet.scan" / "pieces.jsonl"
    lines, resume = 0, []
    for more in (1, 29, 60):
        stopped = run_stopped(
            signal.SIGKILL, "patternmark.io.kept:Kept.add", more, *command(killed, *resume),
            first=small,
        )  # fmt: skip
        assert stopped.returncode == -signal.SIGKILL
        lines += more
        assert done.read_bytes().count(b"\n") == lines
        resume = ["--resume"]
    again = finish(*command(killed))
    assert again.returncode == 2
    assert "--resume" in again.stderr
    assert finish(*command(killed, "--resume")).returncode == 0
    assert killed.read_bytes() == whole.read_bytes()
    manifests = [file.with_name(f"{file.name}.json").read_bytes() for file in (killed, whole)]
    assert manifests[0] == manifests[1]


def test_what_cannot_be_read_is_named_and_the_rest_scanned(
    run: Run, content: bytes, tmp_path: Path
) -> None:
    folder = key_folder(tmp_path / "keys", KEYS)
    inputs = tmp_path / "in"
    inputs.mkdir()
    (inputs / "a.fa").write_bytes(b">bad one\nACD\x00EF\n" + content + b">worse\nAC1D\n")
    packed = gzip.compress(content)
    (inputs / "b.fa.gz").write_bytes(packed[: len(packed) // 2])
    (inputs / "c.parquet").write_bytes(b"PAR1 and nothing else")
    (inputs / "notes.txt").write_text("not sequences")
    output = tmp_path / "h.parquet"
    done = run("scan", inputs, "--keys", folder, "-o", output, "--json")
    assert done.status == 3
    for said in (
        "byte 0 is not a letter",
        "'1' is not a letter",
        "b.fa.gz",
        "cut off",
        "c.parquet",
    ):
        assert said in done.err, said
    (manifest,) = done.objects
    assert len(manifest["skipped"]) == 4
    rows = hits_of(output)
    assert {(r["id"], r["key_id"]) for r in rows if r["file"].endswith("a.fa")} == EXPECTED
    assert any(r["file"].endswith(".gz") for r in rows)


def test_only_the_same_files_are_gone_on_with(content: bytes, tmp_path: Path) -> None:
    plain, packed = tmp_path / "a.fa", tmp_path / "b.fa.gz"
    plain.write_bytes(content)
    packed.write_bytes(gzip.compress(content))
    scan = Scan((str(plain), str(packed)), KeySet(KEYS), tmp_path / "w")
    scan.begin(resume=False)
    scan.run()
    with pytest.raises(InputError, match="unfinished scan: continue it with resume=True"):
        scan.begin(resume=False)
    scan.begin(resume=True)
    changed = content.replace(b"A", b"C", 1)
    plain.write_bytes(changed)  # as long as before
    with pytest.raises(InputError, match="another scan"):
        scan.begin(resume=True)
    # Pieces without their plan are nobody's.
    (tmp_path / "w" / "plan.json").unlink()
    scan.begin(resume=False)
    assert not scan.done_file.exists()
    # Whatever the size and the time say, what was scanned before is read again.
    scan.run()
    for file, other in ((plain, content), (packed, gzip.compress(changed, mtime=0))):
        before, times = file.read_bytes(), file.stat()
        file.write_bytes(other)
        os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
        with pytest.raises(InputError, match=rf"{file.name}: has changed, it is not what was"):
            scan.run()
        file.write_bytes(before)
    steps: list[tuple[int, int]] = []
    scan.run(lambda *step: steps.append(step))
    assert sum(size for size, _ in steps) == plain.stat().st_size + packed.stat().st_size
    scan.end()
    assert not scan.work.exists()


DAMAGED = {
    "only a name": b'{"job": "0/0"}',
    "no counts": b'{"job": "0/0", "found": {}, "hash": "", "bytes": 1, "failed": false}',
    "no object": b'["0/0"]',
    "deep": b"[" * 100_000,
    "long number": b'{"job": "0/0", "bytes": ' + b"9" * 5000 + b"}",
}


@pytest.mark.parametrize("line", DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_note_costs_one_piece(
    line: bytes, content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sizes, "PIECE", 20_000)
    (tmp_path / "a.fa").write_bytes(content)
    scan = Scan((str(tmp_path / "a.fa"),), KeySet(KEYS), tmp_path / "w")
    scan.begin(resume=False)
    expected = list(scan.run().hits())
    rows = scan.done_file.read_bytes().splitlines()
    assert any(json.loads(row)["found"]["hits"] for row in rows)
    assert len(expected) >= len(EXPECTED)
    number = next(i for i, row in enumerate(rows) if json.loads(row)["job"] == "0/0")
    scan.done_file.write_bytes(b"\n".join([*rows[:number], line, *rows[number + 1 :]]) + b"\n")
    scanned, add = [], Kept.add

    def noted(kept: Kept, row: dict[str, Any]) -> None:
        scanned.append(row["job"])
        add(kept, row)

    monkeypatch.setattr(Kept, "add", noted)
    assert list(scan.run().hits()) == expected
    assert scanned == ["0/0"]  # and no piece that was whole


def test_what_failed_is_tried_again(
    content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.fa").write_bytes(content)
    scan = Scan((str(tmp_path / "a.fa"),), KeySet(KEYS), tmp_path / "w")
    scan.begin(resume=False)
    with monkeypatch.context() as broken:

        def fails(path: str, offset: int) -> Any:
            raise InputError(f"{path}: the disk hums")

        broken.setattr(sources, "_from_file", fails)
        ((_, found, _),) = scan.run().files
    assert [problem["why"] for problem in found.skipped] == ["the disk hums"]
    scan.begin(resume=True)
    ((_, found, _),) = scan.run().files
    assert (found.records, found.skipped) == (400, [])


def test_inputs_and_outputs_are_kept_apart(run: Run, content: bytes, tmp_path: Path) -> None:
    folder = key_folder(tmp_path / "keys", KEYS)
    inputs = tmp_path / "in"
    inputs.mkdir()
    (inputs / "a.fa").write_bytes(content)
    output = inputs / "h.parquet"
    for _ in range(2):  # the second time there are hits among the inputs
        assert run("scan", inputs, "--keys", folder, "-o", output).status == 0
    for more in (["-o", inputs / "a.fa"], ["-o", inputs], ["-o", output, inputs / "." / "a.fa"]):
        done = run("scan", inputs / "a.fa", "--keys", folder, *more)
        assert done.status == 2, done.err
    assert (inputs / "a.fa").read_bytes() == content


def test_a_key_that_cannot_be_used_is_told(run: Run, content: bytes, tmp_path: Path) -> None:
    folder = key_folder(tmp_path / "keys", KEYS)
    (folder / "broken.key").write_text("not a key")
    (tmp_path / "a.fa").write_bytes(content)
    done = run("scan", tmp_path / "a.fa", "--keys", folder, "-o", tmp_path / "h", "--json")
    assert done.status == 3
    assert "broken.key" in done.objects[0]["keys_left_out"][0]


def test_carriage_returns_alone_and_pipes(run: Run, content: bytes, tmp_path: Path) -> None:
    folder = key_folder(tmp_path / "keys", KEYS)
    (tmp_path / "cr.fa").write_bytes(content.replace(b"\n", b"\r"))
    done = run("scan", tmp_path / "cr.fa", "--keys", folder, "-o", tmp_path / "h")
    assert done.status == 3
    assert "carriage return" in done.err
    pipe = tmp_path / "pipe.fa"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(content), daemon=True)
    writer.start()
    done = run("scan", pipe, "--keys", folder, "-o", tmp_path / "p", "--json")
    assert done.status == 0, done.err
    assert done.objects[0]["records"] == 400


def test_bytes_that_are_no_text_cost_one_row(tmp_path: Path) -> None:
    table = arrow.table({"sequence": arrow.array([b"ACDE", b"A\xff", b"WYV"], arrow.binary())})
    parquet.write_table(table, tmp_path / "a.parquet")
    scan = Scan((str(tmp_path / "a.parquet"),), KeySet(KEYS), tmp_path / "w")
    scan.begin(resume=False)
    ((_, found, _),) = scan.run().files
    assert (found.records, len(found.skipped)) == (2, 1)


def test_nothing_there(run: Run, tmp_path: Path) -> None:
    folder = key_folder(tmp_path / "keys", KEYS[:1])
    (tmp_path / "empty").mkdir()
    output = tmp_path / "h.parquet"
    for inputs in (tmp_path / "empty", tmp_path / "no.fa"):
        done = run("scan", inputs, "--keys", folder, "-o", output)
        assert done.status in (2, 3)
        assert inputs.name in done.err
    (tmp_path / "a.fa").write_bytes(b"")
    done = run("scan", tmp_path / "a.fa", "--keys", folder, "-o", output)
    assert done.status == 0, done.err
    assert hits_of(output) == []


def test_choices_that_do_not_go_together(run: Run, tmp_path: Path) -> None:
    folder = key_folder(tmp_path / "keys", KEYS[:1])
    start = ["scan", tmp_path / "a.fa", "--keys", folder, "-o", tmp_path / "h"]
    for more in (["--fpr", "0.1", "--fdr", "0.1"], ["--fdr", "2"], ["--engine", "abacus"]):
        assert run(*start, *more).status == 2


def a_scan(content: bytes, folder: Path) -> Scan:
    (folder / "a.fa").write_bytes(content)
    scan = Scan((str(folder / "a.fa"),), KeySet(KEYS), folder / "w")
    scan.begin(resume=False)
    return scan


def test_a_full_disk_keeps_what_is_finished(
    content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sizes, "PIECE", 20_000)
    scan = a_scan(content, tmp_path)
    with no_file_over(2000), pytest.raises(InputError, match="what is finished is kept"):
        scan.run()
    assert 0 < scan.done_file.stat().st_size <= 2000
    found = scan.run()
    assert found.files[0].found.records == 400
    output = tmp_path / "h.parquet"
    output.write_bytes(b"before")
    rows = list(corrected(found, fpr=0.01))
    with no_file_over(100), pytest.raises(InputError, match=r"h\.parquet: cannot be written"):
        write_hits(rows, output, [])
    assert output.read_bytes() == b"before"
    write_hits(rows, output, [])
    assert {(row["id"], row["key_id"]) for row in hits_of(output)} == EXPECTED


def test_false_discovery_rate(content: bytes, tmp_path: Path) -> None:
    scan = a_scan(content, tmp_path)
    found = scan.run()
    strict = list(corrected(found, fpr=0.05))
    free = list(corrected(found, fdr=0.05))
    assert len(free) >= len(strict) == 8
    ranked = sorted(row["log10_p"] for row in free)
    for row in free:
        best = min(
            p + log10(2000) - log10(rank) for rank, p in enumerate(ranked, 1) if p >= row["log10_p"]
        )
        assert row["log10_p_corrected"] == pytest.approx(min(best, 0.0))


def test_all_that_shapes_hits_is_signed(content: bytes, tmp_path: Path) -> None:
    found = a_scan(content, tmp_path).run()
    levels = [{"fpr": 0.01}, {"fpr": 0.001}, {"fdr": 0.01}]
    signed = [signatures(found, **level) for level in levels]
    screen, found.screen = found.screen, KeySet(KEYS[:-1])
    signed.append(signatures(found, fpr=0.01))
    found.screen = screen
    assert len({one for some in signed for one in some}) == sum(map(len, signed))
    assert signatures(found) == signed[1]  # the default rate
    assert len(list(corrected(found))) == len(list(corrected(found, fpr=0.001)))
    content = manifest(found, Written(0, 0), fpr=0.01)
    assert content["signatures"] == signed[0]
    output = tmp_path / "h.parquet"
    write_hits(corrected(found, fpr=0.01), output, signed[0])
    metadata = parquet.read_schema(output).metadata
    assert json.loads(metadata[b"patternmark.signatures"]) == signed[0]


def test_batches_of_arrow(content: bytes) -> None:
    records = [record.split(b"\n", 1) for record in content.split(b">")[1:]]
    ids = [head.split()[0].decode() for head, _ in records]
    letters = [body.replace(b"\n", b"").decode() for _, body in records]
    table = arrow.table({"id": ids, "sequence": letters, "file": ["x"] * len(ids)})
    found = list(scan_batches(table.to_batches(max_chunksize=33), KeySet(KEYS)))
    assert all(batch.schema == hit_schema() for batch in found)
    tests = sum(int(batch.schema.metadata[b"tests"]) for batch in found)
    signed = {batch.schema.metadata[b"signatures"] for batch in found}
    assert [json.loads(one) for one in signed] == [KeySet(KEYS).signatures]
    assert tests == count_tests(table.to_batches(), KeySet(KEYS)) == 2000
    rows = [row for batch in found for row in batch.to_pylist()]
    significant = [row for row in rows if row["log10_p"] + log10(tests) <= -2]
    assert {(row["id"], row["key_id"]) for row in significant} == EXPECTED
    assert all(ids[row["offset"]] == row["id"] and row["file"] == "x" for row in rows)


def test_many_bad_records_are_counted_and_some_named(tmp_path: Path) -> None:
    (tmp_path / "a.fa").write_bytes(b">bad\nAC1\n" * 5000 + b">good\nACDE\n")
    scan = Scan((str(tmp_path / "a.fa"),), KeySet(KEYS), tmp_path / "w")
    scan.begin(resume=False)
    result = scan.run()
    found = result.files[0].found
    assert (found.records, found.num_skipped, len(found.skipped)) == (1, 5000, 100)
    content = manifest(result, Written(0, 0), fpr=0.01)
    assert (content["num_skipped"], len(content["skipped"])) == (5000, 100)


def test_ids_of_columns_are_part_of_the_hash(tmp_path: Path) -> None:
    hashes = set()
    for number, ids in enumerate((["a", "b"], ["ab", ""], ["a", None], [1, 2], [b"a", b"b"])):
        file = tmp_path / f"{number}.parquet"
        parquet.write_table(arrow.table({"id": ids, "sequence": ["ACD", "WY"]}), file)
        scan = Scan((str(file),), KeySet(KEYS), tmp_path / f"w{number}")
        scan.begin(resume=False)
        hashes.add(scan.run().files[0].digest)
    assert len(hashes) == 4  # text and bytes that are the same are the same


def test_records_of_one_name_are_told_apart(run: Run, tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    text = marked(rng, KEYS[0], 300)
    (tmp_path / "a.fa").write_text(f">same\n{text}\n>same\n{drawn(rng, 300)}\n>same\n{text}\n")
    folder = key_folder(tmp_path / "keys", KEYS)
    assert run("scan", tmp_path / "a.fa", "--keys", folder, "-o", tmp_path / "h").status == 0
    assert [(hit["id"], hit["offset"]) for hit in hits_of(tmp_path / "h")] == [
        ("same", 0),
        ("same", 2 * 307),
    ]


def test_what_was_read_is_not_given_up_for_an_error(
    content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sizes, "PIECE", 20_000)
    scan = a_scan(content, tmp_path)
    whole = scan.run().files[0].found.to_table()

    def fails(path: str, sequence: str) -> Any:
        raise InputError(f"{path}: the disk hums")

    with monkeypatch.context() as broken:
        broken.setattr(files, "pieces", fails)
        with pytest.raises(
            InputError,
            match=r"a\.fa: was readable in the earlier run but not now \(.*the disk hums",
        ):
            scan.run()
    assert scan.run().files[0].found.to_table() == whole


def test_two_runs_do_not_share_a_folder(run: Run, content: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.fa").write_bytes(content)
    keys = key_folder(tmp_path / "keys", KEYS)
    command = ("scan", tmp_path / "a.fa", "--keys", keys, "-o", tmp_path / "h")
    with held(tmp_path / "h.scan"):
        done = run(*command)
    assert done.status == 2
    assert "another run is using it: wait until that run ends" in done.err
    assert run(*command).status == 0
    one, other = Kept(tmp_path / "kept"), Kept(tmp_path / "kept")
    one.add({"job": "a"})
    other.add({"job": "b"})
    one.add({"job": "c"})
    with pytest.raises(InputError, match="another run"):
        one.get("c")


def test_links_in_folders(run: Run, content: bytes, tmp_path: Path) -> None:
    """Are followed, each file once; what leads nowhere is told."""
    inputs, elsewhere = tmp_path / "in", tmp_path / "elsewhere"
    inputs.mkdir()
    elsewhere.mkdir()
    (elsewhere / "a.fa").write_bytes(content)
    (inputs / "linked").symlink_to(elsewhere)
    (inputs / "back").symlink_to(inputs)
    (inputs / "again.fa").symlink_to(elsewhere / "a.fa")
    (inputs / "broken.fa").symlink_to(tmp_path / "nowhere")
    found = files.expand([str(inputs)])
    assert [Path(file).name for file in found] == ["again.fa", "broken.fa"]
    keys = key_folder(tmp_path / "keys", KEYS)
    done = run("scan", inputs, "--keys", keys, "-o", tmp_path / "h", "--json")
    assert done.status == 3
    assert "broken.fa" in done.err
    assert done.objects[0]["records"] == 400


def test_a_cluster_that_is_not_there() -> None:
    for address in ("127.0.0.1:1", "ray://127.0.0.1:1", "nowhere:99999"):
        with pytest.raises(PatternmarkError, match="cannot be reached"):
            cluster._check_reachable(address)
    cluster._check_reachable("auto")
