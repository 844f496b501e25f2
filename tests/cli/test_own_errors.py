"""Whatever a file of settings holds, the error is a sentence that names the file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from patternmark import InputError, Key, ParameterError, Profile, SequenceError, load_key
from patternmark.api.designing import _residue_bias
from patternmark.core.secret import Secret
from patternmark.io.bounded import parse_json
from patternmark.io.designs import parse_design_header
from patternmark.io.nonce_counter import NonceCounter
from patternmark.io.records import Problem, read_records
from patternmark.io.vocabulary import read_vocabulary
from tests.conftest import Outcome

Run = Callable[..., Outcome]
DEEP, DIGITS = "[" * 100_000 + "]" * 100_000, "9" * 5000
BAD = {
    "deep list": DEEP,
    "deep object": '{"a":' * 100_000,
    "list of a long number": f"[{DIGITS}]",
    "object of a long number": f'{{"A": {DIGITS}, "key_id": {DIGITS}}}',
    "list of a large number": f"[{'9' * 400}, 1]",
    "infinite": "[1e999, -1e999, NaN]",
    "null": "null",
    "number": "7",
    "texts": '["a", ["b"], {"c": 1}]',
    "not JSON": "{,}",
}
SETTINGS = {
    "parts": ("keygen", "--scheme", "paper", "-o", "new.key", "--parts", "@{}"),
    "background": ("keygen", "--scheme", "paper", "-o", "new.key", "--background", "{}"),
    "manifest": ("detect", "x.fa", "--key", "{key}"),
    "calibration": ("detect", "x.fa", "--key", "{key}"),
}


@pytest.mark.parametrize("content", BAD.values(), ids=BAD)
@pytest.mark.parametrize("kind", SETTINGS)
def test_settings_that_no_program_wrote(
    run: Run,
    kind: str,
    content: str,
    key_file: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("x.fa").write_text(">a\nMKTAYIAKQRQISFVKSHFSRQLEERLGLIEVQ\n")
    special = {"manifest": "x.fa.manifest.json", "calibration": f"{key_file}.calibration.json"}
    file = Path(special.get(kind, "bad.json"))
    file.write_text(content)
    found = run(*(word.format(file, key=key_file) for word in SETTINGS[kind]))
    # Without its manifest a file is judged as a whole.
    assert found.status == (0 if kind in ("calibration", "manifest") else 2)
    assert file.name in found.err
    assert len(found.err) < 2000


@pytest.mark.parametrize("content", [*BAD.values(), '{"A10": {"P": 1e999}}'])
def test_biases_at_residues(content: str, tmp_path: Path) -> None:
    (tmp_path / "bias.json").write_text(content)
    with pytest.raises((InputError, ParameterError), match=r"bias\.json"):
        _residue_bias(tmp_path / "bias.json")


@pytest.mark.parametrize("content", BAD.values(), ids=BAD)
def test_counters_of_nonces(content: str, secret: Secret, tmp_path: Path) -> None:
    counter = NonceCounter(Key.of(secret, Profile()), tmp_path / "lab.key")
    counter.path.write_text(content)
    with pytest.raises(InputError, match=r"lab\.key\.nonces: not a counter of nonces: move it"):
        counter.take(1)


VOCABULARIES = {
    "deep": '{"a":' * 100_000,
    "long id": f'{{"a": {DIGITS}}}',
    "ids of texts": '{"a": "b"}',
    "tokens of numbers": '{"model": {"vocab": [[5, 1.0], [6, 1.0]]}}',
    "tokens of lists": '{"model": {"vocab": [[["a"], 1.0]]}}',
    "empty entries": '{"model": {"vocab": [[], []]}}',
    "model": '{"model": 5}',
    "added": '{"model": {"vocab": {"a": 0}}, "added_tokens": [5]}',
    "added content": '{"model": {"vocab": {"a": 0}}, "added_tokens": [{"content": 5, "id": 1}]}',
}


@pytest.mark.parametrize("content", VOCABULARIES.values(), ids=VOCABULARIES)
def test_vocabularies(content: str, tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text(content)
    with pytest.raises(InputError, match=r"tokenizer\.json: not a vocabulary that can be read: "):
        read_vocabulary(tmp_path / "tokenizer.json")
    (tmp_path / "vocab.txt").write_text("a\nb\n")
    (tmp_path / "tokenizer.json").unlink()
    (tmp_path / "tokenizer_config.json").write_text(DEEP)
    with pytest.raises(InputError, match="nested too deeply"):
        read_vocabulary(tmp_path)


def test_a_tokenizer_that_fails_on_a_text(tmp_path: Path) -> None:
    """A word level without its unknown word can be loaded, and fails on the first strange word."""
    pytest.importorskip("tokenizers")
    from patternmark.io.tokenizer import load_tokenizer

    file = tmp_path / "tokenizer.json"
    model = {"type": "WordLevel", "vocab": {"a": 0, "b": 1}, "unk_token": "[UNK]"}
    file.write_text(json.dumps({"version": "1.0", "model": model, "added_tokens": []}))
    tokenizer = load_tokenizer(file)
    for read in (tokenizer.encode, tokenizer.cuts):
        with pytest.raises(
            SequenceError, match=r"tokenizers cannot split it with .*tokenizer\.json"
        ):
            read("zzz")


def test_long_numbers_in_headers_and_json_lines(tmp_path: Path) -> None:
    assert parse_design_header(f"T=0.1, sample={DIGITS}", "x") is None
    (tmp_path / "x.jsonl").write_text(f"[{DIGITS}]\n{DEEP}\n[1]\n")
    first, second, third = read_records(str(tmp_path / "x.jsonl"))
    assert all(
        isinstance(one, Problem) and one.message == "not valid JSON" for one in (first, second)
    )
    assert not isinstance(third, Problem)


def test_what_json_cannot_hold_is_said() -> None:
    for text, says in ((DEEP, "nested too deeply"), (f"[{DIGITS}]", "thousands of digits")):
        with pytest.raises(ValueError, match=says):
            parse_json(text)


NUMBERS = {
    "keys": ("keygen", "--scheme", "paper", "--num-keys", "9" * 20),
    "m": ("keygen", "--scheme", "paper", "--m", "9" * 20),
    "infinite": ("keygen", "--delta", "1e999"),
    "nan": ("keygen", "--delta", "nan"),
    "ids": ("identify", "x.fa", "--master", "{key}", "--ids", DIGITS),
    "many ids": ("identify", "x.fa", "--master", "{key}", "--ids", "9" * 12),
}


@pytest.mark.parametrize("words", NUMBERS.values(), ids=NUMBERS)
def test_large_numbers_on_the_command_line(
    run: Run, words: tuple[str, ...], key_file: Path, tmp_path: Path
) -> None:
    more = ("-o", tmp_path / "new.key") if words[0] == "keygen" else ()
    found = run(*(word.format(key=key_file) for word in words), *more)
    assert (found.status, found.err[:6]) == (2, "error:")
    assert len(found.err) < 300
    assert not (tmp_path / "new.key").exists()
    assert load_key(key_file).secret is not None


def test_a_delta_that_no_float_holds() -> None:
    with pytest.raises(ParameterError, match="delta must be a number of 0 or more"):
        Profile(delta=10**400)
