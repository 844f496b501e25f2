import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from patternmark import Alphabet, Key, ParameterError, Profile, load_key, save_key
from patternmark.core.schemes import Blocks, Paper
from patternmark.core.secret import Secret
from patternmark.detector import Detector
from patternmark.search.candidates import Candidate
from patternmark.search.identify import Identifier
from tests.conftest import Outcome
from tests.synthetic import marked, plain, write_fasta

Run = Callable[..., Outcome]
LONE = Profile(scheme=Blocks(nonces=1))


@pytest.fixture
def master(secret: Secret, tmp_path: Path) -> Path:
    save_key(Key.of(secret, LONE), tmp_path / "master.key")
    return tmp_path / "master.key"


def test_a_sub_key_is_a_key_file_that_can_be_made_again(
    run: Run, master: Path, secret: Secret, tmp_path: Path
) -> None:
    for name in ("one.key", "again.key"):
        assert run("key", "derive", master, "--id", "team-7", "-o", tmp_path / name).status == 0
    run("key", "derive", master, "--id", "team-8", "-o", tmp_path / "other.key")
    one, again, other = (load_key(tmp_path / f"{n}.key") for n in ("one", "again", "other"))
    assert one.secret == again.secret == Secret(secret.subkey("sub-key/team-7"))
    assert len({one.key_id, other.key_id, load_key(master).key_id}) == 3
    assert one.profile == LONE
    assert os.stat(tmp_path / "one.key").st_mode & 0o077 == 0


def test_what_has_no_sub_keys_is_refused(
    run: Run, master: Path, secret: Secret, tmp_path: Path
) -> None:
    save_key(
        Key.of(secret, Profile(scheme=Paper()), ["ACDEFGHIKL", "MNPQRSTVWY"]),
        tmp_path / "adopted.key",
    )
    save_key(Key.of(secret, LONE).public(), tmp_path / "public.key")
    out = tmp_path / "x.key"
    adopted = run("key", "derive", tmp_path / "adopted.key", "--id", "a", "-o", out)
    public = run("key", "derive", tmp_path / "public.key", "--id", "a", "-o", out)
    blank = run("key", "derive", master, "--id", "a ", "-o", out)
    assert [adopted.status, public.status, blank.status] == [2, 2, 2]
    assert "adopted parts, which do not depend on the secret" in adopted.err
    assert "public half" in public.err
    assert "cannot be the name of a sub-key" in blank.err
    assert not out.exists()
    assert secret.reveal_hex()[:8] not in adopted.err + public.err + blank.err


def test_the_key_that_marked_a_sequence_is_named(
    run: Run, master: Path, tmp_path: Path, rng: np.random.Generator
) -> None:
    folder = tmp_path / "keys"
    folder.mkdir()
    lab = load_key(master)
    for number in range(5):
        save_key(lab.derive(str(number)), folder / f"team-{number}.key")
    save_key(lab.derive("3"), folder / "twin.key")
    (folder / "broken.key").write_text("no key")
    sequences = {"by3": marked(lab.derive("3"), 300, rng), "none": plain(300, rng)}
    file = write_fasta(tmp_path / "x.fa", sequences)
    found = run("identify", file, "--keys", folder, "--json")
    assert found.status == 0
    assert "broken.key: this is not a patternmark key file" in found.err
    assert "twin.key: this key is the same as" in found.err
    by3, none = found.objects
    assert (by3["prediction"], by3["key_name"], by3["num_keys"]) == (True, "team-3", 5)
    assert by3["key_file"] == str(folder / "team-3.key")
    own = Detector(lab.derive("3")).detect(sequences["by3"])
    assert by3["p_value_of_key"] == pytest.approx(own.p_value, rel=1e-6)
    assert by3["p_value"] == pytest.approx(5 * own.p_value, rel=1e-6)
    assert by3["runner_up"]["key_name"] != "team-3"
    assert by3["runner_up"]["p_value"] > by3["p_value"]
    assert none["prediction"] is False
    table = run("identify", file, "--keys", folder).out
    assert "marked by team-3" in table
    assert "times 5 (Bonferroni over keys)" in table


@pytest.mark.parametrize("scheme", [Paper(), Blocks(nonces=2)])
def test_the_screen_keeps_the_true_one_of_many_keys(
    scheme: Paper | Blocks, secret: Secret, rng: np.random.Generator
) -> None:
    master = Key.of(secret, Profile(scheme=scheme))
    candidates = [Candidate(master.derive(str(i)), str(i)) for i in range(400)]
    search = Identifier(candidates)
    whole = marked(candidates[123].key, 300, rng)
    sequences = {
        "whole": whole,
        "cut": whole[:149] + whole[150:],
        "inside": plain(60, rng) + whole[:200] + plain(60, rng),
    }
    encoded = [search.alphabet.encode(sequence) for sequence in sequences.values()]
    found = search.identify(encoded, list(sequences))
    assert [one.best.candidate.name for one in found] == ["123"] * 3
    assert all(one.prediction for one in found)


@pytest.mark.slow
def test_few_unmarked_sequences_are_given_to_a_key(
    secret: Secret, rng: np.random.Generator
) -> None:
    master = Key.of(secret, LONE)
    search = Identifier([Candidate(master.derive(str(i)), str(i)) for i in range(60)], fpr=0.01)
    encoded = [search.alphabet.encode(plain(120, rng)) for _ in range(40)]
    found = search.identify(encoded, [str(i) for i in range(40)])
    assert sum(one.prediction for one in found) <= 3  # 0.4 expected at most


def test_sub_keys_of_a_master_need_no_files(
    run: Run, master: Path, tmp_path: Path, rng: np.random.Generator
) -> None:
    lab = load_key(master)
    file = write_fasta(tmp_path / "x.fa", {"a": marked(lab.derive("7"), 300, rng)})
    numbered = run("identify", file, "--master", master, "--ids", 9, "--json").objects[0]
    (tmp_path / "ids.txt").write_text("6\n7\n\n7\n")
    listed = run("identify", file, "--master", master, "--ids", tmp_path / "ids.txt", "--json")
    assert (numbered["key_name"], numbered["num_keys"], numbered["key_file"]) == ("7", 9, None)
    assert (listed.objects[0]["key_name"], listed.objects[0]["num_keys"]) == ("7", 2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "either --keys FOLDER, or --master FILE"),
        (["--keys", "absent"], "absent: this folder does not exist"),
        (["--keys", "."], "contains no usable key file (*.key)"),
        (["--master", "master.key"], "--master needs --ids"),
        (["--master", "master.key", "--ids", "0"], "at least one"),
        (["--master", "master.key", "--ids", "absent"], "absent: cannot read names"),
        (["--master", "master.key", "--ids", "3", "--fpr", "2"], "between 0 and 1"),
    ],
)
def test_wrong_options_of_identify(
    run: Run, master: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    options: list[str], message: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    if options == ["--keys", "."]:
        master.unlink()
    refused = run("identify", write_fasta(tmp_path / "x.fa", {"a": "MKV"}), *options)
    assert refused.status == 2
    assert message in refused.err


def test_keys_of_two_alphabets_are_refused(secret: Secret) -> None:
    tokens = Alphabet.from_symbols("tokenizer:v", [str(i) for i in range(40)], [])
    keys = [Key.of(secret, LONE), Key.of(secret, Profile(alphabet=tokens, scheme=Paper()))]
    with pytest.raises(ParameterError, match=r"b\.key: its alphabet is 'tokenizer:v'"):
        Identifier([Candidate(k, n, n) for k, n in zip(keys, ("a.key", "b.key"), strict=True)])


def test_keys_of_both_schemes_read_repeats_each_their_way(rng: np.random.Generator) -> None:
    """A repeat is news to a block key and none to the paper's, whichever comes first."""
    blocks = Candidate(Key.of(Secret(rng.bytes(32)), Profile(scheme=Blocks(nonces=1))), "b")
    papers = [
        Candidate(Key.of(Secret(rng.bytes(32)), Profile(scheme=Paper())), f"p{i}")
        for i in range(10)
    ]
    repeats = [np.tile(rng.integers(0, 20, size=31), 12) for _ in range(20)]
    names = [str(number) for number in range(20)]
    found = [
        Identifier(candidates).identify(repeats, names)
        for candidates in ([blocks, *papers], [*papers, blocks])
    ]
    assert not any(one.prediction for one in found[0] + found[1])
    for one, other in zip(*found, strict=True):
        assert one.best.log_p_of_key == other.best.log_p_of_key


def test_paper_keys_on_proteins_are_warned_of(
    run: Run, master: Path, secret: Secret, tmp_path: Path, rng: np.random.Generator
) -> None:
    """A split of 20 letters is 20 coins: a design of another key may fit as well."""
    save_key(Key.of(secret, Profile(scheme=Paper())), tmp_path / "paper.key")
    lab = load_key(tmp_path / "paper.key")
    file = write_fasta(tmp_path / "x.fa", {"a": marked(lab.derive("2"), 300, rng)})
    paper = run("identify", file, "--master", tmp_path / "paper.key", "--ids", 3, "--json")
    assert "has 20 secret coins" in paper.err
    assert "--null keys" in paper.err
    (found,) = paper.objects
    assert found["prediction"] is True
    assert "has 20 secret coins" in found["note"]
    blocks = run("identify", file, "--master", master, "--ids", 3, "--json")
    assert blocks.err == ""
    tokens = Alphabet.from_symbols("tokenizer:v", [str(i) for i in range(900)], [])
    of_text = Key.of(secret, Profile(alphabet=tokens, scheme=Paper()))
    assert Identifier([Candidate(of_text, "t")]).caution is None
