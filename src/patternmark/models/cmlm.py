"""CMLM, the conditional masked language model of Mask-Predict (Ghazvininejad et al., 2019).

An encoder reads the source and says how long the translation will be. A decoder without a causal
mask sees the whole translation, some of it masked, and predicts every masked token at once. How
tokens are decoded with it is `mask_predict`'s matter.

Shapes: B sentences, S source tokens, N candidates (sentences times lengths), L target tokens,
D width, V vocabulary. The published networks (`translation.published` reads them) differ from ours
in details that `Config` names.
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
    """The sizes of a network, and in what published ones differ from ours."""

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
    learned_positions: int = 0  # rows of tables, the third for the first position; 0: waves
    scaled_embedding: bool = True  # by the square root of the width
    # The encoder's state that tells the length: of a token of its own, whose embedding is the
    # first class's, or the mean over the source.
    length_from: Literal["token", "mean"] = "token"
    lengths: int = 256  # classes
    length_offset: int | None = 128  # class 128: as long as the source; None: classes are lengths
    # Has a translation a </s> while it is made? "given": <s> and </s> are there from the start.
    # A source has a </s> where its translation has one.
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
        """Return keys and values [B, heads, K, D / heads] of what is attended to [B, K, D]."""
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
        """Attend from x [N, L, D] to what is `visible` [B, 1, 1, K] of projected memory.

        Where N is a multiple of B, so many neighbours attend to the same memory.
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
        """Return x [N, L, D] behind the layer, or that of the places `only` [N, Q]: [N, Q, D]."""
        # Whatever is asked for attends to all places.
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
        """Add what a part makes of x; the norm stands before the part or after the sum."""
        if self.norm_first:
            return x + cast(Tensor, self.dropout(part(norm(x))))
        return cast(Tensor, norm(x + self.dropout(part(x))))


class Memory(NamedTuple):
    """What the decoder knows of source sentences."""

    states: Tensor  # [B, S, D]
    visible: Tensor  # [B, 1, 1, S]
    log_lengths: Tensor  # [B, classes] ln of the probability of every length class
    num_tokens: Tensor  # [B] of the source


class CMLM(nn.Module):
    """Encoder, length predictor and bidirectional decoder; one table of tokens for all."""

    table: PackedWeights | None = None  # of tokens, for logits

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
        self._begin()

    def _begin(self) -> None:
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                nn.init.zeros_(module.bias)
            elif isinstance(module, nn.Embedding):
                nn.init.normal_(module.weight, std=self.config.width**-0.5)

    def pack(self) -> CMLM:
        """Lay out weights that will not change any more: decoding is faster then.

        Whatever changes them by a method of the network unpacks them.
        """
        for module in self.modules():
            if isinstance(module, Attention | Product):
                module.pack()
        self.table = PackedWeights(self.embedding.weight)
        return self

    def unpack(self) -> None:
        """Compute with the weights themselves again."""
        for module in self.modules():
            if isinstance(module, Attention | Product):
                module.unpack()
        self.table = None

    def train(self, mode: bool = True) -> Self:
        """Set whether it is trained; packed weights would not be."""
        if mode:
            self.unpack()
        return super().train(mode)

    def load_state_dict(self, *arguments: Any, **options: Any) -> Any:
        """Take other weights."""
        self.unpack()
        return super().load_state_dict(*arguments, **options)

    def _apply(self, *arguments: Any, **options: Any) -> Self:
        self.unpack()
        return cast(Self, super()._apply(*arguments, **options))  # type: ignore[no-untyped-call]

    def encode(self, source: Tensor) -> Memory:
        """Read source ids [B, S], padded on the right."""
        config = self.config
        seen = source != config.pad  # [B, S]
        x = self.embed(source, "encoder")
        if config.length_from == "token":
            first = self.length_embedding.weight[0].to(x.dtype).expand(len(x), 1, -1)
            x = torch.cat([first, x], dim=1)
            seen = functional.pad(seen, (1, 0), value=True)
        visible = hiding(seen, x)
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
            lengths[:, 0] = -math.inf  # this row is the token's own
        return Memory(x, seen[:, None, None], lengths.log_softmax(-1), seen.sum(1))

    def project(self, states: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Return what each decoder layer attends to, the same in every iteration."""
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
        """Return the decoder's last states of target tokens [N, L]: [N, L, D].

        With `only`, those of the places [N, Q] of each: [N, Q, D], which spares the last layer the
        others. `positions` are the decoder's, if they are at hand.
        """
        x = self.embed(tokens, "decoder", positions)
        last = self.decoder[-1]
        for layer, attended in zip(self.decoder, memory, strict=True):
            wanted = only if layer is last else None
            x = layer(x, visible, attended, memory_visible, self.config.causal, wanted)
        return cast(Tensor, self.decoder_norm(x))

    def forward(self, source: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """Return states [B, L, D] and ln of the length probabilities [B, classes]: for training."""
        memory = self.encode(source)
        # Padding stands behind everything a causal decoder sees.
        visible = None if self.config.causal else (target != self.config.pad)[:, None, None]
        x = self.states(target, self.project(memory.states), memory.visible, visible)
        return x, memory.log_lengths

    def logits(self, states: Tensor) -> Tensor:
        """Return the logits of states: [..., D] to [..., V]."""
        return functional.linear(states, self.embedding.weight.to(states.dtype))

    def length_class(self, target_length: Tensor, source_length: Tensor) -> Tensor:
        """Return the class of a length (with given ends, if the canvas has them)."""
        offset = self.config.length_offset
        wanted = target_length if offset is None else target_length - source_length + offset
        return wanted.clamp(1, self.config.lengths - 1)

    def likeliest_lengths(self, memory: Memory, beam: int) -> Tensor:
        """Return lengths to try, with the ends: [B, beam].

        They are the likeliest ones; where the mean tells, the likeliest and those around it.
        """
        config = self.config
        if config.length_from == "token":
            best = memory.log_lengths.topk(min(beam, config.lengths - 1), dim=-1).indices
        else:
            around = torch.arange(beam, device=memory.log_lengths.device) - beam // 2
            best = memory.log_lengths.argmax(dim=-1, keepdim=True) + around
        if config.length_offset is not None:
            best = best + memory.num_tokens[:, None] - config.length_offset
        # None is empty: between given ends that would be the surest of all.
        least = {"none": 1, "predicted": 2, "given": 3}[config.ends]
        most = config.learned_positions - 2 if config.learned_positions else None
        return best.clamp(least, most)

    def embed(self, ids: Tensor, side: str, positions: Tensor | None = None) -> Tensor:
        """Return what the first layer sees of ids [B, L]: [B, L, D]."""
        x = self.embedding(ids)
        if self.config.scaled_embedding:
            x = x * math.sqrt(self.config.width)
        x = x + (self.positions(ids.shape[1], side) if positions is None else positions)
        return cast(Tensor, self.dropout(x))

    def positions(self, length: int, side: str) -> Tensor:
        """Return what is added to the embedding of each position: [length, D]."""
        if self.config.learned_positions:
            # Positions begin at row 2. Row 1 is the padding's; here padding gets the next rows: no
            # other token sees what it gets.
            table: Tensor = getattr(self, f"{side}_positions").weight
            return table[2 : 2 + length]
        weight = self.embedding.weight
        return waves(length, self.config.width, weight.device).to(weight.dtype)


def hiding(visible: Tensor, like: Tensor) -> Tensor | None:
    """Return what is added to attention so that it sees what is visible [B, K]: [B, 1, 1, K].

    On a CPU it is None where all is, which spares attention the sum. A GPU would have to be waited
    for; it wants rows at multiples of 8.
    """
    if not visible.is_cuda and bool(visible.all()):
        return None
    length = visible.shape[1]
    added = like.new_zeros(len(visible), 1, 1, -(-length // 8) * 8)[..., :length]
    return added.masked_fill_(~visible[:, None, None], -math.inf)


def waves(length: int, width: int, device: Any) -> Tensor:
    """Return sines and cosines of every position: [length, width]."""
    rates = torch.exp(torch.arange(0, width, 2, device=device) * (-math.log(1e4) / width))
    angles = torch.arange(length, device=device)[:, None] * rates
    return torch.cat([angles.sin(), angles.cos()], dim=1)
