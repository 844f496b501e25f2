import os
import re
import stat
from pathlib import Path

import numpy as np
import pytest

from patternmark import (
    PROTEIN,
    Alphabet,
    Key,
    KeyFileError,
    Marker,
    Profile,
    load_key,
    save_key,
)
from patternmark.core.alphabet import PROTEIN_BACKGROUND
from patternmark.core.chain import KeyChain
from patternmark.core.keyfile import dump_key
from patternmark.core.schemes import Blocks, Paper, Turns
from patternmark.core.secret import Secret
from tests.conftest import SECRET_HEX
from tests.frames import shown_by

PARTS = ["ACDEFGHIKL", "MNPQRSTVWY"]
TOKENS = Alphabet.from_symbols('tokenizer:é"x.json', ["<s>", "a", "b", "c", "d"], [0])


@pytest.mark.parametrize(
    ("profile", "parts"),
    [
        (Profile(scheme=Paper()), None),
        (Profile(scheme=Paper()), PARTS),
        (Profile(PROTEIN, Paper(background=PROTEIN_BACKGROUND), 0.1, "tempered"), None),
        (Profile(scheme=Paper(KeyChain.cycle(3), None, 2, ((0, 1), (1, 2)))), None),
        (Profile(alphabet=TOKENS, scheme=Paper()), None),
        (Profile(alphabet=TOKENS, scheme=Paper()), [[1, 3], [2, 4]]),
        (Profile(scheme=Paper(chain=KeyChain.of([[1e-05, 0.99999], [1, 0]], [0.5, 0.5]))), None),
    ],
)
def test_a_key_comes_back_as_it_was(
    secret: Secret, tmp_path: Path, profile: Profile, parts: list | None
) -> None:
    key = Key.of(secret, profile, parts)
    save_key(key, tmp_path / "k")
    loaded = load_key(tmp_path / "k")
    assert loaded == key
    assert loaded.partition.part_of.tolist() == key.partition.part_of.tolist()


@pytest.mark.parametrize(
    "profile",
    [
        Profile(),
        Profile(scheme=Blocks(block=5, nonces=7), delta=0.5),
        Profile(TOKENS),
        Profile(TOKENS, Turns(period=64, block=2, starts=4, nonces=3)),
    ],
)
def test_keys_of_other_schemes_come_back_as_they_were(
    secret: Secret, tmp_path: Path, profile: Profile
) -> None:
    key = Key.of(secret, profile)
    save_key(key, tmp_path / "k")
    loaded = load_key(tmp_path / "k")
    assert loaded == key
    keys = Marker(key).key_sequence(9, seed=1)
    promoted = loaded.schedule.promoted_rows(keys)
    np.testing.assert_array_equal(promoted, key.schedule.promoted_rows(keys))


def test_a_key_of_the_scheme_that_was_replaced_says_what_to_do(
    key_file: Path, secret: Secret
) -> None:
    old = '[scheme]\nname = "hardened"\nperiod = 512\nblock = 4\nstarts = 16\nnonces = 64\n'
    text = dump_key(Key.of(secret, Profile()))
    begin, end = text.index("[scheme]"), text.index("[promotion]")
    key_file.write_text(text[:begin] + old + "\n" + text[end:])
    with pytest.raises(KeyFileError) as caught:
        load_key(key_file)
    message = str(caught.value)
    assert message.startswith(f"{key_file}: ")
    assert "scheme 'hardened'" in message
    assert "make a new key with 'patternmark keygen'" in message
    assert "\n" not in message
    assert message.count(". ") == 0  # one sentence


FOREIGN = {  # fields of one scheme in the file of another
    "blocks with a period": (Profile(), "period = 512", "unknown field 'period'"),
    "blocks with starts": (Profile(), "starts = 16", "unknown field 'starts'"),
    "blocks with a chain": (Profile(), "initial = [0.5, 0.5]", "unknown field 'initial'"),
    "turns with a background": (Profile(TOKENS), "background = [1]", "field 'background'"),
    "paper with nonces": (Profile(scheme=Paper()), "nonces = 4", "unknown field 'nonces'"),
    "paper with a block": (Profile(scheme=Paper()), "block = 3", "unknown field 'block'"),
}


@pytest.mark.parametrize(("profile", "line", "message"), FOREIGN.values(), ids=FOREIGN)
def test_parameters_of_another_scheme_are_refused(
    key_file: Path, secret: Secret, profile: Profile, line: str, message: str
) -> None:
    text = dump_key(Key.of(secret, profile))
    key_file.write_text(text.replace("[scheme]\n", f"[scheme]\n{line}\n"))
    with pytest.raises(KeyFileError, match=message):
        load_key(key_file)


def test_only_the_papers_scheme_has_a_table_of_detection(key_file: Path, secret: Secret) -> None:
    detection = '[detection]\npattern_length = 5\npatterns = "favoured"\n'
    key_file.write_text(dump_key(Key.of(secret, Profile())) + detection)
    with pytest.raises(KeyFileError, match=r"unknown table \[detection\]"):
        load_key(key_file)
    text = dump_key(Key.of(secret, Profile(scheme=Paper())))
    key_file.write_text(text.replace(detection, ""))
    with pytest.raises(KeyFileError, match=r"table \[detection\] is missing"):
        load_key(key_file)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("block = 3", "block = 0", "a block has a whole number from 1 to 64, not 0"),
        ("block = 3", "block = true", "block has the wrong type"),
        ("block = 3", "block = 3.0", "block has the wrong type"),
        ("block = 3\n", "", "no field 'block'"),
        ("nonces = 32", "nonces = -3", "nonces are a whole number from 1 to 4096, not -3"),
        ("nonces = 32", "nonces = 31", "changed after it was made"),
    ],
)
def test_sizes_of_blocks_are_checked(
    key_file: Path, secret: Secret, old: str, new: str, message: str
) -> None:
    text = dump_key(Key.of(secret, Profile()))
    assert old in text
    key_file.write_text(text.replace(old, new))
    with pytest.raises(KeyFileError, match=message):
        load_key(key_file)


def test_the_file_is_for_its_owner_alone(key_file: Path) -> None:
    assert stat.S_IMODE(key_file.stat().st_mode) == 0o600


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o620, 0o601])
def test_files_that_others_may_touch_are_refused(key_file: Path, mode: int) -> None:
    key_file.chmod(mode)
    with pytest.raises(KeyFileError, match=f"mode {mode:04o} lets others .*chmod 600"):
        load_key(key_file)
    assert load_key(key_file, allow_open=True).secret is not None


def test_a_public_half_may_be_read_by_all(key: Key, tmp_path: Path) -> None:
    save_key(key.public(), tmp_path / "public.toml")
    (tmp_path / "public.toml").chmod(0o644)
    public = load_key(tmp_path / "public.toml")
    assert public == key.public()
    assert public.key_id == key.key_id


@pytest.mark.parametrize("parts", [None, PARTS])
def test_a_public_half_holds_nothing_secret(secret: Secret, parts: list | None) -> None:
    text = dump_key(Key.of(secret, Profile(scheme=Paper()), parts).public())
    assert SECRET_HEX[:8] not in text
    assert "ACDEFGHIKL" not in text
    assert "[secret]" not in text


def test_an_existing_file_is_never_overwritten(key: Key, key_file: Path) -> None:
    before = key_file.read_bytes()
    with pytest.raises(KeyFileError, match="not overwritten"):
        save_key(key, key_file)
    assert key_file.read_bytes() == before


EDITS = {
    "delta": ("delta = 1.0", "delta = 2.0", "changed after it was made"),
    "another m": ("pattern_length = 5", "pattern_length = 4", "changed after it was made"),
    "secret": (SECRET_HEX[:4], "ffff", "changed after it was made"),
    "id": ('key_id = "', 'key_id = "0', "no key_id of 16 hexadecimal digits"),
    "markup": ('key_id = "', 'key_id = "[/red]', "no key_id of 16 hexadecimal digits"),
    "boolean version": ("version = 1", "version = true", "no valid version"),
    "size": ("size = 21", "size = 22", "size and unscored do not fit the protein alphabet"),
    "unscored": ("unscored = [20]", "unscored = [3]", "size and unscored do not fit"),
    "huge delta": ("delta = 1.0", f"delta = 1{'0' * 400}", "delta is too large"),
    "digits": ("delta = 1.0", f"delta = 1{'0' * 5000}", "not valid TOML"),
    "depth": ("delta = 1.0", f"delta = {'[' * 100_000}", "not valid TOML"),
    "A": ("[[0.0, 1.0]", "[[0.1, 1.0]", "row 1 of the transition matrix A sums to 1.1, not 1"),
    "T": ('"favoured"', "[[0, 1], [0, 1, 0]]", r"mixes lengths \[2, 3\]"),
    "T and m": ('"favoured"', "[[0, 1], [1, 0]]", "pattern_length is 5, but the patterns have 2"),
    "T type": ('"favoured"', '[["a"]]', "list of whole numbers"),
    "T name": ('"favoured"', '"best"', '"favoured" or a list'),
    "l": ("num_keys = 2", "num_keys = 3", "num_keys is 3, but the chain has 2 keys"),
    "newer": ("version = 1", "version = 2", "reads versions up to 1: upgrade patternmark"),
    "no version": ("version = 1\n", "", "no valid version"),
    "no format": ("format = ", "shape = ", "not a patternmark key file"),
    "scheme": ('name = "paper"', 'name = "novel"', "scheme 'novel' is unknown"),
    "alphabet": ('sha256 = "e00b', 'sha256 = "0000', "another 'protein' alphabet"),
    "extra field": ("[promotion]", "[promotion]\ngamma = 1", "unknown field 'gamma'"),
    "extra table": ("[promotion]", "[other]\nx = 1\n[promotion]", r"unknown table \[other\]"),
    "missing field": ('delta_at = "logits"', "", "no field 'delta_at'"),
    "missing table": ("[promotion]", "[demotion]", r"table \[promotion\] is missing"),
    "type": ("delta = 1.0", 'delta = "1.0"', "delta has the wrong type"),
    "negative": ("delta = 1.0", "delta = -1.0", "delta must be a number of 0 or more"),
    "infinite": ("delta = 1.0", "delta = inf", "delta must be a number of 0 or more"),
    "where": ('"logits"', '"nowhere"', "delta_at must be logits or tempered"),
    "hex": ('key = "0011', 'key = "zz11', "64 hexadecimal digits"),
    "short": (SECRET_HEX, SECRET_HEX[:10], "64 hexadecimal digits"),
    "secret table": ("[secret]", "[secret]\nhint = 1", r"table \[secret\] may only contain"),
    "bad parts": ("[secret]", "[secret]\nparts = 3", "'parts' in .* must be a list"),
    "twice": ("[secret]", "[secret]\nx = 1\n[promotion]\ndelta = 1.0", "not valid TOML"),
    "secret twice": ("[promotion]", "[secret]\n[promotion]", r"unknown table \[secret\]"),
    "field": ("version = 1", "version = 1\nx = 1", r"unknown table \[x\]"),
    "public TOML": ("[scheme]", "[scheme", "not valid TOML"),
    "no TOML": ("[secret]", "[secret", "not valid TOML"),
}


@pytest.mark.parametrize(("old", "new", "message"), EDITS.values(), ids=EDITS.keys())
def test_an_edited_file_is_refused_and_says_why(
    key_file: Path, old: str, new: str, message: str
) -> None:
    text = key_file.read_text()
    assert old in text
    key_file.write_text(text.replace(old, new, 1))
    with pytest.raises(KeyFileError, match=message) as caught:
        load_key(key_file)
    assert str(key_file) in str(caught.value)
    assert SECRET_HEX[8:24] not in str(caught.value)
    assert SECRET_HEX[8:24] not in shown_by(caught.value)
    assert "load_key" in shown_by(caught.value)


@pytest.mark.parametrize("fault", [RuntimeError("a fault"), MemoryError()])
def test_a_fault_of_ours_shows_no_secret_either(
    key_file: Path, monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    def broken(*arguments: object) -> Key:
        raise fault

    monkeypatch.setattr(Key, "of", broken)
    with pytest.raises(KeyFileError, match=f"{type(fault).__name__}.*please report this") as caught:
        load_key(key_file)
    assert SECRET_HEX[8:24] not in shown_by(caught.value)


def test_a_key_that_others_may_read_shows_no_secret(key_file: Path) -> None:
    key_file.chmod(0o644)
    with pytest.raises(KeyFileError, match="chmod 600") as caught:
        load_key(key_file)
    assert SECRET_HEX[8:24] not in shown_by(caught.value)


def test_what_is_too_large_is_no_key_file(tmp_path: Path) -> None:
    with pytest.raises(KeyFileError, match="it has more than 4 MiB"):
        load_key("/dev/zero")


def test_what_stops_a_key_from_being_written_leaves_nothing(
    key: Key, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*arguments: object) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr("patternmark.core.keyfile.dump_key", stopped)
    with pytest.raises(KeyboardInterrupt):
        save_key(key, tmp_path / "new.key")
    assert not (tmp_path / "new.key").exists()


def test_the_name_of_a_sub_key_is_the_same_however_it_is_typed(key: Key) -> None:
    assert key.derive("Zoe\u0308").key_id == key.derive("Zo\u00eb").key_id


@pytest.mark.parametrize("parts", ['["ACD", "ADE"]', "[[1, 999123], [3]]", '["AC1", "DE"]'])
def test_adopted_parts_that_do_not_fit_are_not_quoted(key_file: Path, parts: str) -> None:
    key_file.write_text(key_file.read_text().replace("[secret]", f"[secret]\nparts = {parts}"))
    with pytest.raises(KeyFileError, match="do not fit the alphabet or the scheme") as caught:
        load_key(key_file)
    assert "999123" not in str(caught.value)
    assert "'" not in str(caught.value).removeprefix(str(key_file)).replace("'parts'", "")


def test_tables_may_stand_in_any_order(key: Key, key_file: Path) -> None:
    head, *tables = key_file.read_text().split("\n[")
    for order in (tables, tables[::-1], tables[1:] + tables[:1]):
        key_file.write_text("\n[".join([head, *(f"{table.rstrip()}\n" for table in order)]))
        assert load_key(key_file) == key


def test_what_cannot_be_read_or_written_is_named(tmp_path: Path, key: Key) -> None:
    with pytest.raises(KeyFileError, match="this key file does not exist"):
        load_key(tmp_path / "absent.key")
    with pytest.raises(KeyFileError, match="Is a directory"):
        load_key(tmp_path)
    with pytest.raises(KeyFileError, match="cannot be written: No such file or directory"):
        save_key(key, tmp_path / "absent" / "lab.key")
    (tmp_path / "binary").write_bytes(os.urandom(100) + b"\xff")
    with pytest.raises(KeyFileError, match="not a patternmark key file"):
        load_key(tmp_path / "binary")


def test_the_id_is_bound_to_secret_parameters_and_parts(secret: Secret) -> None:
    ids = {
        Key.of(secret, Profile(scheme=Paper())).key_id,
        Key.of(Secret(bytes(32)), Profile(scheme=Paper())).key_id,
        Key.of(secret, Profile(scheme=Paper(), delta=0.5)).key_id,
        Key.of(secret, Profile(scheme=Paper(), delta_at="tempered")).key_id,
        Key.of(secret, Profile(scheme=Paper(pattern_length=4))).key_id,
        Key.of(secret, Profile(scheme=Paper()), PARTS).key_id,
        Key.of(secret, Profile(scheme=Paper()), PARTS[::-1]).key_id,
    }
    assert len(ids) == 7
    assert all(len(i) == 16 for i in ids)


def test_sub_keys_that_share_their_parameters_are_checked_all_the_same(
    secret: Secret, tmp_path: Path
) -> None:
    """What is the same in a thousand files is read once; what is not must be seen every time."""
    master = Key.of(secret, Profile(scheme=Blocks()))
    for name in "ab":
        save_key(master.derive(name), tmp_path / name)
    assert [load_key(tmp_path / name) for name in "ab"] == [master.derive(name) for name in "ab"]
    a, b = (master.derive(name) for name in "ab")
    assert a.secret is not None
    assert b.secret is not None
    text = dump_key(a)
    edits = [
        text.replace(a.key_id, b.key_id),
        text.replace(a.secret.reveal_hex(), b.secret.reveal_hex()),
        text.replace("nonces = 32", "nonces = 16"),
        text.replace("delta = 1.0", "delta = 2.0"),
    ]
    for number, edited in enumerate(edits):
        file = tmp_path / f"edited-{number}"
        file.write_text(edited)
        file.chmod(0o600)
        with pytest.raises(KeyFileError, match="do not fit its key id"):
            load_key(file)
    (tmp_path / "b").chmod(0o644)
    with pytest.raises(KeyFileError, match="lets others read"):
        load_key(tmp_path / "b")


def test_the_commitment_begins_with_the_id_and_is_in_the_public_half(
    key: Key, tmp_path: Path
) -> None:
    assert key.commitment is not None
    assert re.fullmatch("[0-9a-f]{64}", key.commitment)
    assert key.commitment[:16] == key.key_id
    public = tmp_path / "public.toml"
    save_key(key.public(), public)
    assert f'commitment = "{key.commitment}"' in public.read_text()
    assert load_key(public).commitment == key.commitment
    others = [key.derive("x"), Key.of(key.require_secret(), Profile(scheme=Paper(), delta=0.5))]
    assert len({k.commitment for k in (key, *others)}) == 3


def test_a_public_half_may_lack_its_commitment(key: Key, tmp_path: Path) -> None:
    public = tmp_path / "public.toml"
    lines = dump_key(key.public()).splitlines(keepends=True)
    public.write_text("".join(line for line in lines if not line.startswith("commitment")))
    assert load_key(public).commitment is None
    assert load_key(public).key_id == key.key_id


@pytest.mark.parametrize(
    ("stated", "message"),
    [
        ('"12"', "must be 64 hexadecimal digits"),
        ("12", "must be 64 hexadecimal digits"),
        (f'"{"0" * 64}"', "does not begin with its key id"),
    ],
)
def test_a_wrong_commitment_is_refused(key: Key, tmp_path: Path, stated: str, message: str) -> None:
    public = tmp_path / "public.toml"
    text = dump_key(key.public()).replace(f'"{key.commitment}"', stated)
    public.write_text(text)
    with pytest.raises(KeyFileError, match=message):
        load_key(public)


def test_a_key_file_that_states_another_commitment_is_refused(key: Key, key_file: Path) -> None:
    for digits, is_right in (("0" * 48, False), ((key.commitment or "")[16:], True)):
        stated = f'key_id = "{key.key_id}"\ncommitment = "{key.key_id}{digits}"'
        key_file.write_text(dump_key(key).replace(f'key_id = "{key.key_id}"', stated))
        if is_right:
            assert load_key(key_file) == key
        else:
            with pytest.raises(KeyFileError, match="do not fit its commitment"):
                load_key(key_file)
