"""`patternmark attack` on good and bad input."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from patternmark import PROTEIN, Key, Profile, Turns, save_key
from patternmark.core.secret import Secret
from patternmark.io.vocabulary import parse_alphabet
from patternmark.plan.simulate import marked_sequences, rates_at
from tests.conftest import SECRET_HEX, Outcome

Run = Callable[..., Outcome]


@pytest.fixture
def designs(key: Key, tmp_path: Path, rng: np.random.Generator) -> Path:
    rates = rates_at(1.5, PROTEIN, key.profile.scheme.name)
    rows = marked_sequences(key, rates, rng.random((4, 300)))
    letters = ["".join(PROTEIN.letters[i] for i in row) for row in rows]
    file = tmp_path / "designs.fa"
    file.write_text("".join(f">s{i} a note\n{text}\n" for i, text in enumerate(letters)))
    return file


def log10_p(run: Run, file: Path, key_file: Path) -> list[float]:
    return [v["log10_p"] for v in run("detect", file, "--key", key_file, "--json").objects]


def test_marks_fade_with_the_strength(
    run: Run, designs: Path, key_file: Path, tmp_path: Path
) -> None:
    means = [np.mean(log10_p(run, designs, key_file))]
    for epsilon in (0.2, 0.6):
        out = tmp_path / f"{epsilon}.fa"
        done = run(
            "attack", designs, "--attack", "substitute", "--epsilon", epsilon, "-o", out, "--json"
        )
        assert done.status == 0
        (summary,) = done.objects
        assert (summary["records"], summary["kind"]) == (4, "protein")
        assert summary["symbols_before"] == summary["symbols_after"] == 1200
        assert abs(summary["share_replaced"] - epsilon) < 0.07
        ids = [v["id"] for v in run("detect", out, "--key", key_file, "--json").objects]
        assert ids == ["s0", "s1", "s2", "s3"]
        means.append(np.mean(log10_p(run, out, key_file)))
    assert means[0] < means[1] < means[2]


def test_a_seed_decides_and_order_does_not(run: Run, designs: Path, tmp_path: Path) -> None:
    def attacked(file: Path, seed: int) -> dict[str, str]:
        out = tmp_path / "out.fa"
        arguments = ("--attack", "indel", "--epsilon", "0.1", "--seed", seed, "--overwrite")
        assert run("attack", file, *arguments, "-o", out).status == 0
        records = out.read_text().split(">")[1:]
        return dict(record.split("\n")[:2] for record in records)

    backwards = tmp_path / "backwards.fa"
    backwards.write_text("".join(f">{r}" for r in designs.read_text().split(">")[:0:-1]))
    first = attacked(designs, 1)
    assert first == attacked(designs, 1) == attacked(backwards, 1)
    assert first != attacked(designs, 2)


def test_lines_stay_aligned(run: Run, tmp_path: Path) -> None:
    source, target = tmp_path / "in.txt", tmp_path / "out.txt"
    line = "the committee could not agree and so the vote was put off"
    lines = [line.encode(), b"", b"bad \xff\xfe", b"one", "Šefčovič said no".encode()]
    source.write_bytes(b"\n".join(lines))
    done = run("attack", source, "--attack", "word-drop", "--epsilon", "0.5", "-o", target)
    assert done.status == 0
    assert f"{source}: line 3: not UTF-8: it is left empty" in done.err
    found = target.read_text(encoding="utf-8").split("\n")
    assert len(found) == 6
    assert [bool(line) for line in found] == [True, False, False, True, True, False]
    assert set(found[0].split()) < set(line.split())
    assert found[3] == "one"


def test_proteins_on_lines_stay_aligned(run: Run, tmp_path: Path) -> None:
    source, target = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_text("MKTAYIAKQR\n\nMK1\nMKTAYIAKQR/QISFVKSHFS\n")
    done = run("attack", source, "--attack", "blosum", "--epsilon", "1", "-o", target)
    assert done.status == 0
    assert "line 3 (line-3): character '1'" in done.err
    found = target.read_text().split("\n")
    assert [len(line) for line in found] == [10, 0, 0, 21, 0]
    assert found[3][10] == "/"
    assert "2 records" in done.err


def test_bad_records_cost_no_others(run: Run, tmp_path: Path) -> None:
    source, target = tmp_path / "in.fa", tmp_path / "out.fa"
    source.write_text(">a\nMKTAYIAKQR\n>b\nMK1\n>c\n\n>d\nMKTAYIAKQR\n")
    done = run("attack", source, "--attack", "truncate", "--epsilon", "0.5", "-o", target)
    assert done.status == 0
    assert "record 2 (b): character '1'" in done.err
    assert "record 3 (c): the record has no sequence" in done.err
    lines = target.read_text().split("\n")
    assert lines[0::2] == [">a", ">d", ""]
    assert len(lines[1]) == len(lines[3]) == 5


@pytest.mark.slow
@pytest.mark.parametrize("answers", ["statistic", "p", "verdict"])
def test_the_oracle_makes_verdicts_fall(
    run: Run, designs: Path, key_file: Path, tmp_path: Path, answers: str
) -> None:
    out = tmp_path / "out.fa"
    arguments = ("--attack", "oracle", "--key", key_file, "--queries", 250, "--answers", answers)
    done = run("attack", designs, *arguments, "-o", out, "--json")
    assert done.status == 0
    (summary,) = done.objects
    assert [row["id"] for row in summary["asked"]] == ["s0", "s1", "s2", "s3"]
    for row in summary["asked"]:
        assert row["marked_before"]
        assert not row["marked_after"]
        assert 0 < row["edits"] < 150
        assert row["queries"] <= 250
    assert all(p > -3 for p in log10_p(run, out, key_file))
    assert SECRET_HEX not in done.out + done.err + out.read_text()
    told = run("attack", designs, *arguments, "-o", out, "--overwrite")
    assert "4 of 4 were called marked before; 4 of these no longer are" in told.err


def test_the_oracle_reads_text(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("tokenizers", reason="pip install 'patternmark[text]'")
    key, source, out = tmp_path / "t.key", tmp_path / "in.txt", tmp_path / "out.txt"
    assert run("keygen", "--alphabet", "cmlm-de-en", "-o", key).status == 0
    source.write_text("No mark is in this line.\n\nNor in that one.\n")
    done = run("attack", source, "--attack", "oracle", "--key", key, "-o", out, "--json")
    assert done.status == 0
    (summary,) = done.objects
    assert [row["queries"] for row in summary["asked"]] == [1, 1]
    assert out.read_text() == source.read_text()


def test_splicing_into_own_sequences(run: Run, designs: Path, tmp_path: Path) -> None:
    host, out = tmp_path / "host.fa", tmp_path / "out.fa"
    host.write_text(">w\nWWWWWWWWWW\n")
    arguments = ("--attack", "splice", "--epsilon", "0.5", "--host", host, "-o", out)
    assert run("attack", designs, *arguments).status == 0
    for line in out.read_text().split("\n")[1::2]:
        assert len(line) == 300
        assert line.count("W") >= 150


def test_the_list(run: Run) -> None:
    from patternmark.attacks import ATTACKS

    done = run("attack", "--list")
    assert done.status == 0
    assert all(name in done.out for name in ATTACKS)
    rows = json.loads(run("attack", "--list", "--json").out)
    assert [row["name"] for row in rows] == list(ATTACKS)
    assert all(row["epsilon"] and row["what"] for row in rows)


def test_what_cannot_work_is_refused_before_the_work(
    run: Run, designs: Path, key_file: Path, tmp_path: Path
) -> None:
    out, there = tmp_path / "out.fa", tmp_path / "there.fa"
    there.write_text("mine")
    json_lines, empty = tmp_path / "in.jsonl", tmp_path / "empty.fa"
    json_lines.write_text('{"id": "x", "sequence": "MKTAY"}\n')
    empty.write_text(">a\n1\n")
    strong = ("--epsilon", "0.5")
    cases: list[tuple[tuple[object, ...], str]] = [
        ((), "--list shows all attacks"),
        ((designs, "--attack", "hope", *strong, "-o", out), "no attack is named 'hope'"),
        ((designs, "--attack", "delete", "-o", out), "give --epsilon X: for delete, it is the"),
        ((designs, "--attack", "delete", "--epsilon", "1.5", "-o", out), "between 0 and 1"),
        ((designs, "--attack", "delete", *strong, "-o", there), "--overwrite"),
        ((designs, "--attack", "delete", *strong, "-o", designs), "is the input"),
        ((tmp_path / "no.fa", "--attack", "delete", *strong, "-o", out), "cannot be read"),
        ((tmp_path / "no.fa", "--attack", "truncate", *strong, "-o", out), "cannot be read"),
        ((json_lines, "--attack", "delete", *strong, "-o", out), "JSON is not attacked"),
        ((empty, "--attack", "delete", *strong, "-o", out), "no record can be attacked"),
        ((designs, "--attack", "oracle", "-o", out), "give --key FILE"),
        (
            (designs, "--attack", "delete", "--key", key_file, *strong, "-o", out),
            "goes with oracle",
        ),
        (
            (designs, "--attack", "oracle", "--key", key_file, "--answers", "no", "-o", out),
            "verdict",
        ),
        ((designs, "--attack", "redesign", *strong, "-o", out), "--backbone FILE"),
        ((designs, "--attack", "delete", "--kind", "text", *strong, "-o", out), "on protein"),
        ((designs, "--attack", "truncate", "--kind", "rna", *strong, "-o", out), "protein or text"),
        (("-", "--attack", "truncate", *strong, "-o", out), "--kind protein or --kind text"),
        ((designs, "--attack", "synonym", "--wordnet", tmp_path, *strong, "-o", out), "data.noun"),
        (
            (designs, "--attack", "delete", *strong, "-o", tmp_path / "no" / "x"),
            "cannot be written",
        ),
    ]
    for arguments, message in cases:
        done = run("attack", *arguments)
        assert (done.status, message in done.err) == (2, True), (arguments, done.err)
        assert not out.exists()
    assert there.read_text() == "mine"


def test_a_redesign_on_a_real_backbone(run: Run, key_file: Path, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="pip install 'patternmark[protein]'")
    pytest.importorskip("gemmi", reason="pip install 'patternmark[protein]'")
    from tests.models.published import real_structure, weights

    torch.set_num_threads(1)
    weights("v_48_020")
    structure = real_structure(tmp_path, "A")
    marked, out = tmp_path / "marked.fa", tmp_path / "out.fa"
    done = run("design", structure, "--key", key_file, "--delta", 3, "-n", 2, "-o", marked)
    assert done.status == 0
    short = marked.read_text() + ">short\nMKTAY\n"
    (tmp_path / "both.fa").write_text(short)
    arguments = ("--attack", "redesign", "--epsilon", "1", "--backbone", structure)
    done = run("attack", tmp_path / "both.fa", *arguments, "-o", out)
    assert done.status == 0
    assert "record 4 (short)" in done.err
    before = dict(zip(*_fasta(run, marked, key_file), strict=True))
    after = dict(zip(*_fasta(run, out, key_file), strict=True))
    assert before.keys() == after.keys()
    samples = [name for name in before if not name.endswith("native")]
    assert len(samples) == 2
    assert all(before[name] < -5 and after[name] > -3 for name in samples)


def _fasta(run: Run, file: Path, key_file: Path) -> tuple[list[str], list[float]]:
    found = run("detect", file, "--key", key_file, "--json").objects
    return [v["id"] for v in found], [v["log10_p"] for v in found]


@pytest.mark.slow
def test_marked_translations_fade_and_tricks_are_undone(run: Run, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="pip install 'patternmark[text]'")
    pytest.importorskip("tokenizers", reason="pip install 'patternmark[text]'")
    torch.set_num_threads(1)
    key, english, out = (tmp_path / name for name in ("t.key", "en.txt", "out.txt"))
    german = Path(__file__).parent.parent.parent / "examples" / "rede.de.txt"
    profile = Profile(parse_alphabet("cmlm-de-en"), Turns(), delta=5.0)
    save_key(Key.of(Secret(b"a key of the test, which is fixed"[:32]), profile), key)
    # Marked as strongly as can be, not only as needed: what fades must be far from the threshold.
    strongly = ("--delta", 5, "--passes", 1, "--seed", 1)
    assert run("translate", german, "--key", key, *strongly, "-o", english).status == 0
    intact = log10_p(run, english, key)
    assert max(intact) < -3

    def attacked(name: str, epsilon: float) -> list[float]:
        arguments = ("--attack", name, "--epsilon", epsilon, "--overwrite", "-o", out)
        assert run("attack", english, *arguments).status == 0
        return log10_p(run, out, key)

    for name in ("word-drop", "word-swap", "truncate"):
        few, many = attacked(name, 0.3), attacked(name, 0.9)
        assert sum(intact) < sum(few) < sum(many), name
        assert min(many) > -3, name
    for name in ("homoglyph", "zero-width", "full-width"):
        assert attacked(name, 0.5) == intact, name
