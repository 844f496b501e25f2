"""The common parts of hooks for servers: the key of a server, and the marks of its requests.

A server starts its own processes and makes its own objects, so a hook is given by its name. Its
settings are environment variables:

    PATTERNMARK_KEY      the key file
    PATTERNMARK_DELTA    a strength that replaces the key's delta
    PATTERNMARK_PAYLOAD  the payload of all texts, or "request" if each request gives its own

None of them contains the secret. Several processes may write one text together (tensor
parallelism). They must use the same keys, so every request needs a seed that all of them see.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patternmark.adapters.logit_bias import LogitBias
from patternmark.adapters.needs_torch import Tensor, torch
from patternmark.core.keyfile import load_key
from patternmark.core.marker import Marker
from patternmark.core.promote import Promotion
from patternmark.errors import ParameterError

KEY_FILE, DELTA, PAYLOAD = "PATTERNMARK_KEY", "PATTERNMARK_DELTA", "PATTERNMARK_PAYLOAD"
BY_REQUEST = "request"
PAYLOAD_FIELD = "patternmark_payload"  # the argument of a request that gives its payload
WINDOW = 2048  # positions of a text whose keys are kept: more than any canvas or draft
_POSITIONS_AHEAD = 128  # positions that are prepared before they are needed
_CACHED_BYTES = 2**30  # size of the table of promoted symbols, with one byte for each token


@dataclass(frozen=True)
class ServerKey:
    """The marker of a server, and whether a request may choose its payload."""

    marker: Marker
    payload_by_request: bool = False

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> ServerKey:
        """Read the operator's settings; raise an error if there is no key."""
        if not environment.get(KEY_FILE):
            raise ParameterError(
                f"{KEY_FILE} is not set: set it to the key file that the server marks with"
            )
        delta = _number(environment, DELTA, float)
        by_request = environment.get(PAYLOAD) == BY_REQUEST
        payload = None if by_request else _number(environment, PAYLOAD, int)
        key = load_key(environment[KEY_FILE], with_secret=True)
        if by_request:
            Marker(key, payload=0)  # raises an error now if the key has no payloads
        return cls(Marker(key, delta=delta, payload=payload), by_request)

    def payload_of(self, arguments: Mapping[str, Any] | None) -> int | None:
        """Return the payload that the arguments of a request give; None means the server's."""
        asked = (arguments or {}).get(PAYLOAD_FIELD)
        if asked is None:
            return None
        if not self.payload_by_request:
            raise ParameterError(
                f"requests may not choose {PAYLOAD_FIELD} on this server: the operator can allow "
                f"it with {PAYLOAD}={BY_REQUEST}"
            )
        if isinstance(asked, bool) or not isinstance(asked, int):
            raise ParameterError(f"{PAYLOAD_FIELD} must be a whole number, not {asked!r}")
        return Marker(self.marker.key, payload=asked).payload


@dataclass
class _Text:
    """The text of one request: the seed of its keys, and how many of them are prepared."""

    seed: int | str
    payload: int | None
    known: int = 0


class ServedMarks:
    """The bias of all texts that a server is writing, one in each slot.

    `open` begins a text in a slot. `cover` prepares its keys up to some length. `add_to` adds the
    bias to rows of logits, given their slots and their places in the text. Only `cover` works on
    the host. Texts share the rows of equal keys, so many texts of one nonce need no more memory
    than one.

    >>> from patternmark import Key, Profile
    >>> marks = ServedMarks(Marker(Key.generate(Profile(delta=2.0))))
    >>> marks.open(3, seed="request 1")
    >>> marks.cover({3: 10})
    >>> slots, places = torch.tensor([3, 3, 0]), torch.tensor([0, -1, 0])
    >>> marks.add_to(torch.zeros(3, 21), slots, places).sum(dim=-1)  # the second is in the prompt
    tensor([20.,  0.,  0.])
    """

    def __init__(self, marker: Marker, slots: int = 1, device: torch.device | str = "cpu") -> None:
        self._marker, self._device = marker, torch.device(device)
        self._is_tempered = marker.key.profile.delta_at == "tempered"
        self._texts: dict[int, _Text] = {}
        # The row of each place in `_promoted`. Column 0 is no place, and row 0 promotes nothing.
        self._rows = self._zeros(slots, WINDOW + 1)
        self._temperatures = torch.ones(slots, device=self._device)
        self._promoted: Tensor
        self._row_of: dict[int, int]
        self._row_with: dict[bytes, int]
        self._forget_rows()

    def open(
        self,
        slot: int,
        seed: int | str,
        payload: int | None = None,
        temperature: float = 1.0,
    ) -> None:
        """Begin a text in a slot, replacing any other; a temperature of 0 is greedy decoding."""
        if slot >= len(self._rows):
            more = max(slot + 1, 2 * len(self._rows)) - len(self._rows)
            self._rows = torch.cat([self._rows, self._zeros(more, WINDOW + 1)])
            self._temperatures = torch.cat([self._temperatures, self._temperatures.new_ones(more)])
        self._texts[slot] = _Text(seed, payload)
        self._rows[slot] = 0
        self._temperatures[slot] = temperature or 1.0

    def cover(self, lengths: Mapping[int, int]) -> None:
        """Prepare the keys of the texts in some slots up to these lengths."""
        uncovered = {
            slot: length
            for slot, length in lengths.items()
            if slot in self._texts and self._texts[slot].known < length
        }
        if not uncovered:
            return
        if self._promoted.numel() > _CACHED_BYTES:
            self._forget_rows()
            for text in self._texts.values():
                text.known = 0
            uncovered = {slot: length for slot, length in lengths.items() if slot in self._texts}
        for slot, length in uncovered.items():
            self._extend(slot, length + _POSITIONS_AHEAD)

    def add_to(self, logits: Tensor, slots: Tensor, places: Tensor) -> Tensor:
        """Return raw logits [n, C] with the bias of places [n] of the texts in slots [n].

        Negative places belong to a prompt. They get no bias, and neither do slots without a text.
        """
        columns = torch.where(places >= 0, places % WINDOW + 1, 0).long()
        slots = slots.long().clamp(max=len(self._rows) - 1)
        prepared = Promotion(self._promoted, self._rows, self._marker.strength(1.0))
        bias = LogitBias.of_prepared(self._marker, prepared)
        if not self._is_tempered:
            return bias.add_to(logits, (slots, columns))
        divisor = self._temperatures[slots, None].to(logits.dtype)
        return bias.add_to(logits / divisor, (slots, columns)) * divisor

    def _extend(self, slot: int, length: int) -> None:
        text = self._texts[slot]
        nonces = None if text.payload is None else [text.payload]
        keys = self._marker.key_sequences([length], text.seed, [0], nonces=nonces)[0]
        places = np.arange(max(text.known, length - WINDOW), length)
        numbers = self._row_numbers(keys[places])
        self._rows[slot, torch.as_tensor(places % WINDOW + 1, device=self._device)] = (
            torch.as_tensor(numbers, device=self._device)
        )
        text.known = length

    def _row_numbers(self, keys: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the row of each key in `_promoted`; add rows for new keys."""
        new = np.array(sorted(set(keys.tolist()) - self._row_of.keys()), dtype=np.int64)
        fresh: list[NDArray[np.bool_]] = []
        for key, row in zip(
            new.tolist(), self._marker.key.schedule.promoted_rows(new), strict=True
        ):
            digest = blake2b(row, digest_size=16).digest()  # keys of one block promote equal halves
            if digest not in self._row_with:
                self._row_with[digest] = len(self._promoted) + len(fresh)
                fresh.append(row)
            self._row_of[key] = self._row_with[digest]
        if fresh:
            added = torch.as_tensor(np.stack(fresh), device=self._device)
            self._promoted = torch.cat([self._promoted, added])
        return np.array([self._row_of[key] for key in keys.tolist()], dtype=np.int64)

    def _forget_rows(self) -> None:
        size = self._marker.key.profile.alphabet.size
        self._promoted = torch.zeros(1, size, dtype=torch.bool, device=self._device)
        self._row_of, self._row_with = {}, {}

    def _zeros(self, rows: int, columns: int) -> Tensor:
        return torch.zeros(rows, columns, dtype=torch.int64, device=self._device)


def _number(environment: Mapping[str, str], name: str, kind: type[float] | type[int]) -> Any:
    text = environment.get(name)
    if not text:
        return None
    try:
        return kind(text)
    except ValueError:
        whole = "whole " if kind is int else ""
        raise ParameterError(f"{name} must be a {whole}number, not {text!r}") from None
