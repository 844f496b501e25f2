"""Results: what the functions of the package return.

Every result on sequences has `prediction`, `status`, `p_value`, `log10_p`, `p_any`, `signature` and
`to_dict()`; `Finding` is their type. Results for people who may not see numbers are the exception:
`BareVerdict` holds the call alone. All results show themselves in one line, and as a small table in
a notebook.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from enum import StrEnum
from html import escape
from math import exp, isfinite, log
from typing import Any, Protocol, TypeVar

LN10 = log(10.0)
SMALLEST_POSITIVE = 5e-324
CALL_BY_P = "call:p"  # in a signature: `p_value` decides
CALL_BY_P_ANY = "call:p_any"  # in a signature: `p_any` decides
MAX_ROWS = 20  # results that are shown of a long list

_Result = TypeVar("_Result", bound="Result")


class Status(StrEnum):
    """The result for a sequence in one word. The values are used in JSON and do not change."""

    MARKED = "marked"
    NO_MARK = "no_mark"
    TOO_SHORT = "too_short"  # no sequence of this length can reach the FPR
    NOTHING_TO_SCORE = "nothing_to_score"  # no sequence of this length can reach any FPR: p is 1

    @property
    def in_words(self) -> str:
        """The status in words for people."""
        return _IN_WORDS[self]


_IN_WORDS = {
    Status.MARKED: "marked",
    Status.NO_MARK: "no mark found",
    Status.TOO_SHORT: "too short to tell",
    Status.NOTHING_TO_SCORE: "nothing to score",
}


def p_value_of(log_p: float) -> float:
    """Return exp(log_p), or the smallest positive float if it would underflow.

    >>> p_value_of(-3465.0)
    5e-324
    """
    return max(exp(log_p), SMALLEST_POSITIVE) if isfinite(log_p) else 0.0


def format_p(log10_p: float) -> str:
    """Return a p-value of any size as text.

    >>> format_p(-2.5), format_p(-1504.85)
    ('0.0032', '10^-1504.8')
    """
    if not isfinite(log10_p):
        return "0"
    if log10_p < -300:
        return f"10^{log10_p:.1f}"
    return f"{10.0**log10_p:.2g}"


def finite_or_none(log_p: float | None) -> float | None:
    """Return a logarithm for JSON, with None for infinity."""
    return log_p if log_p is not None and isfinite(log_p) else None


class Finding(Protocol):
    """The type of every result on sequences."""

    @property
    def prediction(self) -> bool:
        """Whether a mark was found at the FPR."""

    @property
    def status(self) -> Status:
        """The result in one word."""

    @property
    def p_value(self) -> float:
        """The chance that a random key finds as much, corrected for the number of tests."""

    @property
    def log10_p(self) -> float:
        """The decimal logarithm of the p-value, also where that is too small for a float."""

    @property
    def p_any(self) -> float | None:
        """The p-value that holds for any sequence, or None."""

    @property
    def signature(self) -> str:
        """A line that names everything besides the sequence that can change the result."""

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain values for JSON."""


class Result(ABC):
    """A result that prints as one line, and as a table in a notebook."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain values for JSON."""

    @abstractmethod
    def cells(self) -> dict[str, str]:
        """Return the cells of a table row by the names of their columns."""

    def __repr__(self) -> str:
        shown = ", ".join(f"{name} {text}".strip() for name, text in self.cells().items() if text)
        if not shown.isprintable():  # an id could write to the terminal
            shown = repr(shown)[1:-1]
        return f"<{type(self).__name__} {shown}>"

    def _repr_html_(self) -> str:
        rows = self.cells() | {"signature": str(self.to_dict().get("signature", ""))}
        return html_table([], [[name, text] for name, text in rows.items() if text])


class Results(list[_Result]):
    """Results in the order of their records."""

    def __repr__(self) -> str:
        lines = [f"  {result!r}" for result in self[:MAX_ROWS]]
        return "\n".join([f"{len(self)} results:", *lines, *self._omitted_rows()])

    def _repr_html_(self) -> str:
        rows = [result.cells() for result in self[:MAX_ROWS]]
        names = list(dict.fromkeys(name for row in rows for name in row))
        table = html_table(names, [[row.get(name, "") for name in names] for row in rows])
        return table + "".join(f"<p>{escape(line.strip())}</p>" for line in self._omitted_rows())

    def _omitted_rows(self) -> list[str]:
        more = len(self) - MAX_ROWS
        return [f"  ... and {more} more"] if more > 0 else []


def html_table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a table in HTML; the text of cells is escaped."""

    def row(cells: Iterable[str], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{escape(text)}</{tag}>" for text in cells) + "</tr>"

    first = row(head, "th") if (head := list(head)) else ""
    return f"<table>{first}{''.join(row(cells, 'td') for cells in rows)}</table>"


def cells_of(finding: Finding, id: str = "", **more: str) -> dict[str, str]:
    """Return the cells that all results on sequences share, by the names of their columns."""
    has_p = finding.status is not Status.NOTHING_TO_SCORE
    return {
        "id": id,
        "": finding.status.in_words,
        "p": format_p(finding.log10_p) if has_p else "",
        "p_any": "" if finding.p_any is None or not has_p else f"{finding.p_any:.2g}",
    } | more


@dataclass(frozen=True, repr=False)
class Verdict(Result):
    """The result of the detector for one sequence.

    `statistic` is the number that the detector computed, `expected_statistic` its mean without a
    mark. `p_value` is never rounded down to 0: if a float cannot hold it, it is the smallest
    positive float, and `log10_p` has the true size. Only a count that is impossible under the null
    (one with forbidden steps) has p = 0, and null for `log10_p` in JSON. `p_any` holds for any
    sequence, whoever wrote it; it is None if the detector has no such p-value. `segment` is where
    the mark lies (positions from 0, half-open), for detectors that search for a stretch. `payload`
    is the nonce of a marked sequence, and `payload_error` the chance that it is another one.
    `p_keys` (the rank of the key among fresh keys) and `p_exact` (the p-value of this very
    sequence, with its relative standard error `p_exact_error`) are there on request. `prediction`
    is true if `status` is MARKED. `note` is for people.
    """

    id: str
    length: int
    num_tokens_scored: int
    detector: str
    statistic: float
    expected_statistic: float | None
    p_value: float
    log10_p: float
    prediction: bool
    fpr: float
    key_id: str
    signature: str
    status: Status
    note: str = ""
    p_any: float | None = None
    log10_p_any: float | None = None
    segment: tuple[int, int] | None = None
    payload: int | None = None
    payload_error: float | None = None
    p_keys: float | None = None
    p_exact: float | None = None
    log10_p_exact: float | None = None
    p_exact_error: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the verdict as plain values for JSON."""
        table = asdict(self)
        for name in ("log10_p", "log10_p_any", "log10_p_exact"):
            table[name] = finite_or_none(table[name])
        return table

    def bare(self) -> BareVerdict:
        """Return the call without any number that says how clear it was."""
        return BareVerdict(
            id=self.id,
            length=self.length,
            prediction=self.prediction,
            status=self.status,
            fpr=self.fpr,
            key_id=self.key_id,
            signature=self.signature,
        )

    def cells(self) -> dict[str, str]:
        """Return the cells of a table row by the names of their columns."""
        exact = "" if self.log10_p_exact is None else format_p(self.log10_p_exact)
        return cells_of(self, self.id, p_exact=exact, key=self.key_id)


@dataclass(frozen=True, repr=False)
class BareVerdict(Result):
    """A verdict for someone who may not learn how clear it was: no statistic and no p-value.

    Someone who sees such a number after each edit learns which edits help, and so forges or strips
    a mark in few questions. The note, the payload and the marked segment are left out too: they
    change with the sequence even where the call stays the same.
    """

    id: str
    length: int
    prediction: bool
    status: Status
    fpr: float
    key_id: str
    signature: str

    def to_dict(self) -> dict[str, Any]:
        """Return the verdict as plain values, which JSON can hold."""
        return asdict(self)

    def cells(self) -> dict[str, str]:
        """Return what people look at first, by name."""
        return {"id": self.id, "": self.status.in_words, "key": self.key_id}


@dataclass(frozen=True, repr=False)
class BareCombined(Result):
    """The call on a whole set for someone who may not learn how clear it was."""

    num_records: int
    prediction: bool
    status: Status
    fpr: float
    key_id: str
    signature: str

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values, which JSON can hold."""
        return {"combined": True, **asdict(self)}

    def cells(self) -> dict[str, str]:
        """Return what people look at first, by name."""
        return {
            "id": f"{self.num_records} records",
            "": self.status.in_words,
            "key": self.key_id,
        }
