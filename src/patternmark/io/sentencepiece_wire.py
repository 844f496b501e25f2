"""What sentencepiece writes, read without the library of protocol buffers.

In a model, field 1 is there once for each piece: a message of the piece (field 1), its score (field
2) and its type (field 3); the fields after the pieces say how the model was trained and how text is
prepared for it. In a text that was split, field 2 is there once for each piece: among others its id
(field 2) and the byte of the text where it begins (field 4).
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple


class PieceType(IntEnum):
    """What a piece is for."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


class ModelPiece(NamedTuple):
    """One entry of the vocabulary; its id is its place."""

    text: str
    type: PieceType


_VARINT, _EIGHT_BYTES, _DELIMITED, _FOUR_BYTES = 0, 1, 2, 5  # wire types of protocol buffers


def read_pieces(content: bytes) -> list[ModelPiece]:
    """Return the pieces in the order of their ids; ValueError where this is no such model."""
    fields = list(_fields(content))
    pieces = [_piece(value) for number, value in fields if number == 1]
    if not pieces or not any(number > 1 for number, _ in fields):
        raise ValueError("it has no pieces, or ends with them: it was cut short")
    return pieces


def read_begins(split: bytes) -> list[int]:
    """Return the byte of the text where each piece of a split text begins."""
    begins = []
    for number, piece in _fields(split):
        if number == 2 and isinstance(piece, bytes):
            begin = dict(_fields(piece)).get(4, 0)  # left out where it is zero
            begins.append(begin if isinstance(begin, int) else 0)
    return begins


def _piece(message: int | bytes) -> ModelPiece:
    if not isinstance(message, bytes):
        raise ValueError("a piece is no message")
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
            raise ValueError("damaged, or cut short")
        yield number, message[at : at + length]
        at += length


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """Read a number of seven bits per byte, lowest first; return it and where it ends."""
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(message):
            raise ValueError("cut short")
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise ValueError("not a protocol buffer")
