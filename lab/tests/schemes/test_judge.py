"""What detectors count, whether their p-values hold, and that marks are found."""

from fractions import Fraction
from math import comb

import numpy as np
import pytest

from lab.tests.schemes.reference import BY_BIAS, MANY, TINY, a_secret
from patternmark import PROTEIN, Detector, Profile
from patternmark.core.schemes import Turns
from patternmark_lab.schemes import EMPTY, SCHEMES, Canvas, Scheme, make_scheme
from tests.null.test_binomial import exact_tail, ln

LN10 = np.log(10.0)
# Their p-values are exact where no secret decides twice; with few symbols DMark's and Soft's are
# not, and nobody says they are.
EXACT = ("soft", "unigram", "tango", "eth", "dmark", "lr-dwm", "multikey", "umr", "denmark-lexical")


def plain_counts(scheme: Scheme, tokens: list[int]) -> tuple[int, int]:
    """Count hits and trials of one chain as the detectors are described."""
    scored = set(scheme.alphabet.scored.tolist())
    lag = 2 if scheme.name == "tango" else 1
    pairs = [(a, b) for a, b in zip(tokens, tokens[lag:], strict=False) if {a, b} <= scored]
    many = scheme.alphabet.has_many_symbols
    if many and scheme.name in ("soft", "soft-by-step", "lr-dwm", "eth"):
        pairs = list(dict.fromkeys(pairs))
    if scheme.name == "unigram":
        known = [t for t in tokens if t in scored]
        return sum(bool(scheme.greens[t]) for t in known), len(known)
    if scheme.name == "tango":
        return sum((scheme.colour_of[a] + scheme.colour_of[b]) % 3 == 0 for a, b in pairs), len(
            pairs
        )

    def holds(row: int, symbol: int) -> bool:
        return bool(scheme.greens.hold(np.array([row]), np.array([symbol]))[0])

    hits = sum(holds(a, b) for a, b in pairs)
    if scheme.name == "lr-dwm":
        hits += sum(holds(scheme.alphabet.size + 1 + b, a) for a, b in pairs)
        return hits, 2 * len(pairs)
    return hits, len(pairs)


CHANCES = {
    "soft": Fraction(1, 2),
    "soft-by-step": Fraction(1, 2),
    "unigram": Fraction(1, 2),
    "tango": Fraction(1, 3),
    "eth": Fraction(1, 4),
    "dmark": Fraction(1, 2),
    "lr-dwm": Fraction(1, 2),
    "umr": Fraction(1, 2),
}


@pytest.mark.parametrize("alphabet", [TINY, PROTEIN], ids=lambda a: a.name)
@pytest.mark.parametrize("name", CHANCES)
def test_p_is_the_exact_tail_of_the_count(
    name: str, alphabet: object, rng: np.random.Generator
) -> None:
    scheme = make_scheme(name, a_secret(8), alphabet, 1.0)  # type: ignore[arg-type]
    sequences = [rng.integers(0, scheme.alphabet.size, n) for n in (0, 1, 2, 40, 130)]
    found = scheme.judge(sequences)
    for i, sequence in enumerate(sequences):
        hits, trials = plain_counts(scheme, sequence.tolist())
        assert found.scored[i] == trials
        exact = ln(exact_tail(hits, trials, CHANCES[name]))
        assert found.log_p[i] == pytest.approx(exact, rel=1e-9, abs=1e-9)
        assert scheme.log10_p(sequence) == pytest.approx(exact / LN10, rel=1e-9, abs=1e-9)
        assert scheme.p_value(sequence) == pytest.approx(np.exp(exact))
        if trials and name != "eth":
            p = float(CHANCES[name])
            z = (hits - p * trials) / np.sqrt(p * (1 - p) * trials)
            assert scheme.score(sequence) == pytest.approx(z)
    assert found.log_p[0] == 0.0


def test_pairs_count_once_in_text(rng: np.random.Generator) -> None:
    sequence = rng.integers(0, 12, 300)
    for name in ("soft", "eth", "lr-dwm"):
        scheme = make_scheme(name, a_secret(8), MANY, 1.0)
        hits, trials = plain_counts(scheme, sequence.tolist())
        assert trials < 300
        found = scheme.judge([sequence])
        assert found.scored.tolist() == [trials]
        chance = Fraction(297, 595) if name == "soft" else CHANCES[name]  # int(595 / 2) of 595
        exact = ln(exact_tail(hits, trials, chance))
        assert found.log_p[0] == pytest.approx(exact, rel=1e-9, abs=1e-9)
    dmark = make_scheme("dmark", a_secret(8), MANY, 1.0)  # counts them all
    once, twice = dmark.judge([sequence, [*sequence, 0, *sequence]]).scored
    assert twice == 2 * once > 0


def test_multikey_by_three_detectors(rng: np.random.Generator) -> None:
    schemes = {d: make_scheme("multikey", a_secret(3), TINY, 1.0, detector=d)
               for d in ("union", "best", "ratio")}  # fmt: skip
    first, second = schemes["best"].table()
    symbols = TINY.scored
    sequence = rng.integers(0, TINY.size, 9)
    known = [int(t) for t in sequence if t in symbols]
    n = len(known)
    union = Fraction(int((first | second).sum()), len(symbols))
    hits = sum(bool(first[t] or second[t]) for t in known)
    assert schemes["union"].p_value(sequence) == pytest.approx(float(exact_tail(hits, n, union)))
    each = [exact_tail(sum(bool(g[t]) for t in known), n, Fraction(1, 2)) for g in (first, second)]
    assert schemes["best"].p_value(sequence) == pytest.approx(min(1.0, 2 * float(min(each))))
    # The ratio itself: of the averaged, normalised tilts of both lists, for every outcome.
    e = np.exp(1.0)
    tilts = [np.where(green, e, 1.0) / (1.0 + (e - 1.0) * 0.5) for green in (first, second)]
    log_ratio = np.log(np.mean(tilts, axis=0))
    observed = log_ratio[known].sum()
    values = {}
    for t in symbols.tolist():
        name = round(float(log_ratio[t]), 9)
        values[name] = values.get(name, 0) + 1
    law = {0.0: Fraction(1)}
    for _ in range(n):
        grown: dict[float, Fraction] = {}
        for value, p in law.items():
            for step, count in values.items():
                key = round(value + step, 6)
                grown[key] = grown.get(key, Fraction(0)) + p * Fraction(count, len(symbols))
        law = grown
    exact = sum((p for value, p in law.items() if value >= observed - 1e-5), Fraction(0))
    assert schemes["ratio"].p_value(sequence) == pytest.approx(float(exact))


def test_unigram_by_distinct_symbols(rng: np.random.Generator) -> None:
    scheme = make_scheme("unigram", a_secret(3), MANY, 1.0, distinct=True)
    sequence = rng.integers(0, 200, 100)
    different = {int(t) for t in sequence} - set(MANY.unscored)
    hits, n, size, of = sum(bool(scheme.greens[t]) for t in different), len(different), 297, 595
    exact = sum(
        Fraction(comb(size, k) * comb(of - size, n - k), comb(of, n)) for k in range(hits, n + 1)
    )
    assert scheme.p_value(sequence) == pytest.approx(float(exact))


@pytest.mark.slow
@pytest.mark.parametrize("name", EXACT)
def test_p_values_hold_without_a_mark(name: str) -> None:
    """Symbols at random, fresh keys: p <= x at most as often as x, and about so often."""
    rng = np.random.default_rng(5)
    found = []
    for number in range(60):
        scheme = make_scheme(name, a_secret(1000 + number), MANY, 2.0)
        found.append(scheme.judge(rng.integers(5, 600, (50, 80))).log_p)
    p = np.exp(np.concatenate(found))
    for level in (0.5, 0.1, 0.01, 0.001):
        share = np.mean(p <= level)
        # Fresh symbols under one key are independent; 4 standard deviations, and one hit.
        assert share <= level + 4.0 * np.sqrt(level / len(p)) + 1 / len(p)
        if level >= 0.01 and name not in ("multikey", "denmark-lexical"):
            assert share > 0.4 * level


@pytest.mark.parametrize("name", SCHEMES)
def test_batches_separators_and_letters(name: str, rng: np.random.Generator) -> None:
    scheme = make_scheme(name, a_secret(4), PROTEIN, 1.0)
    sequences = ["".join(rng.choice(list("ACDEFGHIKLMNPQRSTVWY"), n)) for n in (90, 33, 61)]
    whole = scheme.judge(sequences)
    for i, sequence in enumerate(sequences):
        alone = scheme.judge([PROTEIN.encode(sequence)])
        assert alone.log_p[0] == pytest.approx(whole.log_p[i])
        assert alone.score[0] == pytest.approx(whole.score[i])
    if name in CHANCES:
        # No pair spans two chains, nor a letter that says nothing.
        lag = {"unigram": 0, "tango": 2}.get(name, 1)
        factor = 2 if name == "lr-dwm" else 1
        scheme = make_scheme(name, a_secret(4), PROTEIN, 1.0)
        for joint, inside in (("/", 0), (":", 0), ("X", lag == 2)):
            text = "ACDEF" + joint + "GHIKL"
            pairs = 10 if lag == 0 else 2 * (5 - lag) + inside
            assert scheme.judge([text]).scored[0] == factor * pairs


def marked(scheme: Scheme, rng: np.random.Generator, length: int, number: int) -> np.ndarray:
    """Write sequences in random order from a model that finds every symbol as likely."""
    tokens = np.full((number, length), EMPTY)
    orders = rng.permuted(np.tile(np.arange(length), (number, 1)), axis=1)
    previous = np.full(number, EMPTY)
    rows = np.arange(number)

    def likely(some: np.ndarray, places: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
        ids = np.tile(scheme.alphabet.scored[:count], (len(some), 1))
        return ids, np.full(ids.shape, 1.0 / scheme.alphabet.num_scored)

    logits = np.zeros((number, scheme.alphabet.size))
    for places in orders.T:
        bias = scheme.bias(Canvas(tokens, rows, places, previous, likely, logits), seed=3)
        bias[:, list(scheme.alphabet.unscored)] = -np.inf
        drawn = (bias + rng.gumbel(size=bias.shape)).argmax(axis=1)
        tokens[rows, places] = previous = drawn
    return tokens


@pytest.mark.parametrize("name", BY_BIAS)
def test_a_mark_is_found_whatever_the_order(name: str, rng: np.random.Generator) -> None:
    scheme = make_scheme(name, a_secret(4), PROTEIN, 3.0)
    sequences = marked(scheme, rng, 200, 12)
    found = np.median(scheme.judge(sequences).log10_p)
    if name == "soft-by-step":  # what its detector looks at is not what was promoted
        assert found > -1.5
        return
    # Two halves drawn at random leave little to find: a symbol of both lists is rarer than one.
    assert found < (-1.3 if name == "multikey" else -4.0)
    other = make_scheme(name, a_secret(5), PROTEIN, 3.0)
    assert np.median(other.judge(sequences).log10_p) > -1.5


def test_our_own_schemes_judge_as_their_detectors(rng: np.random.Generator) -> None:
    sequences = rng.integers(0, 20, (5, 150))
    paper = make_scheme("pattern-mark", a_secret(4), PROTEIN, 1.0)
    as_published = Detector(paper.key, "pattern", m=5, mask_repeats=False)
    default = make_scheme("default", a_secret(4), PROTEIN, 1.0)
    assert default.key.profile == Profile()
    assert paper.key.profile.scheme.name == "paper"
    for scheme, detector in ((paper, as_published), (default, Detector(default.key))):
        verdicts = detector.detect_many(sequences)
        found = scheme.judge(sequences)
        np.testing.assert_allclose(found.log10_p, [v.log10_p for v in verdicts])
        assert (found.score == -found.log10_p).all()
    text = make_scheme("pattern-mark", a_secret(4), MANY, 1.0)
    assert "m:4" in text.detector.signature
    assert make_scheme("default", a_secret(4), MANY, 1.0).key.profile.scheme == Turns()
