"""`translate` gives what the command gives, and its verdicts are those of `detect`."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import patternmark as pm
from patternmark.io.vocabulary import parse_alphabet
from tests.conftest import Outcome

pytest.importorskip("tokenizers")
torch = pytest.importorskip("torch")
torch.set_num_threads(1)

Run = Callable[..., Outcome]
LINES = ["Das ist ein gutes Haus.", "", "Ich  möchte der Frau\u2028Präsidentin danken."]
QUICK = {"iterations": 2, "length_beam": 1, "passes": 1, "device": "cpu"}
OPTIONS = ["--iterations", 2, "--length-beam", 1, "--passes", 1, "--device", "cpu"]


@pytest.fixture
def text_key() -> pm.Key:
    return pm.Key.generate(pm.Profile(alphabet=parse_alphabet("cmlm-de-en")))


@pytest.fixture
def german(tmp_path: Path) -> Path:
    file = tmp_path / "german.txt"
    file.write_text("".join(f"{line}\n" for line in LINES))
    return file


def test_texts_are_translated_as_by_the_command(
    run: Run, text_key: pm.Key, german: Path, tmp_path: Path
) -> None:
    key_file, out, again = tmp_path / "text.key", tmp_path / "out.txt", tmp_path / "again.txt"
    pm.save_key(text_key, key_file)
    done = run("translate", german, "--key", key_file, "--seed", 1, *OPTIONS, "-o", out)
    assert done.status == 0, done.err
    wanted = out.read_text().split("\n")[:-1]
    found = pm.translate(LINES, text_key, seed=1, **QUICK)
    assert [one.text for one in found] == wanted
    assert [one.source for one in found] == LINES
    assert found.summary.split(" (")[0] in done.err
    assert "patternmark.combine" in found.summary  # the lines are short
    from_file = pm.translate(german, key_file, output=again, seed=1, **QUICK)
    assert again.read_text() == out.read_text()
    assert [one.text for one in from_file] == wanted
    assert pm.translate(LINES[0], text_key, seed=1, **QUICK).text == wanted[0]


def test_verdicts_are_those_of_detect(text_key: pm.Key) -> None:
    first, empty, third = pm.translate(LINES, text_key, **QUICK)
    for one in (first, third):
        assert one.verdict is not None
        wanted = pm.detect(one.text, text_key).to_dict()
        assert one.verdict.to_dict() | {"id": "1"} == wanted
    assert empty.verdict is not None
    assert (empty.text, empty.verdict.status) == ("", pm.Status.NOTHING_TO_SCORE)
    assert json.loads(json.dumps(first.to_dict()))["verdict"]["key_id"] == text_key.key_id
    assert repr(first).startswith("<TranslatedText id 1, text '")
    (named,) = pm.translate({"a": LINES[0]}, text_key, **QUICK)
    assert (named.id, named.source) == ("a", LINES[0])
    assert named.verdict is not None
    assert named.verdict.id == "a"
    assert [one.id for one in pm.detect([first, named], text_key)] == ["1", "a"]


def test_a_stopped_run_continues(text_key: pm.Key, german: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.txt"
    pm.translate(LINES[:1], None, output=out, **QUICK)
    with pytest.raises(pm.InputError, match="resume=True to continue it"):
        pm.translate(german, None, output=out, **QUICK)
    heard: list[tuple[str, int, int | None]] = []
    found = pm.translate(
        german, None, output=out, resume=True, progress=lambda *step: heard.append(step), **QUICK
    )
    assert heard == [("translating", 1, 3), ("translating", 3, 3)]
    assert [one.text for one in found] == out.read_text().split("\n")[:-1]
    assert {one.verdict for one in found} == {None}
    assert found.summary == "without a mark"
    with pytest.raises(pm.ParameterError, match="is the input file"):
        pm.translate(german, None, output=german, **QUICK)


def test_what_cannot_work_is_refused(text_key: pm.Key) -> None:
    with pytest.raises(pm.ParameterError, match="payload=N need a key"):
        pm.translate("Danke.", None, payload=1)
    with pytest.raises(pm.ParameterError, match="not both"):
        pm.translate(["Danke."], None, output="x.txt", overwrite=True, resume=True)
    with pytest.raises(pm.ParameterError, match=r"patternmark\.alphabet"):
        pm.translate("Danke.", pm.Key.generate(pm.Profile()), **QUICK)
    with pytest.raises(pm.ParameterError, match="text 1 is a int"):
        pm.translate([1], None)  # type: ignore[list-item]
    for name, value in (("passes", 0), ("seed", -1), ("temperature", -1.0), ("length_beam", 0)):
        with pytest.raises(pm.ParameterError, match=f"{name}="):
            pm.translate("Danke.", text_key, **{name: value})  # type: ignore[arg-type]
