"""Pages and pictures of functions are those of the commands."""

from collections.abc import Callable
from pathlib import Path

import pytest

import patternmark as pm
from tests.conftest import Outcome

Run = Callable[..., Outcome]
SEQUENCES = {"a": "MKTAYIAKQRQISFVKSHFSRQLEERLGLIEVQAPILSRVGDGTQDNLSGAEKAVQ", "b": "MKLVNDAAGHHW"}


@pytest.fixture
def fasta(tmp_path: Path) -> Path:
    file = tmp_path / "x.fa"
    file.write_text("".join(f">{id}\n{letters}\n" for id, letters in SEQUENCES.items()))
    return file


def test_a_report_is_that_of_the_command(
    run: Run, key_file: Path, fasta: Path, tmp_path: Path
) -> None:
    by_command, by_call = tmp_path / "command.html", tmp_path / "call.html"
    assert run("report", fasta, "--key", key_file, "--fpr", 0.01, "-o", by_command).status == 0
    verdicts = pm.write_report(fasta, key_file, by_call, fpr=0.01)
    assert by_call.read_text() == by_command.read_text()
    assert by_call.stat().st_mode & 0o777 == 0o600
    assert verdicts == pm.detect(fasta, key_file, fpr=0.01)
    pm.write_report(SEQUENCES, key_file, by_call, fpr=0.01, title="Designs in x.fa")
    assert by_call.read_text() == by_command.read_text()
    pm.write_report(iter(SEQUENCES.values()), key_file, by_call)
    assert "<title>Designs" in by_call.read_text()
    with pytest.raises(pm.InputError, match="no sequence could be judged"):
        pm.write_report([], key_file, by_call)


def test_a_picture_is_that_of_the_command(
    run: Run, key_file: Path, fasta: Path, tmp_path: Path
) -> None:
    pytest.importorskip("matplotlib")
    by_command, by_call = tmp_path / "command.png", tmp_path / "call.png"
    assert run("detect", fasta, "--key", key_file, "--plot", by_command).status == 0
    drawn = pm.plot_verdicts(SEQUENCES, key_file, by_call)
    assert by_call.read_bytes() == by_command.read_bytes()
    assert drawn == sorted(pm.detect(SEQUENCES, key_file), key=lambda verdict: verdict.log10_p)
    six = pm.plot_verdicts([*SEQUENCES.values()] * 3, key_file, by_call)
    assert len(six) == 4
    with pytest.raises(pm.InputError, match="no sequence could be judged"):
        pm.plot_verdicts([], key_file, by_call)
