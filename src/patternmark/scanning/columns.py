"""Sequences in a column: of Parquet, of Arrow files, of Arrow record batches."""

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
            for number, batch in enumerate(_of_pieces(batches, sequence)):
                load = partial(column, batch, sequence, first)
                after = first + len(batch)
                taken = size * after // total - size * first // total
                yield Piece(path, number, load, taken)
                first = after
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    # Of a damaged file names may be no text, and columns not be there.
    except (arrow.ArrowException, OSError, ValueError, LookupError) as error:
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


def _of_pieces(batches: Iterable[Any], sequence: str) -> Iterator[Any]:
    """Cut and join batches to such as have the bytes of a piece, about: they are of any size."""
    import pyarrow as arrow  # noqa: PLC0415

    waiting: list[Any] = []
    size = 0
    for batch in batches:
        names = [name for name in batch.schema.names if name in (sequence, "id")]
        checked = {name: _as_bytes(batch.column(name)) for name in dict.fromkeys(names)}
        for part, own in _sliced(arrow.record_batch(checked), sequence):
            if waiting and size + own > sizes.PIECE:
                yield arrow.concat_batches(waiting)
                waiting, size = [], 0
            waiting.append(part)
            size += own
    if waiting:
        yield arrow.concat_batches(waiting)


def _sliced(batch: Any, sequence: str) -> Iterator[tuple[Any, int]]:
    """Cut a batch into such as have the bytes of a piece at most; yield them and these."""
    import pyarrow as arrow  # noqa: PLC0415

    values, size = batch.column(sequence), batch.nbytes
    is_coded = arrow.types.is_dictionary(values.type)
    if is_coded:  # as large as if all were the longest
        longest = max((len(v.as_py() or b"") for v in values.dictionary), default=0)
        size += longest * len(batch)
    rows = max(1, len(batch) * sizes.PIECE // max(size, sizes.PIECE))
    for first in range(0, len(batch), rows):
        part = batch.slice(first, rows)
        # Codes of several batches mean different things: these are not joined.
        yield part, sizes.PIECE if is_coded else size * len(part) // len(batch)


def _check_column(sequence: str, names: list[str]) -> None:
    if sequence not in names:
        raise InputError(
            f"there is no column {sequence!r} among {', '.join(names)}: name the one with "
            "the sequences"
        )


def column(batch: Any, sequence: str = "sequence", first: int = 0) -> Loaded:
    """Return the sequences of an Arrow record batch; ids are its column `id`, or row numbers."""
    import pyarrow as arrow  # noqa: PLC0415

    _check_column(sequence, batch.schema.names)
    try:
        values = _as_bytes(batch.column(sequence))
        if not _is_text(values.type):
            raise InputError(f"column {sequence!r} holds {values.type}, not sequences")
        ids = _as_bytes(batch.column("id")) if "id" in batch.schema.names else None
        offsets, content = _laid_out(values)
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
    """Tell whether a column holds text or bytes, if only codes of them."""
    import pyarrow as arrow  # noqa: PLC0415

    kind = kind.value_type if arrow.types.is_dictionary(kind) else kind
    return kind in (
        *(arrow.string(), arrow.large_string(), arrow.string_view()),
        *(arrow.binary(), arrow.large_binary(), arrow.binary_view()),
        arrow.null(),
    )


def _as_bytes(values: Any) -> Any:
    """Return a column whose values lie where it says; text as bytes.

    A damaged file may send a reader anywhere. Bytes that are no text are no reason to lose a file:
    they are those of bad records.
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


def _laid_out(values: Any) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Return where the values of a column of text begin, and their bytes; nulls are empty."""
    import pyarrow as arrow  # noqa: PLC0415

    if arrow.types.is_dictionary(values.type):
        values = _as_bytes(values.dictionary_decode())
    values = values.cast(arrow.large_binary())
    values = values.fill_null(b"") if values.null_count else values
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
    if ids is None:
        return b""
    if not _is_text(ids.type):
        return repr(ids.to_pylist()).encode()
    offsets, content = _laid_out(ids)
    return offsets.tobytes() + content.tobytes()
