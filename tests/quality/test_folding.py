from pathlib import Path

import numpy as np
import pytest
import torch
import transformers

from patternmark.errors import PatternmarkError
from patternmark.quality.esmfold import Folder

LETTERS = (
    "<cls> <pad> <eos> <unk> L A G V S E R T I D P K Q N F Y M H W C X B U Z O . - <null_1> <mask>"
)


def save_tiny_fold(folder: Path) -> Path:
    """Save an ESMFold of the real class, every part of it tiny, with weights by chance."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    module = {"sequence_dim": 32, "pairwise_dim": 16, "ipa_dim": 4, "resnet_dim": 16}
    module |= {"num_heads_ipa": 2, "num_qk_points": 2, "num_v_points": 2, "num_blocks": 1}
    trunk = {"num_blocks": 1, "sequence_state_dim": 32, "pairwise_state_dim": 16}
    trunk |= {"sequence_head_width": 16, "pairwise_head_width": 8, "position_bins": 8}
    trunk |= {"max_recycles": 1, "chunk_size": None, "structure_module": module}
    config = transformers.EsmConfig(
        vocab_size=33,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        position_embedding_type="rotary",
        pad_token_id=1,
        mask_token_id=32,
        is_folding_model=True,
        vocab_list=LETTERS.split(),
        esmfold_config={"trunk": trunk, "fp16_esm": False, "lddt_head_hid_dim": 16},
    )
    network = transformers.EsmForProteinFolding(config)
    torch.nn.init.normal_(network.lddt_head[-1].weight, std=2.0)  # so that residues differ
    network.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_fold(tmp_path_factory.mktemp("fold"))


def test_plddt_is_of_each_residue(folder: Path) -> None:
    model = Folder.load(folder)
    chains = ["MKVLAAGIV", "ACDEFGHIKLMNPQRSTVWYX"]
    done: list[int] = []
    found = model.plddt(chains, done.append)
    assert [len(row) for row in found] == [9, 21]
    assert len(done) == 2
    assert all((row > 0.0).all() and (row < 100.0).all() for row in found)
    assert np.ptp(found[1]) > 0.1
    network = transformers.EsmForProteinFolding.from_pretrained(folder).eval()
    with torch.no_grad():
        expected = network.infer(chains[0])["plddt"][0, :, 1]  # of the CA atoms, 0 to 1
    np.testing.assert_allclose(found[0], 100.0 * expected.numpy(), rtol=1e-5)


def test_absent_weights_are_named(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(PatternmarkError, match=r"there is no ESMFold.*snapshot_download"):
        Folder.load(tmp_path / "nowhere")
    (tmp_path / "config.json").write_bytes((folder / "config.json").read_bytes())
    with pytest.raises(PatternmarkError, match="there is no ESMFold"):
        Folder.load(tmp_path)


def test_incomplete_and_strange_weights_are_refused(folder: Path, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    (tmp_path / "config.json").write_bytes((folder / "config.json").read_bytes())
    tensors = load_file(folder / "model.safetensors")
    tensors.pop("lddt_head.3.weight")
    save_file(tensors, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(PatternmarkError, match=r"missing.*lddt_head.3.weight"):
        Folder.load(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"no weights")
    with pytest.raises(PatternmarkError, match="cannot be read as ESMFold"):
        Folder.load(tmp_path)
    transformers.EsmConfig(vocab_size=33, hidden_size=32).save_pretrained(tmp_path)
    with pytest.raises(PatternmarkError, match="this is another model"):
        Folder.load(tmp_path)
