"""A function says the same as its command."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import patternmark as pm
from patternmark.core.schemes import Blocks
from tests.conftest import Outcome
from tests.synthetic import marked, plain, write_fasta

Run = Callable[..., Outcome]


@pytest.fixture
def files(secret, tmp_path: Path) -> tuple[Path, Path]:
    key = pm.Key.of(secret, pm.Profile(scheme=Blocks(nonces=4)))
    pm.save_key(key, tmp_path / "lab.key")
    rng = np.random.default_rng(3)
    sequences = {"a": marked(key, 200, rng), "b": plain(200, rng), "c": marked(key, 120, rng)}
    return write_fasta(tmp_path / "x.fa", sequences), tmp_path / "lab.key"


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        ([], {}),
        (["--strict"], {"strict": True}),
        (["--fpr", 0.01, "--detector", "lr"], {"fpr": 0.01, "detector": "lr"}),
        (["--exact", "--draws", 20, "--seed", 4], {"exact": True, "draws": 20, "seed": 4}),
        (["--null", "keys", "--null-keys", 1000], {"rank": True, "null_keys": 1000}),
        (["--null-keys", 9], {"null_keys": 9}),
    ],
)
def test_detect(
    run: Run, files: tuple[Path, Path], arguments: list[object], options: dict[str, object]
) -> None:
    if options.get("rank"):
        pytest.importorskip("numba", reason="a thousand keys take long without it")
    fasta, key = files
    told = run("detect", fasta, "--key", key, "--json", *arguments).objects
    found = [
        verdict.to_dict() | {"file": str(fasta)} for verdict in pm.detect(fasta, key, **options)
    ]
    assert told == [one | {"segment": one["segment"] and list(one["segment"])} for one in found]


def test_identify(run: Run, files: tuple[Path, Path]) -> None:
    fasta, key = files
    pm.save_key(pm.load_key(key, with_secret=True).derive("x"), key.with_name("sub.key"))
    told = run("identify", fasta, "--keys", key.parent, "--json").objects
    found = pm.identify(fasta, key.parent)
    assert [one | {"file": str(fasta)} for one in (o.to_dict() for o in found)] == told
    again = pm.identify(fasta, [key, key.with_name("sub.key")])
    assert [one.best.log_p for one in again] == [one.best.log_p for one in found]


def test_locate_and_combine(run: Run, files: tuple[Path, Path]) -> None:
    fasta, key = files
    told = run("locate", fasta, "--key", key, "--json").objects
    assert [one.to_dict() | {"file": str(fasta)} for one in pm.locate(fasta, key)] == told
    *_, together = run("detect", fasta, "--key", key, "--json", "--combine").objects
    assert pm.combine(fasta, key).to_dict() == together


def test_power_and_calibrate(run: Run, files: tuple[Path, Path]) -> None:
    fasta, key = files
    (told,) = run("power", "--length", 200, "--tpr", 0.5, "--draws", 40, "--json").objects
    found = pm.power(length=200, tpr=0.5, draws=40).to_dict()
    assert {name: told[name] for name in found} == found
    (rates,) = run("calibrate", fasta, "--key", key, "--null-keys", 3, "--json").objects
    assert pm.calibrate(fasta, key, null_keys=3).to_dict() == rates


def test_mistakes_are_named_by_parameters_in_python(files: tuple[Path, Path]) -> None:
    fasta, key = files
    with pytest.raises(pm.ParameterError, match="draws=N and seed=N belong to exact=True"):
        pm.detect(fasta, key, draws=9)
    with pytest.raises(pm.ParameterError, match="strict=True cannot be used with rank=True"):
        pm.detect(fasta, key, strict=True, rank=True)
    with pytest.raises(pm.ParameterError, match="needs 9999 fresh keys or more: give null_keys=N"):
        pm.detect(fasta, key, rank=True, fpr=1e-4)
    with pytest.raises(pm.ParameterError, match="needs backbone=STRUCTURE"):
        pm.detect(fasta, key, detector="backbone")
