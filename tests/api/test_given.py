"""What users may give: a sequence is read alike however it is written, and mistakes are named."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

import patternmark as pm
from patternmark.api.given import is_one
from patternmark.core.schemes import Blocks
from tests.synthetic import marked, plain, vocabulary, write_fasta


@pytest.fixture
def key(secret) -> pm.Key:
    return pm.Key.of(secret, pm.Profile(scheme=Blocks(nonces=4)))


@pytest.fixture
def sequence(key: pm.Key) -> str:
    return marked(key, 240, np.random.default_rng(5))


def test_one_sequence_is_read_alike_however_it_is_given(
    key: pm.Key, sequence: str, tmp_path: Path
) -> None:
    ids = pm.PROTEIN.encode(sequence)
    fasta = write_fasta(tmp_path / "x.fa", {"x": sequence})
    packed = tmp_path / "y.fa.gz"
    packed.write_bytes(gzip.compress(fasta.read_bytes()))
    one = pm.detect(sequence, key)
    many = [
        pm.detect(ids, key),
        pm.detect(ids.tolist(), key),
        pm.detect({"x": sequence}, key)[0],
        pm.detect([sequence], key)[0],
        pm.detect((one for one in [ids]), key)[0],
        pm.detect(fasta, key)[0],
        pm.detect([packed], key)[0],
    ]
    assert one.prediction
    assert {(v.log10_p, v.p_any, v.signature) for v in many} == {
        (one.log10_p, one.p_any, one.signature)
    }
    assert [v.id for v in many] == ["1", "1", "x", "1", "1", "x", "x"]


def test_many_are_many_even_if_there_is_one() -> None:
    assert all(map(is_one, ("MK", [1, 2], np.array([1]))))
    assert not any(
        map(is_one, (["MK"], [[1, 2]], np.ones((1, 2), int), {"a": "MK"}, Path("x"), []))
    )


def test_a_key_may_be_its_file(key: pm.Key, sequence: str, tmp_path: Path) -> None:
    pm.save_key(key, tmp_path / "lab.key")
    assert pm.detect(sequence, tmp_path / "lab.key") == pm.detect(sequence, key)
    assert pm.detect(sequence, str(tmp_path / "lab.key")) == pm.detect(sequence, key)


def test_the_name_of_a_file_is_no_sequence(
    key: pm.Key, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(write_fasta(tmp_path / "designs.fa", {"x": "MKTAY"}).parent)
    with pytest.raises(pm.ParameterError, match=r"give Path\('designs.fa'\)"):
        pm.detect("designs.fa", key)


def test_a_bad_sequence_is_an_error_and_a_bad_record_a_warning(
    key: pm.Key, sequence: str, tmp_path: Path
) -> None:
    with pytest.raises(pm.SequenceError, match="sequence 'b': character '1'"):
        pm.detect({"a": sequence, "b": "MK1"}, key)
    file = write_fasta(tmp_path / "x.fa", {"a": sequence, "b": "MK1"})
    with pytest.warns(pm.PatternmarkWarning, match=r"record 2 \(b\): character '1'"):
        found = pm.detect(file, key)
    assert [v.id for v in found] == ["a"]
    heard: list[object] = []
    assert len(pm.detect(file, key, warn=heard.append)) == 1
    assert len(heard) == 1


def test_texts_are_read_with_the_tokenizer_and_ids_without(secret) -> None:
    pytest.importorskip("tokenizers", reason="pip install 'patternmark[text]'")
    from patternmark.io.vocabulary import parse_alphabet

    of_text = pm.Key.of(secret, pm.Profile(parse_alphabet("cmlm-de-en")))
    found = pm.detect(["A mаn is walking his dog.", "A man is walking his dog."], of_text)
    assert found[0].statistic == found[1].statistic
    assert all(v.signature.endswith("|fold:1") for v in found)
    ids = pm.Key.of(secret, pm.Profile(vocabulary(600)))
    assert pm.detect([7] * 30, ids).num_tokens_scored == 30


def test_text_has_its_own_default_strength(secret) -> None:
    assert pm.Profile().delta == 1.0
    assert pm.Profile(vocabulary(600)).delta == 2.0
    assert pm.Profile(vocabulary(600), delta=0.5).delta == 0.5


def test_nothing_gives_nothing(key: pm.Key) -> None:
    assert pm.detect([], key) == []
    assert pm.identify({}, {"a": key}) == []
    assert not pm.combine([], key).prediction


def test_results_of_all_functions_have_the_same_attributes(key: pm.Key, sequence: str) -> None:
    keys = {"own": key, "other": key.derive("other")}
    found = [
        pm.detect(sequence, key),
        pm.identify(sequence, keys),
        pm.locate(sequence, key),
        pm.combine([sequence, plain(200, np.random.default_rng(1))], key),
    ]
    for one in found:
        assert one.prediction is True
        assert one.status is pm.Status.MARKED
        assert np.isclose(10.0**one.log10_p, one.p_value)
        assert one.p_any is None or one.p_value <= one.p_any * (1 + 1e-9)
        assert one.signature
        table = json.loads(json.dumps(one.to_dict()))
        assert table["prediction"] is True
        assert table["status"] == "marked"
        assert "marked" in repr(one)
        assert one._repr_html_().startswith("<table>")


def test_names_in_tables_are_no_html(key: pm.Key) -> None:
    found = pm.detect({"<script>": "MKTAYIAKQR"}, key)
    assert "<script>" not in found._repr_html_()
    assert "&lt;script&gt;" in found._repr_html_()


def test_a_stream_is_judged_as_it_comes(key: pm.Key, sequence: str) -> None:
    taken = 0

    def records():
        nonlocal taken
        while True:
            taken += 1
            yield sequence

    stream = pm.detect_stream(records(), key)
    assert next(stream).prediction
    assert taken < 3000
