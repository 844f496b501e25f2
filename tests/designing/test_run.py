"""From a backbone to marked sequences and back to a verdict, on the published weights."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from patternmark import (
    PROTEIN,
    Alphabet,
    Detector,
    Key,
    Marker,
    ParameterError,
    PatternmarkError,
    Profile,
    SequenceError,
)
from patternmark.core.schemes import Paper
from patternmark.core.secret import Secret
from patternmark.designing import run
from patternmark.designing.plan import DesignPlan, plan_design, residue_bias_table
from patternmark.designing.run import Design, Designer, DesignOptions, score_sequences
from patternmark.io.structures import Backbone
from patternmark.models.sampler import decoding_steps, sample
from patternmark.models.state import Task
from tests.models.published import network, real_backbone

pytest.importorskip("gemmi", reason="pip install 'patternmark[protein]'")
torch.set_num_threads(1)

DELTA = 2.0


@pytest.fixture(scope="module")
def backbone(tmp_path_factory: pytest.TempPathFactory) -> Backbone:
    """The first domain of a real chain: 107 residues, nothing missing."""
    return real_backbone(tmp_path_factory.mktemp("real"), "A", entry="7ok9", last=170)


@pytest.fixture(scope="module")
def plan(backbone: Backbone) -> DesignPlan:
    plan = plan_design(backbone)
    assert len(plan.groups) == 107
    return plan


@pytest.fixture(scope="module")
def part(backbone: Backbone) -> DesignPlan:
    """The last 40 residues alone: quicker."""
    plan = plan_design(backbone, fixed="A64-130")
    assert len(plan.groups) == 40
    return plan


def designs(
    plan: DesignPlan, count: int, marker: Marker | None = None, **options: Any
) -> list[Design]:
    made = Designer(network(), DesignOptions(**{"seed": 0, **options}), marker)
    return list(made.design(plan, count))


def designed_letters(plan: DesignPlan, count: int, *marker: Marker, **options: Any) -> str:
    made = designs(plan, count, *marker, **options)
    return "".join(letters(d.sequence[plan.designed]) for d in made)


def letters(sequence: np.ndarray) -> str:
    return "".join(PROTEIN.letters[i] for i in sequence)


def test_the_mark_is_found_and_only_where_it_is(plan: DesignPlan, key: Key) -> None:
    marked, plain = designs(plan, 12, Marker(key, delta=DELTA), seed=1), designs(plan, 12, seed=1)
    detector = Detector(key, "pattern", mask_repeats=False)

    def log10_p(of: list[Design]) -> list[float]:
        found = detector.detect_many([d.sequence for d in of], scored=[plan.scored] * len(of))
        assert [v.num_tokens_scored for v in found] == [107] * len(of)
        return [v.log10_p for v in found]

    assert max(log10_p(marked)) < -6
    assert min(log10_p(plain)) > -3
    other = Detector(
        Key.of(Secret(bytes(range(32))), Profile(scheme=Paper())), "pattern", mask_repeats=False
    )
    strangers = other.detect_many([d.sequence for d in marked])
    assert min(v.log10_p for v in strangers) > -3


def test_the_mark_is_found_among_fixed_residues_and_context(tmp_path: Path, key: Key) -> None:
    backbone = real_backbone(tmp_path, "AB", last=90)
    plan = plan_design(backbone, chains=["A"], fixed="A20-24 A60")
    found = Detector(key, "pattern", mask_repeats=False).detect_many(
        [d.sequence for d in designs(plan, 4, Marker(key, delta=DELTA))], scored=[plan.scored] * 4
    )
    assert [v.num_tokens_scored for v in found] == [80] * 4
    assert max(v.log10_p for v in found) < -4


def test_the_mark_of_a_homo_oligomer_counts_once(tmp_path: Path, key: Key) -> None:
    backbone = real_backbone(tmp_path, "AE", last=70)
    plan = plan_design(backbone, homo_oligomer=True)
    made = designs(plan, 4, Marker(key, delta=DELTA))
    half = len(backbone.sequence) // 2
    for design in made:
        assert (design.sequence[:half] == design.sequence[half:]).all()
    sequences, scored = [d.sequence for d in made], [plan.scored] * 4
    counted = Detector(key, "pattern", mask_repeats=False).detect_many(sequences, scored=scored)
    assert [v.num_tokens_scored for v in counted] == [half] * 4
    assert max(v.log10_p for v in counted) < -4
    # Without the plan, the second chain is left out as a copy of the first.
    masking = Detector(key, "pattern")
    written = [f"{letters(d.sequence[:half])}/{letters(d.sequence[half:])}" for d in made]
    masked = masking.detect_many(written, scored=[np.insert(plan.scored, half, False)] * 4)
    joined = masking.detect_many(written)
    assert [v.num_tokens_scored for v in masked] == [v.num_tokens_scored for v in joined]
    assert [v.log10_p for v in masked] == [v.log10_p for v in joined]


def test_most_letters_follow_their_key_and_the_more_the_stronger(
    plan: DesignPlan, key: Key
) -> None:
    shares = []
    for delta in (0.0, 1.0, DELTA, 50.0):
        marker = Marker(key, delta=delta)
        follows = [
            key.partition.part_of[d.sequence] == plan.keys(marker, 3, [d.index - 1])[0]
            for d in designs(plan, 4, marker, seed=3)
        ]
        shares.append(float(np.mean(follows)))
    assert 0.4 < shares[0] < 0.6
    assert shares[0] + 0.1 < shares[1] < shares[2] < shares[3] == 1.0


def test_a_mark_of_strength_zero_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, part: DesignPlan, key: Key
) -> None:
    plain = designs(part, 3, seed=1)

    def public(groups: Any, secret: Secret, label: str, *others: Any) -> Any:
        return decoding_steps(groups, int(label.partition("/")[0]), *others)

    monkeypatch.setattr(run, "secret_steps", public)
    marked = designs(part, 3, Marker(key, delta=0.0), seed=1)
    assert [letters(d.sequence) for d in marked] == [letters(d.sequence) for d in plain]
    strong = designs(part, 3, Marker(key, delta=5.0), seed=1)
    assert [letters(d.sequence) for d in strong] != [letters(d.sequence) for d in plain]


def test_orders_and_uniforms_of_marked_designs_come_from_the_secret(
    monkeypatch: pytest.MonkeyPatch, part: DesignPlan, key: Key
) -> None:
    """Who knows the seed, model and backbone cannot draw a marked design's numbers again."""
    tasks = []

    def seen(prepared: Any, task: Task, *others: Any) -> Any:
        tasks.append(task)
        return sample(prepared, task, *others)

    monkeypatch.setattr(run, "sample", seen)
    other = Key.of(Secret(bytes(range(32))), Profile(scheme=Paper()))
    for marker in (None, Marker(key), Marker(key), Marker(other)):
        designs(part, 2, marker, seed=1)
    public = decoding_steps(part.groups, 1, range(2), part.length)
    plain, marked, again, of_other = ((task.steps, task.uniforms) for task in tasks)
    for which in range(2):  # orders, uniforms
        assert (plain[which] == public[which]).all()
        assert (marked[which] == again[which]).all()
        assert (marked[which] != public[which]).mean() > 0.9
        assert (marked[which] != of_other[which]).mean() > 0.9


def test_without_a_seed_every_run_is_another(part: DesignPlan, key: Key) -> None:
    for marker in (None, Marker(key)):
        one, other = (designs(part, 2, marker, seed=None) for _ in range(2))
        assert letters(one[0].sequence) != letters(other[0].sequence)


def test_designs_resemble_the_native_protein(plan: DesignPlan) -> None:
    made = designs(plan, 12)
    assert np.mean([d.recovery for d in made]) > 0.38  # 0.46 measured; chance gives 0.06
    native = plan.backbone.sequence
    for design in made:
        assert design.recovery == pytest.approx(np.mean(design.sequence == native))
        assert 0.6 < design.score < 1.4
        assert design.score == design.global_score  # everything is designed
        assert 20 not in design.sequence
    assert len({letters(d.sequence) for d in made}) == 12
    assert [d.index for d in made] == list(range(1, 13))


def test_marking_costs_little(plan: DesignPlan, key: Key) -> None:
    plain = np.mean([d.score for d in designs(plan, 8)])
    marked = np.mean([d.score for d in designs(plan, 8, Marker(key, delta=1.0))])
    assert plain < marked < plain + 0.4


def test_the_same_seed_gives_the_same_designs(part: DesignPlan, key: Key) -> None:
    marker = Marker(key)
    first = [(letters(d.sequence), d.score) for d in designs(part, 3, marker, seed=7)]
    assert first == [(letters(d.sequence), d.score) for d in designs(part, 3, marker, seed=7)]
    other = [(letters(d.sequence), d.score) for d in designs(part, 3, marker, seed=8)]
    assert not set(first) & set(other)


def test_a_design_does_not_depend_on_its_batch(part: DesignPlan, key: Key) -> None:
    designer = Designer(network(), DesignOptions(seed=2), Marker(key))
    together = list(designer.design(part, 7, batch=7))
    for batch in (1, 3):
        parts = list(designer.design(part, 7, batch=batch))
        assert [d.index for d in parts] == [1, 2, 3, 4, 5, 6, 7]
        assert [letters(d.sequence) for d in parts] == [letters(d.sequence) for d in together]
        scores = [d.score for d in together]
        assert [d.score for d in parts] == pytest.approx(scores, abs=1e-5)
    fewer = list(designer.design(part, 2))
    assert [letters(d.sequence) for d in fewer] == [letters(d.sequence) for d in together[:2]]


def test_progress_counts_every_letter(part: DesignPlan) -> None:
    heard: list[int] = []
    made = Designer(network(), DesignOptions()).design(part, 3, batch=2, progress=heard.append)
    assert not heard  # nothing before the first is asked for
    assert len(list(made)) == 3
    assert sum(heard) == 3 * 40


def test_fixed_residues_stay_and_only_designed_ones_are_judged(backbone: Backbone) -> None:
    plan = plan_design(backbone, fixed="A80-150")
    for design in designs(plan, 3):
        same = design.sequence == backbone.sequence
        assert same[~plan.designed].all()
        assert design.recovery == pytest.approx(same[plan.designed].mean())
        assert design.recovery < 1.0
        assert design.score != pytest.approx(design.global_score, abs=0.01)


def test_omitted_letters_are_not_used(part: DesignPlan, key: Key) -> None:
    used = set(designed_letters(part, 8, temperature=3.0))
    assert used == set(PROTEIN.letters[:20])
    marker = Marker(key, delta=DELTA)
    made = designed_letters(part, 8, marker, temperature=3.0, omit="aCDe", bias={"A": 9.0})
    assert set(made) == set(PROTEIN.letters[:20]) - set("ACDE")


def test_bias_makes_a_letter_more_or_less_likely(part: DesignPlan) -> None:
    def share(**options: Any) -> float:
        made = designed_letters(part, 4, **options)
        return made.count("K") / len(made)

    assert share(bias={"K": -1.0}) < share() < share(bias={"K": 1.0})
    assert share(bias={"k": 1000.0}) == 1.0
    assert share(bias={"K": -1000.0}) == 0.0


def test_bias_of_a_residue_is_its_own(plan: DesignPlan) -> None:
    table = residue_bias_table(plan, {"A70": {"W": 1000.0}, "A100-101": {"P": 1000.0}})
    designer = Designer(network(), DesignOptions())
    rows = [plan.backbone.position("A", label) for label in ("70", "100", "101")]
    for design in designer.design(plan, 3, residue_bias=table):
        assert letters(design.sequence[rows]) == "WPP"
        assert letters(design.sequence).count("W") < 10
    designer = Designer(network(), DesignOptions(omit="W"))
    for design in designer.design(plan, 2, residue_bias=table):
        assert "W" not in letters(design.sequence)  # never means never


def test_colder_is_likelier(plan: DesignPlan) -> None:
    scores = [np.mean([d.score for d in designs(plan, 4, temperature=T)]) for T in (0.05, 0.5, 2.0)]
    assert scores[0] + 0.1 < scores[1] < scores[2] - 0.3


def test_the_native_sequence_scores_as_a_real_one(plan: DesignPlan) -> None:
    designer = Designer(network(), DesignOptions())
    native = designer.score_native(plan)
    assert (native.index, native.recovery) == (0, 1.0)
    assert native.score == native.global_score
    assert 1.3 < native.score < 2.0
    assert Designer(network(), DesignOptions(seed=4)).score_native(plan).score == native.score
    prepared = network().prepare(network().encode(plan.backbone))
    shuffled = np.random.default_rng(1).permutation(plan.backbone.sequence)
    both = np.stack([plan.backbone.sequence, shuffled])
    scored = score_sequences(prepared, plan, both, seed=0)
    assert scored[0].score == pytest.approx(native.score, abs=1e-5)
    assert scored[1].score > native.score + 1.0
    assert scored[1].recovery < 0.2


def test_a_design_scores_alike_in_another_order(plan: DesignPlan) -> None:
    made = designs(plan, 4)
    prepared = network().prepare(network().encode(plan.backbone))
    again = score_sequences(prepared, plan, np.stack([d.sequence for d in made]), seed=11)
    for one, other in zip(made, again, strict=True):
        assert other.score == pytest.approx(one.score, abs=0.15)
        assert other.recovery == one.recovery


def test_what_is_not_designed_is_known_when_a_sequence_is_judged(part: DesignPlan) -> None:
    prepared = network().prepare(network().encode(part.backbone))
    given: list[torch.Tensor] = []

    class Listening:
        encoded = prepared.encoded

        def log_probabilities(self, sequences: torch.Tensor, ranks: torch.Tensor) -> torch.Tensor:
            given.append(ranks)
            return prepared.log_probabilities(sequences, ranks)

    score_sequences(Listening(), part, part.backbone.sequence[None].repeat(3, axis=0), seed=1)
    for ranks in given[0].numpy():
        assert sorted(ranks[~part.designed].tolist()) == list(range(67))
        assert sorted(ranks[part.designed].tolist()) == list(range(67, 107))
    assert (given[0][0] != given[0][1]).any()


def test_gaps_stay_gaps(tmp_path: Path, key: Key) -> None:
    backbone = real_backbone(tmp_path, "A", last=80, without=[30, 31, 32])
    plan = plan_design(backbone)
    design = designs(plan, 1, Marker(key))[0]
    assert np.flatnonzero(design.sequence == 20).tolist() == [25, 26, 27]
    assert np.isfinite([design.score, design.global_score]).all()
    assert design.score == design.global_score  # rows without coordinates are not judged


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temperature": 0.0}, "a temperature must be positive, not 0"),
        ({"temperature": -0.1}, "a temperature must be positive"),
        ({"temperature": float("nan")}, "a temperature must be positive, not nan"),
        ({"seed": -1}, "a seed must be a whole number of at least 0, not -1"),
        ({"omit": "ACDEFGHIKLMNPQRSTVWY"}, "every amino acid is omitted"),
        ({"omit": "yxWVtsrqpnmlkihgfedca"}, "every amino acid is omitted"),
    ],
)
def test_options_that_cannot_be(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        DesignOptions(**options)


@pytest.mark.parametrize(
    "options",
    [
        {"temperature": float("inf")},
        {"bias": {"K": float("nan")}},
        {"bias": {"K": float("inf")}},
    ],
    ids=str,
)
def test_numbers_that_are_none_are_refused(part: DesignPlan, options: dict[str, Any]) -> None:
    with pytest.raises(PatternmarkError):  # or else every design is poly-alanine
        designs(part, 1, **options)


def test_one_letter_is_enough(part: DesignPlan) -> None:
    assert set(designed_letters(part, 1, omit="ACDEFGHIKLMNPQRSTVW")) == {"Y"}


@pytest.mark.parametrize(
    "options", [{"omit": "A1"}, {"bias": {"&": 1.0}}], ids=["omitted", "biased"]
)
def test_letters_that_are_none(part: DesignPlan, options: dict[str, Any]) -> None:
    with pytest.raises(SequenceError, match="is not a letter of alphabet 'protein'"):
        designs(part, 1, **options)


def test_a_key_for_something_else_is_refused(secret: Secret) -> None:
    nucleotides = Alphabet.from_symbols("rna", "ACGUN", unscored=[4])
    marker = Marker(Key.of(secret, Profile(alphabet=nucleotides, scheme=Paper())))
    with pytest.raises(ParameterError, match="marks alphabet 'rna', not proteins"):
        Designer(network(), DesignOptions(), marker)
