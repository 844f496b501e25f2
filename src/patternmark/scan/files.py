"""Scan files: pieces to workers, what they find to a folder, and all of it to one result.

Every finished piece is a line of a file. A run that was killed goes on from there, and as results
are put together from these lines alone, in the order of files and pieces, nobody can tell.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patternmark._version import __version__
from patternmark.errors import InputError, PatternmarkError
from patternmark.io.files import make_folder, write_json
from patternmark.io.kept import Kept
from patternmark.scan.judging import Found, judge
from patternmark.scan.screen import Screen
from patternmark.scan.sources import PIECE, Piece, pieces

SUFFIXES = (".fa", ".fasta", ".faa", ".fas", ".fsa", ".fq", ".fastq", ".parquet", ".arrow")
_PACKED = ("", ".gz", ".zst")
_PLAN, _DONE = "plan.json", "pieces.jsonl"

Step = Callable[[int, int], None]  # bytes and records of a piece that is done


@dataclass(frozen=True, eq=False)
class Scan:
    """What to scan, for what, and where unfinished work is kept."""

    files: tuple[str, ...]
    screen: Screen
    work: Path
    workers: int = 1
    sequence: str = "sequence"  # the column of Parquet and Arrow

    def plan(self) -> dict[str, Any]:
        """Return what must be the same for a run to go on."""
        return {
            "patternmark": __version__,
            "files": [[file, _size(file)] for file in self.files],
            "keys": [key.key_id for key in self.screen.keys],
            "sequence": self.sequence,
            "piece": PIECE,
        }

    @property
    def done_file(self) -> Path:
        """Where finished pieces are kept."""
        return self.work / _DONE

    def begin(self, resume: bool) -> None:
        """Make the work folder, or see that what is in it is the same scan."""
        plan = self.work / _PLAN
        if plan.exists():
            if not resume:
                raise InputError(
                    f"{self.work}: holds an unfinished scan: go on with --resume, or remove it"
                )
            if _read(plan) != self.plan():
                raise InputError(
                    f"{self.work}: holds another scan (its files, their sizes, keys or version "
                    "differ): remove it, or choose another -o"
                )
        make_folder(self.work)
        write_json(plan, self.plan())

    def run(self, step: Step = lambda size, records: None) -> list[tuple[str, Found, str]]:
        """Scan all that is not done; return what was found in each file, and its hash."""
        kept = Kept(self.done_file)
        with ThreadPoolExecutor(self.workers) as pool:
            waiting: set[Future[dict[str, Any]]] = set()
            for index, file in enumerate(self.files):
                for piece, error in _pieces(file, self.sequence):
                    name = piece_name(index, piece.number)
                    if error:
                        kept.add({"job": name, **_failed(error)})
                    elif (before := kept.get(name)) is not None:
                        step(piece.bytes, before["found"]["records"])
                    else:
                        waiting.add(pool.submit(scan_piece, name, piece, self.screen))
                    while len(waiting) > 2 * self.workers:
                        waiting = _finish(waiting, kept, step)
            while waiting:
                waiting = _finish(waiting, kept, step)
        return found_by_file(self, kept)


def found_by_file(scan: Scan, kept: Kept) -> list[tuple[str, Found, str]]:
    """Put the pieces of each file together: what was found, and the file's hash."""
    return [(file, *_of_file(kept, index)) for index, file in enumerate(scan.files)]


def scan_file(file: str, index: int, screen: Screen, sequence: str) -> Iterator[dict[str, Any]]:
    """Scan a whole file, piece by piece."""
    for piece, error in _pieces(file, sequence):
        name = piece_name(index, piece.number)
        yield {"job": name, **_failed(error)} if error else scan_piece(name, piece, screen)


def expand(paths: Sequence[str]) -> tuple[str, ...]:
    """Return the files of paths, folders with all that looks like sequences in them."""
    found: list[str] = []
    for path in paths:
        if not os.path.isdir(path):
            found.append(path)
            continue
        every = sorted(str(file) for file in Path(path).rglob("*") if file.is_file())
        own = [file for file in every if _is_sequences(file)]
        if not own:
            raise InputError(f"{path}: there is no file of sequences in this folder")
        found += own
    twice = {file for file in found if found.count(file) > 1} if len(found) < 10_000 else set()
    if twice:
        raise InputError(f"{sorted(twice)[0]}: is named twice")
    return tuple(found)


def _is_sequences(file: str) -> bool:
    return file.lower().endswith(tuple(kind + packed for kind in SUFFIXES for packed in _PACKED))


def _size(file: str) -> int | None:
    try:
        return None if file == "-" else os.path.getsize(file)
    except OSError:
        return None


def _read(file: Path) -> Any:
    import json  # noqa: PLC0415

    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def piece_name(file: int, piece: int) -> str:
    """Return what a finished piece is kept as."""
    return f"{file}/{piece}"


def _pieces(file: str, sequence: str) -> Iterator[tuple[Piece, str]]:
    """Yield pieces; where a file cannot be read on, one that says so."""
    number = 0
    try:
        for piece in pieces(file, sequence):
            yield piece, ""
            number += 1
    except InputError as error:
        yield Piece(file, number, lambda: None), str(error)  # type: ignore[arg-type,return-value]


def _failed(why: str) -> dict[str, Any]:
    found = Found(skipped=[{"id": "", "offset": 0, "why": why}])
    return {"found": found.to_table(), "hash": "", "bytes": 0}


def scan_piece(name: str, piece: Piece, screen: Screen) -> dict[str, Any]:
    """Scan the records of a piece."""
    from xxhash import xxh3_128  # noqa: PLC0415  # the scan extra

    try:
        loaded = piece.load()
    except InputError as error:
        return {"job": name, **_failed(str(error))}
    found = judge(loaded.counted(), screen, loaded.begin)
    if loaded.problem:
        end = loaded.begin + loaded.size
        found.skipped.append({"id": "", "offset": end, "why": loaded.problem})
    digest = xxh3_128(loaded.content)
    digest.update(loaded.beyond)
    return {
        "job": name,
        "found": found.to_table(),
        "hash": digest.hexdigest(),
        "bytes": piece.bytes or loaded.size,
    }


def _finish(
    waiting: set[Future[dict[str, Any]]], kept: Kept, step: Step
) -> set[Future[dict[str, Any]]]:
    """Keep what is done; return what is not."""
    done, others = wait(waiting, return_when=FIRST_COMPLETED)
    for future in done:
        row = future.result()
        kept.add(row)
        step(row["bytes"], row["found"]["records"])
    return others


def _of_file(kept: Kept, index: int) -> tuple[Found, str]:
    """Add up the pieces of a file; its hash is that of their hashes, one after the other."""
    from xxhash import xxh3_128  # noqa: PLC0415

    found, digest, number = Found(), xxh3_128(), 0
    while (row := kept.get(piece_name(index, number))) is not None:
        found.add(Found.of_table(row["found"]))
        digest.update(row["hash"].encode())
        number += 1
    return found, str(digest.hexdigest())


def needs(module: str) -> None:
    """Say what to install for a module that is not there, before anything is done."""
    from importlib.util import find_spec  # noqa: PLC0415

    if find_spec(module) is None:
        raise PatternmarkError(f"scan needs {module}: pip install 'patternmark[scan]'")
