r"""Show names and texts that others chose without letting them write to a terminal.

A file name or an id may contain control characters. Printed as they are, they move the cursor,
recolour or clear the screen, turn the direction of reading, or begin a line that looks like one
of ours. The rule is Python's: a character that `str.isprintable` does not call printable is
escaped or replaced. Blanks are printable; line breaks and the halves of surrogate pairs, by which
Python keeps bytes of a file name that are not UTF-8, are not.

>>> shown("a\x1b[2Jb\u202egpj.fa"), shown("two\nlines"), shown("Zo\u00eb.fa")
('a\\x1b[2Jb\\u202egpj.fa', 'two\\nlines', 'Zoë.fa')
"""

from __future__ import annotations

import json
from typing import Any

_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_LAST_OF_ASCII = 0x7F
_BYTES = range(0xDC80, 0xDD00)  # how Python writes bytes that are not UTF-8 (surrogateescape)
_LAST_OF_16_BITS = 0xFFFF


def shown(text: object) -> str:
    """Return a text for people in which every character that cannot be printed is escaped."""
    given = str(text)
    if given.isprintable():
        return given
    return "".join(c if c.isprintable() else _escaped(c) for c in given)


def _escaped(character: str) -> str:
    code = ord(character)
    if code in _BYTES:
        return f"\\x{code - 0xDC00:02x}"
    if code <= _LAST_OF_ASCII:
        return _NAMED.get(character, f"\\x{code:02x}")
    return f"\\u{code:04x}" if code <= _LAST_OF_16_BITS else f"\\U{code:08x}"


def printable(name: str) -> str:
    r"""Return a name to be written into a file: what cannot be printed becomes "?".

    >>> printable("a\n>b")
    'a?>b'
    """
    return "".join(c if c.isprintable() else "?" for c in name)


def json_line(content: Any) -> str:
    r"""Return JSON in one line in which what cannot be printed is escaped, so nothing is lost.

    >>> json_line({"file": "a\x9b\u202e.fa", "text": "Zo\u00eb \U0001f600"})
    '{"file": "a\\u009b\\u202e.fa", "text": "Zoë 😀"}'
    """
    text = json.dumps(content, ensure_ascii=False)
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text)
