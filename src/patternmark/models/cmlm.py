"""CMLM, the conditional masked language model of Mask-Predict (Ghazvininejad et al., 2019).

An encoder reads the source and predicts the length of the translation. A decoder without a causal
mask sees the whole translation, some of it masked, and predicts all masked tokens at once.
`mask_predict` decodes with it.

Shapes: B sentences, S source tokens, N candidates (sentences times lengths), L target tokens,
D width, V vocabulary. The published networks (read by `translation.published`) differ from ours in
details that are fields of `Config`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Self, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from patternmark.models.products import PackedWeights, Product


@dataclass(frozen=True)
class Config:
    """The sizes of a network, and the details in which published networks differ from ours."""

    vocab: int
    width: int = 320
    hidden: int = 1152
    heads: int = 5
    encoder_layers: int = 6
    decoder_layers: int = 4
    dropout: float = 0.1
    pad: int = 0
    begin: int = 1
    end: int = 2
    mask: int = 3
    causal: bool = False  # the autoregressive teacher is the same network with a causal decoder
    norm_first: bool = True
    activation: Literal["gelu", "relu"] = "gelu"
    norm_eps: float = 1e-5
    learned_positions: int = 0  # rows of the tables, from which position 0 takes row 2; 0: waves
    scaled_embedding: bool = True  # multiply by the square root of the width
    # The encoder state that predicts the length: of an extra token, whose embedding is that of
    # length class 0, or the mean over the source.
    length_from: Literal["token", "mean"] = "token"
    lengths: int = 256  # number of length classes
    length_offset: int | None = 128  # class 128: as long as the source; None: classes are lengths
    # Whether a translation has a </s> during decoding. "given": <s> and </s> are there from the
    # start. A source has a </s> if its translation has one.
    ends: Literal["none", "predicted", "given"] = "none"
    never: tuple[int, ...] = (0, 1, 2, 3, 4)  # ids that are never part of a translation


class Attention(nn.Module):
    both: PackedWeights | None = None  # keys and values as one product

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.heads = config.heads
        width = config.width
        self.query, self.key = Product(width, width), nn.Linear(width, width)
        self.value, self.out = nn.Linear(width, width), Product(width, width)

    def pack(self) -> None:
        parts = self.key, self.value
        self.both = PackedWeights(
            torch.cat([part.weight for part in parts]), torch.cat([part.bias for part in parts])
        )

    def unpack(self) -> None:
        self.both = None

    def project(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Return the keys and values of states [B, K, D]: [B, heads, K, D / heads] each."""
        if self.both is None:
            return self._split(self.key(memory)), self._split(self.value(memory))
        keys, values = self.both(memory).chunk(2, dim=-1)
        return self._split(keys), self._split(values)

    def forward(
        self,
        x: Tensor,
        memory: tuple[Tensor, Tensor],
        visible: Tensor | None,
        causal: bool = False,
    ) -> Tensor:
        """Attend from x [N, L, D] to the `visible` [B, 1, 1, K] places of projected memory.

        N is a multiple of B: each N / B consecutive rows attend to the same memory.
        """
        key, value = memory
        query = self._split(self.query(x).view(len(key), -1, x.shape[2]))
        found = functional.scaled_dot_product_attention(
            query, key, value, attn_mask=visible, is_causal=causal
        )
        return cast(Tensor, self.out(found.transpose(1, 2).reshape(x.shape)))

    def _split(self, x: Tensor) -> Tensor:
        return x.view(x.shape[0], x.shape[1], self.heads, -1).transpose(1, 2)


class Block(nn.Module):
    """One layer: self-attention, attention to the source in a decoder, and two matrices."""

    def __init__(self, config: Config, *, decoder: bool) -> None:
        super().__init__()
        self.norm_first, self.gelu = config.norm_first, config.activation == "gelu"
        self.own = Attention(config)
        self.own_norm = nn.LayerNorm(config.width, config.norm_eps)
        self.cross = Attention(config) if decoder else None
        self.cross_norm = nn.LayerNorm(config.width, config.norm_eps) if decoder else None
        self.up = Product(config.width, config.hidden)
        self.down = Product(config.hidden, config.width)
        self.last_norm = nn.LayerNorm(config.width, config.norm_eps)
        self.dropout = nn.Dropout(config.dropout)

    def forward(
        self,
        x: Tensor,
        visible: Tensor | None,
        memory: tuple[Tensor, Tensor] | None = None,
        memory_visible: Tensor | None = None,
        causal: bool = False,
        only: Tensor | None = None,
    ) -> Tensor:
        """Return the layer's output for x [N, L, D], or at the places `only` [N, Q]: [N, Q, D]."""
        # Keys and values are of all places, even if only some outputs are wanted.
        y = self.own_norm(x) if self.norm_first else x
        itself = self.own.project(y)
        if only is not None:
            index = only[..., None].expand(-1, -1, x.shape[2])
            x = x.gather(1, index)
            y = y.gather(1, index) if self.norm_first else x
        x = x + self.dropout(self.own(y, itself, visible, causal))
        if not self.norm_first:
            x = self.own_norm(x)
        if memory is not None:
            x = self.attend_to_source(x, memory, memory_visible)
        return self.transform(x)

    def project_source(self, states: Tensor) -> tuple[Tensor, Tensor]:
        assert self.cross is not None  # noqa: S101
        return self.cross.project(states)

    def attend_to_source(
        self, x: Tensor, memory: tuple[Tensor, Tensor], visible: Tensor | None
    ) -> Tensor:
        cross, norm = self.cross, self.cross_norm
        assert cross is not None  # noqa: S101
        assert norm is not None  # noqa: S101
        return self.around(x, norm, lambda y: cross(y, memory, visible))

    def transform(self, x: Tensor) -> Tensor:
        activation = functional.gelu if self.gelu else functional.relu
        return self.around(x, self.last_norm, lambda y: self.down(activation(self.up(y))))

    def around(self, x: Tensor, norm: nn.LayerNorm, part: Callable[[Tensor], Tensor]) -> Tensor:
        """Add the output of a sublayer to x, with the norm before the sublayer or after the sum."""
        if self.norm_first:
            return x + cast(Tensor, self.dropout(part(norm(x))))
        return cast(Tensor, norm(x + self.dropout(part(x))))


class Memory(NamedTuple):
    """What the decoder uses of source sentences."""

    states: Tensor  # [B, S, D]
    visible: Tensor  # [B, 1, 1, S]
    log_lengths: Tensor  # [B, classes] ln of the probability of every length class
    num_tokens: Tensor  # [B] number of source tokens


class CMLM(nn.Module):
    """Encoder, length predictor and bidirectional decoder, which share one table of tokens."""

    table: PackedWeights | None = None  # the packed table of tokens, for logits

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        width = config.width
        self.embedding = nn.Embedding(config.vocab, width)
        self.length_embedding = nn.Embedding(config.lengths, width)
        if config.learned_positions:
            self.encoder_positions = nn.Embedding(config.learned_positions, width)
            self.decoder_positions = nn.Embedding(config.learned_positions, width)
        layers = range(config.encoder_layers), range(config.decoder_layers)
        self.encoder = nn.ModuleList(Block(config, decoder=False) for _ in layers[0])
        self.decoder = nn.ModuleList(Block(config, decoder=True) for _ in layers[1])
        self.encoder_norm, self.decoder_norm = (
            nn.LayerNorm(width, config.norm_eps) if config.norm_first else nn.Identity()
            for _ in layers
        )
        self.dropout = nn.Dropout(config.dropout)
        self._initialise()

    def _initialise(self) -> None:
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                nn.init.zeros_(module.bias)
            elif isinstance(module, nn.Embedding):
                nn.init.normal_(module.weight, std=self.config.width**-0.5)

    def pack(self) -> CMLM:
        """Reorder weights for faster decoding. They must not change any more.

        Methods of the network that change weights unpack them first.
        """
        for module in self.modules():
            if isinstance(module, Attention | Product):
                module.pack()
        self.table = PackedWeights(self.embedding.weight)
        return self

    def unpack(self) -> None:
        """Remove the packed copies: the network computes with its own weights again."""
        for module in self.modules():
            if isinstance(module, Attention | Product):
                module.unpack()
        self.table = None

    def train(self, mode: bool = True) -> Self:
        """Set the training mode; training unpacks weights, as packed copies are not trained."""
        if mode:
            self.unpack()
        return super().train(mode)

    def load_state_dict(self, *arguments: Any, **options: Any) -> Any:
        """Load other weights, and unpack."""
        self.unpack()
        return super().load_state_dict(*arguments, **options)

    def _apply(self, *arguments: Any, **options: Any) -> Self:
        self.unpack()
        return cast(Self, super()._apply(*arguments, **options))  # type: ignore[no-untyped-call]

    def encode(self, source: Tensor) -> Memory:
        """Encode source ids [B, S], padded on the right."""
        config = self.config
        seen = source != config.pad  # [B, S]
        x = self.embed(source, "encoder")
        if config.length_from == "token":
            first = self.length_embedding.weight[0].to(x.dtype).expand(len(x), 1, -1)
            x = torch.cat([first, x], dim=1)
            seen = functional.pad(seen, (1, 0), value=True)
        visible = attention_mask(seen, x)
        for layer in self.encoder:
            x = layer(x, visible)
        x = self.encoder_norm(x)
        is_token = config.length_from == "token"
        if is_token:
            state, x, seen = x[:, 0], x[:, 1:], seen[:, 1:]
        else:
            state = (x * seen[..., None]).sum(1) / seen.sum(1, keepdim=True).clamp(min=1)
        lengths = functional.linear(state, self.length_embedding.weight.to(x.dtype)).float()
        if is_token:
            lengths[:, 0] = -math.inf  # this row is the embedding of the extra token
        return Memory(x, seen[:, None, None], lengths.log_softmax(-1), seen.sum(1))

    def project(self, states: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Return keys and values of the source for each decoder layer, for all iterations."""
        return [cast(Block, layer).project_source(states) for layer in self.decoder]

    def states(
        self,
        tokens: Tensor,
        memory: list[tuple[Tensor, Tensor]],
        memory_visible: Tensor | None,
        visible: Tensor | None,
        *,
        only: Tensor | None = None,
        positions: Tensor | None = None,
    ) -> Tensor:
        """Return the last decoder states of target tokens [N, L]: [N, L, D].

        With `only` [N, Q], return the states of these places, [N, Q, D]: the last layer then
        computes no others. `positions` are the embeddings of positions, if already computed.
        """
        x = self.embed(tokens, "decoder", positions)
        last = self.decoder[-1]
        for layer, attended in zip(self.decoder, memory, strict=True):
            wanted = only if layer is last else None
            x = layer(x, visible, attended, memory_visible, self.config.causal, wanted)
        return cast(Tensor, self.decoder_norm(x))

    def forward(self, source: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """Return states [B, L, D] and ln of the length probabilities [B, classes], for training."""
        memory = self.encode(source)
        # A causal decoder never sees the padding, which comes last.
        visible = None if self.config.causal else (target != self.config.pad)[:, None, None]
        x = self.states(target, self.project(memory.states), memory.visible, visible)
        return x, memory.log_lengths

    def logits(self, states: Tensor) -> Tensor:
        """Return the logits of states: [..., D] to [..., V]."""
        return functional.linear(states, self.embedding.weight.to(states.dtype))

    def length_class(self, target_length: Tensor, source_length: Tensor) -> Tensor:
        """Return the class of a length. The length includes the ends if they are given."""
        offset = self.config.length_offset
        wanted = target_length if offset is None else target_length - source_length + offset
        return wanted.clamp(1, self.config.lengths - 1)

    def likeliest_lengths(self, memory: Memory, beam: int) -> Tensor:
        """Return lengths to try, including the ends: [B, beam].

        They are the likeliest ones; with `length_from="mean"`, the likeliest and its neighbours.
        """
        config = self.config
        if config.length_from == "token":
            best = memory.log_lengths.topk(min(beam, config.lengths - 1), dim=-1).indices
        else:
            around = torch.arange(beam, device=memory.log_lengths.device) - beam // 2
            best = memory.log_lengths.argmax(dim=-1, keepdim=True) + around
        if config.length_offset is not None:
            best = best + memory.num_tokens[:, None] - config.length_offset
        # No empty translation: its confidence would be the highest of all if ends are given.
        least = {"none": 1, "predicted": 2, "given": 3}[config.ends]
        most = config.learned_positions - 2 if config.learned_positions else None
        return best.clamp(least, most)

    def embed(self, ids: Tensor, side: str, positions: Tensor | None = None) -> Tensor:
        """Return the input of the first layer for ids [B, L]: [B, L, D]."""
        x = self.embedding(ids)
        if self.config.scaled_embedding:
            x = x * math.sqrt(self.config.width)
        x = x + (self.positions(ids.shape[1], side) if positions is None else positions)
        return cast(Tensor, self.dropout(x))

    def positions(self, length: int, side: str) -> Tensor:
        """Return what is added to the embedding of each position: [length, D]."""
        if self.config.learned_positions:
            # Positions begin at row 2. Row 1 belongs to padding, but here padding gets the rows of
            # its positions, which changes nothing: no other token sees it.
            table: Tensor = getattr(self, f"{side}_positions").weight
            return table[2 : 2 + length]
        weight = self.embedding.weight
        return waves(length, self.config.width, weight.device).to(weight.dtype)


def attention_mask(visible: Tensor, like: Tensor) -> Tensor | None:
    """Return the mask that hides all places that are not `visible` [B, K]: [B, 1, 1, K].

    It is added to attention scores. On a CPU it is None if all places are visible, which saves the
    sum. On a GPU the test would force a wait, so the mask is always made; its rows are padded to a
    multiple of 8.
    """
    if not visible.is_cuda and bool(visible.all()):
        return None
    length = visible.shape[1]
    added = like.new_zeros(len(visible), 1, 1, -(-length // 8) * 8)[..., :length]
    return added.masked_fill_(~visible[:, None, None], -math.inf)


def waves(length: int, width: int, device: Any) -> Tensor:
    """Return the sines and cosines of every position: [length, width]."""
    rates = torch.exp(torch.arange(0, width, 2, device=device) * (-math.log(1e4) / width))
    angles = torch.arange(length, device=device)[:, None] * rates
    return torch.cat([angles.sin(), angles.cos()], dim=1)
