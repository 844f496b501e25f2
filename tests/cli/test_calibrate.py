import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from patternmark import Key, Profile, load_key, save_key
from patternmark.core.schemes import Paper
from patternmark.core.secret import Secret
from patternmark.detector import Detector
from patternmark.intervals import rate_interval
from patternmark.plan.calibrate import count_false_positives, fresh_key
from tests.conftest import Outcome
from tests.oracles import clopper_pearson
from tests.synthetic import marked, plain, write_fasta

Run = Callable[..., Outcome]
ARGUMENTS = ["--detector", "phase", "--null-keys", "4"]


@pytest.fixture
def null_file(tmp_path: Path, rng: np.random.Generator) -> Path:
    return write_fasta(tmp_path / "null.fa", {f"u{i}": plain(80, rng) for i in range(60)})


@pytest.mark.parametrize(("hits", "trials"), [(0, 10), (10, 10), (3, 50), (40, 50), (7, 3000)])
def test_intervals_are_those_of_the_benchmarks(hits: int, trials: int) -> None:
    assert rate_interval(hits, trials) == pytest.approx(clopper_pearson(hits, trials), abs=1e-9)


def test_false_positives_are_counted(run: Run, key_file: Path, null_file: Path) -> None:
    found = run("calibrate", null_file, "--key", key_file, *ARGUMENTS, "--json").objects[0]
    key = load_key(key_file)
    sequences = [line for line in null_file.read_text().split() if not line.startswith(">")]
    keys = [key, *(fresh_key(key, number) for number in range(4))]
    hits = [[v.p_value <= 0.1 for v in Detector(k, "phase").detect_many(sequences)] for k in keys]
    assert [level["nominal"] for level in found["levels"]] == [0.1, 0.01, 0.001, 1e-4, 1e-5]
    tenth, own = found["levels"][0], found["own_key"]["levels"][0]
    assert (tenth["trials"], tenth["hits"]) == (300, int(np.sum(hits)))
    assert (own["trials"], own["hits"]) == (60, sum(hits[0]))
    assert tenth["low"] < tenth["fpr"] < tenth["high"]
    assert tenth["low"] < 0.1  # the test is exact: not too many
    assert found["worst_key"]["key_id"] in {k.key_id for k in keys}
    worst = [level["hits"] for level in found["worst_key"]["levels"]]
    assert worst[1] >= found["own_key"]["levels"][1]["hits"]


def test_fresh_keys_differ_and_come_again(key: Key) -> None:
    ids = [fresh_key(key, number).key_id for number in range(20)]
    assert len({*ids, key.key_id}) == 21
    assert ids == [fresh_key(key, number).key_id for number in range(20)]


def test_workers_count_the_same(key: Key, rng: np.random.Generator) -> None:
    sequences = [key.profile.alphabet.encode(plain(60, rng)) for _ in range(30)]
    one = count_false_positives(key, "phase", sequences, num_keys=3)
    assert count_false_positives(key, "phase", sequences, num_keys=3, workers=2) == one


@pytest.mark.slow
def test_the_table_and_the_picture(
    run: Run, key_file: Path, null_file: Path, tmp_path: Path, secret: Secret
) -> None:
    picture = tmp_path / "rates.svg"
    found = run("calibrate", null_file, "--key", key_file, *ARGUMENTS, "--plot", picture)
    assert found.status == 0
    assert "all 5 keys" in found.out
    assert "the worst key" in found.out
    assert secret.reveal_hex()[:8] not in found.out + found.err
    assert picture.read_text().startswith("<?xml")


def test_detect_minds_a_bad_calibration(
    run: Run, key_file: Path, null_file: Path, tmp_path: Path, rng: np.random.Generator
) -> None:
    beside = tmp_path / "lab.key.calibration.json"
    detect = ["detect", null_file, "--key", key_file, "--detector", "phase", "--json"]
    run("calibrate", null_file, "--key", key_file, *ARGUMENTS, "-o", beside)
    assert run(*detect).err == ""
    key = load_key(key_file)
    bad = write_fasta(tmp_path / "bad.fa", {f"m{i}": marked(key, 80, rng) for i in range(60)})
    run("calibrate", bad, "--key", key_file, *ARGUMENTS, "-o", beside)
    warned = run(*detect)
    assert warned.status == 0
    assert "of 60 unmarked sequences marked at a nominal rate of 1.0%" in warned.err
    assert run(*detect[:4], "--detector", "slip", "--json").err == ""  # another detector
    content = json.loads(beside.read_text()) | {"key_id": "0" * 16}
    beside.write_text(json.dumps(content))
    assert "calibration of another key" in run(*detect).err
    beside.write_text("{}")
    assert "no calibration can be read" in run(*detect).err


def test_the_rank_among_fresh_keys(
    run: Run, key_file: Path, tmp_path: Path, rng: np.random.Generator
) -> None:
    key = load_key(key_file)
    sequences = {"marked": marked(key, 150, rng), "plain": plain(150, rng)}
    file = write_fasta(tmp_path / "x.fa", sequences)
    arguments = ["detect", file, "--key", key_file, "--detector", "phase"]
    ranked = run(*arguments, "--null", "keys", "--null-keys", 39, "--fpr", 0.03, "--json").objects
    beside = run(*arguments, "--null-keys", 39, "--json").objects
    for verdicts in (ranked, beside):
        for verdict in verdicts:
            better = sum(
                Detector(fresh_key(key, n), "phase").detect(sequences[verdict["id"]]).statistic
                >= verdict["statistic"]
                for n in range(39)
            )
            assert verdict["p_keys"] == pytest.approx((1 + better) / 40)
    assert [v["prediction"] for v in ranked] == [v["p_keys"] <= 0.03 for v in ranked]
    assert ranked[0]["prediction"] is True
    assert [v["prediction"] for v in beside] == [v["p_value"] <= 0.001 for v in beside]
    assert "p_keys" in run(*arguments, "--null-keys", 9).out
    assert run(*arguments, "--json").objects[0]["p_keys"] is None


def test_too_few_fresh_keys_are_refused(run: Run, key_file: Path, null_file: Path) -> None:
    arguments = ["detect", null_file, "--key", key_file, "--null", "keys"]
    refused = run(*arguments, "--fpr", "1e-4")
    assert refused.status == 2
    assert "needs 9999 fresh keys or more: give --null-keys N" in refused.err


def test_nothing_to_calibrate_on(run: Run, tmp_path: Path, secret: Secret) -> None:
    save_key(Key.of(secret, Profile(scheme=Paper())), tmp_path / "a.key")
    file = write_fasta(tmp_path / "x.fa", {"x": "XXXX"})
    refused = run("calibrate", file, "--key", tmp_path / "a.key", *ARGUMENTS)
    assert refused.status == 2
    assert "no sequence could be judged" in refused.err
