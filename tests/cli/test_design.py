"""`patternmark design` end to end: real weights, a real chain, runs that stop and go on."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from patternmark import PROTEIN, Detector, Marker, load_key
from patternmark.core.blocks import MAX_BLOCKS
from patternmark.designing.plan import DesignPlan, plan_design
from patternmark.io.designs import manifest_path, read_manifest
from patternmark.io.nonce_counter import counted_nonces
from patternmark.io.records import Record, read_records
from patternmark.io.structures import read_backbone
from patternmark.masks import read
from tests.adapters import write_chains
from tests.conftest import Outcome

torch = pytest.importorskip("torch")
torch.set_num_threads(1)

from patternmark.designing.fasta_file import DesignFile  # noqa: E402  # needs torch

Run = Callable[..., Outcome]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two structures: one chain, and two copies of it."""
    made = tmp_path / "structures"
    made.mkdir()
    write_chains(made / "one.pdb", {"A": ("D", range(8, 68))})
    write_chains(made / "two.pdb", {"A": ("D", range(8, 48)), "B": ("D", range(8, 48))})
    return made


def records(file: Path) -> list[Record]:
    return [item for item in read_records(str(file)) if isinstance(item, Record)]


def test_designs_are_marked_and_found(
    run: Run, folder: Path, key_file: Path, tmp_path: Path
) -> None:
    out = tmp_path / "designs.fa"
    made = run(
        "design", folder / "one.pdb", "--key", key_file, "-n", 3, "--delta", 3, "--seed", 1,
        "--device", "cpu", "-o", out,
    )  # fmt: skip
    assert made.status == 0, made.err
    native, *designs = records(out)
    assert native.id == "one/native"
    assert [d.id for d in designs] == ["one/1", "one/2", "one/3"]
    key_id = load_key(key_file).key_id
    for design in designs:
        assert design.design is not None
        assert design.design.facts["wm"] == key_id
        assert 0 < float(design.design.facts["score"]) < 3
        assert len(design.sequence) == 60
    found = run("detect", out, "--key", key_file, "--json", "--fpr", "0.01").objects
    assert found[0]["note"] == "native sequence"
    # These backbones get designs that repeat themselves: all that they say is counted here.
    detector = Detector(load_key(key_file), "pattern", fpr=0.01, mask_repeats=False)
    assert sum(v.prediction for v in detector.detect_many([d.sequence for d in designs])) >= 2
    manifest = read_manifest(manifest_path(out))
    assert manifest.key_id == key_id
    assert manifest.parameters["delta"] == 3
    assert manifest.structures[0].chains[0].designed == "1" * 60
    assert manifest.weights["sha256"].startswith("c9cb4a67")


def test_the_same_seed_gives_the_same_file_in_any_batch(
    run: Run, folder: Path, key_file: Path, tmp_path: Path
) -> None:
    texts = []
    for batch in ("1", "4", "auto"):
        out = tmp_path / f"{batch}.fa"
        options = ["-n", 4, "--seed", 5, "--batch", batch, "--device", "cpu", "-o", out]
        assert run("design", folder / "one.pdb", "--key", key_file, *options).status == 0
        texts.append([r.sequence for r in records(out)])
    assert texts[0] == texts[1] == texts[2]


def test_only_what_was_designed_is_counted(
    run: Run, folder: Path, key_file: Path, tmp_path: Path
) -> None:
    out = tmp_path / "designs.fa"
    options = ["--homo-oligomer", "--fixed", "A8-17", "--device", "cpu", "-o", out]
    made = run("design", folder / "two.pdb", "--key", key_file, *options)
    assert made.status == 0, made.err
    native, design = records(out)
    first, second = str(design.sequence).split("/")
    assert first == second
    assert first[:10] == str(native.sequence)[:10]
    verdict = run("detect", out, "--key", key_file, "--json").objects[1]
    designed = np.arange(81) < 40  # the second chain is tied to the first
    designed[:10] = False
    reading = read(PROTEIN.encode(str(design.sequence)), PROTEIN, designed)
    assert (verdict["length"], verdict["num_tokens_scored"]) == (80, reading.num_scored)
    read_all = read(PROTEIN.encode(str(design.sequence)), PROTEIN, designed, mask_repeats=False)
    assert read_all.num_scored == 30


@pytest.mark.slow
def test_a_run_goes_on_where_it_stopped(
    run: Run, folder: Path, key_file: Path, tmp_path: Path
) -> None:
    whole, parts = tmp_path / "whole.fa", tmp_path / "parts.fa"
    options = ["--key", key_file, "-n", 2, "--seed", 3, "--device", "cpu"]
    assert run("design", folder, *options, "-o", whole).status == 0
    assert run("design", folder / "one.pdb", *options, "-o", parts).status == 0
    with parts.open("a") as stream:
        stream.write(">T=0.1, sample=1, score=0.5\nMKV")  # a crash in the middle of a record
    assert run("design", folder, *options, "-o", parts).status == 0
    assert parts.read_text() == whole.read_text()
    assert run("design", folder, *options, "-o", parts).status == 0  # nothing is left to do
    assert parts.read_text() == whole.read_text()


@pytest.fixture
def nonce_key(run: Run, tmp_path: Path) -> Path:
    file = tmp_path / "nonces.key"
    assert run("keygen", "--nonces", 8, "-o", file).status == 0
    return file


def test_nonces_are_used_in_turn_and_seeds_are_in_the_manifest_alone(
    run: Run, folder: Path, nonce_key: Path, tmp_path: Path
) -> None:
    command = ["design", folder, "--key", nonce_key, "-n", 3, "--device", "cpu"]
    texts, first = [], []
    for name in ("x", "y"):
        out = tmp_path / f"{name}.fa"
        made = run(*command, "-o", out)
        assert made.status == 0, made.err
        assert ("has marked" in made.err) == (name == "y")  # 12 designs with 8 nonces
        manifest = read_manifest(manifest_path(out))
        first += manifest.nonce_numbers.values()
        assert manifest.parameters["seed"] is None
        assert manifest.drawn_seed is not None
        texts.append(out.read_text())
        assert "seed" not in texts[-1]
        assert str(manifest.drawn_seed) not in texts[-1]
    assert first == [first[0] + 3 * i for i in range(4)]
    assert texts[0] != texts[1]
    assert made.err.count("has marked") == 1
    assert "this key has marked 9 designs with 8 nonces" in made.err


def test_chains_of_a_design_carry_the_nonce_of_its_number(
    run: Run, folder: Path, nonce_key: Path, tmp_path: Path
) -> None:
    """What is designed is what the counter's number says, chain by chain."""
    out = tmp_path / "x.fa"
    options = ["-n", 2, "--delta", 50, "--device", "cpu"]
    assert run("design", folder / "two.pdb", "--key", nonce_key, *options, "-o", out).status == 0
    manifest, key = read_manifest(manifest_path(out)), load_key(nonce_key)
    assert manifest.drawn_seed is not None
    nonces = counted_nonces(key, manifest.nonce_numbers["two"], 2)
    plan = plan_design(read_backbone(folder / "two.pdb"))
    keys = plan.keys(Marker(key), manifest.drawn_seed, range(2), nonces)
    per_chain = MAX_BLOCKS * key.profile.scheme.nonces
    assert (keys // MAX_BLOCKS % key.profile.scheme.nonces == np.array(nonces)[:, None]).all()
    assert {tuple(np.unique(own // per_chain)) for own in keys} == {(0, 1)}  # of both chains
    for own, record in zip(keys, records(out)[1:], strict=True):
        letters = PROTEIN.encode(str(record.sequence).replace("/", ""))
        promoted = key.schedule.promoted_rows(own)
        assert promoted[np.arange(len(letters)), letters].all()


def test_a_run_without_a_seed_goes_on_with_its_own(
    run: Run, folder: Path, nonce_key: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "x.fa"
    command = ["design", folder, "--key", nonce_key, "-n", 2, "--device", "cpu", "-o", out]
    monkeypatch.setattr(DesignFile, "append", stopped_at("two", DesignFile.append))
    assert run(*command).status == 130
    stopped = read_manifest(manifest_path(out))
    assert [s.name for s in stopped.structures] == ["one"]
    assert list(stopped.nonce_numbers) == ["one", "two"]  # taken before it was designed
    monkeypatch.undo()
    assert run(*command).status == 0
    whole = read_manifest(manifest_path(out))
    assert (whole.drawn_seed, whole.nonce_numbers) == (stopped.drawn_seed, stopped.nonce_numbers)
    assert [s.name for s in whole.structures] == ["one", "two"]
    refused = run(*command, "--seed", 5)
    assert refused.status == 2
    assert "seed was None, now 5" in refused.err


def stopped_at(name: str, append: Callable[..., None]) -> Callable[..., None]:
    """Press Ctrl-C when the designs on a structure are about to be written."""

    def stopping(self: DesignFile, plan: DesignPlan, *others: Any) -> None:
        if plan.backbone.name == name:
            raise KeyboardInterrupt
        append(self, plan, *others)

    return stopping


def test_unmarked_designs_show_their_seed(run: Run, folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "x.fa"
    options = ["--no-watermark", "--seed", 7, "--device", "cpu"]
    assert run("design", folder / "one.pdb", *options, "-o", out).status == 0
    assert ", seed=7\n" in out.read_text()


def test_other_settings_never_overwrite_a_file(
    run: Run, folder: Path, key_file: Path, tmp_path: Path
) -> None:
    out = tmp_path / "designs.fa"
    command = ["design", folder / "one.pdb", "--key", key_file, "--device", "cpu", "-o", out]
    assert run(*command).status == 0
    before = out.read_bytes()
    refused = run(*command, "--temperature", 0.2)
    assert refused.status == 2
    assert "temperature was 0.1, now 0.2" in refused.err
    assert out.read_bytes() == before
    assert run(*command, "--temperature", 0.2, "--overwrite").status == 0
    assert out.read_bytes() != before
    foreign = tmp_path / "foreign.fa"
    foreign.write_text(">x\nMKV\n")
    assert "was not made by patternmark design" in run(*command[:-1], foreign).err


def test_a_bad_structure_costs_no_other(
    run: Run, folder: Path, key_file: Path, tmp_path: Path
) -> None:
    (folder / "broken.pdb").write_text("this is no structure\n")
    out = tmp_path / "designs.fa"
    made = run("design", folder, "--key", key_file, "--device", "cpu", "-o", out)
    assert made.status == 3
    assert "broken.pdb" in made.err
    assert "1 of 3 structures could not be designed" in made.err
    assert [r.id for r in records(out) if r.design and not r.design.is_native] == ["one/1", "two/1"]


def test_without_a_mark_there_is_none(
    run: Run, folder: Path, key_file: Path, tmp_path: Path
) -> None:
    out = tmp_path / "designs.fa"
    options = ["--no-watermark", "-n", 2, "--omit", "C", "--bias", "K=2", "--device", "cpu"]
    assert run("design", folder / "one.pdb", *options, "-o", out).status == 0
    designs = records(out)[1:]
    assert all("wm" not in d.design.facts for d in designs if d.design)
    assert all("C" not in d.sequence for d in designs)
    assert json.loads(manifest_path(out).read_text())["key_id"] is None


@pytest.mark.parametrize(
    ("options", "status", "message"),
    [
        ([], 2, "give --key FILE to mark the designs, or --no-watermark"),
        (["--no-watermark", "--chains", "Q"], 2, "there is no protein chain 'Q'"),
        (["--no-watermark", "--fixed", "A999"], 2, "there is no residue '999'"),
        (["--no-watermark", "--fixed", "A"], 2, "no residue is left to design"),
        (["--no-watermark", "--temperature", "0"], 2, "a temperature must be positive"),
        (["--no-watermark", "--batch", "0"], 2, "--batch must be auto or a whole number from 1"),
        (["--no-watermark", "--bias", "K"], 2, "is not a letter and a number"),
        (["--no-watermark", "--omit", "ACDEFGHIKLMNPQRSTVWY"], 2, "every amino acid is omitted"),
        (["--no-watermark", "--homo-oligomer"], 2, "at least two designed chains"),
        (["--no-watermark", "--device", "tpu"], 2, "device must be auto, cpu or cuda"),
        (["--no-watermark", "--model", "v_1"], 2, "v_1"),
    ],
)
def test_wrong_options_are_refused(
    run: Run, folder: Path, tmp_path: Path, options: list[str], status: int, message: str
) -> None:
    made = run("design", folder / "one.pdb", *options, "-o", tmp_path / "x.fa")
    assert made.status == status
    assert message in made.err
    assert "Traceback" not in made.err
