"""The schemes, strengths and amounts of `patternmark bench paper`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from patternmark.core.alphabet import Alphabet
from patternmark.core.secret import Secret
from patternmark_lab.schemes import Scheme, make_scheme

PROTEIN_DELTAS = (0.5, 0.75, 1.0, 1.25, 1.5)  # the paper's
TEXT_DELTAS = (1.0, 2.0, 3.0, 4.0, 5.0)
EPSILONS = (0.05, 0.1, 0.2, 0.3)
LEVELS = (0.1, 0.01, 1e-3, 1e-4, 1e-5)  # nominal false positive rates
MATCHED = (0.01, 1e-3)  # false positive rates at which thresholds are measured
REPORTED = 1e-3

NONE = "none"  # the cell without a mark
BASELINES = ("soft", "soft-by-step", "unigram", "multikey")
PEERS = ("tango", "eth", "dmark", "lr-dwm")
# Only for text: UMR needs probabilities that ProteinMPNN does not give before it decodes a residue.
RIVALS = ("umr",)
# Measured only if --schemes names them: 2^delta candidates for every token make them much slower
# than other marks.
ON_REQUEST = {"protein": (), "translation": ("denmark-lexical",)}
OURS = "default"
OURS_LIKELIEST = "default-likeliest"  # only for text, where `default` chooses among candidates
PUBLISHED = "pattern-mark"
# Schemes whose marks other detectors judge too.
JUDGED_TOO = {PUBLISHED: ("pattern-auto",)}
PROTEIN_SCHEMES = (*BASELINES, *PEERS, PUBLISHED, OURS)
# Without soft-by-step, which needs one token per step: Mask-Predict settles many.
TEXT_SCHEMES = (
    *(name for name in PROTEIN_SCHEMES if name not in ("soft-by-step", PUBLISHED, OURS)),
    *RIVALS,
    PUBLISHED,
    OURS_LIKELIEST,
    OURS,
)

REWRITTEN = ("unigram", PUBLISHED, OURS)  # whose designs the model itself attacks

PATTERN_LENGTHS = (3, 4, 5, 6, 7, 8)
STAYS = (0.1, 0.2, 0.3, 0.4)  # a11 of the transition matrix; 0 is the paper's choice
ABLATION_DELTA = {"protein": 1.0, "translation": 4.0}
LENGTHS = {"protein": (50, 100, 150, 200, 250), "translation": (20, 30, 40, 50, 60)}
ATTACKS = {
    "protein": ("blosum", "insert", "delete", "indel", "truncate", "splice"),
    "translation": ("word-drop", "word-insert", "word-swap", "synonym", "homoglyph"),
}
PAPER_ATTACK = {"protein": "substitute", "translation": "round-trip"}


@dataclass(frozen=True)
class Size:
    """The amounts of work."""

    backbones: int
    keys: int  # that mark
    null_keys: int  # that judge unmarked sequences, including those that mark
    natural: int  # natural sequences that all keys judge
    protein_deltas: tuple[float, ...]
    texts: int
    text_keys: int
    text_deltas: tuple[float, ...]
    round_trips: int  # texts of a scheme that are paraphrased
    rewritten_keys: int  # whose designs the model itself rewrites
    epsilons: tuple[float, ...] = EPSILONS
    stays: tuple[float, ...] = STAYS

    def deltas(self, task: str) -> tuple[float, ...]:
        """Return the strengths of a task."""
        return self.protein_deltas if task == "protein" else self.text_deltas

    def judging_keys(self, task: str) -> int:
        """Return the number of keys of a scheme that judge: those that mark, and more."""
        return max(self.null_keys, self.keys if task == "protein" else self.text_keys)


SIZES = {
    "smoke": Size(2, 2, 3, 10, (1.5,), 4, 2, (5.0,), 2, 1, epsilons=(0.1,), stays=(0.3,)),
    "small": Size(10, 3, 10, 100, PROTEIN_DELTAS, 60, 5, TEXT_DELTAS, 30, 2),
    "full": Size(60, 6, 40, 300, PROTEIN_DELTAS, 1000, 20, TEXT_DELTAS, 200, 6),
}


@dataclass(frozen=True)
class Cell:
    """A scheme at a strength; `stay` is a11, not 0 if the paper's chain has another matrix."""

    scheme: str
    delta: float
    stay: float = 0.0

    @property
    def name(self) -> str:
        """The name of the cell in results."""
        return f"{self.scheme}/{self.delta:g}" + (f"/stay {self.stay:g}" if self.stay else "")

    def of_key(self, number: int, seed: int, alphabet: Alphabet) -> Scheme:
        """Return the scheme with one of the benchmark's keys."""
        options: dict[str, Any] = {"stay": self.stay} if self.stay else {}
        return make_scheme(self.scheme, secret_of(number, seed), alphabet, self.delta, **options)


def secret_of(number: int, seed: int) -> Secret:
    """Return the secret of a key, which is the same in every run."""
    return Secret(sha256(f"bench paper {seed} {number}".encode()).digest())


def schemes_of(task: str, only: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the schemes that mark in a task: the usual ones, or those that `only` names."""
    every = PROTEIN_SCHEMES if task == "protein" else TEXT_SCHEMES
    return tuple(name for name in selectable(task) if name in only) if only else every


def selectable(task: str) -> tuple[str, ...]:
    """Return all schemes of a task, including those on request."""
    return (*schemes_of(task), *ON_REQUEST[task])


def judges(task: str, only: Sequence[str] = ()) -> list[tuple[str, str]]:
    """Return every detector of a task, and the scheme whose marks it looks for."""
    return [
        (judge, scheme)
        for scheme in schemes_of(task, only)
        for judge in (scheme, *JUDGED_TOO.get(scheme, ()))
    ]


def num_steps(tasks: Sequence[str], size: Size, only: Sequence[str] = ()) -> int:
    """Return the number of steps that a run reports if there are enough backbones."""
    made = {
        "protein": size.backbones,
        "translation": 1 + size.text_keys * len(cells("translation", size, only)),
    }
    return sum(made[task] + size.judging_keys(task) * len(judges(task, only)) for task in tasks)


def cells(task: str, size: Size, only: Sequence[str] = ()) -> list[Cell]:
    """Return all cells of a task, or those of some schemes."""
    found = [Cell(scheme, delta) for scheme in selectable(task) for delta in size.deltas(task)]
    ablated = min(size.deltas(task), key=lambda d: abs(d - ABLATION_DELTA[task]))
    every = [*found, *(Cell(PUBLISHED, ablated, stay) for stay in size.stays)]
    return [cell for cell in every if cell.scheme in schemes_of(task, only)]
