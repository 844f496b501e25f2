import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from patternmark import PROTEIN, Alphabet, Key, Profile, save_key
from patternmark.core.schemes import Blocks, Paper
from patternmark.core.secret import Secret
from patternmark.plan.simulate import marked_sequences, rates_at
from tests.conftest import SECRET_HEX, Outcome

Run = Callable[..., Outcome]


def write_marked(key: Key, count: int, path: Path, rng: np.random.Generator) -> Path:
    rates = rates_at(1.0, PROTEIN, key.profile.scheme.name)
    rows = marked_sequences(key, rates, rng.random((count, 400)))
    letters = ["".join(PROTEIN.letters[i] for i in row) for row in rows]
    path.write_text("".join(f">s{i}\n{text}\n" for i, text in enumerate(letters)))
    return path


@pytest.fixture
def designs(key: Key, tmp_path: Path, rng: np.random.Generator) -> Path:
    return write_marked(key, 16, tmp_path / "designs.fa", rng)


def test_the_papers_split_is_found_and_forged(
    run: Run, designs: Path, key: Key, key_file: Path
) -> None:
    done = run("audit", designs, "--key", key_file, "--tries", 20, "--json")
    assert done.status == 0
    (result,) = done.objects
    assert (result["scheme"], result["sequences"], result["key_id"]) == ("paper", 16, key.key_id)
    assert result["learned"]["splits"] == 92_378
    assert result["learned"]["rank"] == 1
    assert result["forged"]["rate"] > 0.8
    assert result["unmarked"]["rate"] < 0.2
    assert result["stripped"]["hits"] < result["random"]["hits"] <= result["before"]["n"] == 16
    assert result["forged"]["low"] < result["forged"]["rate"] <= result["forged"]["high"]
    again = run("audit", designs, "--key", key_file, "--tries", 20, "--json")
    assert again.out == done.out


def test_the_table_tells_no_secret(run: Run, designs: Path, key: Key, key_file: Path) -> None:
    done = run("audit", designs, "--key", key_file, "--tries", 5)
    assert done.status == 0
    assert "the true split ranks 1" in done.out
    assert key.key_id in done.out
    parts = ["".join(PROTEIN.letters[i] for i in np.flatnonzero(m)) for m in key.partition.members]
    for secret in (SECRET_HEX, *parts):
        assert secret not in done.out + done.err


def test_without_a_key_only_learning_is_told(run: Run, designs: Path) -> None:
    done = run("audit", designs, "--scheme", "paper", "--delta", 1, "--json")
    (result,) = done.objects
    assert result["key_id"] is None
    assert result["learned"]["rank"] is None
    assert result["learned"]["posterior"] > 0.9
    assert "forged" not in result
    text = run("audit", designs, "--scheme", "paper")
    assert "likeliest of 92,378 splits" in text.out
    assert "give --key to count" in text.out


def test_a_block_key(run: Run, secret: Secret, tmp_path: Path, rng: np.random.Generator) -> None:
    key = Key.of(secret, Profile(scheme=Blocks(nonces=1)))
    save_key(key, tmp_path / "block.key")
    few = write_marked(key, 1, tmp_path / "one.fa", rng)
    done = run("audit", few, "--key", tmp_path / "block.key", "--tries", 20, "--json")
    (result,) = done.objects
    assert result["scheme"] == "blocks"
    assert result["learned"]["bits"] == 1340  # 134 blocks of ten pairs
    assert 30 < result["learned"]["bits_learned"] < 110
    assert result["forged"]["rate"] < 0.2
    many = write_marked(key, 24, tmp_path / "many.fa", rng)
    done = run("audit", many, "--key", tmp_path / "block.key", "--tries", 5)
    assert done.status == 0
    assert "nonces believed to be in use: 1; sequences of the best known: 24" in done.out


@pytest.mark.slow
def test_an_attacker_who_has_the_model(run: Run, secret: Secret, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="pip install 'patternmark[protein]'")
    pytest.importorskip("gemmi", reason="pip install 'patternmark[protein]'")
    from tests.models.published import real_structure, weights

    torch.set_num_threads(1)
    weights("v_48_020")
    structure, file = real_structure(tmp_path, "A"), tmp_path / "designs.fa"
    save_key(Key.of(secret, Profile(scheme=Blocks(nonces=1))), tmp_path / "block.key")
    key = ("--key", tmp_path / "block.key")
    made = run("design", structure, *key, "-n", 3, "--delta", 2, "--seed", 1, "-o", file)
    assert made.status == 0, made.err
    options = ("audit", file, *key, "--tries", 4, "--budget", 0.3, "--json")
    alone, aware = run(*options), run(*options, "--backbone", structure)
    assert (aware.status, aware.err) == (0, "")
    (blind,), (result,) = alone.objects, aware.objects
    assert result["backbone"] == str(structure)
    assert (result["sequences"], result["residues"]) == (blind["sequences"], blind["residues"])
    assert result["learned"]["bits_learned"] > blind["learned"]["bits_learned"]
    assert (result["forged"]["n"], result["before"]["n"]) == (4, 3)
    assert result["stripped"]["hits"] < result["before"]["hits"] == 3
    table = run(*options[:-1], "--backbone", structure)
    assert "the given sequences, edited where they agree with the learned key" in table.out


def test_of_block_marks_the_first_chain_is_attacked(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "two.fa"
    file.write_text(">a\nMKTAYIAKQR/AEDKLMNPQRST\n>b\nMKTAYIAKQRAA\n")
    (result,) = run("audit", file, "--json").objects
    assert (result["scheme"], result["sequences"], result["residues"]) == ("blocks", 2, 22)
    (result,) = run("audit", file, "--scheme", "paper", "--json").objects
    assert result["sequences"] == 3


def test_natives_and_unread_residues_are_left_out(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "mpnn.fa"
    file.write_text(
        ">1abc, score=1.0, global_score=1.0, fixed_chains=[], designed_chains=['A'], "
        "model_name=v_48_020\nMKTAYIAKQR\n>T=0.1, sample=1, score=0.8, global_score=0.8, "
        "seq_recovery=0.4\nMKTXYIAKWR/AEDKLMNPQR\n"
    )
    manifest = {
        "format": "patternmark manifest", "version": 1, "software": {}, "weights": {},
        "key_id": None, "parameters": {}, "structures": [
            {"name": "1abc", "file": "", "sha256": "", "chains": [
                {"id": "A", "designed": "1" * 20, "scored": "1" * 20}]}],
    }  # fmt: skip
    (tmp_path / "mpnn.fa.manifest.json").write_text(json.dumps(manifest))
    command = ["audit", file, "--scheme", "paper", "--json", "--manifest"]
    (result,) = run(*command, "trust").objects
    assert (result["sequences"], result["residues"]) == (2, 19)
    (result,) = run(*command, "verify").objects  # a header alone leaves nothing out
    assert (result["sequences"], result["residues"]) == (3, 29)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--scheme", "secret"], "--scheme secret is not one of blocks, turns, paper"),
        (["--scheme", "turns"], "'turns' marks text"),
        (["--backbone", "x.pdb"], "--backbone FILE needs --key FILE"),
        (["--scheme", "paper", "--delta", "9"], "delta up to 1.5"),
    ],
)
def test_bad_options_are_named(run: Run, designs: Path, arguments: list[str], message: str) -> None:
    done = run("audit", designs, *arguments)
    assert done.status == 2
    assert message in done.err


def test_keys_it_is_not_made_for(
    run: Run, secret: Secret, designs: Path, key_file: Path, tmp_path: Path
) -> None:
    other = run("audit", designs, "--key", key_file, "--scheme", "blocks")
    assert other.status == 2
    assert "has the scheme paper, not" in other.err
    tokens = Alphabet.from_symbols("tokens", list("abcdef"), [])
    save_key(Key.of(secret, Profile(alphabet=tokens, scheme=Paper())), tmp_path / "tokens.key")
    done = run("audit", designs, "--key", tmp_path / "tokens.key")
    assert done.status == 2
    assert "marks on proteins" in done.err
    save_key(Key.of(secret, Profile(tokens)), tmp_path / "turns.key")
    done = run("audit", designs, "--key", tmp_path / "turns.key")
    assert done.status == 2
    assert "with the schemes paper and blocks" in done.err
    empty = tmp_path / "x.fa"
    empty.write_text(">a\nXXXX\n")
    nothing = run("audit", empty, "--scheme", "paper")
    assert nothing.status == 2
    assert "nothing to attack" in nothing.err
