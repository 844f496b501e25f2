"""`patternmark detect`: verdicts on the sequences of one or more files."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from patternmark.api.detecting import HEADER_SAYS_NATIVE, DetectRequest, Judged, Judging
from patternmark.api.reporting import draw, strongest
from patternmark.caution import caution_of
from patternmark.cli.combined import print_combined, warn_of_calibration
from patternmark.cli.exact import Draws, Exact, Seed, exact_cell
from patternmark.cli.options import (
    DETECTION,
    EXPERT,
    AllowOpenKey,
    BackboneIfAny,
    Chains,
    Device,
    Fixed,
    Fpr,
    InputFormat,
    JsonLines,
    KeyFile,
    ManifestUsed,
    Model,
    NullKeys,
    Orders,
    SequenceFiles,
    StatisticName,
    Temperature,
    Tied,
    TokenizerFile,
    Weights,
    option,
    plot_file,
)
from patternmark.cli.output import (
    Verbose,
    cell,
    print_manifests,
    progress,
    results,
    say,
    shown_in,
    tell,
    warn,
)
from patternmark.core.chain import KeyChain
from patternmark.core.keyfile import load_key
from patternmark.designing.on_backbone import BackboneSetting
from patternmark.detector import Detector
from patternmark.errors import InputError, ParameterError
from patternmark.evidence import DEFAULT_FPR
from patternmark.io.items import RecordSource, signed_for_all
from patternmark.io.manifest_use import VERIFY, ManifestUse
from patternmark.io.records import Problem
from patternmark.io.shown import json_line
from patternmark.results import Status, Verdict, format_p
from patternmark.statistics.texts import TOO_LONG

_SAID = (TOO_LONG, HEADER_SAYS_NATIVE)  # notes that stand beside a mark, too


def detect(
    files: SequenceFiles,
    key: KeyFile,
    format: InputFormat = "auto",
    tokenizer: TokenizerFile = None,
    manifest: ManifestUsed = VERIFY,
    backbone: BackboneIfAny = None,
    chains: Chains = None,
    fixed: Fixed = "",
    tied: Tied = "",
    detector: StatisticName = "auto",
    fpr: Fpr = DEFAULT_FPR,
    strict: Annotated[
        bool,
        option(DETECTION, "--strict", help="Call by p_any, which holds for any sequence."),
    ] = False,
    combine: Annotated[
        bool, option(DETECTION, "--combine", help="Add one p-value for all sequences together.")
    ] = False,
    verdict_only: Annotated[
        bool,
        option(
            DETECTION,
            "--verdict-only",
            help="Print the call alone, for people who may not learn how clear it was.",
        ),
    ] = False,
    null: Annotated[
        str,
        option(
            DETECTION,
            metavar="NAME",
            help='uniform; the probability of each part: "0.45,0.55"; or keys: call by rank '
            "among fresh keys.",
        ),
    ] = "uniform",
    null_keys: NullKeys = None,
    temperature: Temperature = 0.1,
    orders: Orders = 8,
    model: Model = "v_48_020",
    weights: Weights = None,
    as_json: JsonLines = False,
    plot: Annotated[Path | None, plot_file("the strongest verdicts")] = None,
    exact: Exact = False,
    draws: Draws = None,
    seed: Seed = None,
    m: Annotated[
        int | None,
        option(
            EXPERT, metavar="N", help="Pattern length, for --detector pattern; default: the key's."
        ),
    ] = None,
    count_repeats: Annotated[
        bool,
        option(
            EXPERT,
            "--count-repeats",
            help="Count repeats too, as the paper does; not for block keys.",
        ),
    ] = False,
    device: Device = "auto",
    allow_open_key: AllowOpenKey = False,
    verbose: Verbose = False,
) -> None:
    """Test each sequence for the mark of a key.

    With --backbone, the options under "Model" say how the designs were made. The exit status is 0
    whether or not a mark is found.

    Example: patternmark detect designs.fa --key lab.key
    """
    setting = BackboneSetting(
        backbone or Path(), chains, fixed, tied, model, weights, device, temperature, orders
    )
    if backbone is None and setting != BackboneSetting(Path()):
        raise ParameterError(
            "--chains, --fixed, --tied, --model, --weights, --device, --temperature and "
            "--orders need --backbone STRUCTURE"
        )
    if verdict_only and plot is not None:
        raise ParameterError(
            "--verdict-only cannot be used with --plot: the picture shows where a sequence agrees "
            "with the key"
        )
    loaded = load_key(key, allow_open=allow_open_key, with_secret=True)
    manifests = ManifestUse(manifest, [loaded])
    source = RecordSource(loaded.profile.alphabet, format, tokenizer, key.parent, manifests)
    request = DetectRequest(
        detector=detector,
        fpr=fpr,
        strict=strict,
        rank=null == "keys",
        null_keys=null_keys,
        exact=exact,
        draws=draws,
        seed=seed,
        m=m,
        null=None if null == "keys" else _parse_null(null),
        count_repeats=count_repeats,
        verdict_only=verdict_only,
    )
    judging = Judging(loaded, request, source, warn, setting if backbone else None)
    judge = judging.detector
    warn_of_calibration(key, judge)
    if plot is not None:
        from patternmark.report.plot import require_matplotlib

        require_matplotlib()
    collected = _Collector(as_json, verdict_only, keeps_all=combine or not as_json)
    with progress("sequences") as bar:
        for judged in judging.batches([Path(file) for file in files], shown_in(bar)):
            collected.add(judged)
    if not as_json and collected.verdicts:
        _print_table(collected.verdicts, judge, verdict_only=verdict_only)
    if not collected.any_judgeable:
        raise InputError("no sequence could be judged")
    if combine:
        print_combined(collected.verdicts, judge, as_json=as_json, verdict_only=verdict_only)
    if plot is not None:
        _draw(judge, collected.strongest, plot, quiet=as_json)


@dataclass
class _Collector:
    """Collects judged records: prints JSON at once, and keeps what is needed later."""

    as_json: bool
    verdict_only: bool
    keeps_all: bool
    verdicts: list[Judged] = field(default_factory=list)
    strongest: list[Judged] = field(default_factory=list)  # for the picture
    any_judgeable: bool = False

    def add(self, judged: list[Judged]) -> None:
        self.strongest = strongest(self.strongest + judged)
        for verdict, item in judged:
            if self.as_json:
                shown = verdict.bare() if self.verdict_only else verdict
                typer.echo(json_line(shown.to_dict() | item.facts))
            if self.keeps_all:
                self.verdicts.append(Judged(verdict, item))
            if verdict.status is Status.NOTHING_TO_SCORE:
                warn(Problem(item.file, item.place, verdict.note))
            else:
                self.any_judgeable = True


def _draw(judge: Detector, judged: list[Judged], path: Path, *, quiet: bool) -> None:
    draw(judge, judged, path)
    if not quiet:
        has_parts = judge.key.profile.scheme.takes_parts
        shown = "the partition" if has_parts else "part of the key"
        say(f"wrote {path} (together with the sequences it reveals {shown})")


def _print_table(judged: list[Judged], judge: Detector, *, verdict_only: bool) -> None:
    table = Table(box=None, pad_edge=False)
    several = len({item.file for _, item in judged}) > 1
    if several:
        table.add_column("file", overflow="fold")
    table.add_column("sequence", overflow="fold")
    rows = [_length(v) for v, _ in judged] if verdict_only else _numbers([v for v, _ in judged])
    for name in rows[0]:
        table.add_column(name, justify="right")
    table.add_column("verdict")
    for (v, item), cells in zip(judged, rows, strict=True):
        call = v.status.in_words if verdict_only else _call(v)
        call = f"[green]{cell(call)}[/green]" if v.prediction else cell(call)
        if item.in_words:
            call += f" ({cell(item.in_words)})"
        names = [item.file, v.id] if several else [v.id]
        table.add_row(*map(cell, names), *cells.values(), call)
    results.print(table)
    print_manifests(item for _, item in judged)
    # Native sequences stand in design files for comparison, as a manifest that is used says.
    tested = [one.verdict for one in judged if not one.is_native]
    marked = sum(v.prediction for v in tested)
    results.print(
        f"\n{marked} of {len(tested)} sequences carry the mark of key {judge.key.key_id} "
        f"at p <= {judge.fpr:g} ({judge.fpr * len(tested):.2g} expected by chance)",
        highlight=False,
        soft_wrap=True,
    )
    caution = caution_of(judge.key.profile)
    if caution:
        results.print(caution, highlight=False, soft_wrap=True, markup=False)
    signatures = {v.signature for v, _ in judged}
    own = ", and for each sequence its scored positions (see --json)"
    whole = signed_for_all(judge.signature, (item for _, item in judged))
    signature = signatures.pop() if len(signatures) == 1 else whole + own
    tell(f"signature {signature}")


def _length(verdict: Verdict) -> dict[str, str]:
    return {"length": str(verdict.length)}


def _numbers(verdicts: list[Verdict]) -> list[dict[str, str]]:
    """Return the numbers of each verdict by column: those that at least one verdict has."""
    rows = []
    for v in verdicts:
        expected = "" if v.expected_statistic is None else f"{v.expected_statistic:.1f}"
        own = {"scored": str(v.num_tokens_scored), "statistic": f"{v.statistic:.4g}"}
        p_values = {
            "p_any": "" if v.log10_p_any is None else format_p(v.log10_p_any),
            "p_keys": "" if v.p_keys is None else f"{v.p_keys:.2g}",
            "p_exact": exact_cell(v),
        }
        own |= {"expected": expected, "p-value": format_p(v.log10_p)}
        rows.append(_length(v) | own | p_values)
    empty = [name for name in p_values if not any(row[name] for row in rows)]
    return [{name: text for name, text in row.items() if name not in empty} for row in rows]


def _call(verdict: Verdict) -> str:
    """Return the call in words, with what was found besides."""
    said = next((note for note in _SAID if verdict.note.startswith(note)), "")
    if verdict.note and not verdict.prediction and not said:
        return verdict.note
    call = f"marked{_payload_text(verdict)}" if verdict.prediction else "no mark found"
    return f"{call} ({said})" if said else call


def _payload_text(verdict: Verdict) -> str:
    if verdict.payload is None or verdict.payload_error is None:
        return ""
    return f", payload {verdict.payload} (wrong with probability {verdict.payload_error:.1g})"


def _parse_null(text: str) -> KeyChain | None:
    if text == "uniform":
        return None
    try:
        return KeyChain.independent([float(p) for p in text.split(",")])
    except ValueError:
        raise ParameterError(
            "--null must be uniform, keys, or probabilities that sum to 1, such as 0.45,0.55, "
            f"not {text!r}"
        ) from None
