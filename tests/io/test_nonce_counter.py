"""Numbers for marked designs: nobody gets one twice, and each round has every nonce once."""

import json
import multiprocessing
import os
import stat
from pathlib import Path

import pytest

from patternmark import InputError, Key, Marker, Profile, load_key
from patternmark.core.schemes import Blocks, Paper
from patternmark.core.secret import Secret
from patternmark.io import nonce_counter
from patternmark.io.nonce_counter import NonceCounter, counted_nonces

pytest.importorskip("fcntl", reason="files are locked on Unix alone")
NONCES = 8


@pytest.fixture
def key(secret: Secret) -> Key:
    return Key.of(secret, Profile(scheme=Blocks(nonces=NONCES)))


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def counter(key: Key, tmp_path: Path, said: list[str]) -> NonceCounter:
    return NonceCounter(key, tmp_path / "lab.key", said.append)


def test_numbers_go_on_from_run_to_run(key: Key, counter: NonceCounter, said: list[str]) -> None:
    first = counter.take(3)
    assert first % NONCES == 0  # a whole round can follow
    again = NonceCounter(key, counter.path.with_suffix(""), said.append)
    assert [again.take(2), counter.take(1), again.take(2)] == [first + 3, first + 5, first + 6]
    assert counter.path.name == "lab.key.nonces"
    content = json.loads(counter.path.read_text())
    assert content == {"key_id": key.key_id, "first": first, "used": NONCES}
    assert stat.S_IMODE(counter.path.stat().st_mode) == 0o600
    assert not said


def test_each_round_has_every_nonce_once_in_an_order_of_its_own(key: Key) -> None:
    rounds = [counted_nonces(key, NONCES * number, NONCES) for number in range(30)]
    assert all(sorted(order) == list(range(NONCES)) for order in rounds)
    assert len({tuple(order) for order in rounds}) > 25
    whole = [nonce for order in rounds for nonce in order]
    for first, count in ((0, 5), (5, 11), (13, 3), (7, 0), (NONCES, 30)):
        assert counted_nonces(key, first, count) == whole[first : first + count]
    other = Key.of(Secret(bytes(32)), key.profile)
    assert counted_nonces(other, 0, 30) != whole[:30]


def test_a_key_that_is_used_up_is_named_once(counter: NonceCounter, said: list[str]) -> None:
    counter.take(NONCES)
    assert not said
    counter.take(1)
    counter.take(5)
    assert len(said) == 1
    assert said[0].startswith(f"this key has marked {NONCES + 1} designs with {NONCES} nonces")
    assert "patternmark key derive" in said[0]


def test_counters_of_copies_begin_in_other_rounds(key: Key, tmp_path: Path) -> None:
    firsts = {NonceCounter(key, tmp_path / f"{copy}.key").take(1) for copy in range(20)}
    assert len(firsts) == 20


def test_where_it_cannot_be_kept_numbers_are_random(
    key: Key, tmp_path: Path, said: list[str]
) -> None:
    lost = NonceCounter(key, tmp_path / "no such folder" / "lab.key", said.append)
    assert len({lost.take(2) for _ in range(10)}) == 10
    assert len(said) == 1
    assert "lab.key.nonces: cannot be written (No such file or directory)" in said[0]
    assert "at random" in said[0]


def test_a_folder_that_cannot_be_written(
    monkeypatch: pytest.MonkeyPatch, counter: NonceCounter, said: list[str]
) -> None:
    def refused(*arguments: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(nonce_counter.os, "open", refused)
    assert counter.take(1) != counter.take(1)
    assert [message for message in said if "Permission denied" in message] == said
    assert len(said) == 1


@pytest.mark.parametrize(
    "content",
    [
        "x",
        "[]",
        "7",
        '{"used": 3}',
        '{"key_id": "a", "first": -8, "used": 1}',
        '{"key_id": "a", "first": 0, "used": true}',
    ],
)
def test_other_files_are_left_alone(counter: NonceCounter, content: str) -> None:
    counter.path.write_text(content)
    with pytest.raises(InputError, match=r"lab\.key\.nonces: not a counter of nonces: move it"):
        counter.take(1)
    assert counter.path.read_text() == content


def test_the_counter_of_another_key_is_left_alone(key: Key, counter: NonceCounter) -> None:
    counter.take(1)
    other = NonceCounter(key.derive("x"), counter.path.with_suffix(""))
    with pytest.raises(InputError, match=f"counts the nonces of key {key.key_id}, not of"):
        other.take(1)


def test_it_is_needed_only_where_there_is_a_choice(key: Key, tmp_path: Path) -> None:
    file = tmp_path / "lab.key"
    assert NonceCounter.needed_for(Marker(key), file) is not None
    assert NonceCounter.needed_for(Marker(key, payload=3), file) is None
    single = Key.generate(Profile(scheme=Blocks(nonces=1)))
    for other in (single, Key.generate(Profile(scheme=Paper()))):
        assert NonceCounter.needed_for(Marker(other), file) is None


def take_many(key_file: Path, times: int) -> list[int]:
    counter = NonceCounter(load_key(key_file), key_file, str)
    return [counter.take(1) for _ in range(times)]


def test_processes_share_it(key_file: Path) -> None:
    context = multiprocessing.get_context("fork")
    with context.Pool(3) as pool:
        taken = pool.starmap(take_many, [(key_file, 40)] * 3)
    numbers = sorted(number for of_process in taken for number in of_process)
    assert numbers == list(range(numbers[0], numbers[0] + 120))
    assert os.listdir(key_file.parent).count("lab.key.nonces") == 1
