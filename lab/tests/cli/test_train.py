"""`patternmark train` from pairs to a model that translates, and all that can go wrong."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.tests.training.small import PARAGRAPHS, codec, write
from patternmark import __version__
from patternmark.models.weights import file_sha256
from patternmark.translation.checkpoint import load_both
from patternmark_lab.training.corpus import read_pairs
from tests.conftest import Outcome
from tests.translation.small import PAIRS

Run = Callable[..., Outcome]
SIZES = ["--width", 32, "--hidden", 64, "--heads", 2, "--layers", "1+1", "--batch-tokens", 128]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write(tmp_path / "pairs.tsv", PAIRS)


@pytest.fixture
def tokenizer(tmp_path: Path) -> Path:
    codec().save(tmp_path / "bpe.json")
    return tmp_path / "bpe.json"


@pytest.fixture
def command(data: Path, tokenizer: Path, tmp_path: Path) -> list[object]:
    """Return what trains a small network into the folder `model`."""
    return ["train", "cmlm", data, "--tokenizer", tokenizer, "-o", tmp_path / "model", *SIZES,
            "--device", "cpu"]  # fmt: skip


def test_a_tokenizer_is_learned(run: Run, data: Path, tmp_path: Path) -> None:
    out = tmp_path / "made" / "tokenizer.json"
    made = run("train", "tokenizer", data, "--vocab", 320, "-o", out)
    assert (made.status, made.err) == (0, f"wrote {out}: 320 entries\n")
    assert out.read_text() == codec().content
    small = run("train", "tokenizer", data, "--vocab", 5000, "-o", out)
    assert "warning: the pairs are enough for only" in small.err
    few = run("train", "tokenizer", data, "--vocab", 100, "-o", out)
    assert (few.status, "at least 261 entries" in few.err) == (2, True)


def test_a_model_is_trained_and_has_a_card(
    run: Run, command: list[object], data: Path, tmp_path: Path
) -> None:
    paragraphs = write(tmp_path / "long.tsv", PARAGRAPHS)
    more = ["--steps", 5, "--paragraphs", paragraphs, "--hold-out", 2, "--joined", 3, "--valid",
            data, "--data-note", "Sentences of our own.", "--shard-mib", 0.05, "-v"]  # fmt: skip
    made = run(*command, *more)
    assert made.status == 0, made.err
    folder = tmp_path / "model"
    assert "pairs, " in made.err
    assert f"{folder}: step 5, 100% done, BLEU" in made.err
    assert "step 5, done 1.0, loss" in made.err  # --verbose
    model, found = load_both(folder)
    assert model.config.decoder_layers == 1
    assert found.content == codec().content
    rows = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    assert rows[0]["loss"] > 0.0
    assert set(rows[1]) == {"step", "bleu", "bleu_long"}
    card = json.loads((folder / "card.json").read_text())
    files = [(f["file"], f["role"], f["pairs"], f["sha256"]) for f in card["data"]["files"]]
    assert files == [
        ("pairs.tsv", "sentences", 20, file_sha256(data)),
        ("long.tsv", "paragraphs", 4, file_sha256(paragraphs)),
    ]
    assert card["data"]["pairs"] == 20 + 4 + 4 + 3
    assert [v["pairs"] for v in card["validation"]] == [20, 2]
    given = card["runs"][0]["command"]
    assert given.startswith(f"patternmark train cmlm {data.name} --tokenizer bpe.json ")
    assert str(tmp_path) not in given  # a card is read elsewhere
    assert "--joined 3 " in given
    assert given.endswith("--data-note 'Sentences of our own.'")
    readme = (folder / "README.md").read_text()
    assert given in readme
    assert f"patternmark {__version__}" in readme
    assert readme.endswith("Sentences of our own.\n")


def test_the_same_command_goes_on(run: Run, command: list[object], tmp_path: Path) -> None:
    folder = tmp_path / "model"
    half = run(*command, "--steps", 4, "--run-minutes", 0.0)
    assert (half.status, "step 0, 0% done" in half.err) == (0, True)
    assert run(*command, "--steps", 4).status == 0
    again = run(*command, "--steps", 4)
    assert (again.status, "step 4, 100% done" in again.err) == (0, True)
    longer = run(*command, "--steps", 6, "--lr", 1e-3)
    assert f"warning: {folder}: continues from step 4, but lr was 0.003, now 0.001" in longer.err
    assert json.loads((folder / "training.json").read_text())["progress"]["step"] == 6
    steps = [json.loads(line)["step"] for line in (folder / "log.jsonl").read_text().splitlines()]
    assert steps == [4, 6]
    readme = (folder / "README.md").read_text()
    assert "--steps 4" in readme
    assert "--steps 6" in readme


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stop_saves_what_there_is(
    command: list[object], tmp_path: Path, number: signal.Signals
) -> None:
    words = [sys.executable, "-m", "patternmark", *map(str, command), "--steps", "100000"]
    folder = tmp_path / "model"
    with subprocess.Popen(
        [*words, "--save-every", "0"], stderr=subprocess.PIPE, text=True, env=os.environ
    ) as process:
        while not (folder / "training.json").exists() and process.poll() is None:
            time.sleep(0.05)
        process.send_signal(number)
        _, err = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "stopped and saved, and the same command continues from there" in err
    state = json.loads((folder / "training.json").read_text())
    assert f"step {state['progress']['step']:,}, " in err
    assert (folder / f"checkpoint-{state['progress']['step']:08d}.safetensors").exists()
    load_both(folder)


def test_a_teacher_distils_and_goes_on(
    run: Run, command: list[object], data: Path, tmp_path: Path
) -> None:
    trained = run(*command, "--autoregressive", "--steps", 3)
    assert trained.status == 0, trained.err
    folder, out = tmp_path / "model", tmp_path / "new.tsv"
    options = ["train", "distil", folder, data, "-o", out, "--batch-tokens", 64, "--device", "cpu"]
    made = run(*options)
    assert made.status == 0, made.err
    facts = json.loads((tmp_path / "new.tsv.json").read_text())
    assert facts["done"] == len(PAIRS)
    kept = len(PAIRS) - facts["dropped"]
    assert f"wrote {kept} pairs to {out}; {facts['dropped']} sources were dropped" in made.err
    assert len(read_pairs(out)) == kept if kept else out.stat().st_size == 0
    before = out.read_bytes()
    assert run(*options).status == 0
    assert out.read_bytes() == before
    assert run(*command, "--autoregressive", "--steps", 5).status == 0
    other = run(*options)
    assert (other.status, "was started with another teacher" in other.err) == (2, True)
    assert run(*options, "--overwrite").status == 0


def test_what_cannot_be_trained_is_said_before_it_begins(
    run: Run, command: list[object], tmp_path: Path
) -> None:
    cases: list[tuple[list[object], str]] = [
        ([], "give either --steps or --minutes"),
        (["--steps", 2, "--minutes", 1], "give either --steps or --minutes"),
        (["--minutes", 0], "--minutes must be more than 0, not 0"),
        (["--steps", 2, "--device", "tpu"], "device must be auto, cpu or cuda"),
        (["--steps", 2, "--layers", "6"], "such as 6+4, not '6'"),
        (["--steps", 2, "--heads", 3], "--width must be even and a multiple of --heads, not 32"),
        (["--steps", 2, "--dropout", 1], "--dropout must be 0 or more and less than 1"),
        (["--steps", 2, "--lr", 0], "--lr must be more than 0"),
        (["--steps", 2, "--longest", 2], "none of the 20 pairs is usable for training"),
        (["--steps", 2, "--hold-out", 5], "there are 0 --paragraphs"),
        (["--steps", 2, "--shard-mib", 0.001], "tensor 'embedding.weight' alone has"),
        (["--steps", 2, "--valid", tmp_path / "none.tsv"], "none.tsv: cannot be read: No such"),
    ]
    for options, message in cases:
        found = run(*command, *options)
        assert found.status == 2, options
        assert found.err.startswith("error: ")
        assert message in found.err
    assert not (tmp_path / "model").exists()


def test_another_network_or_tokenizer_is_refused(
    run: Run, command: list[object], data: Path, tokenizer: Path
) -> None:
    assert run(*command, "--steps", 2).status == 0
    other = run(*command, "--steps", 2, "--hidden", 32)
    assert (other.status, "hidden was 64, now 32" in other.err) == (2, True)
    content = json.loads(tokenizer.read_text())
    content["model"]["merges"][:2] = content["model"]["merges"][1::-1]
    tokenizer.write_text(json.dumps(content))
    swapped = run(*command, "--steps", 2)
    assert (swapped.status, "was started with another tokenizer" in swapped.err) == (2, True)


def test_a_tokenizer_with_other_special_tokens_is_refused(
    run: Run, command: list[object], tokenizers_made: Path
) -> None:
    made = run(*command, "--steps", 2, "--tokenizer", tokenizers_made / "bpe.json")
    assert made.status == 2
    assert "its first tokens are not <pad> <s> </s> <mask> <length>" in made.err


def test_lines_that_are_no_pairs_are_named(run: Run, command: list[object], data: Path) -> None:
    lines = data.read_text().splitlines(keepends=True)
    data.write_text("".join([*lines * 2, "no tab\n"]))
    made = run(*command, "--steps", 1)
    assert (made.status, "skipped: line 41 has no tab" in made.err) == (0, True)
    data.write_text("one column\n" * 10)
    bad = run(*command, "--steps", 1)
    assert (bad.status, "10 of 10 lines are not a source" in bad.err) == (2, True)


@pytest.mark.parametrize("command_name", ["cmlm", "distil", "tokenizer"])
def test_a_missing_package_is_named(command_name: str, data: Path, tmp_path: Path) -> None:
    words = {
        "cmlm": [data, "--tokenizer", data, "--steps", 1],
        "distil": [tmp_path, data],
        "tokenizer": [data],
    }[command_name]
    line = [*map(str, ["train", command_name, *words, "-o", tmp_path / "out"])]
    code = (
        f"import sys; sys.modules['torch'] = None\nfrom patternmark.cli import main\nmain({line!r})"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert found.returncode == 2
    assert "translation needs torch: pip install 'patternmark[text]'" in found.stderr
