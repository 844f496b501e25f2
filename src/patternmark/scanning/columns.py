"""Read sequences from a column of a Parquet file, an Arrow file or an Arrow record batch."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patternmark.errors import InputError, PatternmarkError
from patternmark.scanning import sizes
from patternmark.scanning.buffers import BUFFERS
from patternmark.scanning.loaded import TOO_LONG, Loaded, Piece


def column_pieces(path: str, sequence: str, *, is_parquet: bool) -> Iterator[Piece]:
    """Yield the pieces of a Parquet or Arrow file."""
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
            for number, batch in enumerate(_piece_batches(batches, sequence)):
                load = partial(column, batch, sequence, first)
                after = first + len(batch)
                taken = size * after // total - size * first // total
                yield Piece(path, number, load, taken)
                first = after
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    # In a damaged file, names may not be text and columns may be missing.
    except (arrow.ArrowException, OSError, ValueError, LookupError) as error:
        raise InputError(f"{path}: cannot be read: {error}") from None


def _parquet(path: str, sequence: str, stack: ExitStack) -> tuple[int, Iterator[Any]]:
    """Return the number of rows, and batches of them. Other columns are not read."""
    from pyarrow import parquet  # noqa: PLC0415

    file = stack.enter_context(parquet.ParquetFile(path))
    every = file.schema_arrow.names
    _check_column(sequence, every)
    names = [name for name in every if name in (sequence, "id")]
    return file.metadata.num_rows, file.iter_batches(batch_size=sizes.COLUMN_ROWS, columns=names)


def _arrow(path: str, sequence: str, stack: ExitStack) -> tuple[int, Iterator[Any]]:
    import pyarrow as arrow  # noqa: PLC0415

    file = stack.enter_context(arrow.memory_map(path))  # a batch may be as large as the file
    reader = stack.enter_context(arrow.ipc.open_file(file))
    _check_column(sequence, reader.schema.names)
    return reader.count_rows(), (reader.get_batch(i) for i in range(reader.num_record_batches))


def _piece_batches(batches: Iterable[Any], sequence: str) -> Iterator[Any]:
    """Cut and join batches of any size into batches of about `sizes.PIECE` bytes."""
    import pyarrow as arrow  # noqa: PLC0415

    waiting: list[Any] = []
    size = 0
    for batch in batches:
        names = [name for name in batch.schema.names if name in (sequence, "id")]
        checked = {name: _as_bytes(batch.column(name)) for name in dict.fromkeys(names)}
        for part, own in _slice_batch(arrow.record_batch(checked), sequence):
            if waiting and size + own > sizes.PIECE:
                yield arrow.concat_batches(waiting)
                waiting, size = [], 0
            waiting.append(part)
            size += own
    if waiting:
        yield arrow.concat_batches(waiting)


def _slice_batch(batch: Any, sequence: str) -> Iterator[tuple[Any, int]]:
    """Cut a batch into parts of at most `sizes.PIECE` bytes; yield each part and its bytes."""
    import pyarrow as arrow  # noqa: PLC0415

    values, size = batch.column(sequence), batch.nbytes
    is_coded = arrow.types.is_dictionary(values.type)
    if is_coded:  # count every row as the longest value
        longest = max((len(v.as_py() or b"") for v in values.dictionary), default=0)
        size += longest * len(batch)
    rows = max(1, len(batch) * sizes.PIECE // max(size, sizes.PIECE))
    for first in range(0, len(batch), rows):
        part = batch.slice(first, rows)
        # Dictionary codes of two batches mean different things, so such batches are not joined.
        yield part, sizes.PIECE if is_coded else size * len(part) // len(batch)


def _check_column(sequence: str, names: list[str]) -> None:
    if sequence not in names:
        raise InputError(
            f"there is no column {sequence!r}: name the column of the sequences, which is one of "
            f"{', '.join(names)}"
        )


def column(batch: Any, sequence: str = "sequence", first: int = 0) -> Loaded:
    """Return the sequences of an Arrow record batch. Ids are its column `id`, or row numbers."""
    import pyarrow as arrow  # noqa: PLC0415

    _check_column(sequence, batch.schema.names)
    try:
        values = _as_bytes(batch.column(sequence))
        if not _is_text(values.type):
            raise InputError(f"column {sequence!r} holds {values.type}, not sequences")
        ids = _as_bytes(batch.column("id")) if "id" in batch.schema.names else None
        offsets, content = _split_column(values)
        labels = _labels(ids)
    except (arrow.ArrowException, LookupError) as error:
        raise InputError(f"column {sequence!r} cannot be read: {error}") from None

    def name(row: int) -> str:
        found = None if ids is None else ids[row].as_py()
        if isinstance(found, bytes):
            return found.decode("utf-8", "replace")
        return str(first + row if found is None else found)

    buffer, problem = BUFFERS.take(len(content)), ""
    lengths = np.diff(offsets)
    if lengths.max(initial=0) > sizes.LONGEST_RECORD:
        problem = TOO_LONG
        short = lengths <= sizes.LONGEST_RECORD
        content = content[np.repeat(short, lengths)]
        offsets = np.concatenate([[0], np.cumsum(lengths * short)])
    buffer.append(content)
    return Loaded(buffer, 0, buffer.size, first, offsets, name, labels, problem)


def _is_text(kind: Any) -> bool:
    """Tell whether a type is text or bytes, or a dictionary of them."""
    import pyarrow as arrow  # noqa: PLC0415

    kind = kind.value_type if arrow.types.is_dictionary(kind) else kind
    return kind in (
        *(arrow.string(), arrow.large_string(), arrow.string_view()),
        *(arrow.binary(), arrow.large_binary(), arrow.binary_view()),
        arrow.null(),
    )


def _as_bytes(values: Any) -> Any:
    """Return a column with text as bytes, after checking its offsets.

    A damaged file may contain offsets that point anywhere in memory. Text becomes bytes because
    text that is not UTF-8 makes single records bad, not the whole file.
    """
    import pyarrow as arrow  # noqa: PLC0415

    bytes_of = {
        arrow.string(): arrow.binary(),
        arrow.large_string(): arrow.large_binary(),
        arrow.string_view(): arrow.binary_view(),
    }
    if values.type in bytes_of:
        values = values.view(bytes_of[values.type])
    values.validate(full=True)
    return values


def _split_column(values: Any) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Return the offsets of the values of a text column, and their bytes; nulls are empty."""
    import pyarrow as arrow  # noqa: PLC0415

    if arrow.types.is_dictionary(values.type):
        values = _as_bytes(values.dictionary_decode())
    values = values.cast(arrow.large_binary())
    values = values.fill_null(b"") if values.null_count else values
    _, ends, data = values.buffers()
    offsets = np.zeros(1, dtype=np.int64)  # a column without rows may have no buffer
    if len(values):
        offsets = np.frombuffer(ends, dtype=np.int64, count=values.offset + len(values) + 1)
        offsets = offsets[values.offset :]
    size = int(offsets[-1] - offsets[0])
    content = np.frombuffer(data, np.uint8, size, int(offsets[0])) if size else b""
    return offsets - offsets[0], np.frombuffer(content, dtype=np.uint8)


def _labels(ids: Any) -> bytes:
    """Return the bytes of ids that enter the hash of a piece."""
    if ids is None:
        return b""
    if not _is_text(ids.type):
        return repr(ids.to_pylist()).encode()
    offsets, content = _split_column(ids)
    return offsets.tobytes() + content.tobytes()
