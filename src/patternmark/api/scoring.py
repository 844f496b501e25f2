"""`score`: how well sequences fit a backbone, according to ProteinMPNN."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from math import exp
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, overload

import numpy as np

from patternmark.api.given import Given, Progress, is_one, no_progress, warn_in_python
from patternmark.api.given import Sequence as OneSequence
from patternmark.api.on_structures import (
    GivenChains,
    fitted_of,
    path_if_any,
    plan_on,
    trusted_manifests,
)
from patternmark.designing.network import DEFAULT_WEIGHTS, load_network
from patternmark.errors import InputError, ParameterError
from patternmark.io.items import Warn
from patternmark.results import Result, Results

if TYPE_CHECKING:
    from patternmark.designing.fitting import Fitted

_log = logging.getLogger(__name__)


@dataclass(frozen=True, repr=False)
class Score(Result):
    """How well a sequence fits a backbone."""

    id: str
    length: int
    num_scored: int
    score: float  # mean negative log-likelihood of the scored residues
    perplexity: float
    recovery: float  # share of the scored residues whose letter is the native one
    model: str
    weights_sha256: str

    def to_dict(self) -> dict[str, Any]:
        """Return the score as plain values for JSON."""
        return asdict(self)

    def cells(self) -> dict[str, str]:
        """Return the cells of a table row by the names of their columns."""
        return {
            "id": self.id,
            "scored": str(self.num_scored),
            "score": f"{self.score:.4f}",
            "perplexity": f"{self.perplexity:.3f}",
            "recovery": f"{self.recovery:.4f}",
            "model": self.model,
        }


@dataclass(frozen=True)
class ScoreRequest:
    """How sequences are scored; the same names as the options of `patternmark score`."""

    backbone: PathLike[str] | str
    chains: GivenChains = None
    fixed: str = ""
    tied: str = ""
    orders: int = 1
    model: str = DEFAULT_WEIGHTS
    weights: PathLike[str] | str | None = None
    seed: int = 0
    device: str = "auto"

    def __post_init__(self) -> None:
        if self.orders < 1:
            raise ParameterError(f"orders=N must be at least 1, not {self.orders}")


class Scoring:
    """Scores records on one backbone, all in the same decoding orders."""

    def __init__(self, request: ScoreRequest, warn: Warn, report: Warn = _log.info) -> None:
        self._request, self._warn, self._path = request, warn, Path(request.backbone)
        self._plan = plan_on(
            self._path, warn, chains=request.chains, fixed=request.fixed, tied=request.tied
        )
        weights = path_if_any(request.weights)
        network, self.weights = load_network(request.model, weights, request.device, report)
        self._prepared = network.prepare(network.encode(self._plan.backbone))

    def scores(
        self, records: Given, format: str = "auto", progress: Progress = no_progress
    ) -> Iterator[tuple[Score, Fitted]]:
        """Yield the score of each record that fits the backbone."""
        request = self._request
        has_layout = bool(request.chains or request.fixed or request.tied)
        fitting = fitted_of(
            records,
            self._path,
            self._plan,
            self._warn,
            manifests=trusted_manifests(but_for=has_layout),
            format=format,
        )
        for number, item in enumerate(fitting, start=1):
            yield self._score(item), item
            progress("scoring", number, None)

    def _score(self, item: Fitted) -> Score:
        from patternmark.designing.run import score_sequences  # noqa: PLC0415  # needs torch

        copies = np.tile(item.sequence, (self._request.orders, 1))
        judged = score_sequences(self._prepared, item.plan, copies, self._request.seed)
        mean = float(np.mean([design.score for design in judged]))
        return Score(
            id=item.record.id,
            length=len(item.rows),
            num_scored=int(item.plan.designed.sum()),
            score=mean,
            perplexity=exp(mean),
            recovery=judged[0].recovery,
            model=self.weights["name"],
            weights_sha256=self.weights["sha256"],
        )


class ScoreOptions(TypedDict, total=False):
    """The options of `score`, which explains them."""

    chains: GivenChains
    fixed: str
    tied: str
    orders: int
    model: str
    weights: PathLike[str] | str | None
    seed: int
    device: str


@overload
def score(  # type: ignore[overload-overlap]  # a str is many letters, and yet one sequence
    records: OneSequence,
    backbone: PathLike[str] | str,
    *,
    format: str = "auto",
    warn: Warn = ...,
    progress: Progress = ...,
    **options: Unpack[ScoreOptions],
) -> Score: ...
@overload
def score(
    records: Given,
    backbone: PathLike[str] | str,
    *,
    format: str = "auto",
    warn: Warn = ...,
    progress: Progress = ...,
    **options: Unpack[ScoreOptions],
) -> Results[Score]: ...
def score(
    records: Given,
    backbone: PathLike[str] | str,
    *,
    format: str = "auto",
    warn: Warn = warn_in_python,
    progress: Progress = no_progress,
    **options: Unpack[ScoreOptions],
) -> Score | Results[Score]:
    """Score sequences on a backbone: likelihood, perplexity, recovery.

    Only designed residues count: those of `chains` that are not `fixed`. Without these options they
    come from the designs themselves or from the manifest of a file; otherwise all count. Options:

    - `chains`, `fixed`, `tied`: what was designed, as for `design`;
    - `orders`, `seed`: the number of random decoding orders to average over, and their seed;
    - `model`, `weights`, `device`: the network and where it runs;
    - `format`: how files are read; `warn`, `progress`: functions that get warnings
      about records, and the progress.
    """
    scoring = Scoring(ScoreRequest(backbone, **options), warn)
    found = Results(one for one, _ in scoring.scores(records, format, progress))
    if not found:
        raise InputError("no sequence could be scored")
    return found[0] if is_one(records) else found
