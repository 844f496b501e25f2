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
from typing import Any, Literal, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional


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
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.heads = config.heads
        width = config.width
        self.query, self.key = nn.Linear(width, width), nn.Linear(width, width)
        self.value, self.out = nn.Linear(width, width), nn.Linear(width, width)

    def project(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Return keys and values [B, heads, K, D / heads] of what is attended to [B, K, D]."""
        return self._split(self.key(memory)), self._split(self.value(memory))

    def forward(
        self,
        x: Tensor,
        memory: tuple[Tensor, Tensor],
        visible: Tensor | None,
        causal: bool = False,
    ) -> Tensor:
        """Attend from x [B, L, D] to what is `visible` [B, 1, 1, K] of projected memory."""
        key, value = memory
        query = self._split(self.query(x))
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
        self.up = nn.Linear(config.width, config.hidden)
        self.down = nn.Linear(config.hidden, config.width)
        self.last_norm = nn.LayerNorm(config.width, config.norm_eps)
        self.dropout = nn.Dropout(config.dropout)

    def forward(
        self,
        x: Tensor,
        visible: Tensor | None,
        memory: tuple[Tensor, Tensor] | None = None,
        memory_visible: Tensor | None = None,
        causal: bool = False,
    ) -> Tensor:
        def attend_to_itself(y: Tensor) -> Tensor:
            return cast(Tensor, self.own(y, self.own.project(y), visible, causal))

        x = self.around(x, self.own_norm, attend_to_itself)
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

    def encode(self, source: Tensor) -> Memory:
        """Read source ids [B, S], padded on the right."""
        config = self.config
        seen = source != config.pad  # [B, S]
        x = self.embed(source, "encoder")
        if config.length_from == "token":
            first = self.length_embedding.weight[0].to(x.dtype).expand(len(x), 1, -1)
            x = torch.cat([first, x], dim=1)
            seen = functional.pad(seen, (1, 0), value=True)
        visible = seen[:, None, None]
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
        memory_visible: Tensor,
        visible: Tensor | None,
    ) -> Tensor:
        """Return the decoder's last states of target tokens [N, L]: [N, L, D]."""
        x = self.embed(tokens, "decoder")
        for layer, attended in zip(self.decoder, memory, strict=True):
            x = layer(x, visible, attended, memory_visible, self.config.causal)
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

    def embed(self, ids: Tensor, side: str, start: int = 0) -> Tensor:
        """Return what the first layer sees of ids [B, L] from position `start` on: [B, L, D]."""
        config = self.config
        stop = start + ids.shape[1]
        x = self.embedding(ids)
        if config.scaled_embedding:
            x = x * math.sqrt(config.width)
        if config.learned_positions:
            table = getattr(self, f"{side}_positions").weight
            # Positions begin at row 2. Row 1 is the padding's; here padding gets the next rows: no
            # other token sees what it gets.
            x = x + table[2 + start : 2 + stop]
        else:
            x = x + waves(stop, config.width, ids.device)[start:].to(x.dtype)
        return cast(Tensor, self.dropout(x))


def waves(length: int, width: int, device: Any) -> Tensor:
    """Return sines and cosines of every position: [length, width]."""
    rates = torch.exp(torch.arange(0, width, 2, device=device) * (-math.log(1e4) / width))
    angles = torch.arange(length, device=device)[:, None] * rates
    return torch.cat([angles.sin(), angles.cos()], dim=1)
