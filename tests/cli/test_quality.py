from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from patternmark.io.structures import read_backbone
from patternmark.models.mpnn import ProteinMPNN
from tests.adapters import write_chains
from tests.conftest import Outcome
from tests.quality.test_folding import save_tiny_fold

pytest.importorskip("tmtools", reason="pip install tmtools")
Run = Callable[..., Outcome]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A backbone, weights by chance, designs of the native sequence with some letters changed."""
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("quality")
    pdb = write_chains(folder / "one.pdb", {"A": ("D", range(8, 68))})
    torch.manual_seed(0)
    model = ProteinMPNN()
    torch.save({"num_edges": 48, "model_state_dict": model.state_dict()}, folder / "w.pt")
    native = read_backbone(pdb).letters("A")
    rng = np.random.default_rng(0)
    for name, changes in (("marked.fa", 30), ("unmarked.fa", 6)):
        lines = [f">one, score=1.0, designed_chains=['A']\n{native}\n"]
        for sample in range(1, 5):
            letters = list(native)
            for place in rng.permutation(len(native))[:changes]:
                letters[place] = "A" if letters[place] != "A" else "C"
            lines.append(f">T=0.1, sample={sample}, score=1.0\n{''.join(letters)}\n")
        (folder / name).write_text("".join(lines))
    return folder


def test_designs_are_measured_against_native_and_unmarked(run: Run, files: Path) -> None:
    options = ["--backbone", files / "one.pdb", "--weights", files / "w.pt", "--device", "cpu"]
    options += ["--against", files / "unmarked.fa", "--orders", 2]
    done = run("quality", files / "marked.fa", *options, "--json")
    assert done.status == 0
    found = done.objects[0]
    measures = {m["name"]: m for m in found["measures"]}
    length = 60
    assert measures["native recovery"]["value"] == pytest.approx(1 - 30 / length)
    assert measures["native recovery"]["n"] == 4  # the native one is no design
    assert found["native"]["native recovery"] == 1.0
    apart = {m["name"]: m for m in found["differences"]}
    assert apart["native recovery"]["value"] == pytest.approx(-24 / length)
    assert {"score, w.pt", "structure agreement", "2-gram entropy"} <= set(measures)
    assert measures["score, w.pt"]["low"] < measures["score, w.pt"]["value"]
    assert len(found["designs"]) == 4
    shown = run("quality", files / "marked.fa", *options)
    assert "native recovery" in shown.out
    assert "-0.4000" in shown.out


def test_entropies_need_no_structure(run: Run, tmp_path: Path) -> None:
    (tmp_path / "x.fa").write_text(">a\nACDE\n>b\nACDE\n")
    done = run("quality", tmp_path / "x.fa", "--json")
    values = {m["name"]: (m["value"], m["n"]) for m in done.objects[0]["measures"]}
    assert values == {
        "1-gram entropy": (2.0, 2),
        "2-gram entropy": (pytest.approx(np.log2(3)), 2),
        "3-gram entropy": (1.0, 2),
    }


def test_plddt_of_a_folder(run: Run, files: Path, tmp_path: Path) -> None:
    fold = save_tiny_fold(tmp_path)
    options = ["--backbone", files / "one.pdb", "--weights", files / "w.pt", "--device", "cpu"]
    done = run("quality", files / "marked.fa", *options, "--plddt", fold, "--json")
    measured = {m["name"]: m["value"] for m in done.objects[0]["measures"]}
    assert 0.0 < measured["pLDDT"] < 100.0
    lacking = run("quality", files / "marked.fa", *options, "--plddt", tmp_path / "none")
    assert lacking.status == 2
    assert "there is no ESMFold" in lacking.err


def test_text_is_compared_line_by_line(run: Run, tmp_path: Path) -> None:
    (tmp_path / "out.txt").write_text("The dog sleeps under the table.\nShe reads every day.\n")
    (tmp_path / "ref.txt").write_text("The dog sleeps under the table.\nShe reads each day.\n")
    done = run("quality", tmp_path / "out.txt", "--reference", tmp_path / "ref.txt", "--json")
    measures = {m["name"]: m for m in done.objects[0]["measures"]}
    assert 50.0 < measures["BLEU"]["value"] < 100.0
    assert 50.0 < measures["chrF"]["value"] < 100.0
    assert measures["chrF"]["n"] == 2
    assert "nc:6" in done.objects[0]["signatures"]["chrF"]
    assert "chrF" in run("quality", tmp_path / "out.txt", "--reference", tmp_path / "ref.txt").out
    (tmp_path / "ref.txt").write_text("One line.\n")
    short = run("quality", tmp_path / "out.txt", "--reference", tmp_path / "ref.txt")
    assert (short.status, "has 2 lines" in short.err) == (2, True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--plddt", "x"], "need --backbone"),
        (["--reference", "ref.txt", "--weights", "v_48_020"], "leave out the options for designs"),
        (["--backbone", "one.pdb", "--model", "v_1"], "named 'v_1': take one of v_48_002"),
        (["--backbone", "one.pdb", "--weights", "v_1"], "v_1: this checkpoint does not exist"),
        (["--backbone", "nowhere.pdb"], "nowhere.pdb"),
    ],
)
def test_wrong_options_are_named(
    run: Run, files: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], message: str
) -> None:
    monkeypatch.chdir(files)
    done = run("quality", "marked.fa", *options)
    assert done.status == 2
    assert message in " ".join(done.err.split())


def test_files_without_designs_are_refused(run: Run, files: Path, tmp_path: Path) -> None:
    (tmp_path / "native.fa").write_text(">one, score=1.0, designed_chains=['A']\nACDE\n")
    done = run("quality", tmp_path / "native.fa")
    assert "no design could be read" in done.err
    (tmp_path / "short.fa").write_text(">a\nACDE\n")
    options = ["--backbone", files / "one.pdb", "--weights", files / "w.pt", "--device", "cpu"]
    done = run("quality", tmp_path / "short.fa", *options)
    assert "no design fits" in done.err
    assert done.status == 2
