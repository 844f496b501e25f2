import gzip
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from patternmark import PROTEIN, Alphabet, Detector, Key, Profile, __version__, load_key, save_key
from patternmark.core.schemes import Paper
from patternmark.core.secret import Secret
from patternmark.statistics.recover import recover
from tests.conftest import Outcome

Run = Callable[..., Outcome]

FIELDS = [
    "id", "length", "num_tokens_scored", "detector", "statistic", "p_value", "log10_p",
    "prediction", "key_id", "signature",
]  # fmt: skip


@pytest.fixture
def lab(secret: Secret, tmp_path: Path) -> Path:
    save_key(
        Key.of(secret, Profile(scheme=Paper()), ["ACDEFGHIKL", "MNPQRSTVWY"]),
        tmp_path / "halves.key",
    )
    return tmp_path / "halves.key"


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def alternating(length: int, run: int) -> str:
    """Letters of the two parts in turn, `run` of each: 1 follows the mark. No stretch repeats."""
    rng = np.random.default_rng(run)
    parts = rng.choice(list("ACDEFGHIKL"), length), rng.choice(list("MNPQRSTVWY"), length)
    return "".join(parts[i // run % 2][i] for i in range(length))


MARKED, PLAIN = alternating(100, run=1), alternating(100, run=2)


def test_json_has_one_object_per_sequence(run: Run, lab: Path, tmp_path: Path) -> None:
    file = write(tmp_path / "x.fa", f">one\n{MARKED}\n>two\n{PLAIN}\n")
    found = run("detect", file, "--key", lab, "--json", "--detector", "pattern")
    assert found.status == 0
    assert found.err == ""
    one, two = found.objects
    assert set(FIELDS) <= set(one)
    assert (one["id"], one["prediction"], one["statistic"]) == ("one", True, 96)
    assert one["log10_p"] == pytest.approx(-99 * np.log10(2))
    assert (two["id"], two["prediction"], two["num_tokens_scored"]) == ("two", False, 100)


def test_the_same_from_every_source(run: Run, lab: Path, tmp_path: Path) -> None:
    fasta = f">one\n{MARKED}\n>two\n{PLAIN}\n"
    ids = [
        {"id": n, "tokens": PROTEIN.encode(s).tolist()}
        for n, s in (("one", MARKED), ("two", PLAIN))
    ]
    sources = [
        write(tmp_path / "x.fa", fasta),
        write(tmp_path / "x.fa.gz", gzip.compress(fasta.encode())),
        write(tmp_path / "windows.fa", fasta.replace("\n", "\r\n")),
        write(tmp_path / "lower.fa", f">one\n{MARKED.lower()}\n>two\n{PLAIN.lower()}\n"),
        write(tmp_path / "x.txt", f"{MARKED}\n{PLAIN}\n"),
        write(tmp_path / "x.jsonl", "\n".join(map(json.dumps, ids))),
    ]
    expected = None
    for source in sources:
        found = run("detect", source, "--key", lab, "--json")
        assert (found.status, found.err) == (0, "")
        numbers = [(o["statistic"], o["log10_p"]) for o in found.objects]
        assert expected in (None, numbers)
        expected = numbers


@pytest.mark.slow
def test_standard_input_and_pipes(lab: Path) -> None:
    command = [sys.executable, "-m", "patternmark", "detect", "-", "--key", str(lab), "--json"]
    done = subprocess.run(
        command, input=f">one\n{MARKED}\n", capture_output=True, text=True, check=False
    )
    assert done.returncode == 0
    assert json.loads(done.stdout)["prediction"] is True
    empty = subprocess.run(command, input="", capture_output=True, text=True, check=False)
    assert empty.returncode == 2
    assert "standard input: the file is empty" in empty.stderr


def test_the_table_is_readable(run: Run, lab: Path, tmp_path: Path) -> None:
    long_id = "design_with_a_rather_long_identifier_that_must_not_be_cut_" * 2
    file = write(tmp_path / "x.fa", f">{long_id}\n{MARKED}\n>[red]two\n{PLAIN}\n>three\nAM\n")
    found = run("detect", file, "--key", lab, "--detector", "pattern")
    assert long_id in found.out
    assert "[red]two" in found.out
    assert "1 of 3 sequences carry the mark" in found.out
    assert "too short to tell" in found.out
    assert "|detector:pattern|m:5|" in found.out
    assert "statistic" in found.out


def test_options_reach_the_detector(run: Run, lab: Path, tmp_path: Path) -> None:
    file = write(tmp_path / "x.fa", ">one\nAMA\n")
    options = ["--detector", "pattern", "--m", "3", "--fpr", "0.3", "--null", "0.25,0.75"]
    verdict = run("detect", file, "--key", lab, "--json", *options).objects[0]
    assert verdict["p_value"] == pytest.approx(0.25 * 0.75)
    assert verdict["prediction"] is True


def test_the_picture(run: Run, lab: Path, tmp_path: Path) -> None:
    file = write(tmp_path / "x.fa", "".join(f">s{i}\n{MARKED}{PLAIN * i}\n" for i in range(9)))
    picture = tmp_path / "out.svg"
    assert run("detect", file, "--key", lab, "--plot", picture).status == 0
    svg = picture.read_text()
    assert "s0" in svg
    assert "s8" not in svg  # the strongest few


def test_several_files_and_one_that_is_missing(run: Run, lab: Path, tmp_path: Path) -> None:
    good = write(tmp_path / "x.fa", f">one\n{MARKED}\n")
    found = run("detect", tmp_path / "absent.fa", good, "--key", lab, "--json")
    assert found.status == 0
    assert [o["id"] for o in found.objects] == ["one"]
    assert "absent.fa: cannot be read: No such file" in found.err


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("empty.fa", b"", "empty.fa: the file is empty"),
        ("prose.fa", b"Call me Ishmael.", "prose.fa: not FASTA"),
        (
            "prose.txt",
            b"Call me Ishmael.",
            "prose.txt: line 1 (line-1): character ' ' at position 5",
        ),
        ("binary.fa", bytes(range(256)), "binary.fa: this is a binary file"),
        ("cut.fa.gz", gzip.compress(b">a\nMKV\n")[:-9], "cut.fa.gz: from the start: the gzip data"),
        ("digits.fa", b">a\n12345\n", "digits.fa: record 1 (a): character '1' at position 1"),
        ("headers.fa", b">a\n>b\n", "headers.fa: record 1 (a): the record has no sequence"),
        ("ids.jsonl", b"[1, 2, 99]", "ids.jsonl: line 1 (line-1): token id 99 at position 3"),
    ],
)
def test_nothing_to_judge_is_status_2(
    run: Run, lab: Path, tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    found = run("detect", write(tmp_path / name, content), "--key", lab, "--json")
    assert found.status == 2
    assert message in found.err
    assert "Traceback" not in found.err
    assert found.out == ""


def test_good_records_survive_bad_ones(run: Run, lab: Path, tmp_path: Path) -> None:
    records = (("good", MARKED), ("digits", "MK1"), ("empty", ""), ("good", PLAIN))
    records += (("stop", MARKED + "*"), ("x", "XXXX"), ("s", "AM"))
    content = "".join(f">{name}\n{sequence}\n" for name, sequence in records)
    found = run("detect", write(tmp_path / "x.fa", content), "--key", lab, "--json")
    assert found.status == 0
    assert [o["id"] for o in found.objects] == ["good", "good", "stop", "x", "s"]
    assert "record 2 (digits): character '1' at position 3" in found.err
    assert "record 3 (empty): the record has no sequence" in found.err
    assert "record 4: the id 'good' occurs more than once" in found.err
    stop, unknown, short = found.objects[2:]
    assert (stop["length"], stop["num_tokens_scored"], stop["prediction"]) == (101, 100, True)
    assert (unknown["p_value"], unknown["prediction"]) == (1.0, False)
    assert "no symbol carries a key" in unknown["note"]
    assert "too short" in short["note"]


def test_a_truncated_gz_reports_what_came_before(run: Run, lab: Path, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    letters = np.array(list("ACDEFGHIKLMNPQRSTVWY"))
    text = "".join(f">r{i}\n{''.join(rng.choice(letters, 200))}\n" for i in range(500))
    whole = gzip.compress(text.encode())
    file = write(tmp_path / "x.fa.gz", whole[: len(whole) // 2])
    found = run("detect", file, "--key", lab, "--json")
    assert found.status == 0
    assert 100 < len(found.objects) < 400
    assert "ends early: the rest is lost" in found.err


@pytest.mark.slow
def test_a_protein_of_40_000_residues(run: Run, lab: Path, tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    plain = "".join(rng.choice(list("ACDEFGHIKLMNPQRSTVWY"), 40_000))
    marked = alternating(40_000, run=1)
    found = run(
        "detect", write(tmp_path / "t.fa", f">titin\n{plain}\n>marked\n{marked}\n"),
        "--key", lab, "--json", "--plot", tmp_path / "t.png", "--detector", "pattern",
    )  # fmt: skip
    assert found.status == 0
    titin, in_turn = found.objects
    key = load_key(lab)
    readings = Detector(key).read([PROTEIN.encode(plain), PROTEIN.encode(marked)])
    of_titin, of_marked = recover(readings, key.partition).segments
    # Chance repeats are left out and cut a sequence into pieces.
    assert sum(of_titin) > 39_000
    assert titin["expected_statistic"] == pytest.approx(sum(max(n - 4, 0) for n in of_titin) / 16)
    assert titin["p_value"] > 1e-4
    assert sum(of_marked) > 30_000
    halvings = sum(n - 1 for n in of_marked if n >= 5)  # two of 2^n, where patterns fit
    assert in_turn["log10_p"] == pytest.approx(-halvings * np.log10(2), rel=1e-9)


def test_token_keys_need_ids_of_their_vocabulary(run: Run, secret: Secret, tmp_path: Path) -> None:
    tokens = Alphabet.from_symbols("tokenizer:v", ["<s>", *map(str, range(40))], [0])
    save_key(Key.of(secret, Profile(alphabet=tokens, scheme=Paper())), tmp_path / "text.key")
    ids = write(tmp_path / "x.jsonl", json.dumps([0, *range(1, 41)]))
    found = run("detect", ids, "--key", tmp_path / "text.key", "--json").objects[0]
    assert (found["length"], found["num_tokens_scored"]) == (41, 40)
    text = write(tmp_path / "x.txt", "the cat sat\n")
    refused = run("detect", text, "--key", tmp_path / "text.key")
    assert refused.status == 2
    assert "give that tokenizer, or put it next to the key file" in refused.err
    assert "(give --tokenizer FILE)" in refused.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--detector", "magic"], "'magic' is unknown"),
        (["--fpr", "2"], "between 0 and 1"),
        (["--m", "5"], "apply only to the detector 'pattern'"),
        (["--detector", "pattern", "--m", "1"], "at least 2 keys"),
        (["--null", "0.5,0.6"], "probabilities that sum to 1"),
        (["--detector", "pattern", "--null", "0.5,0.25,0.25"], "do not fit a null of 3 keys"),
        (["--format", "genbank"], "--format genbank is not one of"),
    ],
)
def test_wrong_options_are_refused(
    run: Run, lab: Path, tmp_path: Path, arguments: list[str], message: str
) -> None:
    file = write(tmp_path / "x.fa", f">one\n{MARKED}\n")
    refused = run("detect", file, "--key", lab, *arguments)
    assert refused.status == 2
    assert message in refused.err


def test_a_wrong_key_file_is_refused(run: Run, lab: Path, tmp_path: Path) -> None:
    file = write(tmp_path / "x.fa", f">one\n{MARKED}\n")
    refused = run("detect", file, "--key", file)
    assert refused.status == 2
    assert "x.fa: this is not a patternmark key file" in refused.err
    newer = write(tmp_path / "new.key", lab.read_text().replace("version = 1", "version = 7"))
    os.chmod(newer, 0o600)
    assert "upgrade patternmark" in run("detect", file, "--key", newer).err


def test_version(run: Run) -> None:
    assert run("--version").out == f"patternmark {__version__}\n"
