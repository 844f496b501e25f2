"""What schemes add to logits, against their descriptions; numpy and torch alike."""

import pickle
from itertools import pairwise

import numpy as np
import pytest
import torch

from lab.tests.schemes.reference import BY_BIAS, MANY, TINY, a_secret, plain_bias
from patternmark import PROTEIN, Alphabet, ParameterError
from patternmark.core.secret import Secret
from patternmark.workers import pickle_with_secrets
from patternmark_lab.schemes import EMPTY, OUTSIDE, SCHEMES, Canvas, Scheme, Stack, make_scheme

LIKELY = 4
DELTA = 1.25


def a_canvas(
    alphabet: Alphabet, rng: np.random.Generator, rows: int = 6, length: int = 12
) -> tuple[Canvas, np.ndarray, np.ndarray]:
    """Return a canvas of which half is open, and the model's likeliest tokens and their p."""
    tokens = rng.integers(0, alphabet.size, (rows, length))
    tokens[rng.random(tokens.shape) < 0.5] = EMPTY
    tokens[0, 8:] = OUTSIDE  # a shorter one
    tokens[1, 5:7] = OUTSIDE  # two chains
    ids = rng.permuted(np.tile(alphabet.scored, (rows, length, 1)), axis=2)[..., :LIKELY]
    p = -np.sort(-rng.dirichlet(np.ones(LIKELY + 2), (rows, length)))[..., :LIKELY]
    wanted = np.nonzero(tokens == EMPTY)
    previous = rng.integers(-1, alphabet.size, rows)

    def likely(some: np.ndarray, places: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
        return ids[some, places, :count], p[some, places, :count]

    logits = rng.normal(size=(len(wanted[0]), alphabet.size))
    logits[:, 1] = -np.inf  # never chosen
    return Canvas(tokens, *wanted, previous, likely, logits, 0.75), ids, p


def in_torch(canvas: Canvas) -> Canvas:
    def likely(rows: torch.Tensor, places: torch.Tensor, count: int) -> tuple:
        assert canvas.likely is not None
        return tuple(map(torch.from_numpy, canvas.likely(rows.numpy(), places.numpy(), count)))

    arrays = (canvas.tokens, canvas.rows, canvas.places, canvas.previous)
    logits = torch.from_numpy(canvas.logits)
    return Canvas(*map(torch.from_numpy, arrays), likely, logits, canvas.temperature)


@pytest.mark.parametrize("alphabet", [TINY, PROTEIN, MANY], ids=lambda a: a.name)
@pytest.mark.parametrize("name", BY_BIAS)
def test_the_bias_is_as_described(name: str, alphabet: Alphabet, rng: np.random.Generator) -> None:
    scheme = make_scheme(name, a_secret(1), alphabet, DELTA)
    canvas, ids, p = a_canvas(alphabet, rng)
    found = scheme.bias(canvas, seed=5)
    keys = scheme.keys(12, 5, range(6))
    assert found.shape == (len(canvas.rows), alphabet.size)
    rows = zip(found, canvas.rows, canvas.places, canvas.logits, strict=True)
    for made, row, place, logits in rows:
        bias = made
        expected = plain_bias(
            scheme,
            canvas.tokens[row].tolist(),
            int(place),
            previous=int(canvas.previous[row]),
            likeliest=lambda there, row=row: list(
                zip(ids[row, there].tolist(), p[row, there].tolist(), strict=True)
            ),
            key=-1 if keys is None else int(keys[row, place]),
            logits=logits / canvas.temperature,
        )
        if name == "umr":  # nothing is left of a symbol: how little does not matter
            pair = (bias, expected * canvas.temperature)
            bias, expected = (np.delete(x, 1).clip(-20.0) for x in pair)
        np.testing.assert_allclose(bias, expected, rtol=1e-5, atol=1e-6)
    assert found.max() > 0
    assert not found[:, list(alphabet.unscored)].any()
    again = scheme.bias(in_torch(canvas), seed=5)
    assert torch.is_tensor(again)
    np.testing.assert_allclose(again.numpy().clip(-20.0), found.clip(-20.0), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", BY_BIAS)
def test_sequences_of_many_keys_are_marked_together(name: str, rng: np.random.Generator) -> None:
    schemes = [make_scheme(name, a_secret(i), PROTEIN, 0.5 + i) for i in range(3)]
    canvas, _, _ = a_canvas(PROTEIN, rng)
    which = [2, 0, 1, 1, 0, 2]
    drawn = [scheme.keys(12, 9, range(6)) for scheme in schemes]
    keys = None if drawn[0] is None else np.stack([drawn[w][i] for i, w in enumerate(which)])
    together = Stack(schemes).marks(which, keys).bias(canvas)
    for number, scheme in enumerate(schemes):
        own = np.isin(canvas.rows, np.flatnonzero(np.array(which) == number))
        np.testing.assert_array_equal(together[own], scheme.bias(canvas, seed=9)[own])
    with pytest.raises(ParameterError, match="same rule"):
        Stack([schemes[0], make_scheme(name, a_secret(1), TINY, 1.0)])


@pytest.mark.parametrize("name", BY_BIAS)
def test_strengths_of_a_key_share_their_lists(name: str, rng: np.random.Generator) -> None:
    canvas, _, _ = a_canvas(TINY, rng)
    weak, strong = (make_scheme(name, a_secret(1), TINY, delta) for delta in (1.0, 2.5))
    stack, count = Stack([weak]), len(canvas.tokens)
    again = weak.with_delta(2.5)
    assert again.differs_in_delta_alone(weak)
    shared = stack.at_strength_of([again])
    assert shared.table is stack.table
    keys = again.keys(canvas.tokens.shape[1], 0, range(count))
    np.testing.assert_array_equal(shared.marks([0] * count, keys).bias(canvas), strong.bias(canvas))
    assert (stack.strength == weak.strength).all()  # what was there is as it was
    other = make_scheme(name, a_secret(2), TINY, 1.0)
    assert not other.differs_in_delta_alone(weak)
    sequences = rng.integers(0, 4, (5, 40))
    np.testing.assert_array_equal(again.judge(sequences).log_p, strong.judge(sequences).log_p)


def test_strength_zero_changes_nothing(rng: np.random.Generator) -> None:
    canvas, _, _ = a_canvas(TINY, rng)
    for name in BY_BIAS:
        assert not make_scheme(name, a_secret(1), TINY, 0.0).bias(canvas).any()


@pytest.mark.parametrize("name", BY_BIAS)
def test_lists_follow_the_secret_alone(name: str) -> None:
    def table(number: int) -> np.ndarray:
        scheme = make_scheme(name, a_secret(number), PROTEIN, 1.0)
        if len(scheme.table()):
            return scheme.table()
        keys = scheme.keys(40, 1, [0])  # too many lists to lay out: those that occur
        assert keys is not None
        return scheme.promoted(np.unique(keys))

    assert (table(3) == table(3)).all()
    assert table(3).any()
    assert (table(3) != table(4)).mean() > 0.1


def test_a_fixed_secret_gives_these_lists() -> None:
    """A port must make the same: changed lists would lose every mark made before."""
    secret = Secret(bytes(32))

    def letters(row: np.ndarray) -> str:
        return "".join(PROTEIN.letters[i] for i in np.flatnonzero(row))

    found = {
        name: letters(make_scheme(name, secret, PROTEIN, 1.0).table()[0])
        for name in ("soft", "unigram", "multikey", "tango", "eth", "dmark", "lr-dwm", "umr")
    }
    assert found == {
        "soft": "CDGMNPQRTY",
        "unigram": "CDFHIKLMWY",
        "multikey": "DFGIKLNQSY",
        "tango": "AEFKLSY",
        "eth": "CEFQTWY",
        "dmark": "ACKMVW",
        "lr-dwm": "ACEILNQRY",
        "umr": "ADEHIKLNPQVWY",
    }


@pytest.mark.parametrize("alphabet", [PROTEIN, MANY], ids=lambda a: a.name)
def test_lists_are_as_large_as_they_should_be(alphabet: Alphabet) -> None:
    scored = alphabet.scored
    half = alphabet.num_scored // 2
    for name in ("soft", "unigram", "multikey"):
        table = make_scheme(name, a_secret(2), alphabet, 1.0).table()
        assert (table.sum(axis=1) == half).all()
    for name, gamma in (("eth", 0.25), ("dmark", 0.5), ("lr-dwm", 0.5), ("umr", 0.5)):
        table = make_scheme(name, a_secret(2), alphabet, 1.0).table()
        drawn = table[scored][:, scored]
        spread = np.sqrt(gamma * (1 - gamma) / drawn.size)
        assert abs(drawn.mean() - gamma) < 4.5 * spread
    colours = np.bincount(make_scheme("tango", a_secret(2), alphabet, 1.0).colour_of[scored])
    assert len(colours) == 3
    assert colours.max() - colours.min() <= 1


def test_every_symbol_is_listed_as_often_as_others() -> None:
    """Over keys a list is any half of the symbols, one as likely as another."""
    number = 2000
    tables = [make_scheme("unigram", a_secret(i), PROTEIN, 1.0).table()[0] for i in range(number)]
    listed = np.array(tables)[:, :20].astype(float)
    assert np.abs(listed.mean(axis=0) - 0.5).max() < 4.5 * 0.5 / np.sqrt(number)
    correlation = np.corrcoef(listed.T)
    np.fill_diagonal(correlation, -1 / 19)  # that of two symbols in halves of 20
    assert np.abs(correlation + 1 / 19).max() < 5 / np.sqrt(number)


def test_draws_of_multikey_differ_from_sequence_to_sequence() -> None:
    scheme = make_scheme("multikey", a_secret(1), PROTEIN, 1.0)
    keys = scheme.keys(400, "a", range(20))
    assert keys is not None
    assert abs(keys.mean() - 0.5) < 0.03
    assert all((a != b).any() for a, b in pairwise(keys))
    alone = scheme.keys(300, "a", [7])
    assert alone is not None
    assert (alone[0] == keys[7, :300]).all()  # whatever else is in the batch


def test_an_empty_neighbour_has_a_list_of_its_own() -> None:
    scheme = make_scheme("soft", a_secret(1), PROTEIN, 1.0)
    canvas = Canvas(np.array([[EMPTY, EMPTY, 4, EMPTY]]), np.zeros(3, int), np.array([0, 1, 3]))
    first, second, third = scheme.bias(canvas)
    assert (first == second).all()
    assert (first != third).any()


def test_what_does_not_fit_is_refused(rng: np.random.Generator) -> None:
    for options, message in (
        ({"gamma": 0.01}, "gamma"),
        ({"gamma": 1.0}, "gamma"),
        ({"delta": -1.0}, "delta"),
    ):
        with pytest.raises(ParameterError, match=message):
            make_scheme("soft", a_secret(1), PROTEIN, **{"delta": 1.0, **options}).table()
    with pytest.raises(ParameterError, match="256"):
        make_scheme("eth", a_secret(1), PROTEIN, 1.0, gamma=0.3).table()
    with pytest.raises(ParameterError, match="colours"):
        make_scheme("tango", a_secret(1), PROTEIN, 1.0, colours=21)
    with pytest.raises(ParameterError, match="unknown multikey detector"):
        make_scheme("multikey", a_secret(1), PROTEIN, 1.0, detector="sum")
    with pytest.raises(ParameterError, match="choose one of soft"):
        make_scheme("kgw", a_secret(1), PROTEIN, 1.0)
    canvas, _, _ = a_canvas(PROTEIN, rng)
    with pytest.raises(ParameterError, match="one token in each step"):
        make_scheme("soft-by-step", a_secret(1), PROTEIN, 1.0).bias(
            Canvas(canvas.tokens, canvas.rows, canvas.places)
        )
    with pytest.raises(ParameterError, match="before it marks"):
        make_scheme("umr", a_secret(1), PROTEIN, 1.0).bias(
            Canvas(canvas.tokens, canvas.rows, canvas.places)
        )
    with pytest.raises(ParameterError, match="0 and 1"):
        make_scheme("umr", a_secret(1), PROTEIN, 1.0, message="12")
    with pytest.raises(ParameterError, match="at most 10, not 11"):
        make_scheme("denmark-lexical", a_secret(1), PROTEIN, 11.0)
    with pytest.raises(ParameterError, match="choosing among candidates"):
        make_scheme("denmark-lexical", a_secret(1), PROTEIN, 1.0).bias(canvas)
    with pytest.raises(TypeError, match="distributions"):
        make_scheme("eth", a_secret(1), PROTEIN, 1.0).bias(
            Canvas(canvas.tokens, canvas.rows, canvas.places)
        )


@pytest.mark.parametrize("name", SCHEMES)
def test_schemes_travel_to_other_processes(name: str) -> None:
    scheme = make_scheme(name, a_secret(1), PROTEIN, 1.0)
    sequence = "MKTAYIAKQRQISFVKSHFSRQLEERLGLIEVQ" * 3
    before = scheme.log10_p(sequence)
    packed = pickle_with_secrets(scheme)
    assert len(packed) < 10_000  # no tables
    again: Scheme = pickle.loads(packed)
    assert again.log10_p(sequence) == before
    assert "hidden" in repr(scheme)
