"""`patternmark translate` on good and bad input, with the model of patternmark-models."""

import gzip
import json
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from patternmark import load_key
from patternmark.core.schemes import Turns
from patternmark.io.vocabulary import shipped_tokenizer
from patternmark.models.shipped import shipped_folder
from tests.conftest import Outcome
from tests.stopped import run_paused

Run = Callable[..., Outcome]
QUICK = ("--iterations", "2", "--length-beam", "1", "--passes", "1")
SPEECH = Path(__file__).parent.parent.parent / "examples" / "rede.de.txt"


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture
def text_key(run: Run, tmp_path: Path) -> Path:
    file = tmp_path / "lab.key"
    assert run("keygen", "--alphabet", "cmlm-de-en", "-o", file).status == 0
    return file


@pytest.mark.slow
def test_a_speech_is_marked_and_found(run: Run, text_key: Path, tmp_path: Path) -> None:
    english, plain = tmp_path / "output.en.txt", tmp_path / "plain.en.txt"
    strong = ("--delta", "4", "--passes", "1")
    done = run("translate", SPEECH, "--key", text_key, *strong, "-o", english)
    assert done.status == 0
    assert "The mark is found in 3 of 3 lines at p <= 0.001" in done.err
    assert run("translate", SPEECH, "--no-watermark", "-o", plain).status == 0
    assert len(english.read_text().split("\n")) == len(SPEECH.read_text().split("\n"))
    assert english.read_text().split("\n")[2] == ""
    marked = run("detect", english, "--key", text_key, "--json")
    assert [verdict["prediction"] for verdict in marked.objects] == [True] * 3
    unmarked = run("detect", plain, "--key", text_key, "--json", "--fpr", "1e-4")
    assert [verdict["prediction"] for verdict in unmarked.objects] == [False] * 3


@pytest.mark.slow
def test_what_is_promised_is_what_detect_finds(run: Run, text_key: Path, tmp_path: Path) -> None:
    source, target = tmp_path / "in.txt", tmp_path / "out.txt"
    speech = SPEECH.read_text().split("\n")
    lines = [speech[0], "", "Danke.", speech[1], "\u200b", "Guten Morgen, Frau Präsidentin."]
    source.write_text("\n".join(lines[:3]) + "\n")
    how = ("--key", text_key, "-o", target, "--iterations", "4", "--length-beam", "2")
    assert run("translate", source, *how).status == 0
    source.write_text("\n".join(lines) + "\n")
    done = run("translate", source, *how, "--resume")  # the lines of before count too
    assert done.status == 0
    verdicts = run("detect", target, "--key", text_key, "--json").objects
    found = sum(verdict["prediction"] for verdict in verdicts)
    assert f"The mark is found in {found} of {len(verdicts)} lines at p <= 0.001" in done.err
    assert done.err.count("too short (under 30 tokens) to carry a mark of their own") == 1
    assert "detect --combine" in done.err


def test_the_default_marks_only_as_strongly_as_needed(
    run: Run, text_key: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from patternmark.translation.translator import Translation, Translator

    source, asked = tmp_path / "in.txt", []

    def noted(self: Translator, lines: list[str], *_: Any, passes: int, **__: Any) -> list[Any]:
        asked.append(passes)
        return [Translation("", ()) for _ in lines]

    source.write_text("Guten Tag.\n")
    monkeypatch.setattr(Translator, "translate", noted)
    for number, more in enumerate(([], ["--passes", "1"])):
        target = tmp_path / f"{number}.txt"
        done = run("translate", source, "--key", text_key, "-o", target, *more)
        assert done.status == 0
        assert "found in 0 of 0 lines" in done.err
    assert asked == [5, 1]


@pytest.mark.parametrize("words", [2_000, pytest.param(20_000, marks=pytest.mark.slow)])
def test_bad_lines_cost_no_other_line(run: Run, text_key: Path, tmp_path: Path, words: int) -> None:
    source, target = tmp_path / "in.txt", tmp_path / "out.txt"
    lines = [
        b"\xef\xbb\xbfGuten Morgen.",
        b"",
        b"   ",
        b"kaputt \xff\xfe",
        "😀 Danke\u2028schön 👍🏽".encode(),
        ("Это не немецкий текст, " * 4).encode(),
        "漢字かな交じり文".encode(),
        b"<mask> </s> <pad>",
        b"\x00\x01\x07",
        b"lang " * words,  # up to 100,000 characters
        b"Ende.\r",
    ]
    source.write_bytes(b"\n".join(lines))  # without a line break at the end
    done = run("translate", source, "--key", text_key, "-o", target, *QUICK)
    assert done.status == 0
    assert f"{source}: line 4: not UTF-8" in done.err
    assert f"{source}: line 6: tokenizer:cmlm-de-en spells most words out" in done.err
    content = target.read_bytes()
    assert content.endswith(b"\n")
    found = content.decode().split("\n")[:-1]
    assert len(found) == len(content.splitlines()) == len(lines)
    assert [bool(line) for line in found[:4]] == [True, False, False, False]
    assert len(found[9]) > 100
    assert found[10]


def test_a_stopped_run_goes_on(run: Run, text_key: Path, tmp_path: Path) -> None:
    source, whole, part = (tmp_path / name for name in ("in", "whole", "part"))
    source.write_text("".join(f"Dies ist der Satz Nummer {i}.\n" for i in range(10)))
    assert run("translate", source, "--key", text_key, "-o", whole, *QUICK).status == 0
    part.write_bytes(whole.read_bytes()[:-20])  # the last line was cut
    refused = run("translate", source, "--key", text_key, "-o", part, *QUICK)
    assert refused.status == 2
    assert "--overwrite" in refused.err
    again = run("translate", source, "--key", text_key, "-o", part, "--resume", *QUICK)
    assert again.status == 0
    assert "wrote 1 line to" in again.err
    assert part.read_bytes() == whole.read_bytes()
    both = run(
        "translate", source, "--key", text_key, "-o", part, "--resume", "--overwrite", *QUICK
    )
    assert (both.status, "not both" in both.err) == (2, True)


def test_two_runs_at_once_do_not_share_an_output(run: Run, text_key: Path, tmp_path: Path) -> None:
    source, target = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_text("".join(f"Dies ist der Satz Nummer {i}.\n" for i in range(10)))
    command = ["translate", source, "--key", text_key, "-o", target, *QUICK]
    translated = "patternmark.translation.translator:Translator.translate"
    with run_paused(translated, *command) as paused:
        for how in ("--resume", "--overwrite"):
            second = run(*command, how)
            assert second.status == 2
            assert f"{target}: another run is using it" in second.err
        paused.send_signal(signal.SIGCONT)
        paused.communicate()
        assert paused.returncode == 0
    assert target.read_text().count("\n") == 10
    assert not list(tmp_path.glob(".*"))


def test_ctrl_c_keeps_what_is_written(
    run: Run, text_key: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from patternmark.translation.translator import Translator

    source, target = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_text("".join(f"Dies ist der Satz Nummer {i}.\n" for i in range(10)))
    real, calls = Translator.translate, iter([False, True])

    def stopped_at_the_second(*arguments: Any, **others: Any) -> Any:
        if next(calls):
            raise KeyboardInterrupt
        return real(*arguments, **others)

    monkeypatch.setattr(Translator, "translate", stopped_at_the_second)
    done = run("translate", source, "--key", text_key, "-o", target, *QUICK)
    assert done.status == 130
    assert "has 8 of 10 lines" in done.err
    assert target.read_text().count("\n") == 8


@pytest.mark.slow
def test_standard_output_has_the_bytes_of_a_file(
    run: Run, text_key: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_bytes("Herr Präsident Šefčovič.\r\n\r\nGuten Morgen.".encode())
    assert run("translate", source, "--key", text_key, "-o", target, *QUICK).status == 0
    with source.open(encoding="utf-8") as stream:
        monkeypatch.setattr("sys.stdin", stream)
        done = run("translate", "-", "--key", text_key, "-o", "-", *QUICK)
    assert done.out == target.read_text(encoding="utf-8")
    assert b"\r" not in target.read_bytes()
    assert "to standard output" in done.err


def test_the_input_is_never_overwritten(run: Run, text_key: Path, tmp_path: Path) -> None:
    source = tmp_path / "in.txt"
    source.write_text("Guten Tag.\n")
    (tmp_path / "link.txt").symlink_to(source)
    for target in (source, tmp_path / "link.txt"):
        for how in ("--overwrite", "--resume"):
            done = run("translate", source, "--key", text_key, "-o", target, how)
            assert (done.status, "is the input" in done.err) == (2, True)
    assert source.read_text() == "Guten Tag.\n"


@pytest.mark.slow
def test_what_cannot_work_is_refused_before_the_work(
    run: Run, text_key: Path, tmp_path: Path
) -> None:
    source, target = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_text("Guten Tag.\n")
    protein = tmp_path / "protein.key"
    run("keygen", "-o", protein)
    key_and_out = ("--key", text_key, "-o", target)
    cases: list[tuple[tuple[object, ...], str]] = [
        (
            (source, "--key", protein, "-o", target),
            "make a key of the alphabet cmlm-de-en, or of tokenizer:FILE with the model's "
            "tokenizer (see keygen --alphabet)",
        ),
        ((source, "-o", target), "--no-watermark"),
        ((source, "--no-watermark", *key_and_out), "--no-watermark"),
        ((tmp_path / "none.txt", *key_and_out), "cannot be read"),
        ((source, "--weights", tmp_path, *key_and_out), "config.json"),
        ((source, "--delta", "-1", *key_and_out), "delta must be"),
        ((source, "--temperature", "inf", *key_and_out), "--temperature"),
        ((source, "--seed", str(2**80), *key_and_out), "--seed"),
        ((source, "--key", text_key, "-o", tmp_path / "no" / "out.txt"), "cannot be written"),
    ]
    if not torch.cuda.is_available():
        cases.append(((source, "--device", "cuda", *key_and_out), "no GPU"))
    for arguments, message in cases:
        done = run("translate", *arguments)
        assert (done.status, message in done.err) == (2, True), done.err
        assert not target.exists()
    for content, message in (
        (b"\n \n", "contains no text"),
        ("Guten Tag.\n".encode("utf-16"), "this is UTF-16; save the text as UTF-8"),
        ("Guten Tag.\n".encode("utf-16-le"), "this is UTF-16; save the text as UTF-8"),
        (gzip.compress(b"Guten Tag.\n"), "this is gzipped; unpack it first"),
        (bytes(range(256)), "this is a binary file"),
    ):
        source.write_bytes(content)
        done = run("translate", source, *key_and_out)
        assert (done.status, f"{source}: {message}" in done.err) == (2, True), done.err
        assert not target.exists()


def test_short_lines_are_told_what_helps(run: Run, text_key: Path, tmp_path: Path) -> None:
    source, many = tmp_path / "in.txt", tmp_path / "many.key"
    assert run("keygen", "--alphabet", "cmlm-de-en", "--nonces", 65536, "-o", many).status == 0
    source.write_text("Danke.\n")
    advice = {
        text_key: "(under 30 tokens) to carry a mark of its own: translate whole paragraphs, or "
        "judge the file as a whole with 'patternmark detect --combine'",
        many: "(under 78 tokens) to carry a mark of its own: translate whole paragraphs, take a "
        "key with fewer than its 65,536 nonces, or judge",
    }
    for key, words in advice.items():
        done = run("translate", source, "--key", key, "-o", tmp_path / f"{key.stem}.txt", *QUICK)
        assert done.status == 0
        assert words in " ".join(done.err.split())
        assert done.err.startswith("wrote 1 line to")


def test_fasta_is_named_and_no_line_lost(run: Run, text_key: Path, tmp_path: Path) -> None:
    source, target = tmp_path / "x.fa", tmp_path / "out.txt"
    source.write_text(">a\nMKVLAAGIVGLLLAQWERTYIP\n")
    done = run("translate", source, "--key", text_key, "-o", target, *QUICK)
    assert done.status == 0
    assert f"{source}: line 1: this looks like FASTA; its lines are read as text" in done.err
    assert target.read_text().count("\n") == 2


def test_a_checkpoint_with_missing_tensors_is_named(
    run: Run, text_key: Path, tmp_path: Path
) -> None:
    from safetensors.torch import load_file, save_file

    folder, shipped = tmp_path / "model", shipped_folder("cmlm-de-en")
    folder.mkdir()
    (folder / "config.json").write_bytes((shipped / "config.json").read_bytes())
    (folder / "tokenizer.json").write_bytes(shipped_tokenizer().read_bytes())
    tensors = load_file(shipped / "model.safetensors")
    del tensors["decoder.2.up.weight"]
    save_file(tensors, folder / "model.safetensors")
    source = tmp_path / "in.txt"
    source.write_text("Guten Tag.\n")
    done = run("translate", source, "--key", text_key, "--weights", folder, "-o", tmp_path / "out")
    assert done.status == 2
    assert "'decoder.2.up.weight' is missing" in done.err


def test_a_teacher_does_not_translate(run: Run, text_key: Path, tmp_path: Path) -> None:
    folder, shipped = tmp_path / "teacher", shipped_folder("cmlm-de-en")
    folder.mkdir()
    for file in (shipped / "model.safetensors", shipped_tokenizer()):
        (folder / file.name).write_bytes(file.read_bytes())
    config = json.loads((shipped / "config.json").read_text()) | {"causal": True}
    (folder / "config.json").write_text(json.dumps(config))
    done = run("translate", SPEECH, "--key", text_key, "--weights", folder, "-o", tmp_path / "out")
    assert done.status == 2
    assert f"{folder}: this is a teacher, which writes from left to right" in done.err


def test_a_missing_package_is_named(
    run: Run, text_key: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "patternmark.translation", raising=False)
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    done = run("translate", SPEECH, "--key", text_key, "-o", tmp_path / "out")
    assert done.status == 2
    assert "translation needs tokenizers: pip install 'patternmark[text]'" in done.err


def test_without_the_weights_their_package_is_named(
    run: Run, text_key: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "patternmark_models", None)
    done = run("translate", SPEECH, "--key", text_key, "-o", tmp_path / "out")
    assert done.status == 2
    assert "the model cmlm-de-en is in patternmark-models, which is not installed" in done.err
    assert "from a clone of patternmark 'pip install ./models'" in done.err


def test_keys_for_text_have_the_usual_parameters(text_key: Path) -> None:
    profile = load_key(text_key).profile
    assert profile.scheme == Turns()


def test_lines_carry_a_number(run: Run, tmp_path: Path) -> None:
    key, german, english = (tmp_path / name for name in ("lab.key", "in.txt", "out.txt"))
    assert run("keygen", "--alphabet", "cmlm-de-en", "--nonces", 65536, "-o", key).status == 0
    german.write_text(SPEECH.read_text().split("\n")[0] + "\n")
    how = ("--key", key, "--delta", "6", "--payload", 40961, *QUICK)
    done = run("translate", german, *how, "-o", english)
    assert done.status == 0, done.err
    assert "with payload 40961" in done.err
    assert not Path(f"{key}.nonces").exists()  # no nonce was to be chosen
    [verdict] = run("detect", english, "--key", key, "--json").objects
    assert (verdict["prediction"], verdict["payload"]) == (True, 40961)
    assert verdict["payload_error"] < 0.01


def test_a_number_that_a_key_cannot_carry(run: Run, text_key: Path, tmp_path: Path) -> None:
    few, target = tmp_path / "few.key", tmp_path / "out.txt"
    assert run("keygen", "--alphabet", "cmlm-de-en", "--nonces", 8, "-o", few).status == 0
    for key, number, carries in ((text_key, 3, "no payload"), (few, 8, "payloads from 0 to 7")):
        refused = run("translate", SPEECH, "--key", key, "--payload", number, "-o", target)
        assert refused.status == 2
        assert f"carries {carries}, not {number}" in " ".join(refused.err.split())
        assert "(65536 for 16 bits in text)" in " ".join(refused.err.split())
    refused = run("translate", SPEECH, "--no-watermark", "--payload", 3, "-o", target)
    assert refused.status == 2
    assert not target.exists()
