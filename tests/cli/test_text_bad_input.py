"""What users get wrong with text keys: each is named with a remedy and costs no other line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Outcome

Run = Callable[..., Outcome]
PROSE = "A man is walking his dog along the river, and it rains on both of them."
RUSSIAN = "Все люди рождаются свободными и равными в своем достоинстве и правах. Они наделены "
FASTA = ">a\nMKVLAAGIVGLLLAQWERTYIP\n>b\nMKVLAAGIVGLLLAQWERTYIPMKVLAAGIVGLLLAQW\n"
COMMANDS = ("detect", "identify", "locate", "report")


@pytest.fixture
def keys(run: Run, tmp_path: Path) -> Path:
    for name, more in (("text", ["--alphabet", "cmlm-de-en"]), ("protein", [])):
        (tmp_path / name).mkdir()
        assert run("keygen", *more, "-o", tmp_path / name / "lab.key").status == 0
    return tmp_path


def judge(run: Run, command: str, kind: str, keys: Path, *files: Path, more: str = "") -> Outcome:
    given = ["--keys", keys / kind] if command == "identify" else ["--key", keys / kind / "lab.key"]
    if command == "report":
        given += ["-o", keys / "page.html"]
    return run(command, *files, *given, *more.split())


def judged(command: str, found: Outcome, keys: Path) -> list[int]:
    """Return the numbers of the lines that have a verdict."""
    shown = (keys / "page.html").read_text() if command == "report" else found.out
    return [number for number in range(1, 20) if f"line-{number}" in shown]


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_bad_lines_are_named_and_the_others_judged(run: Run, keys: Path, command: str) -> None:
    file = keys / "x.txt"
    lines = [
        PROSE.encode(),
        b"",
        b"not \xff UTF-8",
        PROSE.encode()[:9] + b"\0" + PROSE.encode()[9:],
        b"\0\0\0",
        (RUSSIAN * 2).encode(),
        b"x" * 100_000,
        PROSE.encode(),
    ]
    file.write_bytes(b"\n".join(lines))  # without an end of the last line
    found = judge(run, command, "text", keys, file)
    assert found.status == 0
    assert judged(command, found, keys) == [1, 4, 6, 7, 8]
    assert f"{file}: line 3: character 5 is not valid UTF-8; save the text as UTF-8" in found.err
    assert f"{file}: line 5 (line-5): the tokenizer finds no token in it" in found.err
    assert f"{file}: line 6 (line-6) and 1 more: tokenizer:cmlm-de-en spells most" in found.err


@pytest.mark.parametrize("command", COMMANDS)
def test_files_that_are_no_text_are_named_and_the_others_judged(
    run: Run, keys: Path, command: str
) -> None:
    good, wide, bare, empty, binary = (keys / name for name in ("good", "w", "b", "e", "bin"))
    good.write_text(PROSE)
    wide.write_text(PROSE, encoding="utf-16")
    bare.write_text(PROSE, encoding="utf-16-le")
    empty.write_text("\n \n")
    binary.write_bytes(bytes(range(256)))
    bad = {
        wide: "this is UTF-16; save the text as UTF-8",
        bare: "this is UTF-16; save the text as UTF-8",
        empty: "the file is empty",
        binary: "this is a binary file",
        keys / "absent.txt": "cannot be read: No such file",
    }
    found = judge(run, command, "text", keys, *bad, good)
    assert found.status == 0
    assert judged(command, found, keys) == [1]
    for file, message in bad.items():
        assert f"{file}: {message}" in found.err
    alone = judge(run, command, "text", keys, *bad)
    assert alone.status == 2
    assert "no sequence could be judged" in alone.err


@pytest.mark.parametrize("command", COMMANDS)
def test_the_key_of_another_kind_is_named(run: Run, keys: Path, command: str) -> None:
    text, fasta = keys / "x.txt", keys / "x.fa"
    text.write_text(f"{PROSE}\n{PROSE}\n")
    fasta.write_text(FASTA)
    found = judge(run, command, "protein", keys, text)
    assert found.status == 2
    assert found.err.count(f"{text}: this looks like text, and the key is for protein: give") == 1
    assert f"{text}: line 2 (line-2): character ' ' at position 2" in found.err
    found = judge(run, command, "text", keys, fasta)
    assert found.status == 0
    assert judged(command, found, keys) == [1, 2, 3, 4]
    assert f"{fasta}: line 1: this looks like FASTA, and the key is for text" in found.err
    other = judge(run, command, "protein", keys, fasta)
    assert "looks like" not in other.err


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("tokenizer", "message"),
    [
        ("absent.json", "absent.json: cannot be read: No such file"),
        ("x.txt", "not a vocabulary that can be read: line 1 is a text, but every"),
        ("few.txt", "not the tokenizer of this key"),
    ],
)
def test_unknown_tokenizers_are_refused(
    run: Run, keys: Path, command: str, tokenizer: str, message: str
) -> None:
    (keys / "x.txt").write_text(f"{PROSE}\n")
    (keys / "few.txt").write_text("a\nb\n")
    found = judge(
        run, command, "text", keys, keys / "x.txt", more=f"--tokenizer {keys / tokenizer}"
    )
    assert found.status == 2
    assert message in found.err


def test_a_text_that_repeats_itself_has_a_verdict(run: Run, keys: Path) -> None:
    (keys / "x.txt").write_text((PROSE + " ") * 8)
    found = judge(run, "detect", "text", keys, keys / "x.txt")
    assert "no mark found" in found.out
