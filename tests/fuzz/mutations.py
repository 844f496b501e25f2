"""How an input is changed. All chance comes from one `Random`, so that hypothesis can shrink it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from random import Random

LARGEST = 2**16  # bytes of a mutated input: larger ones take time and find nothing else
MOST_EDITS = 8
_SPAN = 64  # bytes that one edit usually takes or gives

_NUMBERS = (
    *(b"0", b"-0", b"-1", b"1", b"2", b"127", b"128", b"255", b"256", b"65536", b"1048577"),
    *(b"2147483647", b"2147483648", b"4294967296", b"9223372036854775807", b"18446744073709551616"),
    *(b"1e5", b"1e308", b"1e999", b"-1e999", b"1e-999", b"NaN", b"nan", b"inf", b"Infinity"),
    *(b"0.5", b"-0.5", b".5", b"5.", b"0x10", b"007", b"1_000", b"true", b"null", b"9" * 5000),
)
_WORDS = (
    *(b"\0", b"\n", b"\r\n", b"\r", b"\t", b" ", b"\x1b[2J", b"\x7f", b"\x85", b"\xa0", b"\xff"),
    *(b"\xef\xbb\xbf", b"\xff\xfe", b"\xc3", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xef\xb7\x90"),
    *("\u2028".encode(), "\u202e".encode(), "\u200b".encode(), "\U0001f600".encode(), "é".encode()),
    *(b"\\ud800", b"\\u0000", b'"', b"'", b"\\", b"[red]", b"[/red]", b"%s", b"{}", b"../", b"-"),
    *(b"[", b"]", b"{", b"}", b"[]", b"{}", b",", b":", b"=", b">", b";", b"#", b"/", b"@"),
    *(b"[" * 100_000, b'{"a":' * 20_000, b"[[" * 500, b"a.", b"a." * 3000, b"A" * 5000, b"X" * 300),
)
_NUMBER = re.compile(rb"-?\d[\d.]*(?:[eE][-+]?\d+)?")


class Mutator:
    """Makes inputs from examples: a few changes each, words of the format among them."""

    def __init__(self, examples: Sequence[bytes], words: Sequence[bytes] = ()) -> None:
        self._examples, self._words = list(examples), [*_WORDS, *words]
        # Words of the format come up as often as all others together.
        self._own = list(words) or list(_WORDS)

    def make(self, chance: Random) -> bytes:
        """Return an example with a few changes."""
        content = bytearray(chance.choice(self._examples))
        for _ in range(1 + int(MOST_EDITS * chance.random() ** 3)):
            chance.choice(_EDITS)(self, content, chance)
            if len(content) > LARGEST:
                del content[LARGEST:]
        return bytes(content)

    def word(self, chance: Random) -> bytes:
        """Return a word that means something in some format."""
        return chance.choice(self._own if chance.random() < 0.5 else self._words)

    def other(self, chance: Random) -> bytes:
        """Return a part of any example."""
        example = chance.choice(self._examples)
        begin = _place(example, chance)
        return example[begin : begin + _size(chance)]


def _place(content: bytes | bytearray, chance: Random) -> int:
    return chance.randint(0, len(content))


def _size(chance: Random) -> int:
    return 1 + int(_SPAN * chance.random() ** 2) if chance.random() < 0.9 else 2000


def _flip_bit(mutator: Mutator, content: bytearray, chance: Random) -> None:
    if content:
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)


def _set_byte(mutator: Mutator, content: bytearray, chance: Random) -> None:
    if content:
        content[chance.randrange(len(content))] = chance.randrange(256)


def _insert_bytes(mutator: Mutator, content: bytearray, chance: Random) -> None:
    at = _place(content, chance)
    content[at:at] = bytes(chance.randrange(256) for _ in range(chance.randint(1, 8)))


def _insert_word(mutator: Mutator, content: bytearray, chance: Random) -> None:
    at = _place(content, chance)
    content[at:at] = mutator.word(chance)


def _replace_by_word(mutator: Mutator, content: bytearray, chance: Random) -> None:
    at = _place(content, chance)
    content[at : at + _size(chance)] = mutator.word(chance)


def _delete(mutator: Mutator, content: bytearray, chance: Random) -> None:
    at = _place(content, chance)
    del content[at : at + _size(chance)]


def _cut_off(mutator: Mutator, content: bytearray, chance: Random) -> None:
    del content[_place(content, chance) :]


def _repeat(mutator: Mutator, content: bytearray, chance: Random) -> None:
    at = _place(content, chance)
    part = content[at : at + _size(chance)]
    content[at:at] = part * chance.choice((1, 1, 2, 9, 300))


def _splice(mutator: Mutator, content: bytearray, chance: Random) -> None:
    at = _place(content, chance)
    content[at:at] = mutator.other(chance)


def _replace_number(mutator: Mutator, content: bytearray, chance: Random) -> None:
    found = _NUMBER.search(content, _place(content, chance)) or _NUMBER.search(content)
    if found:
        content[found.start() : found.end()] = chance.choice(_NUMBERS)


def _move_line(mutator: Mutator, content: bytearray, chance: Random) -> None:
    lines = bytes(content).split(b"\n")
    line = lines.pop(chance.randrange(len(lines)))
    if chance.random() < 0.7:  # otherwise it is gone
        lines.insert(chance.randint(0, len(lines)), line)
    content[:] = b"\n".join(lines)


_EDITS: tuple[Callable[[Mutator, bytearray, Random], None], ...] = (
    *(_flip_bit, _set_byte, _insert_bytes, _insert_word, _replace_by_word, _delete, _cut_off),
    *(_repeat, _splice, _replace_number, _replace_number, _move_line),
)
