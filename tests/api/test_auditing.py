"""`audit` gives what the command gives."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import patternmark as pm
from patternmark.plan.simulate import marked_sequences, rates_at
from tests.conftest import SECRET_HEX, Outcome

Run = Callable[..., Outcome]


@pytest.fixture
def sequences(key: pm.Key, rng: np.random.Generator) -> list[str]:
    rates = rates_at(1.0, pm.PROTEIN, key.profile.scheme.name)
    rows = marked_sequences(key, rates, rng.random((6, 150)))
    return ["".join(pm.PROTEIN.letters[i] for i in row) for row in rows]


def test_an_audit_is_that_of_the_command(
    run: Run, sequences: list[str], key_file: Path, tmp_path: Path
) -> None:
    fasta = tmp_path / "x.fa"
    fasta.write_text("".join(f">{n}\n{letters}\n" for n, letters in enumerate(sequences)))
    options = ("--tries", 5, "--delta", 1, "--seed", 2, "--json")
    (told,) = run("audit", fasta, "--key", key_file, *options).objects
    found = pm.audit(fasta, key_file, tries=5, delta=1.0, seed=2)
    assert found.to_dict() == told
    assert pm.audit(sequences, pm.load_key(key_file), tries=5, delta=1.0, seed=2) == found
    assert SECRET_HEX not in repr(found) + str(found.to_dict())
    assert found.outcomes["before"].n == 5
    (learned,) = run("audit", fasta, "--scheme", "paper", "--json").objects
    blind = pm.audit(sequences, scheme="paper")
    assert blind.to_dict() == learned
    assert blind.outcomes == {}


def test_what_does_not_go_together_is_refused(sequences: list[str], key_file: Path) -> None:
    for options, why in (
        ({"scheme": "secret"}, "scheme='secret' is not one of"),
        ({"backbone": "x.pdb"}, "backbone=FILE needs key=FILE"),
        ({"tries": 0}, "tries=N"),
        ({"budget": 2.0}, "budget=X"),
    ):
        with pytest.raises(pm.ParameterError, match=why):
            pm.audit(sequences, **options)
    with pytest.raises(pm.InputError, match="nothing to attack"):
        pm.audit([])
