"""`detect`, `detect_stream` and `combine`: test records for the mark of one key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from secrets import randbits
from typing import TYPE_CHECKING, Literal, NamedTuple, TypedDict, Unpack, overload

from patternmark.api.given import (
    Given,
    GivenKey,
    Progress,
    Reader,
    ReadOptions,
    is_one,
    items_of,
    key_and_folder,
    no_progress,
)
from patternmark.api.given import Sequence as OneSequence
from patternmark.api.on_structures import fitted_of
from patternmark.caution import caution_of
from patternmark.combination import Combined
from patternmark.combination import combine as combine_records
from patternmark.core.chain import KeyChain
from patternmark.core.key import Key
from patternmark.core.reading import Reading
from patternmark.detector import Detector
from patternmark.errors import ParameterError
from patternmark.evidence import DEFAULT_FPR, call_by_exact_p, call_by_rank
from patternmark.fast.compiled import repeated
from patternmark.io.items import Item, RecordSource, Warn, in_batches, signed_for_all
from patternmark.io.manifest_use import ManifestUse
from patternmark.plan.calibrate import check_num_keys, rank_p_values
from patternmark.results import BareCombined, BareVerdict, Results, Status, Verdict
from patternmark.statistics import BACKBONE
from patternmark.statistics.block_exact import DRAWS, EXACT

if TYPE_CHECKING:
    from patternmark.designing.on_backbone import BackboneReader, BackboneSetting

NATIVE = "native sequence"  # a note: the manifest that was used says so
HEADER_SAYS_NATIVE = "header says native"  # a note: the record counts like any other
FRESH_KEYS = 999  # to compare with, where a rank among them makes the call
BATCH_RECORDS = 2048
BATCH_RECORDS_ON_BACKBONE = 16  # the model takes a second for each: show what is done


class Judged(NamedTuple):
    """A verdict and its record."""

    verdict: Verdict
    item: Item

    @property
    def is_native(self) -> bool:
        """Whether it is the native sequence of a structure, by the manifest that was used."""
        return self.item.is_native


@dataclass(frozen=True)
class DetectRequest:
    """How records are judged; the same names as the options of `patternmark detect`.

    `rank` calls by the rank among fresh keys, and `null_keys` says how many; without `rank`, it
    adds the rank to verdicts. `exact` draws keys for every sequence: `draws` of them from `seed`.
    `verdict_only` says that whoever asks may learn nothing but the call.
    """

    detector: str = "auto"
    fpr: float = DEFAULT_FPR
    strict: bool = False
    rank: bool = False
    null_keys: int | None = None
    exact: bool = False
    draws: int | None = None
    seed: int | None = None
    m: int | None = None
    null: KeyChain | None = None
    count_repeats: bool = False
    verdict_only: bool = False

    def check(self, key: Key) -> None:
        """Refuse what does not go together."""
        if self.verdict_only and (self.exact or self.rank or self.null_keys is not None):
            # A call that changes from run to run says how near a sequence is to the limit.
            raise ParameterError(
                "verdict_only=True cannot be used with exact=True, rank=True or null_keys=N: they "
                "draw other keys in every run, so the same question asked often would tell more "
                "than a verdict"
            )
        if self.strict and (self.rank or self.exact or self.count_repeats):
            raise ParameterError(
                "strict=True cannot be used with rank=True, exact=True or count_repeats=True"
            )
        if self.exact and self.rank:
            raise ParameterError("exact=True and rank=True both decide the call: give one of them")
        if not self.exact and (self.draws is not None or self.seed is not None):
            raise ParameterError("draws=N and seed=N belong to exact=True")
        if self.rank:
            try:
                check_num_keys(self.fresh_keys, self.fpr)
            except ParameterError as error:
                raise ParameterError(f"{error}: give null_keys=N") from None
        scheme = key.profile.scheme.name
        if self.exact and scheme not in EXACT:
            raise ParameterError(
                f"exact=True needs a key of the scheme {' or '.join(EXACT)}: key {key.key_id} "
                f"has {scheme!r}; for it, compare with fresh keys: rank=True"
            )

    @property
    def fresh_keys(self) -> int:
        """How many fresh keys each record is compared with."""
        return (FRESH_KEYS if self.rank else 0) if self.null_keys is None else self.null_keys


class Judging:
    """Reads records, judges them in batches, and adds ranks or exact p-values on request."""

    def __init__(
        self,
        key: Key,
        request: DetectRequest,
        source: RecordSource,
        warn: Warn,
        backbone: BackboneSetting | None = None,
    ) -> None:
        request.check(key)
        self.key, self._request, self._source, self._warn = key, request, source, warn
        self._reader = _backbone_reader(backbone, key, request, source.manifests, warn)
        self.detector = self._make_detector(key)

    @cached_property
    def _seed(self) -> int:
        # Someone who knew the seed beforehand could choose a sequence that it misjudges.
        return randbits(32) if self._request.seed is None else self._request.seed

    def _make_detector(self, key: Key) -> Detector:
        request = self._request
        return Detector(
            key,
            request.detector if self._reader is None else self._reader.statistic(key),
            m=request.m,
            fpr=request.fpr,
            null=request.null,
            mask_repeats=not request.count_repeats,
            strict=request.strict,
        )

    def items(self, given: Given) -> Iterator[Item]:
        """Yield the records that were given."""
        if self._reader is None:
            return items_of(given, self._source, self._warn)
        reader, how = self._reader, self._reader.setting
        fitting = fitted_of(
            given,
            how.structure,
            reader.plan,
            self._warn,
            manifests=reader.manifests,
            format=self._source.format,
        )
        return reader.items(fitting)

    def batches(self, given: Given, progress: Progress = no_progress) -> Iterator[list[Judged]]:
        """Yield the judged records, one batch after another."""
        most = BATCH_RECORDS if self._reader is None else BATCH_RECORDS_ON_BACKBONE
        done = 0
        for items in in_batches(self.items(given), most):
            judged = judge_items(self.detector, items)
            judged = self._add_ranks(judged, progress)
            judged = self._add_exact_p(judged, progress)
            done += len(judged)
            progress("detecting", done, None)
            yield judged

    def _add_ranks(self, judged: list[Judged], progress: Progress) -> list[Judged]:
        """Add the rank among fresh keys; if `rank` is set, it decides."""
        request, number, done = self._request, self._request.fresh_keys, 0
        if number == 0:
            return judged

        def step() -> None:
            nonlocal done
            done += 1
            progress("comparing with fresh keys", done, number)

        readings = readings_of(judged, self.detector)
        ranks = rank_p_values(self._make_detector, self.key, readings, number, step)
        return [
            Judged(call_by_rank(one.verdict, p, number, decides=request.rank), one.item)
            for one, p in zip(judged, ranks, strict=True)
        ]

    def _add_exact_p(self, judged: list[Judged], progress: Progress) -> list[Judged]:
        """Add the exact p-value of each sequence, which then decides."""
        if not self._request.exact:
            return judged
        find, draws, done = EXACT[self.key.profile.scheme.name], self._request.draws or DRAWS, 0

        def step() -> None:
            nonlocal done
            done += 1
            progress("drawing keys", done, draws * len(judged))

        found = []
        readings = readings_of(judged, self.detector)
        with repeated(len(judged)):
            for one, reading in zip(judged, readings, strict=True):
                exact = find(
                    self.detector.statistic,  # type: ignore[arg-type]  # that of the scheme
                    reading,
                    one.verdict.statistic,
                    draws=draws,
                    seed=self._seed,
                    step=step,
                )
                error = exact.relative_error
                called = call_by_exact_p(one.verdict, exact.log_p, error, draws, self._seed)
                found.append(Judged(called, one.item))
        return found


def _backbone_reader(
    backbone: BackboneSetting | None,
    key: Key,
    request: DetectRequest,
    manifests: ManifestUse,
    warn: Warn,
) -> BackboneReader | None:
    """Return the reader of designs on a backbone, or None without a backbone."""
    if backbone is None:
        if request.detector == BACKBONE:
            raise ParameterError("the detector 'backbone' needs backbone=STRUCTURE")
        return None
    if request.detector not in ("auto", BACKBONE):
        raise ParameterError(
            f"backbone=STRUCTURE has its own detector: leave out detector={request.detector!r}"
        )
    if request.m is not None or request.null is not None:
        raise ParameterError("m=N and null=P cannot be used with backbone=STRUCTURE")
    from patternmark.designing.on_backbone import BackboneReader  # noqa: PLC0415  # needs torch

    return BackboneReader(backbone, key, warn, manifests)


def judge_items(detector: Detector, items: Sequence[Item]) -> list[Judged]:
    """Judge records; notes name native sequences and the caution about p-values of the key."""
    verdicts = detector.detect_many(
        [item.symbols for item in items],
        [item.record.id for item in items],
        [item.scored for item in items],
        [item.rates for item in items],
    )
    caution = caution_of(detector.key.profile) or ""
    found = []
    for verdict, item in zip(verdicts, items, strict=True):
        one = Judged(verdict, item)
        notes = [_origin(item), caution if verdict.prediction and not one.is_native else ""]
        note = verdict.note or "; ".join(filter(None, notes))
        signature = item.signed(verdict.signature)
        found.append(one._replace(verdict=replace(verdict, note=note, signature=signature)))
    return found


def _origin(item: Item) -> str:
    """Say whether a record is a native sequence; a header alone proves nothing."""
    if item.is_native:
        return NATIVE
    design = item.record.design
    return HEADER_SAYS_NATIVE if design is not None and design.is_native else ""


def readings_of(judged: Sequence[Judged], detector: Detector) -> list[Reading]:
    """Return the readings of judged records."""
    items = [item for _, item in judged]
    return detector.read(
        [item.symbols for item in items],
        [item.scored for item in items],
        [item.rates for item in items],
    )


def combine_judged(judged: Sequence[Judged], detector: Detector) -> Combined:
    """Return one p-value for all records, except native ones and those with nothing to score."""
    used = [
        one
        for one in judged
        if one.verdict.status is not Status.NOTHING_TO_SCORE and not one.is_native
    ]
    found = combine_records(
        detector,
        [item.symbols for _, item in used],
        [item.scored for _, item in used],
        [item.rates for _, item in used],
        verdicts=[verdict for verdict, _ in used],
    )
    return replace(found, signature=signed_for_all(found.signature, (item for _, item in judged)))


class RequestOptions(TypedDict, total=False):
    """The fields of `DetectRequest`; all of them may be left out."""

    detector: str
    fpr: float
    strict: bool
    rank: bool
    null_keys: int | None
    exact: bool
    draws: int | None
    seed: int | None
    m: int | None
    null: KeyChain | None
    count_repeats: bool


class DetectOptions(RequestOptions, ReadOptions, total=False):
    """The options of `detect`, `detect_stream` and `combine`; `detect` explains them."""

    backbone: BackboneSetting | Path | str | None


def prepare_judging(
    key: GivenKey, options: DetectOptions, *, verdict_only: bool = False
) -> tuple[Judging, Progress]:
    """Return what judges as the options of `detect` say, and what hears of its progress."""
    loaded, folder = key_and_folder(key)
    reader = Reader(loaded.profile.alphabet, folder, options, [loaded])
    names = RequestOptions.__annotations__
    given = {name: options[name] for name in names if name in options}  # type: ignore[literal-required]
    request = DetectRequest(**given, verdict_only=verdict_only)
    backbone = options.get("backbone")
    if isinstance(backbone, str | Path):
        from patternmark.designing.on_backbone import BackboneSetting  # noqa: PLC0415  # as needed

        backbone = BackboneSetting(Path(backbone))
    return Judging(loaded, request, reader.source, reader.warn, backbone), reader.progress


@overload
def detect_stream(
    records: Given, key: GivenKey, *, verdict_only: Literal[True], **options: Unpack[DetectOptions]
) -> Iterator[BareVerdict]: ...
@overload
def detect_stream(
    records: Given,
    key: GivenKey,
    *,
    verdict_only: Literal[False] = False,
    **options: Unpack[DetectOptions],
) -> Iterator[Verdict]: ...
def detect_stream(
    records: Given, key: GivenKey, *, verdict_only: bool = False, **options: Unpack[DetectOptions]
) -> Iterator[Verdict] | Iterator[BareVerdict]:
    """Yield one verdict after another: for more records than fit into memory.

    The parameters are those of `detect`.

    >>> import patternmark as pm
    >>> key = pm.Key.generate(pm.Profile())
    >>> sum(verdict.prediction for verdict in pm.detect_stream(("MKTAYIAKQR" for _ in "ab"), key))
    0
    """
    judging, progress = prepare_judging(key, options, verdict_only=verdict_only)
    batches = judging.batches(records, progress)
    verdicts = (verdict for batch in batches for verdict, _ in batch)
    return (verdict.bare() for verdict in verdicts) if verdict_only else verdicts


@overload
def detect(  # type: ignore[overload-overlap]  # a str is many letters, and yet one sequence
    records: OneSequence,
    key: GivenKey,
    *,
    verdict_only: Literal[True],
    **options: Unpack[DetectOptions],
) -> BareVerdict: ...
@overload
def detect(
    records: Given, key: GivenKey, *, verdict_only: Literal[True], **options: Unpack[DetectOptions]
) -> Results[BareVerdict]: ...
@overload
def detect(  # type: ignore[overload-overlap]  # as above
    records: OneSequence,
    key: GivenKey,
    *,
    verdict_only: Literal[False] = False,
    **options: Unpack[DetectOptions],
) -> Verdict: ...
@overload
def detect(
    records: Given,
    key: GivenKey,
    *,
    verdict_only: Literal[False] = False,
    **options: Unpack[DetectOptions],
) -> Results[Verdict]: ...
def detect(
    records: Given, key: GivenKey, *, verdict_only: bool = False, **options: Unpack[DetectOptions]
) -> Verdict | BareVerdict | Results[Verdict] | Results[BareVerdict]:
    """Judge sequences by a key: one verdict for one sequence, otherwise `Results`.

    `records` is a sequence (letters, a text or ids), a file (`Path`), or many of these. `key` is a
    `Key` or the name of its file. Options:

    - `fpr`: call sequences marked at p-values up to this one (0.001);
    - `strict=True`: call by `p_any`, which holds for any sequence;
    - `exact=True`: call by the p-value of each very sequence, from drawn keys (`draws`, `seed`);
    - `rank=True`: call by the rank among `null_keys` fresh keys (999);
    - `verdict_only=True`: return the call alone, for people who may not learn how clear it was;
    - `backbone`: the structure file of the designs, or a `BackboneSetting`: finds weaker marks;
    - `detector`: another statistic than `auto`; `m`, `null` and `count_repeats` are for `pattern`;
    - `format`, `tokenizer`: how files are read;
    - `manifest`: "verify" uses the manifest beside a file if the key signed it and the file is
      unchanged; "trust" uses any, "ignore" none;
    - `warn`, `progress`: functions that hear of bad records, and of how far the work is.

    >>> import patternmark as pm
    >>> key = pm.Key.generate(pm.Profile())
    >>> pm.detect("MKTAYIAKQR", key).status
    <Status.TOO_SHORT: 'too_short'>
    >>> [v.id for v in pm.detect({"a": "MKTAYIAKQR", "b": "MSTNPKPQRK"}, key)]
    ['a', 'b']
    """
    if verdict_only:
        bare = Results(detect_stream(records, key, verdict_only=True, **options))
        return bare[0] if is_one(records) else bare
    found = Results(detect_stream(records, key, **options))
    return found[0] if is_one(records) else found


@overload
def combine(
    records: Given, key: GivenKey, *, verdict_only: Literal[True], **options: Unpack[DetectOptions]
) -> BareCombined: ...
@overload
def combine(
    records: Given,
    key: GivenKey,
    *,
    verdict_only: Literal[False] = False,
    **options: Unpack[DetectOptions],
) -> Combined: ...
def combine(
    records: Given, key: GivenKey, *, verdict_only: bool = False, **options: Unpack[DetectOptions]
) -> Combined | BareCombined:
    """Return one p-value for all records together, by the rule that is valid for the key.

    The parameters are those of `detect`.

    >>> import patternmark as pm
    >>> key = pm.Key.generate(pm.Profile())
    >>> pm.combine(["MKTAYIAKQR", "MSTNPKPQRK"], key).prediction
    False
    """
    judging, progress = prepare_judging(key, options, verdict_only=verdict_only)
    judged = [one for batch in judging.batches(records, progress) for one in batch]
    found = combine_judged(judged, judging.detector)
    return found.bare() if verdict_only else found
