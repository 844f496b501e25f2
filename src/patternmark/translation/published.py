"""Published CMLMs: checkpoints of fairseq's `cmlm_transformer` and of Mask-Predict.

Neither fairseq nor code out of a checkpoint is used. Which of the two a file is, and all sizes,
are told by the names and shapes of its tensors; what they cannot tell (the number of heads, the
activation, ...) by the arguments it was trained with, or fairseq's defaults.

Mask-Predict (`bert_transformer_seq2seq`): embeddings as they are, GELU, norms after the sums with
an epsilon of 1e-12; the length, with </s>, comes from a token of its own; <mask> has the id 4.
fairseq (`cmlm_transformer`): scaled embeddings, ReLU, the length, with <s> and </s>, comes from the
mean of the encoder's states; <unk> is the mask.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from patternmark.core.alphabet import Alphabet
from patternmark.errors import InputError
from patternmark.io.tokenizer import Tokenizer, load_tokenizer
from patternmark.io.vocabulary import MASK_PREDICT, TOKENIZER, is_fairseq_dictionary
from patternmark.models.cmlm import CMLM, Config
from patternmark.models.tensor_file import CheckpointError, fill
from patternmark.translation.torch_file import Bag, StoredTensor, TorchFile

_HEAD = 64  # the width of an attention head where the arguments do not say
_POSITIONS = 1024  # that fairseq allows where the arguments do not say
_BEFORE_POSITIONS = 2  # rows of a table of positions before the first one's
_EMBEDDING = "decoder.embed_tokens.weight"
_SAME_TABLE = ("encoder.embed_tokens.weight", "decoder.output_projection.weight")
_NO_WEIGHTS = re.compile(r".*(\.version|\._float_tensor)")
# Mask-Predict's names, and those of old versions of fairseq, in fairseq's words.
_RENAMED = (
    (re.compile(r"\.layer_norms\.0\."), ".self_attn_layer_norm."),
    (re.compile(r"\.layer_norms\.1\."), ".final_layer_norm."),
    (re.compile(r"\.gamma$"), ".weight"),
    (re.compile(r"\.beta$"), ".bias"),
)
_PARTS = {  # of our layers, in fairseq's words
    "own": "self_attn",
    "cross": "encoder_attn",
    "query": "q_proj",
    "key": "k_proj",
    "value": "v_proj",
    "out": "out_proj",
    "own_norm": "self_attn_layer_norm",
    "cross_norm": "encoder_attn_layer_norm",
    "up": "fc1",
    "down": "fc2",
    "last_norm": "final_layer_norm",
}


class _Layout(NamedTuple):
    """What sets one kind of checkpoint apart."""

    name: str
    length_table: str
    dictionary: str  # a kind of vocabulary


_LAYOUTS = (
    _Layout("Mask-Predict", "encoder.embed_lengths.weight", MASK_PREDICT),
    _Layout("fairseq", "decoder.embed_length.weight", TOKENIZER),
)


@dataclass(frozen=True, eq=False)
class DictionaryCodec:
    """Texts to ids of a dictionary and back: as `TextCodec`, for published models.

    Texts are tokenized as the training data was. With merges, words are split and put together
    again; without, texts are split already (`low@@ er`), and stay so: else nothing could read
    them again. `io.subwords.joined` puts their words together.
    """

    tokenizer: Tokenizer

    @property
    def size(self) -> int:
        return len(self.tokenizer.vocabulary.tokens)

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of texts, without special ones but <unk>."""
        return [self.tokenizer.encode(text).tolist() for text in texts]

    def decode_batch(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """Return the texts of ids; special ones have none."""
        return [self.tokenizer.decode(list(row)) for row in ids]


def open_published(
    place: Path, device: str | torch.device = "cpu"
) -> tuple[CMLM, DictionaryCodec, Alphabet]:
    """Open a folder with a checkpoint (*.pt), dict.*.txt and perhaps merges (`bpecodes`).

    `place` may be the checkpoint itself, if the folder has several.
    """
    folder = place if place.is_dir() else place.parent
    checkpoint = place if not place.is_dir() else _only(folder, folder.glob("*.pt"), "checkpoint")
    files = [file for file in folder.glob("dict*.txt") if is_fairseq_dictionary(file)]
    dictionary = _only(folder, files, "dictionary")
    model, codec = load_published(checkpoint, dictionary, device)
    return model, codec, codec.tokenizer.alphabet


def is_published(place: Path) -> bool:
    """Whether a folder or file looks like what `open_published` opens."""
    if place.is_dir():
        return any(place.glob("*.pt")) and any(place.glob("dict*.txt"))
    return place.suffix == ".pt"


def load_published(
    checkpoint: Path, dictionary: Path, device: str | torch.device = "cpu"
) -> tuple[CMLM, DictionaryCodec]:
    """Load a checkpoint and the dictionary it was trained with; merges may lie beside the latter.

    The weights are kept in single precision, whatever the file has.
    """
    source = TorchFile(checkpoint)
    content = source.content
    stored = content.get("model") if isinstance(content, dict) else None
    if not isinstance(stored, dict) or not all(
        isinstance(name, str) and isinstance(tensor, StoredTensor)
        for name, tensor in stored.items()
    ):
        raise CheckpointError(f"{checkpoint}: not a checkpoint of fairseq: it has no 'model'")
    arguments = _arguments(content)
    layout = next((known for known in _LAYOUTS if known.length_table in stored), None)
    if layout is None:
        raise CheckpointError(
            f"{checkpoint}: neither a 'cmlm_transformer' nor a 'bert_transformer_seq2seq', but "
            f"{arguments.get('arch') or 'something else'}: it has no table of lengths"
        )
    tensors = _in_fairseq_words(source, stored)
    config = _config(checkpoint, layout, tensors, arguments)
    model = CMLM(config)
    name_of = {name: _name_in_fairseq(name, layout) for name in model.state_dict()}
    ours = {theirs: name for name, theirs in name_of.items()}
    fill(
        model,
        {ours.get(name, name): tensor for name, tensor in tensors.items()},
        checkpoint,
        lambda name: name_of.get(name, name),
    )
    tokenizer = load_tokenizer(dictionary, layout.dictionary)
    if len(tokenizer.vocabulary.tokens) != config.vocab:
        raise CheckpointError(
            f"{dictionary}: has {len(tokenizer.vocabulary.tokens)} symbols with those of "
            f"{layout.name} itself, the checkpoint {config.vocab}: give the dictionary that "
            f"{checkpoint} was trained with"
        )
    return model.to(device).eval(), DictionaryCodec(tokenizer)


def _only(folder: Path, files: Any, what: str) -> Path:
    """Return the first of files that are all the same, or say what is wrong with the folder."""
    found: list[Path] = sorted(files)
    if not found:
        needed = "a checkpoint (*.pt) of fairseq or Mask-Predict and its dict.*.txt"
        raise InputError(f"{folder}: has no {what}; a published model is a folder with {needed}")
    if what == "checkpoint" and len(found) > 1:
        names = ", ".join(file.name for file in found)
        raise InputError(f"{folder}: has several checkpoints ({names}): name one of the files")
    try:
        contents = {file.read_bytes() for file in found} if len(found) > 1 else set()
    except OSError as error:
        raise InputError(f"{folder}: cannot be read: {error.strerror}") from None
    if len(contents) > 1:
        names = ", ".join(file.name for file in found)
        raise InputError(
            f"{folder}: {names} differ: only models with one dictionary for source and target are "
            "read"
        )
    return found[0]


def _arguments(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the network was trained with: old checkpoints have args, new ones cfg."""
    found = _plain(content.get("args"))
    if not found:
        whole = _plain(content.get("cfg"))
        found = _plain(whole.get("model")) if isinstance(whole, dict) else None
    return found if isinstance(found, dict) else {}


def _plain(value: Any) -> Any:
    """Return the attributes of a bag as a dictionary, and what omegaconf's nodes stand for."""
    if isinstance(value, Bag):
        attributes = vars(value)
        for inner in ("_content", "_val"):
            if inner in attributes:
                return _plain(attributes[inner])
        value = attributes
    if isinstance(value, dict):
        return {
            name: _plain(entry) if isinstance(entry, Bag) else entry
            for name, entry in value.items()
        }
    return value


def _in_fairseq_words(source: TorchFile, stored: Mapping[str, StoredTensor]) -> dict[str, Tensor]:
    """Read the weights under the names of today's fairseq; one table for all is kept once."""
    found: dict[str, Tensor] = {}
    for given, place in stored.items():
        if _NO_WEIGHTS.fullmatch(given):
            continue
        name, tensor = given, source.tensor(place)
        for pattern, words in _RENAMED:
            name = pattern.sub(words, name)
        begin, is_joint, kind = name.partition("in_proj_")
        if not is_joint:
            found[name] = tensor
            continue
        if not place.shape or place.shape[0] % 3:
            raise CheckpointError(
                f"{source.file}: tensor {given!r} of shape {place.shape} is not of three parts"
            )
        for letter, part in zip("qkv", tensor.chunk(3), strict=True):
            found[f"{begin}{letter}_proj.{kind}"] = part
    for name in _SAME_TABLE:
        if name in found and _EMBEDDING in found:
            if not torch.equal(found[name], found[_EMBEDDING]):
                raise CheckpointError(
                    f"{source.file}: {name!r} differs from {_EMBEDDING!r}: only models that "
                    "share one table for source, target and output can be read"
                )
            del found[name]
    return found


def _config(
    file: Path, layout: _Layout, tensors: dict[str, Tensor], arguments: Mapping[str, Any]
) -> Config:
    """Work out a network's configuration; put the tables of positions that it lacks in place."""
    is_fairseq = layout.dictionary == TOKENIZER
    missing = [name for name in (_EMBEDDING, "encoder.layers.0.fc1.weight") if name not in tensors]
    if missing:
        raise CheckpointError(f"{file}: tensor {missing[0]!r} is missing: the file is incomplete")
    vocab, width = tensors[_EMBEDDING].shape
    if is_fairseq:
        _refuse_unknown_arts(file, arguments)
        _add_waves(tensors, width, arguments)
    offset = 128 if is_fairseq and arguments.get("pred_length_offset") else None
    return Config(
        vocab=vocab,
        width=width,
        hidden=len(tensors["encoder.layers.0.fc1.weight"]),
        heads=_heads(file, width, arguments),
        encoder_layers=_num_layers(tensors, "encoder"),
        decoder_layers=_num_layers(tensors, "decoder"),
        dropout=0.0,
        pad=1,
        begin=0,
        end=2,
        mask=3 if is_fairseq else 4,
        norm_first="encoder.layer_norm.weight" in tensors,
        activation=(arguments.get("activation_fn") or "relu") if is_fairseq else "gelu",
        norm_eps=1e-5 if is_fairseq else 1e-12,
        learned_positions=_same_rows(tensors),
        scaled_embedding=is_fairseq and not arguments.get("no_scale_embedding"),
        length_from="mean" if is_fairseq else "token",
        lengths=len(tensors[layout.length_table]),
        length_offset=offset,
        ends="given" if is_fairseq else "predicted",
        # In training none of these was ever to be predicted.
        never=(0, 1, 2, 3) if is_fairseq else (0, 1, 4),
    )


def _refuse_unknown_arts(file: Path, arguments: Mapping[str, Any]) -> None:
    activation = arguments.get("activation_fn") or "relu"
    if activation not in ("relu", "gelu"):
        raise CheckpointError(f"{file}: was trained with the activation {activation!r}: not known")
    if arguments.get("src_embedding_copy"):
        raise CheckpointError(
            f"{file}: was trained with src_embedding_copy, which is not supported"
        )


def _heads(file: Path, width: int, arguments: Mapping[str, Any]) -> int:
    given = {
        arguments[name]
        for name in ("encoder_attention_heads", "decoder_attention_heads")
        if arguments.get(name)
    } or {max(1, width // _HEAD)}
    heads = given.pop()
    if given or type(heads) is not int or width % heads:
        raise CheckpointError(
            f"{file}: encoder and decoder must have the same number of heads, one that divides "
            f"{width}"
        )
    return heads


def _num_layers(tensors: Mapping[str, Tensor], side: str) -> int:
    numbers = [re.match(rf"{side}\.layers\.(\d+)\.", name) for name in tensors]
    return max((int(number[1]) + 1 for number in numbers if number), default=0)


def _add_waves(tensors: dict[str, Tensor], width: int, arguments: Mapping[str, Any]) -> None:
    """Add fairseq's tables of sines and cosines, which its checkpoints do not hold."""
    for side, direction in (("encoder", "source"), ("decoder", "target")):
        rows = int(arguments.get(f"max_{direction}_positions") or _POSITIONS) + _BEFORE_POSITIONS
        name = f"{side}.embed_positions.weight"
        if name not in tensors:
            has_none = bool(arguments.get("no_token_positional_embeddings"))
            tensors[name] = torch.zeros(rows, width) if has_none else fairseq_waves(rows, width)


def fairseq_waves(rows: int, width: int) -> Tensor:
    """Return sines and cosines as fairseq lays them out: [rows, width].

    Its slowest wave is 10,000 times as slow as the fastest; ours is not quite.
    """
    half = width // 2
    rates = torch.exp(torch.arange(half) * (-math.log(1e4) / max(1, half - 1)))
    angles = torch.arange(rows)[:, None] * rates
    return torch.cat([angles.sin(), angles.cos(), torch.zeros(rows, width % 2)], dim=1)


def _same_rows(tensors: dict[str, Tensor]) -> int:
    """Cut the longer table of positions, whose end a network with one limit does not reach."""
    names = [f"{side}.embed_positions.weight" for side in ("encoder", "decoder")]
    rows = min((len(tensors[name]) for name in names if name in tensors), default=0)
    for name in names:
        if name in tensors:
            tensors[name] = tensors[name][:rows]
    return rows


def _name_in_fairseq(name: str, layout: _Layout) -> str:
    """Return fairseq's name for a tensor of ours."""
    side, *middle, kind = name.split(".")
    if side in ("embedding", "length_embedding"):
        return _EMBEDDING if side == "embedding" else layout.length_table
    if not middle:
        whose, _, table = side.partition("_")
        return f"{whose}.{'embed_positions' if table == 'positions' else 'layer_norm'}.{kind}"
    number, *parts = middle
    return ".".join([side, "layers", number, *(_PARTS[part] for part in parts), kind])
