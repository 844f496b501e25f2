"""Check from the first bytes of a file whether it is text, and whether it is FASTA."""

from __future__ import annotations

import re

from patternmark.errors import InputError

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
GZIP_MAGIC = b"\x1f\x8b"
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
_UTF_16_ZEROS = 0.3  # of every second byte: with more zeros the file is UTF-16
_BAD_CHARACTERS = 0.1  # of all characters: with more NULs or invalid ones the file is not text
_RESIDUES = re.compile(rb"[A-Za-z*-]{20,}")


def refuse_what_is_no_text(start: bytes, name: str, *, of_text: bool) -> None:
    """Raise an error for UTF-16 and binary files.

    A text may have a few NULs. Folding removes them like any other invisible character, so they
    must not make the whole file unreadable.
    """
    if start.startswith(_UTF_16) or _has_every_second_byte_0(start):
        raise InputError(f"{name}: this is UTF-16; save the text as UTF-8")
    if b"\0" in start and not (of_text and _is_nearly_text(start)):
        raise InputError(f"{name}: this is a binary file; give FASTA, lines, text or JSON lines")


def _has_every_second_byte_0(start: bytes) -> bool:
    """Tell whether this is Latin text in UTF-16, which may lack a byte order mark."""
    shares = [half.count(0) / max(len(half), 1) for half in (start[::2], start[1::2])]
    return max(shares) > _UTF_16_ZEROS and min(shares) < max(shares) / 10 and len(start) > 8


def _is_nearly_text(start: bytes) -> bool:
    characters = start.decode("utf-8", errors="replace")
    bad = characters.count("\0") + characters.count("\ufffd")
    return bad < _BAD_CHARACTERS * len(characters)


def looks_like_fasta(start: bytes) -> bool:
    r"""Tell whether a file begins like proteins or DNA in FASTA; mails may begin with > as well.

    >>> looks_like_fasta(b">a design\nMKVLAAGIVGLLLAQWERTYIP\n")
    True
    >>> looks_like_fasta(b"> a quotation\n> of two lines\n")
    False
    """
    lines = [line.strip() for line in start.removeprefix(BYTE_ORDER_MARK).split(b"\n")]
    first, second, *_ = [*filter(None, lines), b"", b""]
    return first.startswith(b">") and _RESIDUES.fullmatch(second) is not None
