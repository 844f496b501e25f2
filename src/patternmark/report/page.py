"""A page on designs and their verdicts: one HTML file that needs only a browser.

Unlike the pictures of `plot.py`, the page shows each letter in the colour of its part or, if a
scheme has no parts, in a colour that tells whether it agrees. So the page is as secret as the key,
and says so at its top. It contains no date: the same input gives the same page.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby, pairwise
from math import isfinite
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from patternmark.core.alphabet import NO_KEY, Alphabet
from patternmark.detector import Detector
from patternmark.errors import ParameterError
from patternmark.intervals import mean_interval
from patternmark.io.shown import shown
from patternmark.report.figures import dot_plot, null_plot, track_plot
from patternmark.report.track import AGREES, DIFFERS, Tracker
from patternmark.results import Verdict, format_p

LETTERS_IN_ROW, IDS_IN_ROW, GROUP = 60, 10, 10
# Okabe and Ito's colours, which colour-blind readers can distinguish, and one more.
_PALETTE = ("0072b2", "e69f00", "009e73", "cc79a7", "56b4e9", "d55e00", "f0e442", "7a5cc0")


@dataclass(frozen=True, eq=False)
class ReportEntry:
    """One sequence with its verdict, and the facts in its FASTA header."""

    verdict: Verdict
    sequence: NDArray[np.int64]  # ids of the alphabet; chains joined by an unscored id
    scored: NDArray[np.bool_] | None = None  # designed positions that are scored; None: all
    native: bool = False  # the native sequence, shown for comparison
    score: float | None = None  # mean negative log-likelihood
    recovery: float | None = None  # share of residues that are equal to the native ones
    watermarked: bool | None = None  # whether the header names a key; None: not a design
    words: tuple[str, ...] | None = None  # of a text: the characters of each symbol


def render_report(
    detector: Detector,
    entries: Sequence[ReportEntry],
    *,
    title: str,
    remarks: Sequence[str] = (),
) -> str:
    """Return the page: summary, table, marked against unmarked, and each sequence in colour.

    The remarks stand below the summary.
    """
    for entry in entries:
        _check_entry(detector, entry)
    rows = "".join(_row(entry, i) for i, entry in enumerate(entries, start=1))
    tracker = Tracker(detector.key)
    details = "".join(
        _details(detector, tracker, entry, i) for i, entry in enumerate(entries, start=1)
    )
    # Half transparent, so that each colour fits light and dark pages.
    colours = "".join(f".p{i} {{ background: #{c}80; }}\n" for i, c in enumerate(_PALETTE))
    said = "".join(f'<p class="soft">{_html(remark)}</p>\n' for remark in remarks)
    numbers = _cells("th", "length", "scored", "statistic", "expected", "p-value")
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        # Nothing is loaded and no script runs, whatever text an id contains.
        '<meta http-equiv="Content-Security-Policy" '
        "content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{_html(title)}</title>\n<style>{_CSS}{colours}</style>\n</head>\n<body>\n<main>\n"
        f"<h1>{_html(title)}</h1>\n{_head(detector, entries)}{_summary(detector, entries)}"
        f"{said}"
        f'<h2>Verdicts</h2>\n<div class="scroll"><table><thead><tr><th>sequence</th>{numbers}'
        f"<th>verdict</th>{_cells('th', '−log-lik.', 'recovery')}</tr></thead>\n"
        f"<tbody>\n{rows}</tbody></table></div>\n{_comparison(entries)}"
        f"<h2>Sequences</h2>\n{_legend(detector)}{details}</main>\n</body>\n</html>\n"
    )


def _html(text: str) -> str:
    """Return a text for the page: neither its tags nor its control characters have an effect."""
    return escape(shown(text))


def _check_entry(detector: Detector, entry: ReportEntry) -> None:
    verdict, scored, length = entry.verdict, entry.scored, len(entry.sequence)
    if not detector.made(verdict):
        raise ParameterError(
            f"the verdict on {verdict.id!r} was not made by this detector: give the detector that "
            "made it"
        )
    if scored is not None and len(scored) != length:
        raise ParameterError(
            f"{verdict.id!r}: `scored` has {len(scored)} entries for {length} positions: give one "
            "for each"
        )
    if entry.words is not None and len(entry.words) != length:
        raise ParameterError(
            f"{verdict.id!r}: {len(entry.words)} words for {length} positions: give one for each"
        )


def _head(detector: Detector, entries: Sequence[ReportEntry]) -> str:
    signatures = {entry.verdict.signature for entry in entries}
    signature = signatures.pop() if len(signatures) == 1 else detector.signature
    facts = {"key": detector.key.key_id, "detector": detector.statistic.name}
    facts |= {"false positive rate": f"{detector.fpr:g}", "signature": signature}
    rows = "".join(f"<div><dt>{k}</dt><dd>{_html(v)}</dd></div>" for k, v in facts.items())
    learnt = (
        "which symbols were promoted where. This helps to remove the mark from these sequences, "
        "and many such pages help to forge it"
    )
    if detector.key.profile.scheme.takes_parts:
        learnt = (
            "the partition (which symbols belong to which part), which is enough to remove or "
            "forge the mark"
        )
    return (
        '<p class="warning" role="note"><strong>Keep this page as secret as the key.</strong> '
        f'Whoever reads it learns {learnt}.</p>\n<dl class="facts">{rows}</dl>\n'
    )


def _summary(detector: Detector, entries: Sequence[ReportEntry]) -> str:
    designs, natives = ([e for e in entries if e.native is kind] for kind in (False, True))
    kind = "designs" if detector.key.profile.alphabet.letters else "texts"
    text = (
        f"<strong>{_marked(designs)} of {len(designs)}</strong> {kind} carry the mark at "
        f"p ≤ {detector.fpr:g}; {detector.fpr * len(designs):.2g} expected by chance."
    )
    if natives:
        text += f" Native sequences, for comparison: {_marked(natives)} of {len(natives)}."
    return f'<p class="summary">{text}</p>\n'


def _marked(entries: Sequence[ReportEntry]) -> int:
    return sum(e.verdict.prediction for e in entries)


def _cells(tag: str, *texts: str) -> str:
    return "".join(f'<{tag} class="num">{text}</{tag}>' for text in texts)


def _row(entry: ReportEntry, number: int) -> str:
    v = entry.verdict
    counts = f"{v.length}", f"{v.num_tokens_scored}", f"{v.statistic:.6g}"
    expected = "–" if v.expected_statistic is None else f"{v.expected_statistic:.1f}"
    numbers = _cells("td", *counts, expected, format_p(v.log10_p))
    name = f'<a href="#s{number}">{_name(entry, number)}</a>'
    facts = _cells("td", *(metric.show(metric.of(entry)) for metric in _METRICS))
    return f"<tr><th>{name}</th>{numbers}<td>{_badge(entry)}</td>{facts}</tr>\n"


def _name(entry: ReportEntry, number: int) -> str:
    tag = '<span class="tag">native</span>' if entry.native else ""
    return _html(entry.verdict.id or f"sequence {number}") + tag


def _badge(entry: ReportEntry) -> str:
    style, word = ("m", "marked") if entry.verdict.prediction else ("c", "no mark found")
    note = entry.verdict.note.removeprefix("native sequence").lstrip("; ")  # the name has a tag
    tail = f' <span class="soft">{_html(note)}</span>' if note else ""
    return f'<span class="badge {style}">{word}</span>{tail}'


@dataclass(frozen=True)
class _Metric:
    name: str
    of: Callable[[ReportEntry], float | None]
    form: Callable[[float], str]

    def show(self, value: float | None) -> str:
        return "–" if value is None or not isfinite(value) else self.form(value)

    def values(self, entries: Sequence[ReportEntry]) -> NDArray[np.float64]:
        found = [x for x in map(self.of, entries) if x is not None and isfinite(x)]
        return np.array(found, dtype=np.float64)


_METRICS = (
    _Metric("mean negative log-likelihood", lambda e: e.score, lambda x: f"{x:.3f}"),
    _Metric("native recovery", lambda e: e.recovery, lambda x: f"{100 * x:.1f} %"),
)


def _comparison(entries: Sequence[ReportEntry]) -> str:
    """Compare designs whose header names a key with those without; empty if a kind is missing."""
    designs = [e for e in entries if not e.native]
    kinds = [[e for e in designs if e.watermarked is kind] for kind in (True, False)]
    if not all(kinds):
        return ""
    body = f"<tr><th>mark found</th>{_cells('td', *(f'{_marked(k)} of {len(k)}' for k in kinds))}"
    plots = ""
    for metric in _METRICS:
        groups = [metric.values(kind) for kind in kinds]
        if any(len(group) for group in groups):
            cells = _cells("td", *(_interval_html(group, metric) for group in groups))
            body += f"</tr>\n<tr><th>{metric.name}</th>{cells}"
            plots += f"<figure>{dot_plot(groups, metric.name, metric.show)}</figure>"
    return (
        '<h2>Marked against unmarked designs</h2>\n<div class="scroll"><table><thead><tr><td></td>'
        f"{_cells('th', 'made with the mark', 'made without')}</tr></thead>\n"
        f'<tbody>{body}</tr></tbody></table></div>\n<div class="pair">{plots}</div>\n'
        '<p class="soft">Made with or without the mark according to the headers. Mean and 95 % '
        "interval (Student’s t), which assumes independent designs: designs on one backbone are "
        "less independent. A lower negative log-likelihood means a sequence that the model finds "
        "likelier.</p>\n"
    )


def _interval_html(values: NDArray[np.float64], metric: _Metric) -> str:
    if not len(values):
        return "–"
    found = mean_interval(values)
    mean, low, high = (metric.show(found[name]) for name in ("mean", "low", "high"))
    span = f" [{low}, {high}]" if isfinite(found["half"]) else ""
    return f'<strong>{mean}</strong>{span} <span class="soft">n = {found["n"]}</span>'


def _legend(detector: Detector) -> str:
    """Explain the colours: the parts or, if there are none, what agrees."""
    items = (
        f'<span><b class="{_colour(AGREES)}">agrees</b> with its key on the best path</span>'
        f'<span><b class="{_colour(DIFFERS)}">differs</b></span>'
    )
    if detector.key.profile.scheme.takes_parts:
        items = _parts(detector)
    repeats = ", or a repeat of an earlier stretch" if detector.masks_repeats else ""
    grey = f'<span><b class="u">grey</b> not scored{repeats}</span>'
    return f'<p class="legend">{items}{grey}</p>\n'


def _parts(detector: Detector) -> str:
    alphabet, partition = detector.key.profile.alphabet, detector.key.partition
    items = ""
    for part, size in enumerate(partition.sizes.tolist()):
        shown = f"{size} symbols"
        if alphabet.letters:
            own = np.flatnonzero(partition.part_of == part).tolist()
            shown = f"<code>{''.join(_symbol(alphabet, s) for s in own)}</code>"
        items += f'<span><b class="{_colour(part)}">part {part + 1}</b> {shown}</span>'
    return items


def _details(detector: Detector, tracker: Tracker, entry: ReportEntry, number: int) -> str:
    alphabet, verdict = detector.key.profile.alphabet, entry.verdict
    ids = alphabet.encode(entry.sequence)
    reading = detector.read([ids], [entry.scored])[0]
    track = tracker.follow(reading)
    shown, style = (
        '\n<span class="at">/</span>\n'.join(
            _sequence(ids[chain], track.kinds[chain], alphabet) for chain in reading.chains
        ),
        "seq",
    )
    if entry.words is not None:
        shown, style = _text(entry.words, track.kinds), "seq words"
    curve = detector.statistic.null_curve(reading, verdict.statistic)
    # A link to an element inside a closed <details> opens it; a link to <details> does not.
    return (
        f"<details{' open' if number == 1 else ''}><summary><b>{_name(entry, number)}</b> "
        f'<span class="soft">p = {format_p(verdict.log10_p)}</span> {_badge(entry)}'
        f'</summary>\n<div class="entry" id="s{number}">\n<div class="pair sides">'
        f'<pre class="{style}">{shown}</pre>'
        f"{null_plot(curve, verdict.expected_statistic, verdict.prediction)}</div>\n"
        f"{track_plot(track, verdict.prediction)}</div></details>\n"
    )


def _colour(kind: int) -> str:
    """Return the class of a part, or of a symbol that agrees or differs."""
    if kind == NO_KEY:
        return "u"
    again = " again" if kind // len(_PALETTE) % 2 else ""  # the colours repeat, underlined
    return f"p{kind % len(_PALETTE)}{again}"


def _symbol(alphabet: Alphabet, symbol: int) -> str:
    if not alphabet.letters:
        return str(symbol).rjust(len(str(alphabet.size - 1)))
    letter = alphabet.letters[symbol]
    return escape(letter) if letter.isprintable() and letter != " " else "·"


def _sequence(ids: NDArray[np.int64], kinds: NDArray[np.int64], alphabet: Alphabet) -> str:
    """Return symbols in numbered rows, with one coloured element for each run of one kind."""
    row, between = (LETTERS_IN_ROW, "") if alphabet.letters else (IDS_IN_ROW, " ")
    name_of = {s: _symbol(alphabet, s) for s in np.unique(ids).tolist()}
    class_of = {k: _colour(k) for k in np.unique(kinds).tolist()}
    symbols = [name_of[s] for s in ids.tolist()]
    cut = np.arange(len(kinds)) % GROUP == 0
    cut[1:] |= kinds[1:] != kinds[:-1]
    pieces = []
    for start, stop in pairwise([*np.flatnonzero(cut).tolist(), len(kinds)]):
        if start % row == 0:
            line = "\n" if start else ""
            pieces.append(f'{line}<span class="at">{start + 1:{len(str(len(kinds)))}d}</span>')
        elif start % GROUP == 0 or between:
            pieces.append(" ")
        run = between.join(symbols[start:stop])
        pieces.append(f'<b class="{class_of[int(kinds[start])]}">{run}</b>')
    return "".join(pieces)


def _text(words: Sequence[str], kinds: NDArray[np.int64]) -> str:
    """Return a text with one coloured element for each run of one kind."""
    pieces = []
    for kind, run in groupby(zip(kinds.tolist(), words, strict=True), key=itemgetter(0)):
        text = "".join(word for _, word in run)
        shown = "".join(c if c.isprintable() or c == "\n" else "·" for c in text)
        pieces.append(f'<b class="{_colour(kind)}">{escape(shown)}</b>')
    return "".join(pieces)


_CSS = """
:root { color-scheme: light dark; --page: #fff; --ink: #1c2430; --soft: #5b6675; --edge: #d9dee5;
  --panel: #f8f9fb; --mark: #0b7a75; --clear: #6b7280; --null: #c3cad3; --warn: #d9730d; }
@media (prefers-color-scheme: dark) { :root { --page: #12161c; --ink: #e4e9f0; --soft: #9aa6b5;
  --edge: #2c3540; --panel: #191f27; --mark: #3cc4bc; --clear: #9aa1ac; --null: #46515f; } }
* { box-sizing: border-box; print-color-adjust: exact; -webkit-print-color-adjust: exact; }
body { margin: 0; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif; }
main { max-width: 1100px; margin: 0 auto; padding: 32px 20px 64px; overflow-wrap: anywhere; }
h1 { font-size: 1.7rem; margin: 0 0 14px; } h2 { font-size: 1.15rem; margin: 36px 0 10px; }
code, .seq, dd { font-family: ui-monospace, "SF Mono", Menlo, Consolas, monospace; }
.warning { background: #f0953f26; border-left: 4px solid var(--warn); padding: 10px 14px; }
.facts, .legend { display: flex; flex-wrap: wrap; gap: 8px 30px; margin: 0 0 16px; }
dt, dd, .soft { font-size: 0.85rem; margin: 0; } dt, .soft { color: var(--soft); }
.summary { font-size: 1.1rem; } .scroll { overflow-x: auto; margin-bottom: 14px; }
table { border-collapse: collapse; width: 100%; font-size: 0.92rem; }
th, td { text-align: left; padding: 6px 10px; border-bottom: 1px solid var(--edge); }
thead th { color: var(--soft); } tbody th { min-width: 21ch; } tr { vertical-align: baseline; }
.num { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
a { color: inherit; text-decoration-color: var(--clear); text-underline-offset: 3px; }
.m { --c: var(--mark); } .c { --c: var(--clear); }
.badge, .tag { border-radius: 99px; padding: 0 9px; font-size: 0.8rem; white-space: nowrap;
  display: inline-block; border: 1px solid; color: var(--clear); } .tag { margin-left: 6px; }
.badge.m { background: var(--mark); border-color: var(--mark); color: var(--page); }
.pair { display: grid; grid-template-columns: 1fr 1fr; gap: 12px 28px; margin: 0 0 10px; }
.sides { grid-template-columns: minmax(0, 1fr) 400px; }
figure { margin: 0; min-width: 0; } svg { display: block; width: 100%; height: auto; }
text { font: 12px system-ui, sans-serif; fill: var(--soft); } .axis { stroke: var(--clear); }
.line { stroke: var(--c); stroke-width: 2; fill: none; stroke-linejoin: round; }
.area { fill: var(--c); opacity: 0.2; } .null { fill: var(--null); }
.tail { stroke: var(--ink); fill: none; }
.chance { stroke: var(--ink); stroke-dasharray: 2 3; } .dot { fill: var(--c); opacity: 0.4; }
.bar { stroke: var(--c); stroke-width: 3; } .mean { fill: var(--c); stroke: var(--page); }
.legend b { padding: 1px 6px; border-radius: 3px; } b[class], tbody th { font-weight: 500; }
details { border: 1px solid var(--edge); margin: 0 0 10px; background: var(--panel); }
details, .warning { border-radius: 6px; } summary { cursor: pointer; padding: 9px 14px; }
.entry { padding: 4px 14px 14px; scroll-margin-top: 60px; } .seq b { padding: 2px 0; }
.seq { margin: 0 0 10px; font-size: 13.5px; line-height: 1.6; overflow-x: auto; }
.words { white-space: pre-wrap; }
.at { margin-right: 1.2ch; } .u, .at { color: var(--clear); } .again { text-decoration: underline; }
@media screen and (max-width: 900px) { .pair, .sides { grid-template-columns: minmax(0, 1fr); }
  .entry > figure { overflow-x: auto; } .entry > figure svg { min-width: 800px; } }
@media print { main { zoom: 0.65; padding: 0; } tr, figure, details { break-inside: avoid; } }
"""
