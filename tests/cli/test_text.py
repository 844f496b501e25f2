"""Plain text through the commands, with real tokenizers."""

import gzip
import html
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from patternmark import Detector, Key, Profile, load_key, save_key
from patternmark.attacks import ATTACKS
from patternmark.core.schemes import Paper
from patternmark.core.secret import Secret
from patternmark.io.folding import SIGNATURE, fold
from patternmark.io.tokenizer import Tokenizer, load_tokenizer
from patternmark.io.vocabulary import parse_alphabet
from tests.conftest import Outcome
from tests.made_tokenizers import LINES

Run = Callable[..., Outcome]


@pytest.fixture
def made(secret: Secret, tokenizers_made: Path, tmp_path: Path) -> tuple[Path, Tokenizer]:
    """Return a key of the paper's scheme with its tokenizer beside it, and the tokenizer."""
    file = tmp_path / "bpe.json"
    file.write_bytes((tokenizers_made / "bpe.json").read_bytes())
    key = tmp_path / "lab.key"
    save_key(
        Key.of(secret, Profile(alphabet=parse_alphabet(f"tokenizer:{file}"), scheme=Paper())), key
    )
    return key, load_tokenizer(file)


def marked_text(key: Key, tokenizer: Tokenizer, length: int, seed: int = 0) -> str:
    """Words whose tokens follow the parts in turn, none of them twice."""
    rng = np.random.default_rng(seed)
    part_of = key.partition.part_of
    words = sorted({f" {word}" for line in LINES for word in line.split() if word.isalpha()})
    rng.shuffle(words)
    text, last, seen = "", -1, set()
    for word in words:
        ids = tokenizer.encode(word).tolist()
        parts = part_of[ids].tolist()
        follows = all(a != b for a, b in zip([last, *parts], parts, strict=False))
        if follows and not seen & set(ids) and len(set(ids)) == len(ids):
            text, last, seen = text + word, parts[-1], seen | set(ids)
        if len(seen) >= length:
            return text.strip()
    raise AssertionError("too few words")


def test_a_marked_text_is_found(run: Run, made: tuple[Path, Tokenizer], tmp_path: Path) -> None:
    key, tokenizer = made
    marked = marked_text(load_key(key), tokenizer, 40)
    file = tmp_path / "output.en.txt"
    file.write_text(f"{marked}\n\n{LINES[30]}\n", encoding="utf-8")
    found = run("detect", file, "--key", key, "--json", "--combine", "--plot", tmp_path / "p.png")
    assert (found.status, found.err) == (0, "")
    first, second, both = found.objects
    assert (first["id"], second["id"]) == ("line-1", "line-3")
    assert first["length"] == len(tokenizer.encode(marked))
    assert (first["prediction"], second["prediction"]) == (True, False)
    assert (both["combined"], both["num_records"], both["prediction"]) == (True, 2, True)
    assert (tmp_path / "p.png").stat().st_size > 10_000
    table = run("detect", file, "--key", key).out
    assert "1 of 2 sequences carry the mark" in table
    direct = Detector(load_key(key)).detect(tokenizer.encode(marked))
    assert first["log10_p"] == direct.log10_p < -5


@pytest.mark.slow
def test_the_same_from_every_source(run: Run, made: tuple[Path, Tokenizer], tmp_path: Path) -> None:
    key, tokenizer = made
    lines = [marked_text(load_key(key), tokenizer, 30), f"“{LINES[40]}” – café, naïve"]
    text = "\n".join(lines)
    decomposed = text.replace("é", "e\u0301").replace("ï", "i\u0308")
    objects = [json.dumps({"text": line}) for line in lines]
    ids = [json.dumps({"tokens": tokenizer.encode(line).tolist()}) for line in lines]
    sources = {
        "plain.txt": text.encode(),
        "windows.txt": b"\xef\xbb\xbf" + text.replace("\n", " \r\n").encode() + b"\r\n",
        "decomposed.txt": decomposed.encode(),
        "zipped.txt.gz": gzip.compress(text.encode()),
        "named.fa": text.encode(),
        "objects.jsonl": "\n".join(objects).encode(),
        "objects.txt": "\n".join(objects).encode(),
        "ids.jsonl": "\n".join(ids).encode(),
        "ids.txt": "\n".join(ids).encode(),
    }
    expected = None
    for name, content in sources.items():
        (tmp_path / name).write_bytes(content)
        found = run("detect", tmp_path / name, "--key", key, "--json")
        assert (found.status, found.err) == (0, ""), name
        numbers = [(o["id"], o["length"], o["log10_p"]) for o in found.objects]
        assert expected in (None, numbers), name
        expected = numbers


def test_lines_paragraphs_or_the_whole_text(
    run: Run, made: tuple[Path, Tokenizer], tmp_path: Path
) -> None:
    key, tokenizer = made
    file = tmp_path / "mail.txt"
    file.write_text("> You may obtain\na copy\n\n\n{of} the License\n")
    lengths = {}
    for format in ("auto", "lines", "paragraphs", "text"):
        found = run("detect", file, "--key", key, "--format", format, "--json")
        lengths[format] = {o["id"]: o["length"] for o in found.objects}
    assert lengths["auto"] == lengths["lines"]
    assert list(lengths["lines"]) == ["line-1", "line-2", "line-5"]
    paragraph = len(tokenizer.encode("> You may obtain a copy"))
    assert lengths["paragraphs"] == {"line-1": paragraph, "line-5": lengths["lines"]["line-5"]}
    whole = len(tokenizer.encode(file.read_text().strip()))
    assert lengths["text"] == {"mail.txt": whole}


def test_one_bad_line_costs_no_other(
    run: Run, made: tuple[Path, Tokenizer], tmp_path: Path
) -> None:
    file = tmp_path / "x.txt"
    file.write_bytes(b"the License shall mean\nnot \xff UTF-8\n  \nthe Licensor shall mean\n")
    found = run("detect", file, "--key", made[0], "--json")
    assert [o["id"] for o in found.objects] == ["line-1", "line-4"]
    assert f"{file}: line 2: character 5 is not valid UTF-8" in found.err
    (tmp_path / "x.jsonl").write_text(
        '{"text": "a\\ud800"}\n{"text": " "}\n{"text": "the License"}'
    )
    found = run("detect", tmp_path / "x.jsonl", "--key", made[0], "--json")
    assert [o["id"] for o in found.objects] == ["line-3"]
    assert "line 1: character 2 is not valid UTF-8" in found.err
    assert "line 2: it is empty" in found.err


@pytest.mark.parametrize("command", ["locate", "calibrate", "report", "identify"])
def test_other_commands_read_text(
    run: Run, made: tuple[Path, Tokenizer], tmp_path: Path, command: str
) -> None:
    key, tokenizer = made
    file = tmp_path / "x.txt"
    file.write_text(f"{marked_text(load_key(key), tokenizer, 60)}\n{LINES[20]}\n")
    options = {
        "locate": ["--key", key, "--json"],
        "calibrate": ["--key", key, "--null-keys", 2, "--json"],
        "report": ["--key", key, "-o", tmp_path / "page.html"],
        "identify": ["--keys", tmp_path, "--json"],
    }[command]
    found = run(command, file, *options)
    assert found.status == 0, found.err
    if command == "locate":
        (segment,) = found.objects[0]["segments"]
        start, end = segment["characters"]
        marked = file.read_text().splitlines()[0]
        ids = tokenizer.encode(marked).tolist()
        assert marked[start:end] == tokenizer.decode(ids[segment["start"] : segment["end"]])
        assert f"(characters {start + 1}-{end})" in run(command, file, "--key", key).out
    if command in ("locate", "identify"):
        assert [o["prediction"] for o in found.objects] == [True, False]
    elif command == "calibrate":
        assert found.objects[0]["num_sequences"] == 2
    else:
        page = (tmp_path / "page.html").read_text()
        assert "<strong>1 of 2</strong> texts carry the mark" in page
        (shown, _) = re.findall(r'<pre class="seq words">(.*?)</pre>', page, re.DOTALL)
        text = html.unescape(re.sub(r"</?b[^>]*>", "", shown))
        assert text == file.read_text().splitlines()[0]
        assert shown.count('class="p0"') > 20
    whole = run(command, file, *options, "--format", "text")
    assert whole.status == 0, whole.err
    if command != "report":
        assert len(whole.objects) == 1


@pytest.mark.parametrize("trick", ["homoglyph", "zero-width", "full-width"])
@pytest.mark.parametrize("command", ["detect", "identify", "locate"])
def test_tricks_do_nothing_and_are_named(
    run: Run, made: tuple[Path, Tokenizer], tmp_path: Path, command: str, trick: str
) -> None:
    key, tokenizer = made
    text = marked_text(load_key(key), tokenizer, 40)
    changed = ATTACKS[trick].attack_all([text], 0.5, seed=1)[0]
    before, after = tmp_path / "before.txt", tmp_path / "after.txt"
    before.write_text(f"{text}\n")
    after.write_text(f"{changed}\n", encoding="utf-8")
    keys = ["--keys", tmp_path] if command == "identify" else ["--key", key]
    (plain,) = run(command, before, *keys, "--json").objects
    (found,) = run(command, after, *keys, "--json").objects
    assert plain["prediction"]
    assert plain["folded"] == {}
    kind, number = next(iter(found["folded"].items()))
    assert kind == {"homoglyph": "look_alikes", "zero-width": "invisible"}.get(trick, "forms")
    assert number == sum(not c.isascii() for c in changed)
    if command == "locate":  # characters are those of the text as it is given
        start, end = found["segments"][0].pop("characters")
        old_start, old_end = plain["segments"][0].pop("characters")
        assert fold(changed[start:end]).text.strip() == text[old_start:old_end].strip()
    different = {name for name in plain if plain[name] != found[name]}
    assert different == {"folded", "file"}
    assert found["signature"].endswith(f"|{SIGNATURE}")
    table = run(command, after, *keys).out
    assert f"folded: {number} " in table
    assert f"|{SIGNATURE}" in table


def test_token_ids_are_not_folded(run: Run, made: tuple[Path, Tokenizer], tmp_path: Path) -> None:
    key, tokenizer = made
    (tmp_path / "x.jsonl").write_text(json.dumps(tokenizer.encode(LINES[30]).tolist()))
    (found,) = run("detect", tmp_path / "x.jsonl", "--key", key, "--json").objects
    assert "folded" not in found
    assert SIGNATURE not in found["signature"]


def test_a_report_says_what_was_folded(
    run: Run, made: tuple[Path, Tokenizer], tmp_path: Path
) -> None:
    key, tokenizer = made
    text = marked_text(load_key(key), tokenizer, 40)
    changed = ATTACKS["homoglyph"].attack_all([text], 0.5, seed=1)[0]
    (tmp_path / "x.txt").write_text(f"{changed}\n", encoding="utf-8")
    assert run("report", tmp_path / "x.txt", "--key", key, "-o", tmp_path / "p.html").status == 0
    page = (tmp_path / "p.html").read_text(encoding="utf-8")
    number = sum(not c.isascii() for c in changed)
    assert f"folded: {number} look-alike letters" in page
    (shown,) = re.findall(r'<pre class="seq words">(.*?)</pre>', page, re.DOTALL)
    assert html.unescape(re.sub(r"</?b[^>]*>", "", shown)) == changed


RUSSIAN = "Все люди рождаются свободными и равными в своем достоинстве и правах. Они наделены "


@pytest.mark.parametrize("command", ["detect", "identify"])
def test_bad_texts_are_named_and_cost_no_other(run: Run, tmp_path: Path, command: str) -> None:
    key = tmp_path / "lab.key"
    assert run("keygen", "--alphabet", "cmlm-de-en", "-o", key).status == 0
    keys = ["--keys", tmp_path] if command == "identify" else ["--key", key]
    good = "A man is walking his dog along the river, and it rains on both of them."
    lines = [good, "", RUSSIAN, "\u200b\u2060", (good + " ") * 1400, RUSSIAN, good]
    file = tmp_path / "x.txt"
    file.write_bytes("\n".join(lines).encode() + b"\nnot \xff UTF-8\n" + good.encode())
    assert len(lines[4]) > 100_000
    found = run(command, file, *keys, "--json")
    assert found.status == 0
    assert [o["id"] for o in found.objects] == [f"line-{i}" for i in (1, 3, 5, 6, 7, 9)]
    assert f"{file}: line 8: character 5 is not valid UTF-8" in found.err
    assert f"{file}: line 4 (line-4): the tokenizer finds no token in it" in found.err
    foreign = f"{file}: line 3 (line-3) and 1 more: tokenizer:cmlm-de-en spells most words out"
    assert foreign in found.err
    assert found.err.count("spells most words out") == 1
    (tmp_path / "wide.txt").write_text(good, encoding="utf-16")
    assert (
        "this is UTF-16; save the text as UTF-8" in run(command, tmp_path / "wide.txt", *keys).err
    )


def test_tricks_are_not_taken_for_another_language(run: Run, tmp_path: Path) -> None:
    key, file = tmp_path / "lab.key", tmp_path / "x.txt"
    assert run("keygen", "--alphabet", "cmlm-de-en", "-o", key).status == 0
    text = "A man is walking his dog along the river, and it rains on both of them, they say."
    file.write_text(ATTACKS["homoglyph"].attack_all([text], 1.0, seed=1)[0], encoding="utf-8")
    assert run("detect", file, "--key", key).err == ""


def test_which_tokenizer_is_taken(
    run: Run, made: tuple[Path, Tokenizer], tokenizers_made: Path, tmp_path: Path
) -> None:
    key, _ = made
    file = tmp_path / "x.txt"
    file.write_text("the License shall mean\n")
    taken = run("detect", file, "--key", key, "--verbose").err
    assert f"text is read with {tmp_path / 'bpe.json'}" in taken
    (tmp_path / "bpe.json").unlink()
    missing = run("detect", file, "--key", key)
    assert missing.status == 2
    assert "made for tokenizer:bpe.json" in missing.err
    given = run("detect", file, "--key", key, "--tokenizer", tokenizers_made / "bpe.json", "--json")
    assert given.objects[0]["length"] > 3
    wrong = run("detect", file, "--key", key, "--tokenizer", tokenizers_made / "unigram.json")
    assert wrong.status == 2
    assert "not the tokenizer of this key" in wrong.err
    assert wrong.out == ""


@pytest.mark.slow
def test_the_tokenizer_of_the_package(run: Run, secret: Secret, tmp_path: Path) -> None:
    key = tmp_path / "lab.key"
    made = run("keygen", "--alphabet", "cmlm-de-en", "--nonces", 1, "-o", key)
    assert made.status == 0
    assert load_key(key).profile.alphabet.name == "tokenizer:cmlm-de-en"
    command = [sys.executable, "-m", "patternmark", "detect", "-", "--key", str(key), "--json"]
    done = subprocess.run(
        command, input="> A man walks on.\n", capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout)["num_tokens_scored"] >= 5
    # A file of the package's name does not take its place.
    other = Key.of(secret, Profile(alphabet=parse_alphabet("cmlm-de-en"), scheme=Paper()))
    save_key(other, tmp_path / "other.key")
    (tmp_path / "cmlm-de-en").mkdir()
    (tmp_path / "x.txt").write_text("A man walks on.\n")
    assert run("detect", tmp_path / "x.txt", "--key", tmp_path / "other.key").status == 0


def test_token_ids_need_no_library(
    run: Run, made: tuple[Path, Tokenizer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, _ = made
    for library in ("tokenizers", "transformers", "sentencepiece"):
        monkeypatch.setitem(sys.modules, library, None)
    (tmp_path / "x.jsonl").write_text(json.dumps(list(range(10, 60))))
    assert run("detect", tmp_path / "x.jsonl", "--key", key, "--json").objects[0]["length"] == 50
    (tmp_path / "x.txt").write_text("the License shall mean\n")
    refused = run("detect", tmp_path / "x.txt", "--key", key)
    assert refused.status == 2
    assert "pip install 'patternmark[text]'" in refused.err


@pytest.mark.parametrize(
    ("alphabet", "arguments", "message"),
    [
        (
            "bpe.json",
            ["--format", "fasta"],
            "--format fasta cannot be used with a key for tokenizer:",
        ),
        (None, ["--format", "text"], "--format text cannot be used with a key for protein"),
        (None, ["--tokenizer", "x.json"], "this key is for protein"),
        ("bpe.json", ["--tokenizer", "absent.json"], "absent.json: cannot be read: No such file"),
        ("bpe.json", ["--tokenizer", __file__], "not a vocabulary that can be read"),
    ],
)
def test_what_does_not_go_together(
    run: Run,
    secret: Secret,
    tokenizers_made: Path,
    tmp_path: Path,
    alphabet: str | None,
    arguments: list[str],
    message: str,
) -> None:
    symbols = f"tokenizer:{tokenizers_made / alphabet}" if alphabet else "protein"
    key = tmp_path / "x.key"
    save_key(Key.of(secret, Profile(alphabet=parse_alphabet(symbols), scheme=Paper())), key)
    (tmp_path / "x.txt").write_text("MKV\n")
    refused = run("detect", tmp_path / "x.txt", "--key", key, *arguments)
    assert refused.status == 2
    assert message in refused.err


@pytest.mark.parametrize("name", ["wordpiece.json", "pieces.model", "pieces.vocab", "bert", "t5"])
def test_keys_for_tokenizers_of_every_kind(
    run: Run, tokenizers_made: Path, tmp_path: Path, name: str
) -> None:
    key = tmp_path / "x.key"
    options = ["--alphabet", f"tokenizer:{tokenizers_made / name}", "--scheme", "paper"]
    assert run("keygen", *options, "-o", key).status == 0
    (tmp_path / "x.txt").write_text(f"{LINES[30]}\n")
    found = run(
        "detect", tmp_path / "x.txt", "--key", key, "--json",
        "--tokenizer", tokenizers_made / name,
    )  # fmt: skip
    assert found.status == 0, found.err
    assert found.objects[0]["num_tokens_scored"] > 5
