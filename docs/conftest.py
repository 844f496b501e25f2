"""What the examples of some pages need: files to work on, packages, and quiet imports."""

from importlib.util import find_spec
from pathlib import Path

import pytest

# The examples of hooks.md import modules of torch that warn about themselves.
_QUIET = pytest.mark.filterwarnings("ignore:.*torch.jit.script.*:DeprecationWarning")

# What the examples of python.md need besides numpy: all extras, and where a structure comes from.
_NEEDED = (
    *("torch", "gemmi", "tokenizers", "safetensors", "matplotlib", "patternmark_models"),
    *("numba", "pyarrow", "xxhash", "tmtools"),
)
_RESIDUES = range(8, 48)  # of a chain of 2GTL, which tmtools ships


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    lacking = [name for name in _NEEDED if find_spec(name) is None]
    for item in items:
        if item.path.name == "hooks.md":
            item.add_marker(_QUIET)
        if item.path.name == "python.md" and lacking:
            item.add_marker(pytest.mark.skip(reason=f"needs {', '.join(lacking)}"))


@pytest.fixture(autouse=True)
def _files_to_work_on(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Let the examples of python.md run in a folder that has the files they name."""
    package = find_spec("tmtools")
    if request.node.path.name != "python.md" or package is None or package.origin is None:
        return
    monkeypatch.chdir(tmp_path)
    lines = (Path(package.origin).parent / "data" / "2gtl.pdb").read_text().splitlines()
    atoms = (line for line in lines if line.startswith("ATOM") and line[21] == "D")
    kept = [line for line in atoms if int(line[22:26]) in _RESIDUES]
    Path("backbone.pdb").write_text("\n".join([*kept, "END", ""]))
    Path("input.de.txt").write_text("Das ist ein gutes Haus.\nDanke.\n")
    Path("uniref").mkdir()
    Path("uniref/part-1.fa").write_text(">u1\nMKTAYIAKQRQISFVKSHFSRQLEERLGLIEVQ\n")
    Path("keys").mkdir()
