from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from patternmark.core.promote import Promotion
from patternmark.errors import InputError, SequenceError
from patternmark.io.vocabulary import parse_alphabet
from patternmark.models.cmlm import CMLM, Config
from patternmark.models.mask_predict import mask_predict
from patternmark.models.tensor_file import CheckpointError
from patternmark.translation.decode import Decoding, translate_ids
from patternmark.translation.published import (
    fairseq_waves,
    is_published,
    load_published,
    open_published,
)
from tests.translation import published_checkpoints as made
from tests.translation.published_checkpoints import (
    BEGIN,
    END,
    LENGTHS,
    MASK,
    PAD,
    UNKNOWN,
    Encoded,
    PlainFairseq,
    PlainMaskPredict,
    State,
    fairseq_state,
    mask_predict_state,
    write_checkpoint,
    write_dictionary,
)

EMBEDDING = "decoder.embed_tokens.weight"
PlainModel = PlainMaskPredict | PlainFairseq


def sources(first: int, number: int = 12, seed: int = 5) -> list[list[int]]:
    """Random sentences of different lengths, of words of a dictionary that begin at an id."""
    rng = np.random.default_rng(seed)
    return [
        rng.integers(first, first + len(made.WORDS), size=int(rng.integers(1, 14))).tolist()
        for _ in range(number)
    ]


def load(folder: Path, state: State, **choices: Any) -> CMLM:
    """Write a checkpoint in double precision, and load it into a network that is so too."""
    file = write_checkpoint(folder / "checkpoint.pt", state, dtype=torch.float64, **choices)
    dictionary = write_dictionary(folder)
    torch.set_default_dtype(torch.float64)
    try:
        return load_published(file, dictionary)[0]
    finally:
        torch.set_default_dtype(torch.float32)


@torch.inference_mode()
def assert_same_numbers(model: CMLM, plain: PlainModel, ids: list[list[int]]) -> None:
    """Compare lengths and logits of a padded batch with those of each sentence alone."""
    config = model.config
    longest = max(len(row) for row in ids) + 1
    batch = torch.tensor([[*row, END, *[PAD] * (longest - len(row) - 1)] for row in ids])
    memory = model.encode(batch)
    rng = np.random.default_rng(8)
    lengths = rng.integers(3, 12, size=len(ids))
    tokens = torch.full((len(ids), int(lengths.max())), PAD)
    for row, length in zip(tokens, lengths, strict=True):
        row[:length] = torch.from_numpy(rng.integers(5, config.vocab, size=length))
        row[rng.random(len(row)) < 0.4] = config.mask
        row[length:] = PAD
    visible = (tokens != PAD)[:, None, None]
    states = model.states(tokens, model.project(memory.states), memory.visible, visible)
    logits = model.logits(states)
    for i, (row, length) in enumerate(zip(ids, lengths, strict=True)):
        encoded = plain.encode([*row, END])
        wanted = encoded.lengths.log_softmax(-1).float()  # as single as `encode` gives them
        torch.testing.assert_close(memory.log_lengths[i], wanted, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(
            logits[i, :length],
            plain.logits(tokens[i, :length].tolist(), encoded),
            rtol=1e-9,
            atol=1e-9,
        )


def test_mask_predict_gives_the_published_numbers(tmp_path: Path) -> None:
    state = mask_predict_state()
    model = load(tmp_path, state)
    assert_same_numbers(model, PlainMaskPredict(state), sources(5))


@pytest.mark.parametrize("learned", [True, False])
@pytest.mark.parametrize("norm_first", [True, False])
def test_fairseq_gives_the_published_numbers(
    tmp_path: Path, learned: bool, norm_first: bool
) -> None:
    state = fairseq_state(learned=learned, norm_first=norm_first)
    model = load(tmp_path, state)
    assert model.config.learned_positions == (made.POSITIONS if learned else 1024) + 2
    assert_same_numbers(model, PlainFairseq(state, norm_first=norm_first), sources(4))


def test_sines_are_those_of_fairseq() -> None:
    table = fairseq_waves(1026, 512)
    for row, column in ((2, 0), (2, 255), (9, 100), (1025, 3)):
        angle = row / 10_000 ** (column / 255)
        assert table[row, column].item() == pytest.approx(math.sin(angle), abs=1e-4)
        assert table[row, 256 + column].item() == pytest.approx(math.cos(angle), abs=1e-4)


def mask_predict_plainly(
    plain: PlainModel, ids: list[int], beam: int, iterations: int
) -> tuple[list[int], bool]:
    """Decode one sentence as Mask-Predict does; say too whether a </s> stood inside."""
    encoded = plain.encode([*ids, END])
    lengths = encoded.lengths.log_softmax(-1).topk(beam).indices.clamp(min=2).tolist()
    best, best_score = [], -math.inf
    for length in lengths:
        tokens, p = _guess(plain, [MASK] * length, encoded)
        for counter in range(1, iterations):
            number = max(1, _part(length, 1.0 - counter / iterations))
            worst = p.topk(number, largest=False).indices.tolist()
            for place in worst:
                tokens[place] = MASK
            new_tokens, new_p = _guess(plain, tokens, encoded)
            for place in worst:
                tokens[place], p[place] = new_tokens[place], new_p[place]
        score = p.log().sum().item() / length
        if score > best_score:
            best, best_score = tokens, score
    return [token for token in best if token != END], END in best[:-1]


def _part(number: int, share: float) -> int:
    """Round down as published: the product is a number of single precision."""
    return int(torch.tensor(number, dtype=torch.float32) * share)


def _guess(plain: PlainModel, tokens: list[int], encoded: Encoded) -> tuple[list[int], Tensor]:
    p, found = plain.logits(tokens, encoded).softmax(-1).max(dim=-1)
    return found.tolist(), p


@pytest.mark.slow
@pytest.mark.parametrize(("beam", "iterations"), [(5, 10), (1, 4), (3, 1)])
def test_mask_predict_decodes_as_published(tmp_path: Path, beam: int, iterations: int) -> None:
    state = mask_predict_state(seed=2)
    state[EMBEDDING][END] = 1.2 * state[EMBEDDING][27]  # a </s> that is likely also inside
    model, plain = load(tmp_path, state), PlainMaskPredict(state)
    ids = sources(5, number=30)
    found = translate_ids(model, ids, Decoding(iterations, beam, batch_tokens=64))
    wanted = [mask_predict_plainly(plain, row, beam, iterations) for row in ids]
    assert found == [tokens for tokens, _ in wanted]
    assert any(is_inside for _, is_inside in wanted)  # so that its place is tested too
    assert len({tuple(tokens) for tokens in found}) > 20
    # What we never choose, the published loop does not choose either once it is as in training.
    assert not {BEGIN, PAD, MASK} & {token for tokens in found for token in tokens}


def fairseq_plainly(
    plain: PlainModel, ids: list[int], beam: int, passes: int, *, adaptive: bool = False
) -> list[tuple[list[int], float]]:
    """Return every candidate of fairseq's iterative refinement, with its score."""
    encoded = plain.encode([*ids, END])
    likeliest = max(2, int(encoded.lengths.argmax()))
    found = []
    for i in range(beam):
        length = max(2, likeliest + i - beam // 2)
        tokens = [BEGIN, *[UNKNOWN] * (length - 2), END]
        scores = torch.zeros(length, dtype=torch.float64)
        for step in range(passes):
            before = list(tokens)
            log_p, chosen = plain.logits(tokens, encoded).log_softmax(-1).max(dim=-1)
            for place in [j for j, token in enumerate(tokens) if token == UNKNOWN]:
                tokens[place], scores[place] = int(chosen[place]), log_p[place]
            if step + 1 < passes:
                number = _part(length - 2, 1 - (step + 1) / passes)
                for place in scores.argsort()[:number].tolist():
                    tokens[place], scores[place] = UNKNOWN, 0.0
            if adaptive and tokens == before:
                break
        found.append((tokens, scores.mean().item()))
    return found


@pytest.mark.parametrize("offset", [True, False])
@pytest.mark.parametrize(("beam", "passes"), [(1, 10), (5, 10), (4, 3), (3, 1)])
def test_fairseq_decodes_as_published(tmp_path: Path, offset: bool, beam: int, passes: int) -> None:
    state = fairseq_state(seed=3)
    # Lengths that the table of positions has, and no empty ones: 12 to 39, or -8 to 19 more.
    table = state["decoder.embed_length.weight"]
    low = 120 if offset else 12
    table[:low], table[low + 28 :] = 0.0, 0.0
    table[low : low + 28] *= 5.0
    model = load(tmp_path, state, pred_length_offset=offset)
    plain = PlainFairseq(state)
    ids = sources(4, number=20)
    if offset:
        ids = [row for row in ids if len(row) >= 13] + [sources(4, 1, s)[0] * 2 for s in range(8)]
        ids = [row for row in ids if len(row) + 1 - 8 - beam // 2 >= 3]
    found = translate_ids(model, ids, Decoding(passes, beam, batch_tokens=64))
    for row, tokens in zip(ids, found, strict=True):
        encoded = _shifted(plain, row) if offset else plain
        candidates = fairseq_plainly(encoded, row, beam, passes)
        best = max(candidates, key=lambda candidate: candidate[1])[0]
        assert tokens == best[1:-1]
        assert not {BEGIN, PAD, END, UNKNOWN} & set(tokens)
    assert len({tuple(tokens) for tokens in found}) > len(ids) // 2


def _shifted(plain: PlainFairseq, ids: list[int]) -> PlainModel:
    """A network whose class 128 means as many tokens as the source has, with its </s>."""

    class Shifted(PlainFairseq):
        def encode(self, ids: list[int]) -> Encoded:
            encoded = super().encode(ids)
            lengths = torch.full((400,), -math.inf, dtype=torch.float64)
            for kind, value in enumerate(encoded.lengths.tolist()):
                if 0 <= kind - 128 + len(ids) < 400:
                    lengths[kind - 128 + len(ids)] = value
            return Encoded(encoded.states, lengths)

    return Shifted(plain.state, norm_first=plain.norm_first)


def test_the_early_stop_of_fairseq_changes_nothing_or_leaves_masks() -> None:
    state = fairseq_state(seed=3)
    state["decoder.embed_length.weight"][20:] = 0.0
    state["decoder.embed_length.weight"][3:20] *= 5.0
    plain = PlainFairseq(state)
    stopped = unfinished = 0
    for row in sources(4, number=12):
        whole = fairseq_plainly(plain, row, 3, 10)
        for (tokens, _), (early, _) in zip(
            whole, fairseq_plainly(plain, row, 3, 10, adaptive=True), strict=True
        ):
            stopped += 1
            if UNKNOWN in early:
                unfinished += 1
            else:
                assert early == tokens
    assert 0 < unfinished < stopped


def test_an_empty_translation_is_no_candidate_of_fairseq(tmp_path: Path) -> None:
    state = fairseq_state()
    state["decoder.embed_length.weight"][:] = 0.0  # class 0 is the first of equals
    model = load(tmp_path, state)
    found = translate_ids(model, sources(4), Decoding(4, 5))
    assert {len(tokens) for tokens in found} == {1}


def test_the_first_token_has_the_first_key(tmp_path: Path) -> None:
    # Promoted so strongly that position j says token 10 + j, whatever the model would say.
    for name, state in (("a", mask_predict_state()), ("b", fairseq_state())):
        (folder := tmp_path / name).mkdir()
        model = load(folder, state)
        promoted = torch.zeros(20, model.config.vocab, dtype=torch.bool)
        promoted[torch.arange(20), 10 + torch.arange(20)] = True
        rows = torch.arange(20).expand(2, 20)
        memory = model.encode(torch.tensor([[7, 8, END], [9, END, PAD]]))
        candidates = mask_predict(
            model,
            memory,
            torch.tensor([[5, 9], [7, 3]]),
            iterations=3,
            promotion=Promotion(promoted, rows, strength=1e6),
        )
        ends = 2 if model.config.ends == "given" else 0
        for tokens, length, wanted in zip(
            candidates.tokens.flatten(0, 1).tolist(),
            candidates.lengths.flatten().tolist(),
            [5, 9, 7, 3],
            strict=True,
        ):
            assert length == wanted - ends
            assert tokens[:length] == [10 + j for j in range(length)]


@pytest.mark.parametrize("old_format", [True, False])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_all_forms_of_a_file_are_the_same_network(
    tmp_path: Path, old_format: bool, dtype: torch.dtype
) -> None:
    state = mask_predict_state()
    dictionary = write_dictionary(tmp_path)
    file = write_checkpoint(tmp_path / "a.pt", state, dtype=dtype, old_format=old_format)
    model, codec = load_published(file, dictionary)
    assert codec.size == model.config.vocab == made.MASK_PREDICT_VOCAB
    weights = model.state_dict()
    third = made.WIDTH
    joint = state["decoder.layers.1.encoder_attn.in_proj_weight"].to(dtype).float()
    for i, part in enumerate(("query", "key", "value")):
        ours = weights[f"decoder.1.cross.{part}.weight"]
        assert ours.dtype == torch.float32
        assert torch.equal(ours, joint[i * third : (i + 1) * third])
    assert torch.equal(weights["embedding.weight"], state[EMBEDDING].to(dtype).float())


def test_split_projections_are_read_in_mask_predict_too(tmp_path: Path) -> None:
    state = mask_predict_state()
    joint = load(tmp_path, state).state_dict()
    for name in [name for name in state if "in_proj_" in name]:
        begin, _, kind = name.partition("in_proj_")
        for letter, part in zip("qkv", state.pop(name).chunk(3), strict=True):
            state[f"{begin}{letter}_proj.{kind}"] = part.clone()
    for name, tensor in load(tmp_path, state).state_dict().items():
        assert torch.equal(tensor, joint[name])


def test_what_tensors_do_not_tell_the_arguments_tell(tmp_path: Path) -> None:
    dictionary = write_dictionary(tmp_path)
    choices = {"activation_fn": "gelu", "pred_length_offset": True, "no_scale_embedding": True}
    for new_cfg in (True, False):
        file = write_checkpoint(tmp_path / "a.pt", fairseq_state(), new_cfg=new_cfg, **choices)
        config = load_published(file, dictionary)[0].config
        assert config == Config(
            vocab=made.FAIRSEQ_VOCAB,
            width=made.WIDTH,
            hidden=made.HIDDEN,
            heads=made.HEADS,
            encoder_layers=made.LAYERS,
            decoder_layers=made.LAYERS,
            dropout=0.0,
            pad=PAD,
            begin=BEGIN,
            end=END,
            mask=UNKNOWN,
            norm_first=False,
            activation="gelu",
            learned_positions=made.POSITIONS + 2,
            scaled_embedding=False,
            length_from="mean",
            length_offset=128,
            ends="given",
            never=(BEGIN, PAD, END, UNKNOWN),
        )
    file = write_checkpoint(tmp_path / "b.pt", mask_predict_state())
    config = load_published(file, dictionary)[0].config
    assert (config.mask, config.lengths, config.norm_eps) == (MASK, LENGTHS, 1e-12)
    assert (config.activation, config.scaled_embedding, config.ends) == (
        "gelu",
        False,
        "predicted",
    )
    assert (config.length_from, config.length_offset) == ("token", None)


def test_the_published_size_has_the_published_number_of_parameters() -> None:
    config = Config(
        vocab=1000, width=512, hidden=2048, heads=8, encoder_layers=6, decoder_layers=6,
        norm_first=False, learned_positions=10_002, lengths=10_000,
    )  # fmt: skip
    with torch.device("meta"):
        model = CMLM(config)
    number = sum(parameter.numel() for parameter in model.parameters())
    assert number == 44_138_496 + 15_362_048 + 512 * 1000


def _without(name: str) -> State:
    state = fairseq_state()
    del state[name]
    return state


@pytest.mark.parametrize(
    ("state", "choices", "says"),
    [
        (_without("decoder.layers.1.encoder_attn.v_proj.bias"), {},
         "tensor 'decoder.layers.1.encoder_attn.v_proj.bias' is missing"),
        (_without("decoder.embed_length.weight"), {"arch": "levenshtein_transformer"},
         "neither .* but levenshtein_transformer"),
        (_without("decoder.embed_tokens.weight"), {}, "'decoder.embed_tokens.weight' is missing"),
        (fairseq_state() | {"encoder.layernorm_embedding.weight": torch.ones(16)}, {},
         "tensor 'encoder.layernorm_embedding.weight' is not part of this model"),
        (fairseq_state() | {"decoder.layers.0.fc1.weight": torch.ones(20, 16)}, {},
         r"'decoder.layers.0.fc1.weight' has the shape \(20, 16\), not \(24, 16\)"),
        (mask_predict_state() | {"encoder.layers.0.self_attn.in_proj_bias": torch.ones(16)}, {},
         r"'encoder.layers.0.self_attn.in_proj_bias' of shape \(16,\) cannot be split"),
        (fairseq_state() | {"decoder.output_projection.weight": torch.ones(44, 16)}, {},
         "'decoder.output_projection.weight' differs .*share one table"),
        (fairseq_state(), {"activation_fn": "swish"}, "activation 'swish', which is not supported"),
        (fairseq_state(), {"src_embedding_copy": True}, "src_embedding_copy"),
        (fairseq_state(), {"encoder_attention_heads": 4}, "same number of heads"),
        (fairseq_state(), {"encoder_attention_heads": 3, "decoder_attention_heads": 3},
         "divides 16"),
        (fairseq_state(), {"encoder_attention_heads": [2], "decoder_attention_heads": [2]},
         "divides 16"),
        (fairseq_state(), {"max_source_positions": 10**9}, "not a number from 1 to 16384"),
        (fairseq_state(), {"max_target_positions": "many"}, "not a number from 1 to 16384"),
        (fairseq_state() | {"encoder.layers.900000000.fc1.weight": torch.ones(24, 16)}, {},
         "tensors of encoder.layers are missing"),
        (_without("decoder.embed_length.weight"), {"arch": ["x"]}, "neither .* but unknown"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_named(
    tmp_path: Path, state: State, choices: dict[str, Any], says: str
) -> None:
    file = write_checkpoint(tmp_path / "a.pt", state, **choices)
    with pytest.raises(CheckpointError, match=says) as caught:
        load_published(file, write_dictionary(tmp_path))
    assert str(file) in str(caught.value)


def test_a_file_without_a_model_is_no_checkpoint(tmp_path: Path) -> None:
    torch.save({"model": {"a": 1}}, tmp_path / "a.pt")
    torch.save([1, 2], tmp_path / "b.pt")
    for name in ("a.pt", "b.pt"):
        with pytest.raises(CheckpointError, match="it has no 'model'"):
            load_published(tmp_path / name, write_dictionary(tmp_path))


def test_a_folder_is_opened_and_translates_text(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "checkpoint_best.pt", mask_predict_state())
    write_dictionary(tmp_path)
    assert is_published(tmp_path)
    model, codec, alphabet = open_published(tmp_path)
    assert alphabet == parse_alphabet(f"mask-predict:{tmp_path / 'dict.en.txt'}")
    assert alphabet.size == model.config.vocab
    ids = codec.encode_batch(["w1 w4@@ w2", "", "w7 <mask> unheard"])
    assert ids == [[6, 9, 7], [], [12, UNKNOWN, UNKNOWN]]
    found = translate_ids(model, ids, Decoding())
    assert found[1] == []
    assert found[0]
    # Without merges nothing could split words again: the text stays as it is.
    assert codec.encode_batch(codec.decode_batch(found)) == found


def test_with_merges_words_are_split_and_put_together(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "checkpoint_best.pt", mask_predict_state())
    write_dictionary(tmp_path)
    lines = ["#version: 0.2", "w 4", "w 1</w>", "w 8", "w 5</w>"]
    (tmp_path / "bpecodes").write_text("\n".join(lines) + "\n", encoding="utf-8")
    _, codec, _ = open_published(tmp_path)
    ids = codec.encode_batch(["w4w1 w1 w8w4w5", "w4@@ w1"])
    assert ids == [[9, 6, 6, 13, 9, 10], [9, 6]]
    assert codec.decode_batch([*ids, [9, 6, PAD, END]]) == ["w4w1 w1 w8w4w5", "w4w1", "w4w1"]
    assert codec.tokenizer.backend.begins("w4w1  w8w4w5 w2") == [0, 2, 6, 8, 10, 13]


def test_a_folder_says_what_is_wrong_with_it(tmp_path: Path) -> None:
    assert not is_published(tmp_path)
    with pytest.raises(InputError, match="has no checkpoint"):
        open_published(tmp_path)
    file = write_checkpoint(tmp_path / "a.pt", mask_predict_state())
    with pytest.raises(InputError, match="has no dictionary"):
        open_published(tmp_path)
    dictionary = write_dictionary(tmp_path)
    write_checkpoint(tmp_path / "b.pt", mask_predict_state())
    with pytest.raises(InputError, match=r"several checkpoints \(a.pt, b.pt\)"):
        open_published(tmp_path)
    assert open_published(file)[0].config.vocab == made.MASK_PREDICT_VOCAB
    whole = dictionary.read_text(encoding="utf-8")
    dictionary.write_text(whole + "more 1\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"dict.en.txt, dict.ro.txt differ"):
        open_published(file)
    (tmp_path / "dict.ro.txt").unlink()
    with pytest.raises(CheckpointError, match=r"has 46 symbols.* the checkpoint has 45"):
        open_published(file)


def test_a_source_that_is_too_long_is_named(tmp_path: Path) -> None:
    model = load(tmp_path, mask_predict_state())
    longest = [7] * (made.POSITIONS - 1)
    assert translate_ids(model, [longest], Decoding(2, 2))[0]
    with pytest.raises(SequenceError, match="source 2 has 64 tokens, but this model reads 63"):
        translate_ids(model, [longest, [*longest, 7]], Decoding(2, 2))
