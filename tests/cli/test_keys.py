import json
from collections.abc import Callable
from pathlib import Path

import pytest

from patternmark import load_key
from patternmark.core.profile import TEXT_DELTA
from patternmark.core.schemes import Blocks, Paper, Turns
from patternmark.statistics.patterns import target_patterns
from tests.conftest import SECRET_HEX, Outcome

Run = Callable[..., Outcome]


def test_keygen_show_export(run: Run, tmp_path: Path) -> None:
    lab, public = tmp_path / "lab.key", tmp_path / "public.toml"
    made = run("keygen", "--alphabet", "protein", "--scheme", "paper", "--delta", "0.75", "-o", lab)
    assert made.status == 0
    key = load_key(lab)
    assert key.key_id in made.err
    assert key.profile.delta == 0.75
    shown = run("key", "show", lab)
    assert key.key_id in shown.out
    assert "[[0.0, 1.0], [1.0, 0.0]]" in shown.out
    assert run("key", "export", lab, "-o", public).status == 0
    public.chmod(0o644)
    assert json.loads(run("key", "show", public, "--json").out)["key_id"] == key.key_id
    assert "public half" in run("key", "show", public).out
    refused = run("detect", lab, "--key", public)
    assert refused.status == 2
    assert "public half" in refused.err


def test_adopted_parts(run: Run, tmp_path: Path) -> None:
    (tmp_path / "parts.txt").write_text("ACDEFGHIKL,MNPQRSTVWY\n")
    for number, parts in enumerate(["ACDEFGHIKL,MNPQRSTVWY", f"@{tmp_path / 'parts.txt'}"]):
        file = tmp_path / f"{number}.key"
        assert run("keygen", "--alphabet", "protein", "--parts", parts, "-o", file).status == 0
        assert load_key(file).partition.part_of.tolist() == [0] * 10 + [1] * 10 + [-1]


def test_every_parameter_reaches_the_file(run: Run, tmp_path: Path) -> None:
    vocabulary = tmp_path / "vocab.txt"
    vocabulary.write_text("<s>\n" + "\n".join(f"w{i}" for i in range(30)))
    (tmp_path / "mass.json").write_text(json.dumps(list(range(31))))
    file = tmp_path / "x.key"
    made = run(
        "keygen", "-o", file, "--alphabet", f"tokenizer:{vocabulary}", "--delta-at", "tempered",
        "--transition", "0.1 0.6 0.3; 0.3 0.1 0.6; 0.6 0.3 0.1", "--initial", "0.2 0.3 0.5",
        "--patterns", "012,120,201", "--background", tmp_path / "mass.json", "--unscored", "w3,w4",
    )  # fmt: skip
    assert made.status == 0, made.err
    profile = load_key(file).profile
    scheme = profile.scheme
    assert scheme.num_keys == 3
    assert scheme.chain.initial == (0.2, 0.3, 0.5)
    assert scheme.patterns == ((0, 1, 2), (1, 2, 0), (2, 0, 1))
    assert scheme.pattern_length == 3
    assert profile.alphabet.unscored == (0, 4, 5)
    assert scheme.background == tuple(range(31))
    assert profile.delta_at == "tempered"


def test_the_default_marks_blocks_of_proteins_and_turns_of_text(run: Run, tmp_path: Path) -> None:
    vocabulary = tmp_path / "vocab.txt"
    vocabulary.write_text("\n".join(f"w{i}" for i in range(600)))
    words = ["--alphabet", f"tokenizer:{vocabulary}"]
    cases = {
        "protein": ([], Blocks(), 1.0),
        "sizes": (["--block", 4, "--nonces", 8], Blocks(block=4, nonces=8), 1.0),
        "text": (words, Turns(), TEXT_DELTA),
        "turns": (
            [*words, "--period", 64, "--starts", 4, "--block", 8, "--nonces", 2, "--delta", 1.5],
            Turns(period=64, block=8, starts=4, nonces=2),
            1.5,
        ),
        "paper": ([*words, "--scheme", "paper"], Paper(), TEXT_DELTA),
    }
    for name, (options, scheme, delta) in cases.items():
        file = tmp_path / f"{name}.key"
        assert run("keygen", "-o", file, *options).status == 0
        profile = load_key(file).profile
        assert (profile.scheme, profile.delta) == (scheme, delta)
    shown = run("key", "show", tmp_path / "sizes.key").out
    assert "halves of the alphabet, derived from the secret" in shown
    assert json.loads(run("key", "show", tmp_path / "sizes.key", "--json").out)["scheme"] == {
        "name": "blocks",
        "block": 4,
        "nonces": 8,
    }


def test_more_keys_follow_in_a_cycle(run: Run, tmp_path: Path) -> None:
    assert run("keygen", "-l", "4", "--m", "3", "-o", tmp_path / "x.key").status == 0
    scheme = load_key(tmp_path / "x.key").profile.scheme
    assert target_patterns(scheme).patterns == ((0, 1, 2), (1, 2, 3), (2, 3, 0), (3, 0, 1))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--transition", "0.5 0.4; 0.5 0.5"], "row 1 of the transition matrix A sums to 0.9"),
        (["--transition", "a b; c d"], "'a b' is not a list of numbers"),
        (["--transition", "0 1; 1 0", "--num-keys", "3"], "--num-keys 3 does not match"),
        (["--initial", "0.5 0.6"], "the initial distribution Q sums to 1.1"),
        (["--patterns", "01,010"], "mixes lengths [2, 3]"),
        (["--patterns", "0-1"], "not a list of patterns"),
        (["--patterns", "02"], "[0, 2] uses a key outside 0..1"),
        (["--num-keys", "1"], "at least 2 keys"),
        (["--num-keys", "21"], "2 to 20 parts"),
        (["--m", "1"], "at least 2 keys, not 1"),
        (["--delta", "-1"], "delta must be a number of 0 or more"),
        (["--delta-at", "here"], "delta_at must be"),
        (["--scheme", "novel"], "unknown scheme 'novel'"),
        (["--scheme", "hardened"], "choose one of blocks, turns, paper"),
        (["--scheme", "turns"], "use 'blocks' for proteins"),
        (["--block", "0"], "a block has a whole number from 1 to 64, not 0"),
        (["--nonces", "5000"], "nonces are a whole number from 1 to 4096, not 5000"),
        (["--period", "512"], "--period goes with --scheme turns, not with blocks"),
        (["--starts", "4"], "which takes --block, --nonces"),
        (["--scheme", "paper", "--nonces", "2"], "--nonces goes with --scheme blocks or turns"),
        (
            ["--scheme", "blocks", "--num-keys", "2"],
            "--num-keys goes with --scheme paper, not with blocks",
        ),
        (
            ["--block", "3", "--m", "4"],
            "--block goes with --scheme blocks or turns, not with paper",
        ),
        (["--alphabet", "dna"], "or 'tokenizer:FILE', not 'dna'"),
        (["--parts", "ACDEFGHIK,MNPQRSTVWY"], "no part contains 'L'"),
        (["--parts", "ACD,EFGHIKL,MNPQRSTVWY", "--num-keys", "2"], "3 parts were given for 2 keys"),
        (["--parts", "@absent.txt"], "absent.txt: cannot read parts"),
        (["--parts", "A,B", "--background", "natural"], "both choose the partition"),
        (["--background", "absent.json"], "absent.json: cannot be read"),
    ],
)
def test_wrong_parameters_are_refused_readably(
    run: Run, tmp_path: Path, arguments: list[str], message: str
) -> None:
    file = tmp_path / "x.key"
    refused = run("keygen", "-o", file, *arguments)
    assert refused.status == 2
    assert message in refused.err
    assert "Traceback" not in refused.err
    assert not file.exists()


def test_a_key_is_never_overwritten(run: Run, key_file: Path) -> None:
    before = key_file.read_bytes()
    assert run("keygen", "-o", key_file).status == 2
    assert key_file.read_bytes() == before


def test_open_key_files_are_refused_with_an_override(
    run: Run, key_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key_file.chmod(0o644)
    refused = run("key", "show", key_file)
    assert refused.status == 2
    assert "chmod 600" in refused.err
    assert run("key", "show", key_file, "--allow-open-key").status == 0
    monkeypatch.setenv("PATTERNMARK_ALLOW_OPEN_KEY", "1")
    assert run("key", "show", key_file).status == 0


def test_the_secret_never_reaches_the_output(run: Run, key_file: Path, tmp_path: Path) -> None:
    parts = "ACDEFGHIKL,MNPQRSTVWY"
    adopted = tmp_path / "adopted.key"
    outcomes = [run("keygen", "-o", adopted, "--parts", parts, "--verbose")]
    hidden = [SECRET_HEX, load_key(adopted).require_secret().reveal_hex(), *parts.split(",")]
    sequences = tmp_path / "x.fa"
    sequences.write_text(">a\nMKVLLAMKVLLA\n>b\n12\n")
    for file in (key_file, adopted):
        outcomes += [
            run("key", "show", file, "--verbose"),
            run("key", "show", file, "--json", "--verbose"),
            run("key", "export", file, "-o", tmp_path / f"{file.stem}.toml", "--verbose"),
            run("detect", sequences, "--key", file, "--verbose"),
            run("detect", sequences, "--key", file, "--json", "--plot", tmp_path / "p.svg"),
        ]
        damaged = tmp_path / f"damaged-{file.name}"
        damaged.write_text(file.read_text() + "x = [\n")
        damaged.chmod(0o600)
        outcomes.append(run("key", "show", damaged, "--verbose"))
    assert [o.status for o in outcomes] == [0] + [0, 0, 0, 0, 0, 2] * 2
    written = [(tmp_path / n).read_text() for n in ("lab.toml", "adopted.toml", "p.svg")]
    for text in [o.out + o.err for o in outcomes] + written:
        for secret in hidden:
            assert secret not in text
    assert "loaded key" in outcomes[1].err  # --verbose does say something
