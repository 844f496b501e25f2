"""`patternmark design` on what laboratories really feed it: told by name, and nothing lost."""

import gzip
import os
import signal
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from patternmark import load_key
from patternmark.io import structure_files
from patternmark.io.designs import Manifest, manifest_path, read_manifest, write_manifest
from tests.adapters import write_chains
from tests.cli.test_design import Run, records
from tests.conftest import no_file_over, start
from tests.io.test_structures import CIF, as_pdb, residue
from tests.stopped import run_paused, run_stopped

torch = pytest.importorskip("torch")
resource = pytest.importorskip("resource", reason="not on Windows")
torch.set_num_threads(1)

COMMAND = ["design", "--no-watermark", "--device", "cpu"]


@cache
def atom_lines() -> list[str]:
    """Residues A8 to A37 of a real chain."""
    with TemporaryDirectory() as folder:
        path = write_chains(Path(folder) / "x.pdb", {"A": ("D", range(8, 38))})
        return [line for line in path.read_text().splitlines(True) if line.startswith("ATOM")]


def number(line: str) -> int:
    return int(line[22:26])


def atom(line: str) -> str:
    return line[12:16].strip()


def without(*atoms: tuple[int, str]) -> str:
    return "".join(line for line in atom_lines() if (number(line), atom(line)) not in atoms)


def only(*names: str) -> str:
    return "".join(line for line in atom_lines() if atom(line) in names)


def edited(at: int, edit: Callable[[str], str]) -> str:
    return "".join(edit(line) if number(line) == at else line for line in atom_lines())


def plus(name: str, label: str, atoms: str, **more: object) -> str:
    """Return the real chain and a residue more."""
    return without() + as_pdb(residue(name, label, 5, atoms=atoms, **more))


def hetero(name: str) -> Callable[[str], str]:
    return lambda line: f"HETATM{line[6:17]}{name}{line[20:]}"


def twice(line: str) -> str:
    return f"{line[:16]}A{line[17:]}{line[:16]}B{line[17:]}"


DNA = "P O5' C1'"
NATIVE = "ECLVTESLKVKLQWASAFGHAHERVAFGLE"
UNKNOWN = f"{NATIVE[:7]}X{NATIVE[8:]}"  # residue 15
READ = {
    "atoms missing": (without((12, "C"), (20, "N"), (20, "O")), NATIVE, "chain A: 2 residue(s) "
        "lack atoms of the backbone and are neither read by the model nor designed: THR 12 (no C), "
        "GLN 20 (no N, O); to have them designed, build these atoms"),
    "models": (f"MODEL        1\n{without()}ENDMDL\nMODEL        2\n{without()}ENDMDL\n", NATIVE,
        "the file has 2 models; only the first is read"),
    "insertion code": (edited(13, lambda line: f"{line[:22]}  12A{line[27:]}"),
        f"{NATIVE[:6]}X{NATIVE[6:]}", "chain A: 1 missing residue(s) are filled in as X: 13"),
    "alternates": (edited(15, twice), NATIVE,
        "chain A: of alternate positions only the first is read: LEU 15"),
    "selenomethionine": (edited(15, hetero("MSE")), f"{NATIVE[:7]}M{NATIVE[8:]}", ""),
    "modified": (edited(15, hetero("SEP")), UNKNOWN,
        "chain A: modified residue(s) are read as X without coordinates: SEP 15; to have them"),
    "unknown type": (edited(15, lambda line: f"{line[:17]}XYZ{line[20:]}"), UNKNOWN,
        "chain A: residue(s) of unknown type are read as X: XYZ 15"),
    "ligand": (plus("LIG", "900", "N CA", het=True), NATIVE,
        "the model sees no ligands; left out: LIG A900"),
    "water": (plus("HOH", "901", "O", het=True), NATIVE, ""),
    "DNA": (plus("DA", "1", DNA, chain="C"), NATIVE,
        "chain C: 1 residue(s) of DNA or RNA are left out"),
    "empty chain": (plus("HOH", "901", "O", het=True, chain="B"), NATIVE, ""),
}  # fmt: skip


@pytest.mark.parametrize("case", READ)
def test_what_can_be_read_is_designed_and_its_flaws_are_told(
    run: Run, tmp_path: Path, case: str
) -> None:
    text, expected, message = READ[case]
    file, out = tmp_path / "flawed.pdb", tmp_path / "x.fa"
    file.write_text(text)
    made = run(*COMMAND, file, "-o", out)
    assert made.status == 0
    assert ("warning" in made.err) == bool(message)
    assert not message or f"warning: {file}: {message}" in made.err
    native, design = (str(record.sequence) for record in records(out))
    assert native == expected
    assert len(design) == len(native)
    if case == "atoms missing":
        assert (design[4], design[12]) == ("T", "Q")


BACKBONE_NEEDED = "chain A: the model needs N, CA, C and O, but "
REFUSED = {
    "ca.pdb": (only("CA"), BACKBONE_NEEDED + "this chain has only CA; give a structure with"),
    "no_o.pdb": (only("N", "CA", "C"), BACKBONE_NEEDED + "no residue of this chain has all four;"),
    "dna.pdb": (as_pdb(residue("DA", "1", 5, chain="C", atoms=DNA)),
        "there is no protein chain: chain C: 1 residue(s) of DNA or RNA are left out"),
    "ligand.pdb": (as_pdb(residue("LIG", "1", 5, atoms="C1", het=True)),
        "there is no protein chain: the model sees no ligands; left out: LIG A1"),
    "water.pdb": (as_pdb(residue("HOH", "1", 5, atoms="O", het=True)),
        "there is no protein chain: give a structure of a protein"),
    "short.cif": (CIF[:-20], "damaged or cut short: line 2: Wrong number of values in loop"),
    "cut.pdb.gz": (gzip.compress(without().encode())[:2000],
        "the gzip data is damaged or ends early; get it again"),
    "empty.pdb": ("", "the file is empty; get it again"),
}  # fmt: skip


def test_what_cannot_be_read_is_named_and_costs_no_other(run: Run, tmp_path: Path) -> None:
    folder, out = tmp_path / "structures", tmp_path / "x.fa"
    folder.mkdir()
    (folder / "good.pdb").write_text(without())
    for name, (content, _) in REFUSED.items():
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    made = run(*COMMAND, folder, "-o", out)
    assert made.status == 3
    lines = made.err.splitlines()
    for name, (_, message) in REFUSED.items():
        assert [line for line in lines if line.startswith(f"error: {folder / name}: {message}")]
    assert lines[-1] == f"{len(REFUSED)} of {len(REFUSED) + 1} structures could not be designed (see above)"  # fmt: skip  # noqa: E501
    assert [record.id for record in records(out)] == ["good/native", "good/1"]


def test_what_may_not_be_read_is_named(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, most: int = 0) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    (tmp_path / "locked.pdb").write_text(without())
    monkeypatch.setattr(structure_files, "read_bytes", refuse)  # as root, permissions stop nobody
    made = run(*COMMAND, tmp_path / "locked.pdb", "-o", tmp_path / "x.fa")
    assert f"error: {tmp_path}/locked.pdb: cannot be read: Permission denied\n" in made.err
    monkeypatch.setattr(Path, "iterdir", refuse)
    made = run(*COMMAND, tmp_path, "-o", tmp_path / "x.fa")
    assert made.err == f"error: {tmp_path}: cannot be read: Permission denied\n"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--chains", "Q"], "there is no protein chain 'Q'; the chains are A"),
        (["--chains", "C"], "there is no protein chain 'C'; the chains are A"),  # it is DNA
        (["--fixed", "A99"], "chain A: there is no residue '99'; the residues run from 8 to 37"),
        (["--fixed", "B9"], "'B9' is not a residue or range such as A10 or A10-20 of chains A"),
        (["--tied", "A9,A99"], "chain A: there is no residue '99'; the residues run from 8 to 37"),
        (["--tied", "A9,B9"], "'B9' is not a residue or range such as A10 or A10-20 of chains A"),
    ],
)
def test_what_does_not_exist_is_named_and_may_be_corrected(
    run: Run, tmp_path: Path, options: list[str], message: str
) -> None:
    file, out = tmp_path / "good.pdb", tmp_path / "x.fa"
    file.write_text(plus("DA", "1", DNA, chain="C"))
    refused = run(*COMMAND, file, "-o", out, *options)
    assert refused.status == 2
    assert f"error: {file}: {message}\n" in refused.err
    assert "wrote" not in refused.err
    # The file that run began has nothing in it: other settings need no --overwrite.
    assert run(*COMMAND, file, "-o", out).status == 0
    assert len(records(out)) == 2


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("absent/deep/x.fa", "there is no folder {folder}/absent/deep: make it first"),
        ("good.pdb/x.fa", "cannot be written: Not a directory: fix that, or choose another"),
        (".", "is not a file: give the name of a FASTA file"),
        ("/dev/full", "is not a file: give the name of a FASTA file"),
        ("/sys/x.fa", "cannot be written: "),
        (
            "good.pdb",
            "exists and was not made by patternmark design: choose another file, or pass "
            "--overwrite",
        ),
    ],
)
def test_where_nothing_can_be_written_is_told(
    run: Run, tmp_path: Path, output: str, message: str
) -> None:
    (tmp_path / "good.pdb").write_text(without())
    before = sorted(tmp_path.iterdir())
    made = run(*COMMAND, tmp_path / "good.pdb", "-o", tmp_path / output)
    assert made.status == 2
    assert f"error: {tmp_path / output}: {message.format(folder=tmp_path)}" in made.err
    assert sorted(tmp_path.iterdir()) == before
    assert (tmp_path / "good.pdb").read_text() == without()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--model", "ca_v_48_020"], "'ca_v_48_020': take one of v_48_002, v_48_010"),
        (["--weights", "{file}"], "{file}: not a ProteinMPNN checkpoint"),
        (["--weights", "{folder}"], "error: {folder}: this checkpoint does not exist: name a .pt"),
        (["--batch", "-1"], "error: --batch must be auto or a whole number from 1, not '-1'"),
        (["-n", "-3"], "Invalid value for '--count' / '-n'"),
        (["--temperature", "-1"], "error: a temperature must be positive, not -1.0"),
        (["--delta", "-1"], "error: delta must be a number of 0 or more"),
    ],
)
def test_wrong_options_leave_no_trace(
    run: Run, tmp_path: Path, key_file: Path, options: list[str], message: str
) -> None:
    file, folder = tmp_path / "good.pdb", tmp_path / "empty"
    file.write_text(without())
    folder.mkdir()
    names = {"file": file, "folder": folder}
    filled = [option.format(**names) for option in options]
    made = run("design", file, "--key", key_file, "-o", tmp_path / "x.fa", *filled)
    assert made.status == 2
    assert message.format(**names) in made.err
    assert not list(tmp_path.glob("*x.fa*"))
    nothing = run(*COMMAND, folder, "-o", tmp_path / "x.fa")
    assert f"error: {folder}: the folder has no structure (*.pdb" in nothing.err


def test_overwriting_waits_for_something_to_write(run: Run, tmp_path: Path) -> None:
    good, bad, out = tmp_path / "good.pdb", tmp_path / "bad.pdb", tmp_path / "x.fa"
    good.write_text(without())
    bad.write_text(only("CA"))
    assert run(*COMMAND, good, "-o", out).status == 0
    before = out.read_bytes(), manifest_path(out).read_bytes()
    assert run(*COMMAND, bad, "-o", out, "--overwrite", "--seed", 1).status == 2
    assert (out.read_bytes(), manifest_path(out).read_bytes()) == before
    assert run(*COMMAND, bad, good, "-o", out, "--overwrite", "--seed", 1).status == 3
    assert read_manifest(manifest_path(out)).parameters["seed"] == 1
    assert len(records(out)) == 2


@pytest.fixture
def several(run: Run, tmp_path: Path) -> tuple[list[object], Path]:
    """A command that designs on four structures, less its output; what an unbroken run wrote."""
    folder, whole = tmp_path / "structures", tmp_path / "whole.fa"
    folder.mkdir()
    for i in range(4):
        (folder / f"{i}.pdb").write_text(f"REMARK {i}\n{without()}")
    command = [*COMMAND, folder, "-n", 40, "--seed", 0]
    assert run(*command, "-o", whole).status == 0
    return command, whole


def assert_goes_on(run: Run, command: list[object], out: Path, whole: Path) -> None:
    assert run(*command, "-o", out).status == 0
    assert out.read_bytes() == whole.read_bytes()
    assert manifest_path(out).read_bytes() == manifest_path(whole).read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("full", ["FASTA", "manifest"])
def test_a_full_disk_costs_the_unfinished_structure_alone(
    run: Run, several: tuple[list[object], Path], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, full: str,
) -> None:  # fmt: skip
    command, whole = several
    out, quarter = tmp_path / "x.fa", whole.stat().st_size // 4
    if full == "FASTA":
        with no_file_over(2 * quarter + 100):
            made = run(*command, "-o", out)
        reason = "File too large"
    else:  # the fourth: one is written before the first structure, and one after each
        replace, calls = os.replace, iter(range(9))

        def refuse(*paths: Path) -> None:
            if next(calls) == 3:
                raise OSError(28, "No space left on device")
            replace(*paths)

        with monkeypatch.context() as patch:
            patch.setattr("os.replace", refuse)
            made = run(*command, "-o", out)
        reason = "No space left on device"
    assert made.status == 2
    assert made.err == (
        f"error: {out}: cannot be written: {reason}; 2 finished structure(s) are kept: "
        "repeat the run to continue\n"
    )  # and no word of a fourth: the run ended
    assert out.read_bytes() == whole.read_bytes()[: 2 * quarter]
    assert not list(tmp_path.glob(".*"))  # nor half a manifest
    assert_goes_on(run, command, out, whole)


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_killed_run_goes_on(
    run: Run, several: tuple[list[object], Path], tmp_path: Path, how: signal.Signals
) -> None:
    command, whole = several
    out = tmp_path / "x.fa"
    # Of the second structure everything is sampled and nothing is written.
    stopped = run_stopped(
        how, "patternmark.designing.run:Designer.score_native", 2, *command, "-o", out
    )
    assert stopped.returncode == (130 if how == signal.SIGINT else -how)
    assert finished(out) == 1
    if how == signal.SIGINT:
        assert f"stopped: {out}: 1 finished structure(s) are kept" in stopped.stderr
    assert whole.read_bytes().startswith(out.read_bytes())
    assert_goes_on(run, command, out, whole)


@pytest.mark.slow
def test_a_run_stopped_before_it_knows_what_it_wrote_tells_what_is_there(
    run: Run,
    several: tuple[list[object], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    command, whole = several
    out = tmp_path / "x.fa"

    def write_and_stop(manifest: Manifest, path: Path) -> None:
        write_manifest(manifest, path)
        if manifest.structures:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("patternmark.designing.fasta_file.write_manifest", write_and_stop)
        made = run(*command, "-o", out)
    assert made.status == 130
    assert f"stopped: {out}: 1 finished structure(s) are kept" in made.err
    assert_goes_on(run, command, out, whole)


def test_two_runs_at_once_do_not_share_a_file(
    run: Run, several: tuple[list[object], Path], tmp_path: Path
) -> None:
    """The second run is refused while the first one is alive, even if it is paused."""
    command, whole = several
    out, link = tmp_path / "x.fa", tmp_path / "link.fa"
    link.symlink_to(out)
    first_design = "patternmark.designing.run:Designer.score_native"
    with run_paused(first_design, *command, "-o", out) as paused:
        for name in (out, link):
            second = start(*command, "-o", name)
            _, said = second.communicate()
            assert second.returncode == 2
            assert f"{name}: another run is using it: wait until that run ends" in said
        paused.send_signal(signal.SIGCONT)
        paused.communicate()
        assert paused.returncode == 0
    assert_goes_on(run, command, out, whole)  # nothing is left to do, and nothing is cut away
    assert not list(tmp_path.glob(".*"))


def test_a_killed_run_leaves_no_lock(
    run: Run, several: tuple[list[object], Path], tmp_path: Path
) -> None:
    command, whole = several
    out = tmp_path / "x.fa"
    with run_paused("patternmark.designing.run:Designer.score_native", *command, "-o", out):
        pass  # killed
    assert_goes_on(run, command, out, whole)
    assert not list(tmp_path.glob(".*"))


def test_a_changed_letter_is_noticed_before_a_run_continues(
    run: Run, several: tuple[list[object], Path], tmp_path: Path
) -> None:
    command, whole = several
    before = whole.read_bytes()
    at = before.rindex(b"\n", 0, len(before) - 1) + 1
    whole.write_bytes(
        before[:at] + (b"A" if before[at : at + 1] != b"A" else b"C") + before[at + 1 :]
    )
    changed = whole.read_bytes()
    refused = run(*command, "-o", whole)
    assert refused.status == 2
    assert f"{whole}: was changed after its designs were written: restore it" in refused.err
    assert whole.read_bytes() == changed


def test_a_run_does_not_continue_what_its_key_did_not_sign(
    run: Run, tmp_path: Path, key_file: Path
) -> None:
    """A manifest that someone changed could make it cut designs away, and sign what it says."""
    (tmp_path / "good.pdb").write_text(without())
    out = tmp_path / "x.fa"
    command = ["design", tmp_path / "good.pdb", "--key", key_file, "--device", "cpu", "-o", out]
    assert run(*command).status == 0
    before, manifest = out.read_bytes(), read_manifest(manifest_path(out))
    assert manifest.is_signed_by(load_key(key_file))
    assert manifest.describes(out)
    chain = replace(manifest.structures[0].chains[0], scored="0" * 30)
    for doctored in (
        replace(manifest, structures=(replace(manifest.structures[0], chains=(chain,)),)),
        replace(manifest, structures=(), fasta_bytes=0),
        replace(manifest, mac=None),
    ):
        write_manifest(doctored, manifest_path(out))
        refused = run(*command)
        assert refused.status == 2
        assert f"{manifest_path(out)}: is not what key " in refused.err
        assert out.read_bytes() == before


def finished(out: Path) -> int:
    return len(read_manifest(manifest_path(out)).structures)


@pytest.mark.slow
def test_a_complex_of_5000_residues_fits_into_2_gigabytes(tmp_path: Path) -> None:
    file, out = tmp_path / "large.pdb", tmp_path / "x.fa"
    one = write_chains(tmp_path / "one.pdb", {"A": ("D", range(8, 148))}).read_text()
    lines = [line for line in one.splitlines(True) if line.startswith("ATOM")]
    with file.open("w") as stream:
        for i, chain in enumerate("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghij"):
            for line in lines:
                x, y = float(line[30:38]) + 60 * (i % 6), float(line[38:46]) + 60 * (i // 6)
                stream.write(f"{line[:21]}{chain}{line[22:30]}{x:8.3f}{y:8.3f}{line[46:]}")
    process = start(*COMMAND, file, "-n", 1, "-o", out)
    assert process.stderr is not None
    err = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    process.stderr.close()
    assert process.returncode == 0, err
    assert usage.ru_maxrss < 2 * 2**20  # KiB on Linux; 1.3 GiB measured
    native, design = records(out)
    assert len(native.sequence) == len(design.sequence) == 36 * 140 + 35  # and the slashes
