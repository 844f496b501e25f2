"""`measure_quality` gives what the command gives."""

from collections.abc import Callable
from pathlib import Path

import pytest

import patternmark as pm
from tests.conftest import Outcome

Run = Callable[..., Outcome]


def test_texts_are_compared_as_by_the_command(run: Run, tmp_path: Path) -> None:
    lines = ["The dog sleeps under the table.", "She reads every day."]
    wanted = ["The dog sleeps under the table.", "She reads each day."]
    out, reference = tmp_path / "out.txt", tmp_path / "ref.txt"
    out.write_text("\n".join(lines))
    reference.write_text("\n".join(wanted))
    (told,) = run("quality", out, "--reference", reference, "--json").objects
    found = pm.measure_quality(out, reference=reference)
    assert found.to_dict() == told
    assert pm.measure_quality(lines, reference=wanted).to_dict() == told
    assert repr(found).startswith("<Quality BLEU ")
    with pytest.raises(pm.InputError, match="has 2 lines, but the sequences 1"):
        pm.measure_quality(out, reference=wanted[:1])


def test_designs_are_measured_as_by_the_command(run: Run, tmp_path: Path) -> None:
    sequences = ["MKTAYIAKQRQISFVKSHFS", "RQLEERLGLIEVQAPILSRV", "GDGTQDNLSGAEKAVQVKVK"]
    fasta = tmp_path / "x.fa"
    fasta.write_text("".join(f">{n}\n{letters}\n" for n, letters in enumerate(sequences)))
    (told,) = run("quality", fasta, "--json").objects
    assert pm.measure_quality(fasta).to_dict() == told
    assert pm.measure_quality(sequences).to_dict() == told


@pytest.mark.slow
def test_designs_are_measured_on_their_backbone(run: Run, tmp_path: Path) -> None:
    for needed in ("gemmi", "tmtools", "torch", "safetensors"):
        pytest.importorskip(needed)
    from tests.adapters import write_chains

    pdb, out = write_chains(tmp_path / "one.pdb", {"A": ("D", range(8, 48))}), tmp_path / "x.fa"
    plain = pm.design(pdb, None, 2, seed=1, device="cpu")
    key = pm.Key.generate(pm.Profile())
    marked = pm.design(pdb, key, 2, output=out, seed=2, device="cpu")
    (told,) = run("quality", out, "--backbone", pdb, "--device", "cpu", "--json").objects
    found = pm.measure_quality(out, backbone=pdb, device="cpu")
    assert found.to_dict() == told
    both = pm.measure_quality(marked, backbone=pdb, against=plain, device="cpu")
    assert both.measures == found.measures
    assert both.native == found.native
    assert both.differences is not None
    assert {one.name for one in both.differences} <= {one.name for one in found.measures}


def test_what_does_not_go_together_is_refused() -> None:
    with pytest.raises(pm.ParameterError, match="reference=FILE is for text"):
        pm.measure_quality(["x"], reference=["y"], model="v_48_020")
    with pytest.raises(pm.ParameterError, match="need backbone=FILE"):
        pm.measure_quality(["ACDE"], against=["ACDE"])
    with pytest.raises(pm.InputError, match="no design could be read"):
        pm.measure_quality([])
    with pytest.raises(pm.ParameterError, match="give texts"):
        pm.measure_quality([], reference=["x"])
