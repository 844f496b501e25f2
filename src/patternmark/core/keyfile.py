"""Key files: one TOML file with the secret and every public parameter.

A key file is refused if other users may read it, if it was edited (its key id no longer fits its
contents), if a newer version wrote it, or if a field is unknown or missing. No message ever
contains anything from the table [secret].
"""

from __future__ import annotations

import json
import logging
import os
import re
import stat
import tomllib
from functools import lru_cache
from pathlib import Path
from typing import Any

from patternmark.core.key import KEY_ID_DIGITS, Key
from patternmark.core.profile import Profile
from patternmark.core.secret import Secret
from patternmark.errors import KeyFileError, ParameterError, PatternmarkError, SequenceError

FORMAT = "patternmark key"
VERSION = 1

_KEY_HEADER = """\
# A patternmark key. Whoever reads this file can find, forge and strip its mark: keep it secret.
# The parameters are bound to the key id; an edited file is refused.
"""
_PUBLIC_HEADER = """\
# The public half of a patternmark key: it names the mark and its parameters, and holds no secret.
"""

_PUBLIC_TABLES = re.compile(rb"\n\[.*(?=\n\[secret\])", re.DOTALL)
_FIELDS_OF_ONE_KEY = {"format", "version", "key_id", "commitment", "secret"}  # not shared
_KEY_ID = re.compile(f"[0-9a-f]{{{KEY_ID_DIGITS}}}")
_COMMITMENT = re.compile("[0-9a-f]{64}")
LARGEST_BYTES = 2**22  # of a key file: adopted parts of 262,144 tokens take 2 MB

_log = logging.getLogger(__name__)


def load_key(
    path: str | os.PathLike[str], *, allow_open: bool = False, with_secret: bool = False
) -> Key:
    """Read a key file or a public half; refuse a secret that other users may read.

    `with_secret` also refuses a public half, which can neither mark nor detect.
    """
    file = Path(path)
    found = _read(file, with_secret=with_secret)
    # Not an exception: its frames would keep the contents of the file for crash reports.
    if isinstance(found, str):
        raise KeyFileError(f"{file}: {found}")
    key, mode = found
    if key.secret is not None and os.name == "posix" and mode & 0o077 and not allow_open:
        raise KeyFileError(
            f"{file}: its mode {mode:04o} lets others read the secret; run 'chmod 600 {file}', "
            "or allow an open key file if the file is protected in another way"
        )
    _log.debug("loaded key %s from %s", key.key_id, file)
    return key


def _read(file: Path, *, with_secret: bool) -> tuple[Key, int] | str:
    """Return the key of a file and the mode of the file, or say what is wrong."""
    try:
        with file.open("rb") as stream:
            content = stream.read(LARGEST_BYTES + 1)
            mode = stat.S_IMODE(os.fstat(stream.fileno()).st_mode)
        if len(content) > LARGEST_BYTES:
            return f"this is not a key file: it has more than {LARGEST_BYTES >> 20} MiB"
        key = _parse(content)
        if with_secret:
            key.require_secret()
    except FileNotFoundError:
        return "this key file does not exist (make one with 'patternmark keygen')"
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    except PatternmarkError as error:
        return str(error)
    except Exception as error:  # a fault of ours, whose frames would show the secret
        return f"cannot be understood ({type(error).__name__}): please report this"
    return key, mode


def save_key(key: Key, path: str | os.PathLike[str]) -> None:
    """Write a key to a new file, mode 0600 if it holds the secret; never overwrite a file."""
    file = Path(path)
    mode = 0o600 if key.secret is not None else 0o644
    try:
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    except FileExistsError:
        why = "a lost key cannot be replaced; choose another name"
        raise KeyFileError(f"{file}: exists already and is not overwritten: {why}") from None
    except OSError as error:
        raise KeyFileError(f"{file}: cannot be written: {error.strerror}") from None
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(dump_key(key))
    except BaseException as error:  # neither a full disk nor Ctrl-C leaves half a key behind
        file.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise KeyFileError(f"{file}: cannot be written: {error.strerror}") from None
        raise


def dump_key(key: Key) -> str:
    """Return the text of a key file."""
    lines = [_PUBLIC_HEADER if key.secret is None else _KEY_HEADER]
    lines += [_line("format", FORMAT), _line("version", VERSION), _line("key_id", key.key_id)]
    if key.secret is None and key.commitment is not None:
        lines += [_line("commitment", key.commitment)]
    tables = key.profile.to_tables()
    if key.secret is not None:
        tables["secret"] = {"key": key.secret.reveal_hex()}
        if key.parts is not None:
            tables["secret"]["parts"] = [p if isinstance(p, str) else list(p) for p in key.parts]
    for name, table in tables.items():
        lines += ["", f"[{name}]", *(_line(field, value) for field, value in table.items())]
    return "\n".join(lines) + "\n"


def _line(field: str, value: Any) -> str:
    # JSON and TOML write strings, numbers and lists of them in the same way.
    return f"{field} = {json.dumps(value, ensure_ascii=False)}"


def _parse(content: bytes) -> Key:
    tables, public = _split(content)
    if tables.pop("format", None) != FORMAT:
        raise KeyFileError(f"this is not a patternmark key file (no line format = {FORMAT!r})")
    version = tables.pop("version", None)
    if type(version) is not int or version < 1:
        raise KeyFileError("the key file has no valid version")
    if version > VERSION:
        here = f"this patternmark reads versions up to {VERSION}: upgrade patternmark"
        raise KeyFileError(f"the key file has version {version}, {here}")
    stated_id = tables.pop("key_id", None)
    if not isinstance(stated_id, str) or not _KEY_ID.fullmatch(stated_id):
        raise KeyFileError(f"the key file has no key_id of {KEY_ID_DIGITS} hexadecimal digits")
    commitment = tables.pop("commitment", None)
    if commitment is not None:
        if not isinstance(commitment, str) or not _COMMITMENT.fullmatch(commitment):
            raise KeyFileError("the field 'commitment' must be 64 hexadecimal digits")
        if not commitment.startswith(stated_id):
            raise KeyFileError(f"its commitment does not begin with its key id {stated_id}")
    hidden = tables.pop("secret", None)
    profile = _profile_of(public) if public else Profile.from_tables(tables)
    if hidden is None:
        return Key(profile, stated_id, commitment=commitment)
    key = _with_secret(profile, hidden)
    if key.key_id != stated_id or commitment not in (None, key.commitment):
        stated = "commitment" if key.key_id == stated_id else f"key id {stated_id}"
        raise KeyFileError(
            f"its contents do not fit its {stated}: the file was changed after it was made. "
            "Restore it, or make a new key with 'patternmark keygen'"
        )
    return key


def _split(content: bytes) -> tuple[dict[str, Any], bytes]:
    """Read TOML, but leave the public tables unread if they come together before [secret]."""
    public = _PUBLIC_TABLES.search(content)
    if public is not None:
        own = _toml(content[: public.start()] + content[public.end() :])
        if own.keys() <= _FIELDS_OF_ONE_KEY:
            return own, public[0]
    return _toml(content), b""


@lru_cache(maxsize=64)
def _profile_of(public: bytes) -> Profile:
    """Read public tables once for all sub-keys that share them: there may be thousands."""
    return Profile.from_tables(_toml(public))


def _toml(content: bytes) -> dict[str, Any]:
    try:
        return tomllib.loads(content.decode("utf-8"))
    except (ValueError, RecursionError):  # not UTF-8, not TOML, thousands of digits, too deep
        raise KeyFileError("this is not a patternmark key file (not valid TOML)") from None


def _with_secret(profile: Profile, hidden: Any) -> Key:
    if not isinstance(hidden, dict) or not set(hidden) <= {"key", "parts"}:
        raise KeyFileError("the table [secret] may only contain 'key' and, if adopted, 'parts'")
    try:
        secret = Secret(bytes.fromhex(hidden["key"]))
    except (KeyError, TypeError, ValueError):
        raise KeyFileError("the field 'key' in [secret] must be 64 hexadecimal digits") from None
    parts = hidden.get("parts")
    is_list = isinstance(parts, list) and all(isinstance(part, str | list) for part in parts)
    if parts is not None and not is_list:
        raise KeyFileError("the field 'parts' in [secret] must be a list")
    try:
        return Key.of(secret, profile, parts)
    except (ParameterError, SequenceError):
        if parts is None:
            raise
    raise KeyFileError("'parts' in [secret] do not fit the alphabet or the scheme")
