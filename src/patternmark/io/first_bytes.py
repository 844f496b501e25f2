"""What the first bytes of a file tell: whether it is text at all, and whether it is FASTA."""

from __future__ import annotations

import re

from patternmark.errors import InputError

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
GZIP_MAGIC = b"\x1f\x8b"
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
_MANY, _FEW = 0.3, 0.1
_RESIDUES = re.compile(rb"[A-Za-z*-]{20,}")


def refuse_what_is_no_text(start: bytes, name: str, *, of_text: bool) -> None:
    """Refuse UTF-16 and binary files.

    A text may have a few NULs, which folding takes out like any other invisible character: they
    must not hide the lines around them.
    """
    if start.startswith(_UTF_16) or _has_every_second_byte_0(start):
        raise InputError(f"{name}: this is UTF-16; save the text as UTF-8")
    if b"\0" in start and not (of_text and _is_nearly_text(start)):
        raise InputError(f"{name}: this is a binary file; give FASTA, lines, text or JSON lines")


def _has_every_second_byte_0(start: bytes) -> bool:
    """Whether Latin letters stand in UTF-16, which need not begin with a byte order mark."""
    shares = [half.count(0) / max(len(half), 1) for half in (start[::2], start[1::2])]
    return max(shares) > _MANY and min(shares) < max(shares) / 10 and len(start) > 8


def _is_nearly_text(start: bytes) -> bool:
    characters = start.decode("utf-8", errors="replace")
    return characters.count("\0") + characters.count("\ufffd") < _FEW * len(characters)


def looks_like_fasta(start: bytes) -> bool:
    r"""Whether a file begins like proteins or DNA in FASTA; a mail may begin with > as well.

    >>> looks_like_fasta(b">a design\nMKVLAAGIVGLLLAQWERTYIP\n")
    True
    >>> looks_like_fasta(b"> a quotation\n> of two lines\n")
    False
    """
    lines = [line.strip() for line in start.removeprefix(BYTE_ORDER_MARK).split(b"\n")]
    first, second, *_ = [*filter(None, lines), b"", b""]
    return first.startswith(b">") and _RESIDUES.fullmatch(second) is not None
