"""Scan files: workers judge pieces, a work folder keeps what they found, and `Result` reads it.

Every finished piece is one line of a file. A run that was killed continues after these lines. The
result is made from these lines alone, in the order of files and pieces, so it is the same whether
or not the run was interrupted.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from patternmark._version import __version__
from patternmark.errors import InputError, PatternmarkError
from patternmark.io.bounded import read_json
from patternmark.io.files import make_folder, write_json
from patternmark.io.kept import Kept
from patternmark.scanning import sizes
from patternmark.scanning.buffers import BUFFERS
from patternmark.scanning.judging import Counts, is_table, judge
from patternmark.scanning.keyset import KeySet
from patternmark.scanning.loaded import Loaded, Piece
from patternmark.scanning.sources import pieces

SUFFIXES = (".fa", ".fasta", ".faa", ".fas", ".fsa", ".fq", ".fastq", ".parquet", ".arrow")
_PACKED = ("", ".gz", ".zst")
_PLAN, _DONE = "plan.json", "pieces.jsonl"

Step = Callable[[int, int], None]  # bytes and records of a piece that is done


@dataclass(frozen=True, eq=False)
class Scan:
    """A scan: the files, the keys to look for, and the folder for unfinished work."""

    files: tuple[str, ...]
    screen: KeySet
    work: Path
    workers: int = 1
    sequence: str = "sequence"  # the column of Parquet and Arrow

    def plan(self) -> dict[str, Any]:
        """Return the settings that must be the same if a run is resumed."""
        return {
            "patternmark": __version__,
            "files": [[display_name(file), *_identity(file)] for file in self.files],
            "keys": [key.key_id for key in self.screen.keys],
            "sequence": self.sequence,
            "piece": sizes.PIECE,
        }

    @property
    def done_file(self) -> Path:
        """The file of finished pieces."""
        return self.work / _DONE

    def finished(self) -> Kept:
        """Return the finished pieces; those whose line was damaged are scanned again."""
        return Kept(self.done_file, is_whole=_is_row)

    def begin(self, resume: bool) -> None:
        """Make the work folder, or check that it belongs to the same scan."""
        plan = self.work / _PLAN
        if plan.exists():
            if not resume:
                raise InputError(
                    f"{self.work}: holds an unfinished scan: continue it with resume=True, "
                    "or remove it"
                )
            if "-" in self.files:
                raise InputError(
                    "a scan of standard input cannot be resumed, as it cannot be read again: "
                    f"remove {self.work}, or scan a file"
                )
            if _read(plan) != self.plan():
                raise InputError(
                    f"{self.work}: holds another scan (its files, their sizes, keys or version "
                    "differ): remove it, or choose another -o"
                )
        make_folder(self.work)
        if not plan.exists():  # pieces without a plan belong to another scan
            self.done_file.unlink(missing_ok=True)
        write_json(plan, self.plan())

    def end(self) -> None:
        """Remove the work folder. The finished pieces go first, so that they never lack a plan."""
        self.done_file.unlink(missing_ok=True)
        shutil.rmtree(self.work)

    def run(self, step: Step = lambda size, records: None) -> Result:
        """Scan the unfinished pieces, check the others; return the result of the whole scan."""
        kept = self.finished()
        with ThreadPoolExecutor(self.workers) as pool:
            waiting: set[Future[_Done]] = set()
            for index, file in enumerate(self.files):
                for piece, error in _pieces(file, self.sequence):
                    name = piece_name(index, piece.number)
                    if error:
                        self.keep(kept, {"job": name, **_failed_row(file, error)})
                    elif (before := kept.get(name)) is not None and not before["failed"]:
                        waiting.add(pool.submit(_check, piece, before))
                    else:
                        waiting.add(pool.submit(_scan, name, piece, self.screen))
                    # Pieces of streams wait in memory, so only one of them may wait.
                    most = self.workers if piece.is_loaded else 4 * self.workers
                    while len(waiting) > most:
                        waiting = self._finish(waiting, kept, step)
            while waiting:
                waiting = self._finish(waiting, kept, step)
        BUFFERS.forget()
        return Result(self, kept)

    def _finish(self, waiting: set[Future[_Done]], kept: Kept, step: Step) -> set[Future[_Done]]:
        """Keep the rows of finished pieces; return the pieces that are still running."""
        done, others = wait(waiting, return_when=FIRST_COMPLETED)
        for future in done:
            row, is_new = future.result()
            if is_new:
                self.keep(kept, row)
            step(row["bytes"], row["found"]["records"])
        return others

    def keep(self, kept: Kept, row: dict[str, Any]) -> None:
        """Keep a finished piece. A failed piece must not replace one that succeeded earlier."""
        before = kept.get(row["job"]) if row["failed"] else None
        if before is not None and not before["failed"]:
            file = self.files[int(row["job"].partition("/")[0])]
            why = row["found"]["skipped"][0]["why"]
            raise InputError(
                f"{display_name(file)}: was readable in the earlier run but not now ({why}): "
                "fix it, then run again with resume=True"
            )
        kept.add(row)


class FileFound(NamedTuple):
    """The sums of what was found in a file, without the hits, and the hash of the file."""

    file: str
    found: Counts
    digest: str


class Result:
    """What a scan found. There may be many hits, so they are read from the file when needed."""

    def __init__(self, scan: Scan, kept: Kept) -> None:
        self._scan, self._kept = scan, kept
        self.screen = scan.screen
        self.files = [self._add_up(index, file) for index, file in enumerate(scan.files)]

    @property
    def num_tests(self) -> int:
        """How many pairs of a segment and a key were tested."""
        return sum(of_file.found.segments for of_file in self.files) * len(self.screen.keys)

    def hits(self) -> Iterator[dict[str, Any]]:
        """Yield all candidates for hits, in the order of files, records and keys."""
        for index, file in enumerate(self._scan.files):
            for row in self._rows(index):
                for hit in row["found"]["hits"]:
                    yield {"file": display_name(file), **hit}

    def _rows(self, index: int) -> Iterator[dict[str, Any]]:
        number = 0
        while (row := self._kept.get(piece_name(index, number))) is not None:
            yield row
            number += 1

    def _add_up(self, index: int, file: str) -> FileFound:
        """Add up the pieces of a file; hash the hashes of the pieces."""
        from xxhash import xxh3_128  # noqa: PLC0415

        found, digest = Counts(), xxh3_128()
        for row in self._rows(index):
            found.add(Counts.of_table(row["found"] | {"hits": []}))
            digest.update(row["hash"].encode())
        return FileFound(file, found, str(digest.hexdigest()))


def scan_file(file: str, index: int, screen: KeySet, sequence: str) -> Iterator[dict[str, Any]]:
    """Scan a whole file, piece by piece."""
    for piece, error in _pieces(file, sequence):
        name = piece_name(index, piece.number)
        if error:
            yield {"job": name, **_failed_row(file, error)}
        else:
            yield scan_piece(name, piece, screen)


class _Done(NamedTuple):
    """The row of a finished piece, and whether it was scanned now or in an earlier run."""

    row: dict[str, Any]
    is_new: bool


def _scan(name: str, piece: Piece, screen: KeySet) -> _Done:
    return _Done(scan_piece(name, piece, screen), is_new=True)


def _check(piece: Piece, before: dict[str, Any]) -> _Done:
    """Check that a piece that an earlier run scanned has not changed since then."""
    if has_changed(piece, before["hash"]):
        raise changed_error(piece.file)
    return _Done(before, is_new=False)


def has_changed(piece: Piece, digest: str) -> bool:
    """Read a piece again; tell whether its hash is another one."""
    loaded = piece.load()
    found = digest_of(loaded)
    loaded.release()
    return found != digest


def changed_error(file: str) -> InputError:
    """Return the error about a file that changed between two runs of a scan."""
    return InputError(
        f"{display_name(file)}: has changed, it is not what was scanned before: remove the folder "
        "of the unfinished scan, or choose another output"
    )


def expand(paths: Sequence[str], output: Path | None = None) -> tuple[str, ...]:
    """Return the files of paths; of a folder, all files that look like sequences.

    Within folders, `output` is left out.
    """
    found: list[str] = []
    for path in paths:
        if not os.path.isdir(path):
            found.append(path)
            continue
        written = None if output is None else os.path.realpath(output)
        own = [f for f in _find_files(path) if os.path.realpath(f) != written]
        if not own:
            raise InputError(
                f"{path}: this folder has no file of sequences: names must end with one of "
                f"{', '.join(SUFFIXES)}, or one of these and .gz or .zst"
            )
        found += own
    seen: set[str] = set()
    for file in found:
        place = os.path.realpath(file)
        if place in seen:
            raise InputError(f"{file}: is named twice: name each file once")
        if output is not None and place == os.path.realpath(output):
            raise InputError(f"{file}: -o would overwrite this input: choose another output")
        seen.add(place)
    return tuple(found)


def _find_files(folder: str) -> list[str]:
    """Return the files of sequences in a folder, each once. Links are followed.

    A broken link is returned too, so that the scan reports that it cannot be read.
    """
    found: dict[str, str] = {}
    seen: set[str] = set()

    def raise_error(error: OSError) -> None:
        raise InputError(f"{error.filename}: cannot be listed: {error.strerror}")

    for place, folders, files in os.walk(folder, onerror=raise_error, followlinks=True):
        real = os.path.realpath(place)
        if real in seen:  # a link to a folder that was visited
            folders.clear()
            continue
        seen.add(real)
        folders.sort()
        for name in sorted(filter(_is_sequences, files)):
            file = os.path.join(place, name)
            found.setdefault(os.path.realpath(file), file)
    return sorted(found.values())


def display_name(file: str) -> str:
    """Return the name of a file as text; bytes that are not UTF-8 are escaped."""
    return os.fsencode(file).decode("utf-8", "backslashreplace")


def _is_sequences(file: str) -> bool:
    return file.lower().endswith(tuple(kind + packed for kind in SUFFIXES for packed in _PACKED))


def _identity(file: str) -> list[Any]:
    """Return the path, size and last change of a file, by which it is recognised later."""
    try:
        found = os.stat(file)
    except OSError:
        return [None, None, None]
    return [display_name(os.path.realpath(file)), found.st_size, found.st_mtime_ns]


def _read(file: Path) -> Any:
    try:
        return read_json(file)
    except (OSError, ValueError):
        return None


def _is_row(row: dict[str, Any]) -> bool:
    """Tell whether a line has what `scan_piece` returns."""
    kinds = {"hash": str, "bytes": int, "failed": bool}
    is_whole = all(type(row.get(name)) is kind for name, kind in kinds.items())
    return is_whole and is_table(row.get("found"))


def piece_name(file: int, piece: int) -> str:
    """Return the name under which a finished piece is kept."""
    return f"{file}/{piece}"


def _pieces(file: str, sequence: str) -> Iterator[tuple[Piece, str]]:
    """Yield pieces and ""; if a file cannot be read further, an empty piece and the reason."""
    number = 0
    try:
        for piece in pieces(file, sequence):
            yield piece, ""
            number += 1
    except InputError as error:
        yield Piece(file, number, lambda: None), str(error)  # type: ignore[arg-type,return-value]


def _failed_row(file: str, why: str) -> dict[str, Any]:
    found = Counts()
    found.skip("", 0, why.removeprefix(f"{file}: "))  # the manifest has the name of the file
    return {"found": found.to_table(), "hash": "", "bytes": 0, "failed": True}


def scan_piece(name: str, piece: Piece, screen: KeySet) -> dict[str, Any]:
    """Scan the records of a piece."""
    try:
        loaded = piece.load()
    except InputError as error:
        return {"job": name, **_failed_row(piece.file, str(error))}
    found = judge(loaded.counted(), screen, loaded.begin)
    if loaded.problem:
        found.skip("", loaded.begin + loaded.size, loaded.problem)
    digest = digest_of(loaded)
    loaded.release()
    return {
        "job": name,
        "found": found.to_table(),
        "hash": digest,
        "bytes": piece.bytes,
        "failed": False,
    }


def digest_of(loaded: Loaded) -> str:
    """Return the hash of the bytes of a piece; of a column, also of its offsets and ids."""
    from xxhash import xxh3_128  # noqa: PLC0415  # the scan extra

    digest = xxh3_128(loaded.content.data)
    if loaded.offsets is not None:
        digest.update(loaded.offsets.tobytes())
    digest.update(loaded.labels)
    return str(digest.hexdigest())


def needs(module: str) -> None:
    """Raise an error that says what to install if a module is missing."""
    from importlib.util import find_spec  # noqa: PLC0415

    if find_spec(module) is None:
        raise PatternmarkError(f"scan needs {module}: pip install 'patternmark[scan]'")
