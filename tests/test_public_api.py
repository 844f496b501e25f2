import subprocess
import sys

import patternmark

PUBLIC = [
    "PROTEIN", "Alphabet", "Blocks", "Detector", "InputError", "Key", "KeyFileError", "Marker",
    "Paper", "ParameterError", "PatternmarkError", "PatternmarkWarning", "Profile",
    "SequenceError", "Status", "Turns", "Verdict", "__version__", "alphabet", "attack", "audit",
    "calibrate", "combine", "design", "detect", "detect_stream", "identify", "load_key", "locate",
    "measure_quality", "plot_verdicts", "power", "save_key", "scan", "score", "translate",
    "write_bias", "write_report",
]  # fmt: skip


def test_the_public_names_are_these() -> None:
    assert patternmark.__all__ == PUBLIC
    assert all(hasattr(patternmark, name) for name in PUBLIC)
    assert dir(patternmark) == sorted(PUBLIC)


def test_the_core_imports_numpy_and_the_standard_library_alone() -> None:
    code = (
        "import sys; before = set(sys.modules); import patternmark\n"
        "new = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        "print(*sorted(new - set(sys.stdlib_module_names)))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["numpy", "patternmark"]


def test_errors_share_one_root() -> None:
    for name in ("InputError", "KeyFileError", "ParameterError", "SequenceError"):
        assert issubclass(getattr(patternmark, name), patternmark.PatternmarkError)
