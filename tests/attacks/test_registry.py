"""Every attack by its name: how much it changes, and that a seed and a sequence decide it."""

import pickle
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from patternmark import PROTEIN, Detector, Key
from patternmark.attacks import ATTACKS, attacks_on, find_attack, splice_into
from patternmark.attacks.edits import natural_proteins
from patternmark.core.alphabet import SEPARATOR
from patternmark.errors import ParameterError
from patternmark.plan.simulate import marked_sequences, plain_sequences, rates_at

TEXT = (
    "Mr President, I would like to thank the rapporteur for the excellent work she has done. "
    '"We shall see," he said - it\'s a start... Nothing more than that was to be expected. '
) * 5
EPSILONS = (0.05, 0.1, 0.2, 0.3)


def within(found: int, n: int, p: float) -> bool:
    """Whether a binomial count lies within four and a half standard deviations."""
    return abs(found - n * p) <= 4.5 * np.sqrt(n * p * (1 - p)) + 1


@pytest.fixture
def protein(rng: np.random.Generator) -> np.ndarray:
    return plain_sequences(PROTEIN, 1, 20_000, rng)[0]


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("name", ["substitute", "blosum"])
def test_substitutions_change_as_many_as_they_say(
    name: str, epsilon: float, protein: np.ndarray, rng: np.random.Generator
) -> None:
    edited = ATTACKS[name].apply(protein, epsilon, rng)
    assert len(edited) == len(protein)
    assert within(np.count_nonzero(edited != protein), len(protein), epsilon)
    assert set(edited.tolist()) <= set(PROTEIN.scored.tolist())


def test_a_random_substitute_is_any_of_the_19_others(rng: np.random.Generator) -> None:
    edited = ATTACKS["substitute"].apply(np.full(38_000, 3), 1.0, rng)
    counts = np.bincount(edited, minlength=20)
    assert counts[3] == 0
    assert all(within(count, 38_000, 1 / 19) for count in np.delete(counts, 3))


def test_indels_change_the_length_as_much_as_they_say(
    protein: np.ndarray, rng: np.random.Generator
) -> None:
    n = len(protein)
    longer, shorter, both = (
        ATTACKS[name].apply(protein, 0.2, rng) for name in ("insert", "delete", "indel")
    )
    assert within(len(longer) - n, n, 0.2)
    assert within(n - len(shorter), n, 0.2)
    assert abs(len(both) - n) <= 5 * np.sqrt(0.2 * n)
    letters = "".join(PROTEIN.letters[i] for i in longer)
    at = 0  # what was there is still there, in order
    for symbol in protein[:500]:
        at = letters.index(PROTEIN.letters[symbol], at) + 1


def test_a_window_and_a_splice_keep_a_stretch(protein: np.ndarray) -> None:
    sequence = protein[:400]
    (window,) = ATTACKS["truncate"].attack_all([sequence], 0.25, seed=3)
    assert len(window) == 300
    text = sequence.tobytes()
    assert window.tobytes() in text
    (spliced,) = ATTACKS["splice"].attack_all([sequence], 0.25, seed=3)
    assert len(spliced) == 400
    stretches = [i for i in range(101) if spliced[i : i + 300].tobytes() in text]
    assert len(stretches) >= 1
    around = np.delete(spliced, np.arange(stretches[0], stretches[0] + 300))
    natural = b"".join(p.tobytes() for p in natural_proteins())
    assert around[:20].tobytes() in natural or around[-20:].tobytes() in natural
    host = PROTEIN.encode("W" * 50)
    (into,) = splice_into(host).attack_all([sequence], 0.5, seed=3)
    assert np.count_nonzero(into == PROTEIN.letters.index("W")) >= 200


@pytest.mark.parametrize("attack", attacks_on("protein"), ids=lambda a: a.name)
def test_chains_stay_apart_and_x_is_never_written(attack: Any, rng: np.random.Generator) -> None:
    ids = PROTEIN.encode("MKTAYIAKQRQISFVKSHFS/QLEERLGLIEVQAPILSRVG:DGTQDNLSGAEKAVQVKVKA")
    edited = attack.apply(ids, 0.4, rng)
    assert np.count_nonzero(edited == SEPARATOR) == 2
    assert not np.array_equal(edited, ids)
    assert PROTEIN.letters.index("X") not in edited


def test_an_x_stays_where_it_is(rng: np.random.Generator) -> None:
    ids = PROTEIN.encode("XXXXXXXXXX")
    for name in ("substitute", "blosum"):
        assert np.array_equal(ATTACKS[name].apply(ids, 1.0, rng), ids)


def sample_of(attack: Any) -> Any:
    return TEXT if attack.kind == "text" else PROTEIN.encode("MKTAYIAKQRQISFVKSHFSRQLEERLGLIEV")


EVERY = [*attacks_on("protein"), *(a for a in attacks_on("text") if a.kind == "text")]


@pytest.mark.parametrize("attack", EVERY, ids=lambda a: a.name)
def test_a_seed_and_the_sequence_decide(attack: Any) -> None:
    own = sample_of(attack)
    others = [own[:-7], own[3:]]
    alone = attack.attack_all([own], 0.4, seed=5)[0]
    among = attack.attack_all([*others, own], 0.4, seed=5)[2]
    again = pickle.loads(pickle.dumps(attack)).attack_all([own], 0.4, seed=5)[0]
    assert np.array_equal(alone, among)
    assert np.array_equal(alone, again)
    differing = [attack.attack_all([own], 0.4, seed=s)[0] for s in range(6, 12)]
    assert any(not np.array_equal(alone, other) for other in differing)
    nothing = attack.attack_all([own], 0.0, seed=5)[0]
    if isinstance(own, str):
        assert nothing.split() == own.split()
    else:
        assert np.array_equal(nothing, own)


@pytest.mark.parametrize("name", ["substitute", "blosum"])
def test_a_greater_strength_changes_what_a_smaller_one_does(name: str, protein: np.ndarray) -> None:
    changed = [
        ATTACKS[name].attack_all([protein], epsilon, seed=1)[0] != protein for epsilon in EPSILONS
    ]
    for fewer, more in pairwise(changed):
        assert not np.any(fewer & ~more)


def test_detection_falls_as_attacks_grow(key: Key, rng: np.random.Generator) -> None:
    rates = rates_at(1.5, PROTEIN, key.profile.scheme.name)
    marked = list(marked_sequences(key, rates, rng.random((24, 300))))
    detector = Detector(key)

    def rate(name: str, epsilon: float) -> float:
        attacked = ATTACKS[name].attack_all(marked, epsilon, seed=2)
        return sum(v.prediction for v in detector.detect_many(attacked)) / len(marked)

    assert rate("substitute", 0.0) == 1.0
    for name in ("substitute", "blosum", "truncate", "splice"):
        assert rate(name, 0.2) >= 0.8, name
        assert rate(name, 0.95) <= 0.2, name
    for name in ("insert", "delete", "indel"):
        assert rate(name, 0.01) >= 0.8, name
        assert rate(name, 0.5) <= 0.2, name


def test_what_cannot_be_is_refused(rng: np.random.Generator) -> None:
    for epsilon in (-0.1, 1.1, float("nan")):
        with pytest.raises(ParameterError, match="between 0 and 1"):
            ATTACKS["delete"].apply(np.arange(5), epsilon, rng)
    with pytest.raises(ParameterError, match="use one of substitute"):
        find_attack("hope")
    with pytest.raises(ParameterError, match="0 or more"):
        ATTACKS["delete"].attack_all([np.arange(5)], 0.1, seed=-1)
    for name in ("redesign", "rewrite", "oracle"):
        with pytest.raises(ParameterError, match=f"the attack {name} needs the"):
            ATTACKS[name].apply(np.arange(5), 0.1, rng)


def test_lists_tell_kinds_apart() -> None:
    proteins = {attack.name for attack in attacks_on("protein", alone=False)}
    texts = {attack.name for attack in attacks_on("text", alone=False)}
    assert proteins & texts == {"truncate", "oracle"}
    assert proteins | texts == set(ATTACKS)
    assert {a.name for a in attacks_on("text")} == texts - {"oracle", "synonym", "round-trip"}
