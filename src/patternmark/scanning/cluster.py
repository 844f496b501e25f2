"""Run a scan on Ray: each piece is a task of Ray Data, which restarts the tasks of lost workers.

Rows come back in any order and are stored under their names, as in a scan with threads. So the
result is the same to the byte. Workers must see the files under the same names. They receive the
keys with their secrets: use only machines that may hold them.
"""

from __future__ import annotations

import json
import logging
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from patternmark.errors import PatternmarkError
from patternmark.io.kept import Kept
from patternmark.scanning.file_scan import (
    Result,
    Scan,
    Step,
    changed_error,
    has_changed,
    piece_name,
    scan_file,
    scan_piece,
)
from patternmark.scanning.sources import is_plain, num_pieces, plain_piece

_CONNECT_SECONDS = 10.0
_WHOLE = -1  # instead of a piece number: a file that must be read from the start


def run_on_ray(scan: Scan, step: Step, address: str | None = None) -> Result:
    """Scan all unfinished pieces, on a cluster or, without an address, on this machine."""
    try:
        import ray  # noqa: PLC0415  # the cluster extra
        import ray.data  # noqa: PLC0415
    except ImportError:
        raise PatternmarkError(
            "scanning on Ray needs ray: pip install 'patternmark[scan,cluster]'"
        ) from None
    if address:
        _check_reachable(address)
    if not ray.is_initialized():
        # Without these options Ray looks for a cluster by itself and prints a lot.
        try:
            ray.init(
                address=address or "local",
                num_cpus=None if address else scan.workers,
                log_to_driver=False,
                include_dashboard=False,
            )
        except ConnectionError as error:
            raise PatternmarkError(f"the Ray cluster at {address}: {error}") from None
    kept = scan.finished()
    items = _items(scan, kept)
    if items:
        context = ray.data.DataContext.get_current()
        context.enable_progress_bars = False
        data = ray.data.from_items(items, override_num_blocks=len(items))
        screen, sequence = ray.put(scan.screen), scan.sequence

        def scan_one(item: dict[str, Any]) -> dict[str, Any]:
            if item["hash"]:
                piece = plain_piece(item["file"], item["number"])
                changed = has_changed(piece, item["hash"])
                return {"rows": "[]", "bytes": piece.bytes, "changed": item["file"] * changed}
            rows = _scan_item(item, ray.get(screen), sequence)
            return {"rows": json.dumps(rows), "bytes": 0, "changed": ""}

        with _errors_alone(logging.getLogger("ray.data")):
            for result in data.map(scan_one).iter_rows():
                if result["changed"]:
                    raise changed_error(result["changed"])
                step(result["bytes"], 0)
                for row in json.loads(result["rows"]):
                    scan.keep(kept, row)
                    step(row["bytes"], row["found"]["records"])
    return Result(scan, kept)


@contextmanager
def _errors_alone(logger: logging.Logger) -> Iterator[None]:
    """Keep a foreign logger from reporting more than errors, for a while."""
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


def _check_reachable(address: str) -> None:
    """Raise an error if nothing answers at an address: Ray would try silently for minutes."""
    host, found, port = address.rpartition("://")[2].rpartition(":")
    if not found:  # such as `auto`
        return
    try:
        socket.create_connection((host, int(port)), timeout=_CONNECT_SECONDS).close()
    except (OSError, ValueError, OverflowError) as error:
        raise PatternmarkError(f"the Ray cluster at {address} cannot be reached: {error}") from None


def _items(scan: Scan, kept: Kept) -> list[dict[str, Any]]:
    """Return one row for each task: what was scanned before is read again, to compare its hash."""
    items = []
    for index, file in enumerate(scan.files):
        if file == "-":
            raise PatternmarkError("Ray cannot scan standard input: give files")
        numbers = range(num_pieces(file)) if is_plain(file) else [_WHOLE]
        for number in numbers:
            item = {"file": os.path.abspath(file), "index": index, "number": number}
            items.append(item | {"hash": _hash_before(kept, index, number)})
    return items


def _hash_before(kept: Kept, index: int, number: int) -> str:
    """Return the hash of a piece that an earlier run scanned, or nothing."""
    row = None if number == _WHOLE else kept.get(piece_name(index, number))
    return "" if row is None or row["failed"] else str(row["hash"])


def _scan_item(item: dict[str, Any], screen: Any, sequence: str) -> list[dict[str, Any]]:
    file, index, number = item["file"], item["index"], item["number"]
    if number == _WHOLE:
        return list(scan_file(file, index, screen, sequence))
    return [scan_piece(piece_name(index, number), plain_piece(file, number), screen)]
