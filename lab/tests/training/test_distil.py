"""A teacher's translations are written as they come, and a stopped run goes on where it was."""

import json
from pathlib import Path

import pytest

from lab.tests.training.small import PARAGRAPHS, codec, corpus
from patternmark.errors import InputError
from patternmark.models.cmlm import CMLM
from patternmark.models.tensor_file import CheckpointError
from patternmark.translation.checkpoint import load_model
from patternmark_lab.training.corpus import read_pairs
from patternmark_lab.training.distil import Distilled, DistilledFile, distil, translate_texts
from patternmark_lab.training.trainer import Settings, Training
from patternmark_lab.training.translating import translate_with
from tests.translation.small import PAIRS, config

EVERY = PAIRS + PARAGRAPHS
SOURCES = [source for source, _ in EVERY]
WANTED = Distilled("teacher", "data", len(SOURCES))
BATCH = 16  # tokens: many pieces


@pytest.fixture(scope="module")
def teacher(tmp_path_factory: pytest.TempPathFactory) -> CMLM:
    folder = tmp_path_factory.mktemp("teacher")
    settings = Settings(steps=60, batch_tokens=512, warmup=10, lr=1e-2)
    Training(folder, config(causal=True), settings).run(corpus())
    return load_model(folder)


class StoppedError(Exception):
    pass


class StopAfter:
    """Stops once so many pieces are written: the first call says what had been done before."""

    def __init__(self, pieces: int) -> None:
        self._left = pieces

    def __call__(self, done: int) -> None:
        self._left -= 1
        if self._left < 0:
            raise StoppedError


@pytest.mark.slow
@pytest.mark.parametrize("name", ["new.tsv", "new.tsv.xz"])
def test_a_stopped_run_goes_on_where_it_was(teacher: CMLM, tmp_path: Path, name: str) -> None:
    whole = DistilledFile(tmp_path / f"whole-{name}", WANTED, overwrite=False)
    distil(teacher, codec(), EVERY, whole, BATCH)
    expected = read_pairs(whole.path)
    for pieces in (1, 1, 99):
        file = DistilledFile(tmp_path / name, WANTED, overwrite=False)
        before = file.facts.done
        if pieces == 99:
            distil(teacher, codec(), EVERY, file, BATCH)
        else:
            with pytest.raises(StoppedError):
                distil(teacher, codec(), EVERY, file, BATCH, StopAfter(pieces))
            assert before < file.facts.done < len(SOURCES)
            with file.path.open("ab") as stream:
                stream.write(b"half a pie")  # as a kill leaves it
    assert read_pairs(file.path) == expected
    assert file.facts == DistilledFile(tmp_path / name, WANTED, overwrite=False).facts
    assert file.facts.done == len(SOURCES)
    assert file.facts.dropped == len(SOURCES) - len(expected)


@pytest.mark.slow
def test_each_source_stands_beside_its_own_translation(teacher: CMLM, tmp_path: Path) -> None:
    file = DistilledFile(tmp_path / "new.tsv", WANTED, overwrite=False)
    seen: list[int] = []
    distil(teacher, codec(), EVERY, file, BATCH, seen.append)
    assert sum(seen) == len(SOURCES)
    pairs = read_pairs(file.path)
    kept = [source for source, _ in pairs]
    assert kept == [source for source in SOURCES if source in set(kept)]
    assert len(pairs) > len(PAIRS) // 2
    for source, target in pairs[:5]:
        ids = translate_with(teacher, codec().encode_batch([source]), 4096)
        assert codec().decode_batch(ids) == [target]


def test_long_texts_are_translated_sentence_by_sentence(teacher: CMLM) -> None:
    by_sentence = dict(
        zip(SOURCES, translate_texts(teacher, codec(), SOURCES[: len(PAIRS)], 512), strict=False)
    )
    found = translate_texts(teacher, codec(), [source for source, _ in PARAGRAPHS], 512)
    long = 0
    for number, text in enumerate(found):
        if len(codec().encode_batch([PARAGRAPHS[number][0]])[0]) > 100:
            parts = [by_sentence[source] for source, _ in PAIRS[3 * number : 3 * number + 6]]
            assert text == (" ".join(parts) if all(parts) else "")
            long += 1
    assert long


def test_what_has_no_translation_is_dropped_and_counted(tmp_path: Path) -> None:
    file = DistilledFile(tmp_path / "new.tsv.xz", WANTED, overwrite=False)
    file.append([("Ja.", "Yes."), ("Nein.", " ")])
    file.append([("Nie.", "")])
    file.append([("Doch.", "It is.")])
    assert (file.facts.done, file.facts.dropped) == (4, 2)
    assert read_pairs(file.path) == [("Ja.", "Yes."), ("Doch.", "It is.")]


def test_a_file_of_something_else_is_not_gone_on_with(tmp_path: Path) -> None:
    path, facts = tmp_path / "new.tsv", tmp_path / "new.tsv.json"
    path.write_text("mine\n")
    with pytest.raises(InputError, match=r"new\.tsv: exists but was not written by 'train distil'"):
        DistilledFile(path, WANTED, overwrite=False)
    DistilledFile(path, WANTED, overwrite=True).append([("Ja.", "Yes.")])
    assert path.read_text() == "Ja.\tYes.\n"
    other = Distilled("another", "data", len(SOURCES))
    with pytest.raises(InputError, match="was started with another teacher: choose another"):
        DistilledFile(path, other, overwrite=False)
    other = Distilled("teacher", "other", len(SOURCES))
    with pytest.raises(InputError, match="was started with other sources"):
        DistilledFile(path, other, overwrite=False)
    path.write_text("Ja.\t")
    with pytest.raises(InputError, match="has become shorter"):
        DistilledFile(path, WANTED, overwrite=False)
    facts.write_text(json.dumps({"what": 1}))
    with pytest.raises(CheckpointError, match=r"new\.tsv\.json: not what 'train distil' wrote"):
        DistilledFile(path, WANTED, overwrite=False)


def test_a_source_in_the_language_of_its_target_is_dropped(teacher: CMLM, tmp_path: Path) -> None:
    copied = [(target, target) for _, target in PAIRS[:3]]
    file = DistilledFile(tmp_path / "new.tsv", WANTED, overwrite=False)
    distil(teacher, codec(), [*PAIRS[:5], *copied, *PAIRS[5:9]], file, BATCH)
    kept = {source for source, _ in read_pairs(file.path)}
    assert kept
    assert kept <= {source for source, _ in PAIRS[:9]}
    assert file.facts.dropped >= len(copied)
