"""`patternmark detect --exact`: the number, the call, the signature, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from patternmark import Key, Profile, save_key
from patternmark.core.secret import Secret
from patternmark.plan.simulate import marked_sequences
from patternmark.statistics.rates import agreement_rates
from tests.conftest import Outcome
from tests.synthetic import plain, write_fasta


@pytest.fixture
def block_key(secret: Secret, tmp_path: Path) -> Path:
    path = tmp_path / "blocks.key"
    save_key(Key.of(secret, Profile()), path)
    return path


def test_exact_adds_the_number_and_decides(
    run: Callable[..., Outcome],
    block_key: Path,
    secret: Secret,
    tmp_path: Path,
    rng: np.random.Generator,
) -> None:
    key = Key.of(secret, Profile())
    rates = agreement_rates(key.profile.alphabet, key.profile.scheme.name)[3]
    marked = key.profile.alphabet.decode(marked_sequences(key, rates, rng.random((1, 200)))[0])
    file = write_fasta(tmp_path / "x.fa", {"marked": marked, "plain": plain(200, rng)})
    arguments = ("detect", file, "--key", block_key, "--exact", "--draws", 40, "--seed", 7)
    found = run(*arguments, "--json")
    assert found.status == 0, found.err
    first, second = found.objects
    assert (first["prediction"], second["prediction"]) == (True, False)
    assert first["p_exact"] <= first["p_any"]
    assert first["p_exact_error"] > 0.0
    assert first["signature"].endswith("|exact:40|seed:7|call:exact")
    assert run(*arguments, "--json").objects == found.objects
    table = run(*arguments).out
    assert "p_exact" in table
    assert "±" in table
    other = run(*arguments[:-2], "--json").objects  # a seed of its own, told in the signature
    assert "|exact:40|seed:" in other[0]["signature"]
    assert other[0]["signature"] != first["signature"]
    without = run("detect", file, "--key", block_key, "--json").objects
    assert without[0]["p_exact"] is None
    assert without[0]["signature"].endswith("|call:p")


def test_exact_refuses_what_it_cannot_do(
    run: Callable[..., Outcome], block_key: Path, key_file: Path, tmp_path: Path
) -> None:
    file = write_fasta(tmp_path / "x.fa", {"a": "MKTAYIAKQRQISFVKSHFSRQLEERLGLIEVQ"})
    of_paper = run("detect", file, "--key", key_file, "--exact")
    assert of_paper.status == 2
    assert "needs a key of the scheme blocks" in of_paper.err
    assert "--null keys" in of_paper.err
    both = run("detect", file, "--key", block_key, "--exact", "--null", "keys")
    assert (both.status, "give one of them" in both.err) == (2, True)
    alone = run("detect", file, "--key", block_key, "--draws", 50)
    assert (alone.status, "belong to --exact" in alone.err) == (2, True)
