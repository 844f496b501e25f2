"""`write_report`: write an HTML page on sequences. `plot_verdicts`: draw the strongest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from os import PathLike
from pathlib import Path
from typing import Unpack

from patternmark.api.detecting import DetectOptions, Judged, judge_items, prepare_judging
from patternmark.api.given import (
    Given,
    GivenKey,
    Reader,
    ReadOptions,
    each_of,
    is_one,
    key_and_folder,
)
from patternmark.detector import Detector
from patternmark.errors import InputError
from patternmark.evidence import DEFAULT_FPR
from patternmark.io.files import write_private
from patternmark.io.items import Item, RecordSource, manifests_in_words
from patternmark.report.page import ReportEntry, render_report
from patternmark.results import Results, Verdict

VERDICTS_DRAWN = 4  # the strongest


def write_report(
    records: Given,
    key: GivenKey,
    output: PathLike[str] | str,
    *,
    detector: str = "auto",
    fpr: float = DEFAULT_FPR,
    title: str | None = None,
    **options: Unpack[ReadOptions],
) -> Results[Verdict]:
    """Write an HTML page of verdicts and coloured sequences; return the verdicts.

    The page reveals which letters the key promotes: keep it as secret as the key. The parameters
    are those of `detect`; `title` is the heading of the page.
    """
    loaded, folder = key_and_folder(key)
    judge = Detector(loaded, detector, fpr=fpr)
    reader = Reader(loaded.profile.alphabet, folder, options, [loaded])
    given = records if _can_read_twice(records) else list(records)  # type: ignore[arg-type]
    items = list(reader.items(given))
    judged = judge_items(judge, items)
    reader.progress("judging", len(judged), len(judged))
    if not judged:
        raise InputError("no sequence could be judged")
    entries = [_entry(*pair, reader.source) for pair in judged]
    heading = _title(given, of_text=reader.source.of_text) if title is None else title
    remarks = manifests_in_words(items)
    page = render_report(judge, entries, title=heading, remarks=remarks)
    write_private(Path(output), page, overwrite=True)  # it reveals what the key promotes
    return Results(verdict for verdict, _ in judged)


def _can_read_twice(given: Given) -> bool:
    """Return whether the records can be read twice."""
    return is_one(given) or isinstance(given, PathLike | Mapping | Sequence)


def _title(given: Given, *, of_text: bool) -> str:
    files = [Path(one).name for _, one in each_of(given) if isinstance(one, PathLike)]
    what = "Texts" if of_text else "Designs"
    return f"{what} in {', '.join(files)}" if files else what


def _entry(verdict: Verdict, item: Item, source: RecordSource) -> ReportEntry:
    design = item.record.design
    is_design = design is not None and not design.is_native
    return ReportEntry(
        verdict=replace(verdict, note="; ".join(filter(None, [verdict.note, item.in_words]))),
        sequence=item.symbols,
        words=_words(item, source),
        scored=item.scored,
        native=item.is_native,
        score=design.number("score") if design else None,
        recovery=design.number("seq_recovery", "seq_rec") if design else None,
        watermarked=("wm" in design.facts) if design and is_design else None,
    )


def _words(item: Item, source: RecordSource) -> tuple[str, ...] | None:
    """Cut a text at the borders of its tokens."""
    cuts = source.cuts(item.record)
    if cuts is None:
        return None
    text = str(item.record.sequence)
    return tuple(text[start:end] for start, end in pairwise(cuts.tolist()))


def strongest(judged: Sequence[Judged]) -> list[Judged]:
    """Return the verdicts that are drawn, which have the smallest p-values."""
    return sorted(judged, key=lambda one: one.verdict.log10_p)[:VERDICTS_DRAWN]


def draw(detector: Detector, judged: Sequence[Judged], output: Path) -> None:
    """Draw verdicts; the suffix of the file selects the format."""
    from patternmark.report.plot import plot_verdicts as draw_verdicts  # noqa: PLC0415

    items = [item for _, item in judged]
    draw_verdicts(
        detector,
        [verdict for verdict, _ in judged],
        [item.symbols for item in items],
        str(output),
        [item.scored for item in items],
        [item.rates for item in items],
    )


def plot_verdicts(
    records: Given, key: GivenKey, output: PathLike[str] | str, **options: Unpack[DetectOptions]
) -> Results[Verdict]:
    """Draw the strongest verdicts on sequences; return the verdicts that are drawn.

    The suffix of `output` selects the format (.png, .svg or .pdf). Together with the sequences the
    picture reveals part of the key. The parameters are those of `detect`.
    """
    from patternmark.report.plot import require_matplotlib  # noqa: PLC0415

    require_matplotlib()
    judging, progress = prepare_judging(key, options)
    shown: list[Judged] = []
    for batch in judging.batches(records, progress):
        shown = strongest(shown + batch)
    if not shown:
        raise InputError("no sequence could be judged")
    draw(judging.detector, shown, Path(output))
    return Results(verdict for verdict, _ in shown)
