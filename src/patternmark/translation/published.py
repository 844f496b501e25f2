"""Read published CMLMs: checkpoints of fairseq's `cmlm_transformer` and of Mask-Predict.

Neither fairseq nor code from a checkpoint is used. The names and shapes of the tensors tell which
of the two a file is, and all sizes. The rest (the number of heads, the activation, ...) comes from
the training arguments in the file, or from fairseq's defaults.

Mask-Predict (`bert_transformer_seq2seq`): embeddings are not scaled; GELU; norms after the sums,
with an epsilon of 1e-12; an extra token predicts the length, which includes </s>; <mask> has the
id 4.
fairseq (`cmlm_transformer`): scaled embeddings; ReLU; the mean of the encoder's states predicts the
length, which includes <s> and </s>; <unk> is the mask.
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
from patternmark.io.bounded import VOCABULARY_BYTES, TooLargeError, read_bytes
from patternmark.io.tokenizer import Tokenizer, load_tokenizer
from patternmark.io.vocabulary import MASK_PREDICT, TOKENIZER, is_fairseq_dictionary
from patternmark.models.cmlm import CMLM, Config
from patternmark.models.tensor_file import CheckpointError, build, outline
from patternmark.models.torch_file import Bag, StoredTensor, TorchFile

__all__ = ["open_published"]

_DEFAULT_HEAD_WIDTH = 64  # if the arguments do not give the number of heads
_DEFAULT_POSITIONS = 1024  # fairseq's limit, if the arguments do not give one
_MOST_POSITIONS = 2**14  # a table of them takes 64 MB
_LONGEST_WORD = 100  # characters of an argument in a message
_FIRST_POSITION_ROW = 2  # the row of the first position in a table of positions
_EMBEDDING = "decoder.embed_tokens.weight"
_SAME_TABLE = ("encoder.embed_tokens.weight", "decoder.output_projection.weight")
_NO_WEIGHTS = re.compile(r".*(\.version|\._float_tensor)")
# From the names of Mask-Predict and of old versions of fairseq to fairseq's current names.
_RENAMED = (
    (re.compile(r"\.layer_norms\.0\."), ".self_attn_layer_norm."),
    (re.compile(r"\.layer_norms\.1\."), ".final_layer_norm."),
    (re.compile(r"\.gamma$"), ".weight"),
    (re.compile(r"\.beta$"), ".bias"),
)
_PARTS = {  # from the parts of our layers to fairseq's names
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
    """The properties by which the kinds of checkpoints differ."""

    name: str
    length_table: str
    dictionary: str  # a kind of vocabulary


_LAYOUTS = (
    _Layout("Mask-Predict", "encoder.embed_lengths.weight", MASK_PREDICT),
    _Layout("fairseq", "decoder.embed_length.weight", TOKENIZER),
)


@dataclass(frozen=True, eq=False)
class DictionaryCodec:
    """Turns texts into ids of a dictionary and back, like `TextCodec`, for published models.

    Texts are tokenized like the training data. With merges, words are split, and joined again in
    the output. Without merges, input must already be split (`low@@ er`), and output stays split,
    as otherwise it could not be read again. `io.subwords.joined` joins its words.
    """

    tokenizer: Tokenizer

    @property
    def size(self) -> int:
        return len(self.tokenizer.vocabulary.tokens)

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of texts, without special tokens except <unk>."""
        return [self.tokenizer.encode(text).tolist() for text in texts]

    def decode_batch(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """Return the texts of ids, without special tokens."""
        return [self.tokenizer.decode(list(row)) for row in ids]


def open_published(
    place: Path, device: str | torch.device = "cpu"
) -> tuple[CMLM, DictionaryCodec, Alphabet]:
    """Open a folder with a checkpoint (*.pt), dict.*.txt and, if needed, merges (`bpecodes`).

    If the folder has several checkpoints, `place` is the checkpoint itself.
    """
    folder = place if place.is_dir() else place.parent
    checkpoint = place if not place.is_dir() else _only(folder, folder.glob("*.pt"), "checkpoint")
    files = [file for file in folder.glob("dict*.txt") if is_fairseq_dictionary(file)]
    dictionary = _only(folder, files, "dictionary")
    model, codec = load_published(checkpoint, dictionary, device)
    return model, codec, codec.tokenizer.alphabet


def is_published(place: Path) -> bool:
    """Tell whether a folder or file looks like one for `open_published`."""
    if place.is_dir():
        return any(place.glob("*.pt")) and any(place.glob("dict*.txt"))
    return place.suffix == ".pt"


def load_published(
    checkpoint: Path, dictionary: Path, device: str | torch.device = "cpu"
) -> tuple[CMLM, DictionaryCodec]:
    """Load a checkpoint and its dictionary. Merges may be in the folder of the dictionary.

    Weights are converted to single precision.
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
            f"{_word(arguments, 'arch') or 'another model'}: it has no table of lengths"
        )
    tensors = _read_weights(source, stored)
    config = _config(checkpoint, layout, tensors, arguments)
    empty = outline(lambda: CMLM(config))
    name_of = {name: _name_in_fairseq(name, layout) for name in empty.state_dict()}
    ours = {theirs: name for name, theirs in name_of.items()}
    model = build(
        lambda: CMLM(config),
        {ours.get(name, name): tensor for name, tensor in tensors.items()},
        checkpoint,
        lambda name: name_of.get(name, name),
    )
    tokenizer = load_tokenizer(dictionary, layout.dictionary)
    if len(tokenizer.vocabulary.tokens) != config.vocab:
        raise CheckpointError(
            f"{dictionary}: has {len(tokenizer.vocabulary.tokens)} symbols, including those that "
            f"{layout.name} adds, but the checkpoint has {config.vocab}: give the dictionary that "
            f"{checkpoint} was trained with"
        )
    return model.to(device).eval(), DictionaryCodec(tokenizer)


def _only(folder: Path, files: Any, what: str) -> Path:
    """Return the first of files that must be identical; raise an error if they are not."""
    found: list[Path] = sorted(files)
    if not found:
        needed = "a checkpoint (*.pt) of fairseq or Mask-Predict and its dict.*.txt"
        raise InputError(f"{folder}: has no {what}: a published model is a folder with {needed}")
    if what == "checkpoint" and len(found) > 1:
        names = ", ".join(file.name for file in found)
        raise InputError(f"{folder}: has several checkpoints ({names}): name one of the files")
    try:
        kept = [read_bytes(file, VOCABULARY_BYTES) for file in found] if len(found) > 1 else []
        contents = set(kept)
    except OSError as error:
        raise InputError(f"{folder}: cannot be read: {error.strerror}") from None
    except TooLargeError as error:
        raise InputError(f"{folder}: a {what} in it cannot be read: {error}") from None
    if len(contents) > 1:
        names = ", ".join(file.name for file in found)
        raise InputError(
            f"{folder}: {names} differ: only models with one dictionary for source and target can "
            "be read"
        )
    return found[0]


def _arguments(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the training arguments of a network: `args` in old checkpoints, `cfg` in new ones."""
    found = _plain(content.get("args"))
    if not found:
        whole = _plain(content.get("cfg"))
        found = _plain(whole.get("model")) if isinstance(whole, dict) else None
    return found if isinstance(found, dict) else {}


def _plain(value: Any) -> Any:
    """Return the attributes of a bag as a dictionary, and the values of omegaconf's nodes."""
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


def _read_weights(source: TorchFile, stored: Mapping[str, StoredTensor]) -> dict[str, Tensor]:
    """Read the weights under fairseq's current names. The shared table of tokens is kept once."""
    found: dict[str, Tensor] = {}
    wanted = {name: place for name, place in stored.items() if not _NO_WEIGHTS.fullmatch(name)}
    for given, tensor in source.tensors(wanted):
        name, place = given, wanted[given]
        for pattern, words in _RENAMED:
            name = pattern.sub(words, name)
        begin, is_joint, kind = name.partition("in_proj_")
        if not is_joint:
            found[name] = tensor
            continue
        if not place.shape or place.shape[0] % 3:
            raise CheckpointError(
                f"{source.file}: tensor {given!r} of shape {place.shape} cannot be split into "
                "query, key and value"
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
    """Return the configuration of a network; add missing tables of positions to `tensors`."""
    is_fairseq = layout.dictionary == TOKENIZER
    missing = [name for name in (_EMBEDDING, "encoder.layers.0.fc1.weight") if name not in tensors]
    if missing:
        raise CheckpointError(f"{file}: tensor {missing[0]!r} is missing: the file is incomplete")
    if tensors[_EMBEDDING].dim() != 2:
        raise CheckpointError(f"{file}: tensor {_EMBEDDING!r} is not a table: the file is damaged")
    vocab, width = tensors[_EMBEDDING].shape
    if is_fairseq:
        _check_arguments(file, arguments)
        _add_waves(file, tensors, width, arguments)
    offset = 128 if is_fairseq and arguments.get("pred_length_offset") else None
    return Config(
        vocab=vocab,
        width=width,
        hidden=len(tensors["encoder.layers.0.fc1.weight"]),
        heads=_heads(file, width, arguments),
        encoder_layers=_num_layers(file, tensors, "encoder"),
        decoder_layers=_num_layers(file, tensors, "decoder"),
        dropout=0.0,
        pad=1,
        begin=0,
        end=2,
        mask=3 if is_fairseq else 4,
        norm_first="encoder.layer_norm.weight" in tensors,
        activation=_activation(arguments) if is_fairseq else "gelu",
        norm_eps=1e-5 if is_fairseq else 1e-12,
        learned_positions=_same_rows(tensors),
        scaled_embedding=is_fairseq and not arguments.get("no_scale_embedding"),
        length_from="mean" if is_fairseq else "token",
        lengths=len(tensors[layout.length_table]),
        length_offset=offset,
        ends="given" if is_fairseq else "predicted",
        # None of these was ever a target in training.
        never=(0, 1, 2, 3) if is_fairseq else (0, 1, 4),
    )


def _check_arguments(file: Path, arguments: Mapping[str, Any]) -> None:
    activation = _activation(arguments)
    if activation not in ("relu", "gelu"):
        raise CheckpointError(
            f"{file}: was trained with the activation {activation!r}, which is not supported: "
            "only relu and gelu are"
        )
    if arguments.get("src_embedding_copy"):
        raise CheckpointError(
            f"{file}: was trained with src_embedding_copy, which is not supported"
        )


def _activation(arguments: Mapping[str, Any]) -> Any:
    return _word(arguments, "activation_fn") or "relu"


def _word(arguments: Mapping[str, Any], name: str) -> str:
    """Return an argument that is a text; anything else, which may be endless, is never shown."""
    found = arguments.get(name) or ""
    return found[:_LONGEST_WORD] if isinstance(found, str) else "unknown"


def _heads(file: Path, width: int, arguments: Mapping[str, Any]) -> int:
    named = [
        arguments[name]
        for name in ("encoder_attention_heads", "decoder_attention_heads")
        if arguments.get(name)
    ] or [max(1, width // _DEFAULT_HEAD_WIDTH)]
    heads = named[0]
    are_sizes = all(type(one) is int and one > 0 for one in named)
    if not are_sizes or len(set(named)) > 1 or width % heads:
        raise CheckpointError(
            f"{file}: encoder and decoder must have the same number of heads, and it must be one "
            f"that divides {width}"
        )
    return int(heads)


def _num_layers(file: Path, tensors: Mapping[str, Tensor], side: str) -> int:
    numbers = [re.match(rf"{side}\.layers\.([0-9]{{1,9}})\.", name) for name in tensors]
    layers = max((int(number[1]) + 1 for number in numbers if number), default=0)
    if layers > len(tensors):
        raise CheckpointError(f"{file}: tensors of {side}.layers are missing: it is incomplete")
    return layers


def _add_waves(
    file: Path, tensors: dict[str, Tensor], width: int, arguments: Mapping[str, Any]
) -> None:
    """Add fairseq's tables of sines and cosines, which are not in its checkpoints."""
    for side, direction in (("encoder", "source"), ("decoder", "target")):
        positions = arguments.get(f"max_{direction}_positions") or _DEFAULT_POSITIONS
        if type(positions) is not int or not 0 < positions <= _MOST_POSITIONS:
            raise CheckpointError(
                f"{file}: max_{direction}_positions is not a number from 1 to {_MOST_POSITIONS}: "
                "the file is damaged"
            )
        rows = positions + _FIRST_POSITION_ROW
        name = f"{side}.embed_positions.weight"
        if name not in tensors:
            has_none = bool(arguments.get("no_token_positional_embeddings"))
            tensors[name] = torch.zeros(rows, width) if has_none else fairseq_waves(rows, width)


def fairseq_waves(rows: int, width: int) -> Tensor:
    """Return sines and cosines in fairseq's order: [rows, width].

    Its slowest wave is exactly 10,000 times slower than the fastest; ours is a little faster.
    """
    half = width // 2
    rates = torch.exp(torch.arange(half) * (-math.log(1e4) / max(1, half - 1)))
    angles = torch.arange(rows)[:, None] * rates
    return torch.cat([angles.sin(), angles.cos(), torch.zeros(rows, width % 2)], dim=1)


def _same_rows(tensors: dict[str, Tensor]) -> int:
    """Cut both tables of positions to the same number of rows, and return it.

    Our network has one limit for both, so it never uses the rows that are cut.
    """
    names = [f"{side}.embed_positions.weight" for side in ("encoder", "decoder")]
    rows = min((len(tensors[name]) for name in names if name in tensors), default=0)
    for name in names:
        if name in tensors:
            tensors[name] = tensors[name][:rows]
    return rows


def _name_in_fairseq(name: str, layout: _Layout) -> str:
    """Return fairseq's name of one of our tensors."""
    side, *middle, kind = name.split(".")
    if side in ("embedding", "length_embedding"):
        return _EMBEDDING if side == "embedding" else layout.length_table
    if not middle:
        whose, _, table = side.partition("_")
        return f"{whose}.{'embed_positions' if table == 'positions' else 'layer_norm'}.{kind}"
    number, *parts = middle
    return ".".join([side, "layers", number, *(_PARTS[part] for part in parts), kind])
