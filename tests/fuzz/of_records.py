r"""Records of sequences and texts, headers of designs, and the folding of text.

Examples have records that are easy to recognise. Wherever such a record stands whole in an input,
between a line break and the next record, the reader must return it: one bad record may not cost
another one.
"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from random import Random

import numpy as np

from patternmark.errors import InputError
from patternmark.io.designs import parse_design_header
from patternmark.io.folding import describe, fold
from patternmark.io.records import Format, Problem, Record, read_records
from tests.fuzz.mutations import Mutator
from tests.fuzz.targets import Target

LETTERS = "MKVLAAGIVGLLLAQWERTYIP"
HEADERS = (
    "6tw7, score=1.2041, global_score=1.2041, fixed_chains=[], designed_chains=['A'], "
    "model_name=v_48_020, seed=3",
    "T=0.1, sample=1, score=0.8230, global_score=0.8230, seq_recovery=0.4453, wm=3f6c9e1b7a2d4058",
    "1abc, T=0.1, seed=7, num_res=120, num_ligand_res=4",
    "1abc, id=3, T=0.1, seed=7, overall_confidence=0.44, seq_rec=0.5",
)
TEXTS = (
    "Ｔｈｅ c\u200bо\u00admmittее met; naïve café. ½ ﬁne “quotes” — dashes…",
    "Это не текст; und schöne Grüße aus Köln, 東京 में नमस्ते 👩‍👩‍👧 e\u0301\u0323 ậ",
    "a\u202eb\u2066c\u00a0d\u3000e\tf\r\ng\x00h \ud7ff\ue000\U000e0041\ufdd0",
)
_GOOD = {
    # Where a record stands whole: the lookahead leaves the line break for the next one.
    "fasta": re.compile(rb"(?:\A|\n)>(good-\d+)\n([A-Z]{22})\n(?=>|\Z)"),
    "lines": re.compile(rb"(?:\A|\n)(GOOD[A-Z]{22})(?=\n|\Z)"),
    "jsonl": re.compile(rb'(?:\A|\n)\{"id": "(good-\d+)", "sequence": "([A-Z]{22})"\}(?=\n|\Z)'),
    "paragraphs": re.compile(rb"(?:\A|\n)\n(GOOD[A-Z]{22})(?=\n\n|\n?\Z)"),
}
# Errors about a whole file; with any other, or none, no good record may be missing.
_WHOLE_FILE = re.compile("binary file|UTF-16|the file is empty|not FASTA|no FASTA record")


def _good(kind: str, number: int) -> bytes:
    turned = LETTERS[number % 20 :] + LETTERS[: number % 20]
    forms = {
        "fasta": f">good-{number}\n{turned}\n",
        "lines": f"GOOD{turned}\n",
        "jsonl": f'{{"id": "good-{number}", "sequence": "{turned}"}}\n',
        "paragraphs": f"\nGOOD{turned}\n\n",
    }
    return forms[kind].encode()


def examples(kind: str) -> list[bytes]:
    """Return files with bad records between good ones, and others."""
    bad = {
        "fasta": [b">empty\n\n", b">x\nMK V\nL-*A\r\n", b">x\n\xffA\n"]
        + [f">{header}\nMKVL/AAGIVG\n".encode() for header in HEADERS],
        "lines": [b"mkvla\r\n", b"\n \n", b"\xff\xfe\n", *(f"{t}\n".encode() for t in TEXTS)],
        "jsonl": [b'{"id": 3, "tokens": [1, 2, 3]}\n', b"[4, 5, 6]\n", b'"MKV"\n', b"{broken\n",
                  b'{"text": "caf\\u00e9 \\ud83d"}\n', b'{"input_ids": [1e3, true, null]}\n'],
        "paragraphs": [b"one\ntwo\n\n", b"\n\n \n\n", *(f"{t}\n\n".encode() for t in TEXTS)],
    }[kind]  # fmt: skip
    mixed = b"".join(_good(kind, i) + bad[i % len(bad)] for i in range(2 * len(bad)))
    return [mixed + _good(kind, 99), *(_good(kind, 1) + one + _good(kind, 2) for one in bad)]


def missing(kind: str, content: bytes, found: Iterable[Record]) -> Counter[object]:
    """Return the good records of a file that were not found."""
    is_named = kind in ("fasta", "jsonl")
    read = Counter((r.id, r.sequence) if is_named else r.sequence for r in found
                   if isinstance(r.sequence, str))  # fmt: skip
    groups = [[g.decode() for g in match.groups()] for match in _GOOD[kind].finditer(content)]
    return Counter(tuple(g) if is_named else g[0] for g in groups) - read


def read_all(path: Path, format: Format, *, of_text: bool) -> tuple[list[Record], list[str], str]:
    """Return the records of a file, what was said, and why the file was refused."""
    records: list[Record] = []
    said: list[str] = []
    try:
        for item in read_records(str(path), format, of_text=of_text):
            if isinstance(item, Record):
                assert item.sequence, "an empty record"
                assert item.id.isprintable(), "an id that writes to the terminal"
                records.append(item)
            else:
                assert isinstance(item, Problem)
                said.append(str(item))
    except InputError as error:
        return records, said, str(error)
    return records, said, ""


def _read_records(
    kind: str, format: Format, content: bytes, folder: Path, *, of_text: bool = False
) -> list[str]:
    path = folder / "x.in"
    path.write_bytes(content)
    records, said, refused = read_all(path, format, of_text=of_text)
    is_packed = content.startswith(b"\x1f\x8b")
    if kind in _GOOD and not is_packed and not _WHOLE_FILE.search(refused):
        lost = missing(kind, content, records)
        assert not lost, f"lost {dict(lost)}"
    return [*said, refused]


def _read_auto(content: bytes, folder: Path) -> list[str]:
    """Guess the format, of proteins and of texts."""
    said = []
    for name, of_text in (("x.fa", False), ("x", False), ("x.txt", True), ("x.jsonl", True)):
        (folder / name).write_bytes(content)
        _, more, refused = read_all(folder / name, "auto", of_text=of_text)
        said += [*more, refused]
    return said


def _unpacked(content: bytes) -> bytes:
    """Return what a gzipped file holds that was cut off; nothing if it is damaged in another way.

    Damage is noticed only behind it, so that some of what stands before it is lost too.
    """
    found, rest = b"", content
    while rest.startswith(b"\x1f\x8b"):
        member = zlib.decompressobj(wbits=31)
        try:
            found += member.decompress(rest)
        except zlib.error:
            return b""
        rest = member.unused_data
    return found


def _read_gzipped(content: bytes, folder: Path) -> list[str]:
    path = folder / "x.fa.gz"
    path.write_bytes(content)
    records, said, refused = read_all(path, "auto", of_text=False)
    if not refused:
        lines = _unpacked(content).rpartition(b"\n")[0] + b"\n"
        whole = lines[: lines.rfind(b"\n>") + 1]  # the last record may be incomplete
        lost = missing("fasta", whole, records)
        assert not lost or not whole.startswith(b">"), f"lost {dict(lost)}"
    return [*said, refused]


def _gzipped() -> list[bytes]:
    files = [gzip.compress(one, mtime=0) for one in examples("fasta")]
    return [*files, files[0] + files[1], gzip.compress(b"", mtime=0), gzip.compress(files[0])]


def _make_gzipped(mutator: Mutator, chance: Random) -> bytes:
    """Break the packed file, or pack a broken one."""
    if chance.random() < 0.5:
        return mutator.make(chance)
    return gzip.compress(Mutator(examples("fasta")).make(chance), 1, mtime=0)


def _read_header(content: bytes, folder: Path) -> list[str]:
    last = ""
    for line in content.decode("utf-8", "replace").splitlines():
        header = parse_design_header(line, last)
        if header is not None:
            last = header.name
            header.number("score", "overall_confidence")
            assert (header.sample == 0) == header.is_native
            assert header.id
    return []


def _read_folding(content: bytes, folder: Path) -> list[str]:
    text = content.decode("utf-8", "replace")
    folded = fold(text)
    cuts = folded.places(np.arange(len(folded.text) + 1))
    assert ((cuts >= 0) & (cuts <= len(text))).all()
    assert (np.diff(cuts) >= 0).all(), "places are not in order"
    json.dumps(dict(folded.counts))
    return [describe(folded.counts)]


def _texts() -> Sequence[bytes]:
    return [text.encode() for text in TEXTS]


_FASTA_WORDS = (
    b"\n>",
    b">good-1\n",
    b", sample=1",
    b", T=0.1",
    b"designed_chains=['A']",
    b"\x1f\x8b",
)
_JSON_WORDS = (b'{"id":', b'"sequence":', b'"tokens": [1]', b"\n", b"}\n", b"[1,2]\n", b'"\\ud800"')

TARGETS = (
    *(
        Target(f"records-{kind}", partial(_read_records, kind, kind, of_text=of_text),
               partial(examples, kind), words, share=60)
        for kind, of_text, words in (
            ("fasta", False, _FASTA_WORDS), ("lines", False, (b"\n",)),
            ("jsonl", False, _JSON_WORDS), ("paragraphs", True, (b"\n\n", b"\n \n")),
        )
    ),
    Target("records-text", partial(_read_records, "text", "text", of_text=True), _texts, share=30),
    Target("records-auto", _read_auto,
           lambda: [*examples("fasta"), *examples("lines"), *examples("jsonl"), *_gzipped()],
           _FASTA_WORDS + _JSON_WORDS, share=30),
    Target("records-gz", _read_gzipped, _gzipped, (b"\x1f\x8b\x08",), _make_gzipped, share=30),
    Target("design-headers", _read_header, lambda: ["\n".join(HEADERS).encode()],
           (b", ", b"=", b"T=", b"sample=", b"id=", b"[", b"]", "sample=²".encode()), share=50),
    Target("folding", _read_folding, _texts,
           tuple(chr(c).encode() for c in (0x301, 0x200d, 0x430, 0xfb01, 0x1d400, 0xe0061)),
           share=40),
)  # fmt: skip
