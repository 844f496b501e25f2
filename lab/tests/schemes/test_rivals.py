"""UMR keeps a law in the mean and carries a message; DenMark's way with counts of tokens."""

from math import erfc, log, sqrt

import numpy as np
import pytest
import torch

from lab.tests.generation.test_mask_predict import alphabet, small, sources
from lab.tests.schemes.reference import MANY, TINY, a_secret
from lab.tests.schemes.test_judge import marked
from patternmark import PROTEIN
from patternmark_lab.generation.rollouts import _Writer, rollouts, write_by_rollouts
from patternmark_lab.schemes import EMPTY, Canvas, make_scheme
from patternmark_lab.schemes.normal import normal_log_tail
from patternmark_lab.schemes.rivals import UMR, DenMarkLexical
from patternmark_lab.schemes.shift import log_factors

LOGITS = np.log(np.linspace(1.0, 5.0, TINY.size) ** 2)[None]


def law_of(logits: np.ndarray, temperature: float) -> np.ndarray:
    p = np.exp(logits / temperature)
    return p / p.sum(axis=-1, keepdims=True)


def mean_law(delta: float, temperature: float, keys: int = 3000) -> np.ndarray:
    """Return the law of a token between two settled ones, in the mean over keys."""
    tokens = np.array([[4, EMPTY, 9]])
    canvas = Canvas(tokens, np.array([0]), np.array([1]), logits=LOGITS, temperature=temperature)
    laws = [
        law_of(LOGITS + make_scheme("umr", a_secret(i), TINY, delta).bias(canvas), temperature)[0]
        for i in range(keys)
    ]
    return np.mean(laws, axis=0)


@pytest.mark.parametrize("delta", [0.5, 1.0])
def test_the_mean_over_keys_is_the_model_s_own_law(delta: float) -> None:
    own = law_of(LOGITS, 0.7)[0]
    # No factor exceeds 4: the spread of a mean is at most 2 p / sqrt(keys).
    assert (np.abs(mean_law(delta, 0.7) - own) < 4.5 * 2.0 * own / sqrt(3000)).all()


def test_a_larger_delta_is_not_unbiased() -> None:
    own, found = law_of(LOGITS, 0.7)[0], mean_law(4.0, 0.7, 1000)
    assert found[TINY.scored[-1]] < 0.8 * own[TINY.scored[-1]]  # what is likely becomes less so


def test_a_list_gains_what_its_complement_would_lose(rng: np.random.Generator) -> None:
    law = rng.normal(size=(40, 30), scale=3.0)
    scored = np.arange(30) > 2
    lists = (rng.random((40, 30)) < 0.5) & scored
    for delta in (0.3, 1.0):
        strength = np.full(40, delta)
        ways = [
            np.exp(log_factors(law, some, scored, strength)) for some in (lists, scored & ~lists)
        ]
        np.testing.assert_allclose(sum(ways), 2.0, rtol=1e-9)
        assert (ways[0] != 1.0).any()
        p = law_of(law, 1.0)
        np.testing.assert_allclose((p * ways[0]).sum(axis=1), 1.0)


def test_a_context_that_is_open_changes_nothing() -> None:
    canvas = Canvas(np.full((1, 3), EMPTY), np.array([0]), np.array([1]), logits=LOGITS)
    assert not make_scheme("umr", a_secret(1), TINY, 4.0).bias(canvas).any()


def test_a_message_is_read_and_another_is_not_found(rng: np.random.Generator) -> None:
    scheme = make_scheme("umr", a_secret(4), MANY, 1.0, message="1001")
    assert isinstance(scheme, UMR)
    sequences = marked(scheme, rng, 300, 4)
    assert scheme.read(sequences) == ["1001"] * 4
    assert scheme.read([[]]) == ["????"]
    assert (scheme.judge(sequences).log10_p < -6).all()
    other = make_scheme("umr", a_secret(4), MANY, 1.0, message="0110")
    assert isinstance(other, UMR)
    assert other.read(sequences) == ["1001"] * 4  # whatever is looked for
    assert (other.judge(sequences).log10_p > -0.01).all()
    assert np.bincount(scheme.bit_of).min() > 100  # of 600


def test_repeated_pairs_count_once_where_wanted() -> None:
    sequence = [7, 8] * 50
    every, once = (make_scheme("umr", a_secret(1), MANY, 1.0, distinct=d) for d in (False, True))
    assert every.judge([sequence]).scored.tolist() == [99]
    assert once.judge([sequence]).scored.tolist() == [2]


def plain_z(scheme: DenMarkLexical, ids: list[int], size: int) -> float:
    found = []
    for number in range(scheme.units):
        counts = np.zeros(scheme.alphabet.size)
        for token in ids[number * size : (number + 1) * size]:
            counts[token] += token in scheme.alphabet.scored
        if counts.any():
            found.append(counts @ scheme.weights[number] / np.linalg.norm(counts))
    return sum(found) / sqrt(len(found)) if found else 0.0


def denmark(number: int, delta: float = 4.0, of: object = MANY) -> DenMarkLexical:
    scheme = make_scheme("denmark-lexical", a_secret(number), of, delta)  # type: ignore[arg-type]
    assert isinstance(scheme, DenMarkLexical)
    return scheme


@pytest.mark.parametrize("of", [MANY, PROTEIN], ids=lambda a: a.name)
def test_the_least_p_of_all_sizes_counts(of: object, rng: np.random.Generator) -> None:
    scheme = denmark(3, of=of)
    sequences = [rng.integers(0, scheme.alphabet.size, n).tolist() for n in (0, 1, 30, 200, 500)]
    found = scheme.judge(sequences)
    for i, ids in enumerate(sequences):
        best = max(plain_z(scheme, ids, size) for size in range(12, 38))
        p = min(1.0, 26 * 0.5 * erfc(best / sqrt(2)))
        assert found.log_p[i] == pytest.approx(log(p), abs=1e-9)
        assert found.scored[i] == sum(token in scheme.alphabet.scored for token in ids)


@pytest.mark.slow
def test_its_p_holds_for_any_text_over_keys() -> None:
    """The same few words again and again: each size's z is normal whatever the text."""
    text = [*([5, 6, 7] * 20), *range(20, 60)]
    z = np.array([plain_z(denmark(i), text, 25) for i in range(800)])
    assert abs(z.mean()) < 4.5 / sqrt(800)
    assert abs(z.var() - 1.0) < 4.5 * sqrt(2 / 800)
    p = np.exp([denmark(i).judge([text]).log_p[0] for i in range(800)])
    assert np.mean(p <= 0.1) <= 0.1 + 4 * sqrt(0.09 / 800)
    assert np.mean(p <= 0.1) > 0.005  # and is not always 1


def test_weights_are_normal_and_of_scored_symbols() -> None:
    weights = denmark(2).weights
    assert not weights[:, :5].any()
    own = weights[:, 5:]
    assert abs(own.mean()) < 4.5 / sqrt(own.size)
    assert abs((own**4).mean() - 3.0) < 4.5 * sqrt(96 / own.size)


def test_the_normal_tail_far_out() -> None:
    near, far = normal_log_tail(np.array([29.999999, 30.000001]))
    assert far == pytest.approx(near, abs=2e-3)


@pytest.mark.slow
@torch.inference_mode()  # as a translator runs
def test_units_are_written_along_their_directions() -> None:
    model, lengths = small(), torch.tensor([60, 55, 40])
    memory = model.encode(sources())

    def written(delta: float, seed: int = 1) -> list[list[int]]:
        generator = torch.Generator().manual_seed(seed)
        scheme = denmark(5, delta, alphabet())
        return write_by_rollouts(model, memory, lengths, scheme, generator)

    texts = written(4.0)
    assert [len(text) for text in texts] == lengths.tolist()
    assert not {model.config.mask, *model.config.never} & {token for t in texts for token in t}
    assert written(4.0) == texts != written(4.0, 2)

    def found(some: list[list[int]]) -> float:
        return float(np.mean([plain_z(denmark(5, 4.0, alphabet()), t, 25) for t in some]))

    assert found(texts) > 3.0
    assert found(written(0.0)) < 1.5


@torch.inference_mode()  # as a translator runs
def test_behind_the_last_unit_nothing_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    model = small()
    seen = []
    monkeypatch.setattr(
        _Writer, "_scores", lambda self, places, number, *rest: seen.append(number) or torch.ones(1)
    )
    scheme = make_scheme("denmark-lexical", a_secret(5), alphabet(), 3.0, unit=4, units=2)
    memory = model.encode(sources()[:1])
    (text,) = write_by_rollouts(model, memory, torch.tensor([14]), scheme)  # type: ignore[arg-type]
    assert len(text) == 14
    assert set(seen) == {0, 1}


def test_rollouts_average_three() -> None:
    assert denmark(1).candidates == 16
    assert denmark(1, 0.0).candidates == 1
    assert np.mean([rollouts(left, 25) for left in range(1, 26)]) == pytest.approx(3.0, abs=0.05)
    assert rollouts(1, 1) == 1


@torch.inference_mode()  # as a translator runs
def test_a_candidate_s_score_is_that_of_its_completed_unit() -> None:
    model = small()
    memory = model.encode(sources()[:1])
    scheme = denmark(5, 4.0, alphabet())
    writer = _Writer(model, memory, torch.tensor([30]), scheme, None)
    units = torch.tensor([[7, 7, 7, 9], [8, 9, 10, 0]])
    expected = [plain_z(scheme, row, 4) for row in units.tolist()]
    np.testing.assert_allclose(writer._along(units, 0).numpy(), expected)
