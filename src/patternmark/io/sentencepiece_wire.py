"""Read the messages of sentencepiece without the library of protocol buffers.

A model has a field 1 for each piece: a message with the piece (field 1), its score (field 2) and
its type (field 3). The fields after the pieces describe training and the normalisation of text. A
split text has a field 2 for each piece, with its id (field 2) and the byte where it begins in the
text (field 4), among others.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple


class PieceType(IntEnum):
    """The purpose of a piece."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


class ModelPiece(NamedTuple):
    """One entry of the vocabulary; its id is its index."""

    text: str
    type: PieceType


_VARINT, _EIGHT_BYTES, _DELIMITED, _FOUR_BYTES = 0, 1, 2, 5  # wire types of protocol buffers


def read_pieces(content: bytes) -> list[ModelPiece]:
    """Return the pieces in the order of their ids; raise ValueError if this is not a model."""
    fields = list(_fields(content))
    pieces = [_piece(value) for number, value in fields if number == 1]
    if not pieces or not any(number > 1 for number, _ in fields):
        raise ValueError("the file has no pieces, or nothing after them: it is incomplete")
    return pieces


def read_begins(split: bytes) -> list[int]:
    """Return the byte of the text where each piece of a split text begins."""
    begins = []
    for number, piece in _fields(split):
        if number == 2 and isinstance(piece, bytes):
            begin = dict(_fields(piece)).get(4, 0)  # absent if it is zero
            begins.append(begin if isinstance(begin, int) else 0)
    return begins


def _piece(message: int | bytes) -> ModelPiece:
    if not isinstance(message, bytes):
        raise ValueError("a piece is not a message")
    fields = dict(_fields(message))
    text, kind = fields.get(1), fields.get(3, PieceType.NORMAL)
    if not isinstance(text, bytes) or not isinstance(kind, int):
        raise ValueError("a piece has no text or no type")
    return ModelPiece(text.decode("utf-8"), PieceType(kind))


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield number and value of each field of a message."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        number, wire_type = tag >> 3, tag & 7
        if wire_type == _VARINT:
            value, at = _varint(message, at)
            yield number, value
            continue
        if wire_type == _DELIMITED:
            length, at = _varint(message, at)
        elif wire_type in (_EIGHT_BYTES, _FOUR_BYTES):
            length = 8 if wire_type == _EIGHT_BYTES else 4
        else:
            raise ValueError("not a protocol buffer")
        if number == 0 or at + length > len(message):
            raise ValueError("the file is damaged or incomplete")
        yield number, message[at : at + length]
        at += length


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """Read a number with seven bits per byte, lowest first; return it and where it ends."""
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(message):
            raise ValueError("the file is incomplete")
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise ValueError("not a protocol buffer")
