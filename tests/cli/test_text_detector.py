"""The detector of texts on the command line: which p-value calls, and what is said of a text."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from patternmark import Key, load_key
from tests.conftest import Outcome

Run = Callable[..., Outcome]
PROSE = "A man is walking his dog along the river, and it rains on both of them."


@pytest.fixture
def text_key(run: Run, tmp_path: Path) -> Path:
    file = tmp_path / "lab.key"
    assert run("keygen", "--alphabet", "cmlm-de-en", "-o", file).status == 0
    return file


def marked_ids(key: Key, share: float, length: int = 100) -> list[int]:
    """Different tokens, of which so many agree with their keys."""
    rng = np.random.default_rng(length)
    scored = key.profile.alphabet.scored
    promoted = key.schedule.promoted_rows(np.arange(length))
    agrees = rng.permutation(np.arange(length) < share * length)
    ids: list[int] = []
    for row, wanted in zip(promoted[:, scored], agrees, strict=True):
        ids.append(int(rng.choice(np.setdiff1d(scored[row == wanted], ids))))
    return ids


@pytest.mark.slow
def test_strict_calls_by_what_holds_for_any_text(run: Run, text_key: Path, tmp_path: Path) -> None:
    key, file = load_key(text_key), tmp_path / "x.jsonl"
    texts = [marked_ids(key, 0.95), marked_ids(key, 0.69)]
    file.write_text("".join(json.dumps({"tokens": ids}) + "\n" for ids in texts))
    usual = run("detect", file, "--key", text_key, "--json").objects
    strict = run("detect", file, "--key", text_key, "--strict", "--json").objects
    assert [(o["p_value"], o["p_any"]) for o in usual] == [
        (o["p_value"], o["p_any"]) for o in strict
    ]
    assert [o["prediction"] for o in usual] == [o["p_value"] <= 1e-3 for o in usual]
    assert [o["prediction"] for o in strict] == [o["p_any"] <= 1e-3 for o in strict]
    assert [o["prediction"] for o in usual] == [True, True]
    assert [o["prediction"] for o in strict] == [True, False]
    assert all("|call:p|" in f"{o['signature']}|" for o in usual)
    assert all("|call:p_any|" in f"{o['signature']}|" for o in strict)
    assert "1 of 2 sequences carry" in run("detect", file, "--key", text_key, "--strict").out


@pytest.mark.parametrize("other", [["--exact"], ["--null", "keys"], ["--count-repeats"]])
def test_strict_makes_the_call_alone(
    run: Run, text_key: Path, tmp_path: Path, other: list[str]
) -> None:
    file = tmp_path / "x.txt"
    file.write_text(f"{PROSE}\n")
    refused = run("detect", file, "--key", text_key, "--strict", *other)
    assert (refused.status, refused.out) == (2, "")
    assert "--strict cannot be used with" in refused.err


def test_a_text_that_repeats_itself_is_no_more_often_marked(
    run: Run, text_key: Path, tmp_path: Path
) -> None:
    """Its small p-values are those of the very text."""
    file = tmp_path / "x.txt"
    file.write_text(f"{PROSE}\n{(PROSE + ' ') * 8}\n")
    for one in run("detect", file, "--key", text_key, "--json").objects:
        assert not one["prediction"]
        assert one["p_value"] <= one["p_any"]
        assert "|keys:101|" in one["signature"]


@pytest.mark.parametrize("how", [[], ["--strict"]])
def test_bad_lines_cost_no_other(run: Run, text_key: Path, tmp_path: Path, how: list[str]) -> None:
    file = tmp_path / "x.txt"
    long = (PROSE + " ") * 1400
    lines = [PROSE.encode(), b"", b"not \xff UTF-8", long.encode(), b"   ", b"x" * 100_000]
    file.write_bytes(b"\n".join([*lines, PROSE.encode()]))
    found = run("detect", file, "--key", text_key, "--json", *how)
    assert found.status == 0
    assert [o["id"] for o in found.objects] == [f"line-{i}" for i in (1, 4, 6, 7)]
    assert f"{file}: line 3: character 5 is not valid UTF-8" in found.err
    assert found.objects[0]["log10_p"] == found.objects[3]["log10_p"]
    assert all(0.0 < o["p_value"] <= 1.0 for o in found.objects)
