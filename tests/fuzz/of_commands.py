r"""Arguments of `detect`, `identify`, `locate` and `keygen`, on good and on bad files.

An input is the words of a command line with a NUL between them. Words that name no file of the
folder may not name one elsewhere.
"""

from __future__ import annotations

import atexit
import contextlib
import io
import json
import os
import shutil
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from random import Random
from tempfile import mkdtemp
from typing import Any

from patternmark.cli import app
from patternmark.core.keyfile import save_key
from tests.fuzz.mutations import Mutator
from tests.fuzz.of_keys import keys, public
from tests.fuzz.of_records import TEXTS, examples
from tests.fuzz.targets import SECRETS, Target

_FILES = ("seqs.fa", "text.txt", "ids.jsonl", "empty.fa", "broken.fa.gz", "blocks.key", "paper.key",
          "tokens.key", "public.key", "broken.key", "keys", "none.fa", ".", "-")  # fmt: skip
_LEADING = ("detect", "identify", "locate", "keygen")
_COMMANDS = (
    "detect seqs.fa --key blocks.key --json",
    "detect seqs.fa ids.jsonl --key paper.key --fpr 0.01 --combine --json",
    "detect ids.jsonl --key tokens.key --json",
    "detect seqs.fa --key blocks.key --null keys --null-keys 50 --fpr 0.05 --json",
    "detect seqs.fa --key paper.key --detector pattern --count-repeats --m 5",
    "identify seqs.fa --keys keys --json",
    "locate seqs.fa --key blocks.key --json",
    "keygen -o new.key --nonces 8 --block 3 --delta 1.5",
    "keygen -o new.key --scheme paper --parts ACDEFGHIKL,MNPQRSTVWY",
    "keygen -o new.key --alphabet cmlm-de-en --period 64",
)
_OPTIONS = (
    *("--key", "--keys", "--json", "--format", "--fpr", "--strict", "--combine", "--null", "--m"),
    *("--detector", "--count-repeats", "--tokenizer", "--exact", "--seed", "--allow-open-key"),
    *("-o", "--output", "--scheme", "--alphabet", "--delta", "--delta-at", "--nonces", "--block"),
    *("--period", "--starts", "--unscored", "--num-keys", "--parts", "--transition", "--initial"),
    *("--patterns", "--background", "--help", "-v", "--no-such-option", "--", "--backbone"),
)
_VALUES = (
    *(
        "0",
        "1",
        "-1",
        "2",
        "3",
        "5",
        "0.5",
        "0.001",
        "1e-9",
        "1e308",
        "nan",
        "inf",
        "-inf",
        "",
        " ",
    ),
    *("x", "fasta", "lines", "jsonl", "text", "paragraphs", "auto", "lr", "phase", "slip", "local"),
    *("pattern", "keys", "uniform", "0.45,0.55", "0.5 0.5", "0.1 0.9; 0.9 0.1", "01010,10101"),
    *("protein", "cmlm-de-en", "tokenizer:text.txt", "mask-predict:text.txt", "natural", "logits"),
    *(
        "tempered",
        "blocks",
        "turns",
        "paper",
        "@ids.jsonl",
        "ACDEFGHIKL,MNPQRSTVWY",
        "\x1b[2J",
        "é",
    ),
    *("99999999999999999999", "1" * 5000, "\udcff", "[/red]", "=", "a=b"),
)


@cache
def _made() -> Path:
    """Return a folder with the files that the words name."""
    folder = Path(mkdtemp(prefix="patternmark-fuzz-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    (folder / "seqs.fa").write_bytes(b"".join(examples("fasta")[2:5]))
    (folder / "text.txt").write_text("\n".join(TEXTS))
    (folder / "ids.jsonl").write_text(json.dumps([*range(40)] * 5) + "\n[1, 2]\n[99]\n{\n")
    (folder / "empty.fa").touch()
    (folder / "broken.fa.gz").write_bytes(b"\x1f\x8b\x08\0\0")
    (folder / "broken.key").write_text("format = 3\n[[[\n")
    (folder / "broken.key").chmod(0o600)
    (folder / "keys").mkdir()
    for name, key in zip(("blocks", "few", "paper", "tokens", "adopted"), keys(), strict=True):
        save_key(key, folder / f"{name}.key")
        if name in ("blocks", "few"):
            save_key(key, folder / "keys" / f"{name}.key")
    save_key(public(keys()[0]), folder / "public.key")
    return folder


@cache
def _command() -> Any:
    from typer.main import get_command

    return get_command(app.app)  # made once: it takes longer than most inputs


def _words(content: bytes) -> list[str]:
    words = [word.decode("utf-8", "surrogateescape") for word in content.split(b"\0")][:30]
    command, *rest = words
    if command not in _LEADING:
        command = _LEADING[len(content) % len(_LEADING)]
    return [command, *(word.replace("/", "_").replace("~", "_") for word in rest)]


def _read(content: bytes, folder: Path) -> Iterable[str]:
    shutil.copytree(_made(), folder, dirs_exist_ok=True)
    words = _words(content)
    out, err = io.StringIO(), io.StringIO()
    old_stdin, old_folder, old_app = sys.stdin, Path.cwd(), app.app
    status: object = 0
    try:
        os.chdir(folder)
        sys.stdin = io.TextIOWrapper(io.BytesIO(b""))
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            app.app = _command()
            app.main(words)
    except SystemExit as stop:
        status = stop.code or 0
    finally:
        sys.stdin, app.app = old_stdin, old_app
        os.chdir(old_folder)
    yield err.getvalue()
    yield out.getvalue()
    assert status in (0, 2), f"status {status}"
    if out.getvalue().startswith("{"):
        for line in out.getvalue().splitlines():
            json.loads(line, parse_constant=_no_number)
    for file in _FILES:
        kept, found = _made() / file, folder / file
        if kept.is_file() and file.endswith(".key"):
            assert found.read_bytes() == kept.read_bytes(), f"{file} has changed"
    for made in folder.glob("new.key"):
        assert made.stat().st_mode & 0o077 == 0, "others may read a new key"


def _no_number(name: str) -> None:
    raise AssertionError(f"{name} is no JSON")


def _make(mutator: Mutator, chance: Random) -> bytes:
    """Change some words of a command line, by others that mean something or by bytes."""
    words = chance.choice(_COMMANDS).split()
    for _ in range(chance.randint(1, 4)):
        at = chance.randint(1, len(words))
        word = chance.choice(chance.choice((_FILES, _OPTIONS, _VALUES)))
        if chance.random() < 0.1:
            word = mutator.other(chance).decode("utf-8", "replace").replace("\0", "")
        words[at : at + chance.randint(0, 1)] = [word]
        if word.startswith("-") and chance.random() < 0.7:
            words.insert(at + 1, chance.choice(chance.choice((_FILES, _VALUES))))
    return b"\0".join(word.encode("utf-8", "surrogateescape") for word in words)


TARGETS = (
    Target("arguments", _read, lambda: [c.replace(" ", "\0").encode() for c in _COMMANDS],
           make=_make, share=4, seconds=60.0, secrets=lambda content: SECRETS),
)  # fmt: skip
