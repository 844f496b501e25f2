"""Weights come back from one file or from shards; what is missing or damaged is named."""

import json
import os
from pathlib import Path

import pytest
import torch

from lab.tests.training.small import codec
from patternmark.errors import ParameterError
from patternmark.models.cmlm import CMLM
from patternmark.models.tensor_file import CheckpointError
from patternmark.translation.bpe import TextCodec
from patternmark.translation.checkpoint import (
    load_both,
    load_model,
    load_tensors,
    weights_sha256,
)
from patternmark.translation.decode import Decoding, translate_ids
from patternmark.translation.published import load_published
from patternmark_lab.training.saving import save_model, save_tensors
from patternmark_lab.training.tokenizer import train_bpe
from tests.translation.published_checkpoints import (
    mask_predict_state,
    write_checkpoint,
    write_dictionary,
)
from tests.translation.small import PAIRS, config
from tests.translation.test_published import sources

SHARD = 24 * 1024


@pytest.fixture
def network() -> CMLM:
    torch.manual_seed(5)
    return CMLM(config())


def same(first: CMLM, second: CMLM) -> bool:
    pairs = zip(first.state_dict().items(), second.state_dict().items(), strict=True)
    return all(a == b and torch.equal(x.half(), y.half()) for (a, x), (b, y) in pairs)


@pytest.mark.parametrize("shard_bytes", [None, SHARD])
def test_a_model_comes_back(network: CMLM, tmp_path: Path, shard_bytes: int | None) -> None:
    save_model(tmp_path, network, shard_bytes=shard_bytes)
    found = load_model(tmp_path)
    assert same(network, found)
    assert found.config == network.config
    assert not found.training
    weights = list(tmp_path.glob("*.safetensors"))
    assert len(weights) > 1 if shard_bytes else len(weights) == 1
    for file in weights:
        assert file.stat().st_size <= (shard_bytes or 10**9)


def test_files_have_the_rights_of_the_user_s_other_files(network: CMLM, tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        save_model(tmp_path, network)
    finally:
        os.umask(before)
    assert (tmp_path / "model.safetensors").stat().st_mode & 0o777 == 0o644


def test_the_last_save_is_what_is_loaded_whatever_its_form(tmp_path: Path) -> None:
    for seed, shard_bytes in enumerate([None, SHARD, 3 * SHARD, None]):
        torch.manual_seed(seed)
        network = CMLM(config())
        save_model(tmp_path, network, shard_bytes=shard_bytes)
        assert same(load_model(tmp_path), network)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["config.json", "model.safetensors"]


def test_the_hash_is_that_of_the_weights(network: CMLM, tmp_path: Path) -> None:
    hashes = set()
    for number, shard_bytes in enumerate([None, None, SHARD]):
        save_model(tmp_path / str(number), network, shard_bytes=shard_bytes)
        hashes.add(weights_sha256(tmp_path / str(number)))
    assert len(hashes) == 2
    with pytest.raises(CheckpointError, match="is missing"):
        weights_sha256(tmp_path)


def test_shards_smaller_than_a_tensor_are_refused(network: CMLM, tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match=r"tensor 'embedding.weight' alone has 0\.02 MiB"):
        save_model(tmp_path, network, shard_bytes=1000)


def test_a_damaged_shard_is_named(network: CMLM, tmp_path: Path) -> None:
    save_model(tmp_path, network, shard_bytes=SHARD)
    shard = sorted(tmp_path.glob("model-00002-*"))[0]
    content = shard.read_bytes()
    shard.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(CheckpointError, match=r"model-00002-of-.*: not the file that .*SHA-256"):
        load_model(tmp_path)
    shard.write_bytes(content[:-100])
    with pytest.raises(CheckpointError, match=r"model-00002-of-.*cannot be read as safetensors"):
        load_model(tmp_path)
    shard.unlink()
    with pytest.raises(CheckpointError, match=r"model-00002-of-.*: the file is missing"):
        load_model(tmp_path)


def test_an_index_cannot_name_files_elsewhere(network: CMLM, tmp_path: Path) -> None:
    save_model(tmp_path, network, shard_bytes=SHARD)
    index = tmp_path / "model.safetensors.index.json"
    content = json.loads(index.read_text())
    content["weight_map"]["embedding.weight"] = "../elsewhere.safetensors"
    index.write_text(json.dumps(content))
    with pytest.raises(CheckpointError, match=r"index\.json: not an index of shards"):
        load_model(tmp_path)


def test_tensors_that_do_not_fit_are_named(network: CMLM, tmp_path: Path) -> None:
    save_model(tmp_path, network)
    file = tmp_path / "model.safetensors"
    whole = load_tensors(file)
    name = "decoder.1.up.weight"
    save_tensors(file, {key: tensor for key, tensor in whole.items() if key != name})
    with pytest.raises(CheckpointError, match=r"tensor 'decoder\.1\.up\.weight' is missing"):
        load_model(tmp_path)
    save_tensors(file, whole | {"another": torch.zeros(2)})
    with pytest.raises(CheckpointError, match="tensor 'another' is not part of this model"):
        load_model(tmp_path)
    save_tensors(file, whole | {name: torch.zeros(3, 4)})
    with pytest.raises(CheckpointError, match=r"has the shape \(3, 4\), not \(64, 32\)"):
        load_model(tmp_path)
    file.unlink()
    with pytest.raises(CheckpointError, match=r"model\.safetensors: the file is missing"):
        load_model(tmp_path)


def test_a_vocabulary_of_another_size_is_refused(network: CMLM, tmp_path: Path) -> None:
    save_model(tmp_path, network)
    codec().save(tmp_path / "tokenizer.json")
    model, found = load_both(tmp_path)
    assert same(model, network)
    assert found.content == codec().content
    other = TextCodec(train_bpe((text for pair in PAIRS for text in pair), 300))
    other.save(tmp_path / "tokenizer.json")
    with pytest.raises(CheckpointError, match=r"has 300 entries, but the model has 320: replace"):
        load_both(tmp_path)


def test_a_configuration_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"vocab": 8000, "model_type": "bert"}')
    with pytest.raises(CheckpointError, match=r"config\.json: not the configuration of a CMLM"):
        load_model(tmp_path)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(CheckpointError, match=r"config\.json: cannot be read"):
        load_model(tmp_path)


def test_a_published_network_can_be_kept_as_ours(tmp_path: Path) -> None:
    file = write_checkpoint(tmp_path / "a.pt", mask_predict_state(), dtype=torch.float16)
    model, _ = load_published(file, write_dictionary(tmp_path))
    save_model(tmp_path / "kept", model)
    kept = load_model(tmp_path / "kept")
    assert kept.config == model.config
    ids = sources(5)
    assert translate_ids(kept, ids, Decoding()) == translate_ids(model, ids, Decoding())
