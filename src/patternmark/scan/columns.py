"""Sequences in a column: of Parquet, of Arrow files, of Arrow record batches."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patternmark.errors import InputError, PatternmarkError
from patternmark.scan import sizes
from patternmark.scan.buffers import BUFFERS
from patternmark.scan.loaded import Loaded, Piece


def column_pieces(path: str, sequence: str, *, is_parquet: bool) -> Iterator[Piece]:
    """Yield the record batches of a file of Parquet or Arrow."""
    try:
        import pyarrow as arrow  # noqa: PLC0415  # the scan extra
    except ImportError:
        raise PatternmarkError(
            f"{path}: reading it needs pyarrow: pip install 'patternmark[scan]'"
        ) from None
    try:
        with ExitStack() as stack:
            opened = _parquet if is_parquet else _arrow
            total, batches = opened(path, sequence, stack)
            size, first = os.path.getsize(path), 0
            small = (some for batch in batches for some in _sliced(batch, sequence))
            for number, batch in enumerate(small):
                load = partial(column, batch, sequence, first)
                after = first + len(batch)
                taken = size * after // total - size * first // total
                yield Piece(path, number, load, taken)
                first = after
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    except (arrow.ArrowException, OSError) as error:
        raise InputError(f"{path}: cannot be read: {error}") from None


def _parquet(path: str, sequence: str, stack: ExitStack) -> tuple[int, Iterator[Any]]:
    """Return how many rows there are, and batches of them; of a wide table no more is read."""
    from pyarrow import parquet  # noqa: PLC0415

    file = stack.enter_context(parquet.ParquetFile(path))
    every = file.schema_arrow.names
    _check_column(sequence, every)
    names = [name for name in every if name in (sequence, "id")]
    return file.metadata.num_rows, file.iter_batches(batch_size=sizes.ROWS, columns=names)


def _arrow(path: str, sequence: str, stack: ExitStack) -> tuple[int, Iterator[Any]]:
    import pyarrow as arrow  # noqa: PLC0415

    file = stack.enter_context(arrow.memory_map(path))  # a batch may be as large as the file
    reader = stack.enter_context(arrow.ipc.open_file(file))
    _check_column(sequence, reader.schema.names)
    return reader.count_rows(), (reader.get_batch(i) for i in range(reader.num_record_batches))


def _sliced(batch: Any, sequence: str) -> Iterator[Any]:
    """Cut a batch into such as have the bytes of a piece, about: writers make them of any size."""
    size = batch.column(sequence).nbytes
    rows = max(1, len(batch) * sizes.PIECE // max(size, sizes.PIECE))
    for first in range(0, len(batch), rows):
        yield batch.slice(first, rows)


def _check_column(sequence: str, names: list[str]) -> None:
    if sequence not in names:
        raise InputError(
            f"there is no column {sequence!r} among {', '.join(names)}: name it with "
            "--sequence-column"
        )


def column(batch: Any, sequence: str = "sequence", first: int = 0) -> Loaded:
    """Return the sequences of an Arrow record batch; ids are its column `id`, or row numbers."""
    import pyarrow as arrow  # noqa: PLC0415

    _check_column(sequence, batch.schema.names)
    values = batch.column(sequence)
    try:
        offsets, content = _laid_out(_as_large(values))
    except arrow.ArrowException:
        raise InputError(f"column {sequence!r} holds {values.type}, not sequences") from None
    ids = batch.column("id") if "id" in batch.schema.names else None

    def name(row: int) -> str:
        found = None if ids is None else ids[row].as_py()
        return str(first + row if found is None else found)

    buffer = BUFFERS.take(len(content))
    buffer.append(content)
    return Loaded(buffer, 0, buffer.size, first, offsets, name, _labels(ids))


def _as_large(values: Any) -> Any:
    """Return a column as text or, for bytes that may be no text, as bytes; nulls are empty."""
    import pyarrow as arrow  # noqa: PLC0415

    # Bytes that are no text are no reason to lose a file: they are those of bad records.
    kinds = arrow.types
    is_binary = any(
        is_kind(values.type)
        for is_kind in (kinds.is_binary, kinds.is_large_binary, kinds.is_binary_view)
    )
    values = values.cast(arrow.large_binary() if is_binary else arrow.large_string())
    return values.fill_null(b"" if is_binary else "") if values.null_count else values


def _laid_out(values: Any) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Return where the values of a large column begin, and their bytes."""
    _, ends, data = values.buffers()
    offsets = np.zeros(1, dtype=np.int64)  # where there are no rows, there need be no buffer
    if len(values):
        offsets = np.frombuffer(ends, dtype=np.int64, count=values.offset + len(values) + 1)
        offsets = offsets[values.offset :]
    size = int(offsets[-1] - offsets[0])
    content = np.frombuffer(data, np.uint8, size, int(offsets[0])) if size else b""
    return offsets - offsets[0], np.frombuffer(content, dtype=np.uint8)


def _labels(ids: Any) -> bytes:
    """Return ids as they are hashed."""
    import pyarrow as arrow  # noqa: PLC0415

    if ids is None:
        return b""
    try:
        offsets, content = _laid_out(_as_large(ids))
    except arrow.ArrowException:  # of a kind that has no text of its own
        return repr(ids.to_pylist()).encode()
    return offsets.tobytes() + content.tobytes()
