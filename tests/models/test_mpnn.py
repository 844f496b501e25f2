"""The network against the published one, on the same weights, and checkpoints that are none."""

import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from patternmark import PatternmarkError
from patternmark.io.structures import Backbone, read_backbone
from patternmark.models.mpnn import Prepared, ProteinMPNN
from patternmark.models.weights import MODELS
from patternmark_lab.bench.published import Features, features_of
from tests.models.published import (
    features_of_file,
    network,
    published_log_p,
    published_network,
    random_backbone,
    ranks_of,
    real_structure,
    weights,
)

pytest.importorskip("gemmi", reason="pip install 'patternmark[protein]'")
torch.set_num_threads(1)

TOLERANCE = 1e-4  # 5e-5 is what float32 leaves after six layers in another order of operations


def prepared_on(backbone: Backbone, name: str = "v_48_020") -> Prepared:
    model = network(name)
    return model.prepare(model.encode(backbone))


def log_p(prepared: Prepared, backbone: Backbone, order: Any) -> Any:
    letters = torch.tensor(backbone.sequence)
    return prepared.log_probabilities(letters[None], ranks_of(order)[None])[0]


def assert_agrees(
    backbone: Backbone,
    features: Features | None = None,
    orders: int = 2,
    name: str = "v_48_020",
) -> None:
    """Compare the log-probabilities of all 21 letters at all residues the model sees."""
    features = features_of(backbone) if features is None else features
    assert features.S[0].tolist() == backbone.sequence.tolist()
    assert features.mask[0].tolist() == backbone.is_complete.tolist()
    prepared = prepared_on(backbone, name)
    seen = backbone.is_complete
    generator = torch.Generator().manual_seed(len(seen))
    for _ in range(orders):
        order = torch.randperm(len(seen), generator=generator)
        ours = log_p(prepared, backbone, order)[seen]
        theirs = published_log_p(features, order, name)[seen]
        torch.testing.assert_close(ours, theirs, rtol=0, atol=TOLERANCE)


def assert_file_agrees(path: Path, chains: str) -> Backbone:
    backbone = read_backbone(path)
    assert_agrees(backbone, features_of_file(path, chains))
    return backbone


def test_a_real_chain_in_several_orders(tmp_path: Path) -> None:
    path = real_structure(tmp_path, "A", last=80)
    assert_agrees(read_backbone(path), features_of_file(path, "A"), orders=3)


def test_a_complex(tmp_path: Path) -> None:
    backbone = assert_file_agrees(real_structure(tmp_path, "ABD", last=40), "ABD")
    assert np.bincount(backbone.chain_index).tolist() == [36, 40, 33]


def test_a_chain_with_gaps(tmp_path: Path) -> None:
    removed = [*range(30, 42), 55, 90]
    backbone = assert_file_agrees(real_structure(tmp_path, "A", last=95, without=removed), "A")
    assert int((~backbone.is_complete).sum()) == 14


def test_residues_that_lack_atoms(tmp_path: Path) -> None:
    path = real_structure(tmp_path, "A", last=90)
    lost = {(20, "O"), (21, "N"), (22, "CA"), (50, "C"), (50, "O"), (90, "O")}
    lines = path.read_text().splitlines(keepends=True)
    kept = [x for x in lines if (int(x[22:26]), x[12:16].strip()) not in lost]
    path.write_text("".join(kept))
    assert len(lines) - len(kept) == 6
    assert int((~assert_file_agrees(path, "A").is_complete).sum()) == 5


@pytest.mark.parametrize("lengths", [[80], [40, 1, 20], [49]])
def test_random_coordinates(lengths: list[int]) -> None:
    assert_agrees(random_backbone(1, lengths))


def test_random_coordinates_with_incomplete_residues() -> None:
    assert_agrees(random_backbone(2, [40, 30], missing=[0, 7, 8, 69], lacking_o=[20, 40]))


@pytest.mark.parametrize("lengths", [[1], [2], [12, 9], [47], [48]])
def test_fewer_residues_than_neighbours(lengths: list[int]) -> None:
    assert_agrees(random_backbone(3, lengths))


@pytest.mark.parametrize(
    ("length", "missing", "lacking_o"),
    [
        (30, [4, 5, 20], []),
        (30, [], [4, 5, 20]),
        (52, range(10, 20), [30]),  # 52 rows, but only 41 the model sees
        (9, [0, 8], [4]),
    ],
)
def test_fewer_complete_residues_than_neighbours(
    length: int, missing: list[int], lacking_o: list[int]
) -> None:
    assert_agrees(random_backbone(4, [length], missing=missing, lacking_o=lacking_o))


def test_a_short_real_chain_with_a_gap(tmp_path: Path) -> None:
    assert_file_agrees(real_structure(tmp_path, "A", last=44, without=range(20, 26)), "A")


@torch.no_grad()
def test_fixed_residues_come_first(tmp_path: Path) -> None:
    path = real_structure(tmp_path, "A", last=80, without=[30, 31])
    backbone, f = read_backbone(path), features_of_file(path, "A")
    generator = torch.Generator().manual_seed(5)
    designed = (torch.rand(f.S.shape, generator=generator) < 0.5) & (f.mask > 0)
    randn = torch.randn(f.S.shape, generator=generator)
    theirs = published_network()(f.X, f.S, f.mask, designed.float(), f.residues, f.chains, randn)[0]
    order = torch.argsort((designed + 0.0001) * randn.abs())[0]  # theirs, from randn
    assert not designed[0, order[: int((~designed).sum())]].any()
    ours = log_p(prepared_on(backbone), backbone, order)
    seen = backbone.is_complete
    torch.testing.assert_close(ours[seen], theirs[seen], rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("name", MODELS)
def test_all_published_weights(name: str) -> None:
    assert_agrees(random_backbone(6, [20, 10]), orders=1, name=name)


def test_there_are_eight_of_them_and_no_two_alike() -> None:
    assert len(MODELS) == 8
    backbone = random_backbone(6, [20])
    order = torch.arange(20)
    first = [log_p(prepared_on(backbone, n), backbone, order)[0] for n in MODELS]
    for i, one in enumerate(first):
        for other in first[:i]:
            assert (one - other).abs().max() > 0.01


@torch.no_grad()
def test_the_first_residue_knows_the_backbone_alone(tmp_path: Path) -> None:
    path = real_structure(tmp_path, "A", last=70)
    backbone, f = read_backbone(path), features_of_file(path, "A")
    theirs = published_network().unconditional_probs(f.X, f.mask, f.residues, f.chains)[0]
    prepared = prepared_on(backbone)
    length = len(backbone.sequence)
    other = torch.randint(20, (length,), generator=torch.Generator().manual_seed(1))
    for first in (0, 33, length - 1):
        ranks = torch.arange(length) + 1
        ranks[first] = 0
        both = torch.stack([torch.tensor(backbone.sequence), other])
        ours = prepared.log_probabilities(both, ranks.expand(2, -1))[:, first]
        torch.testing.assert_close(ours, theirs[first].expand(2, -1), rtol=0, atol=TOLERANCE)
    # When all are first, nobody hears a letter.
    ours = prepared.log_probabilities(other[None], torch.zeros(1, length, dtype=torch.long))[0]
    torch.testing.assert_close(ours, theirs, rtol=0, atol=TOLERANCE)


def test_a_residue_hears_only_what_was_decoded_before_it() -> None:
    backbone = random_backbone(7, [40])
    prepared = prepared_on(backbone)
    order = torch.randperm(40, generator=torch.Generator().manual_seed(2))
    rank = ranks_of(order)
    letters = torch.tensor(backbone.sequence)
    changed = letters.clone()
    changed[order[20]] = (letters[order[20]] + 1) % 20
    one, two = prepared.log_probabilities(torch.stack([letters, changed]), rank.expand(2, -1))
    differs = (one - two).abs().amax(dim=-1) > 0
    assert not differs[order[:21]].any()
    assert differs[order[21:]].all()  # 40 residues: all are neighbours


def test_sequences_of_a_batch_do_not_touch() -> None:
    backbone = random_backbone(8, [50])
    prepared = prepared_on(backbone)
    generator = torch.Generator().manual_seed(3)
    letters = torch.randint(20, (3, 50), generator=generator)
    ranks = torch.stack([torch.randperm(50, generator=generator) for _ in range(3)])
    together = prepared.log_probabilities(letters, ranks)
    for i in range(3):
        alone = prepared.log_probabilities(letters[i : i + 1], ranks[i : i + 1])[0]
        torch.testing.assert_close(together[i], alone, rtol=0, atol=1e-6)
    assert torch.allclose(together.exp().sum(dim=-1), torch.ones(3, 50), atol=1e-5)


def test_turned_and_moved_the_backbone_is_the_same() -> None:
    backbone = random_backbone(9, [60])
    order = torch.randperm(60, generator=torch.Generator().manual_seed(4))
    before = log_p(prepared_on(backbone), backbone, order)
    turn, _ = np.linalg.qr(np.random.default_rng(1).normal(size=(3, 3)))
    turn *= np.sign(np.linalg.det(turn))
    backbone.coordinates[:] = backbone.coordinates @ turn + [10.0, -20.0, 5.0]
    torch.testing.assert_close(
        log_p(prepared_on(backbone), backbone, order), before, rtol=0, atol=1e-3
    )


def saved(content: Any) -> Callable[[Path], None]:
    return lambda path: torch.save(content, path)


def written(content: bytes) -> Callable[[Path], None]:
    return lambda path: path.write_bytes(content) and None


def truncated(path: Path) -> None:
    path.write_bytes(weights("v_48_020").read_bytes()[:200_000])


def only_ca(path: Path) -> None:
    checkpoint = torch.load(weights("v_48_020"), weights_only=True)
    checkpoint["model_state_dict"]["features.node_embedding.weight"] = torch.zeros(128, 32)
    torch.save(checkpoint, path)


def wrong_shape(path: Path) -> None:
    checkpoint = torch.load(weights("v_48_020"), weights_only=True)
    checkpoint["model_state_dict"]["W_out.weight"] = torch.zeros(20, 128)
    torch.save(checkpoint, path)


def one_tensor_short(path: Path) -> None:
    checkpoint = torch.load(weights("v_48_020"), weights_only=True)
    del checkpoint["model_state_dict"]["W_s.weight"]
    torch.save(checkpoint, path)


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(written(b""), id="empty"),
        pytest.param(written(b"hello\n"), id="word"),
        pytest.param(written(b"this is a text file, not weights\n" * 30), id="text"),
        pytest.param(written(bytes(range(256)) * 8), id="bytes"),
        pytest.param(written(b"X" + b"\xc8" * 40), id="damaged string in a pickle"),
        pytest.param(truncated, id="truncated"),
        pytest.param(saved(torch.zeros(3)), id="a tensor"),
        pytest.param(saved([1, 2, 3]), id="a list"),
        pytest.param(saved({"num_edges": 48}), id="no tensors"),
        pytest.param(saved({"num_edges": "many", "model_state_dict": {}}), id="many edges"),
        pytest.param(saved({"num_edges": 48, "model_state_dict": {}}), id="no tensor"),
        pytest.param(saved({"num_edges": 48, "model_state_dict": [1]}), id="list of tensors"),
        pytest.param(wrong_shape, id="wrong shape"),
        pytest.param(one_tensor_short, id="one tensor short"),
        pytest.param(only_ca, id="another network's"),
    ],
)
def test_what_is_no_checkpoint_is_refused_by_name(
    make: Callable[[Path], None], tmp_path: Path
) -> None:
    path = tmp_path / "my_weights.pt"
    make(path)
    with pytest.raises(PatternmarkError, match=r"my_weights\.pt: not a ProteinMPNN checkpoint"):
        ProteinMPNN.load(path)


def test_a_checkpoint_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(PatternmarkError, match=r"absent\.pt"):
        ProteinMPNN.load(tmp_path / "absent.pt")


class Malicious:
    def __init__(self, victim: Path) -> None:
        self.victim = victim

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.victim),)


@pytest.mark.parametrize("how", ["torch", "pickle"])
def test_a_malicious_checkpoint_is_not_executed(how: str, tmp_path: Path) -> None:
    path, victim = tmp_path / "trap.pt", tmp_path / "executed"
    content = {"num_edges": 48, "model_state_dict": Malicious(victim)}
    if how == "torch":
        torch.save(content, path)
    else:
        path.write_bytes(pickle.dumps(content, protocol=2))
    with pytest.raises(PatternmarkError, match=r"trap\.pt: not a ProteinMPNN checkpoint"):
        ProteinMPNN.load(path)
    assert not victim.exists()
    torch.load(path, weights_only=False) if how == "torch" else pickle.loads(path.read_bytes())
    assert victim.exists()  # the trap works
