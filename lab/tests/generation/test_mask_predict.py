"""Marks that follow the canvas of Mask-Predict, against a decoder that goes token by token."""

import math
from functools import cache

import numpy as np
import pytest
import torch

from lab.tests.schemes.reference import BY_BIAS, TINY, a_secret, plain_bias
from lab.tests.training.small import codec
from patternmark import Alphabet, ParameterError
from patternmark.models.cmlm import CMLM
from patternmark.models.mask_predict import mask_predict
from patternmark.translation.decode import Decoding, for_use, padded
from patternmark.translation.translator import Translator
from patternmark_lab.generation.translate import SchemeTranslator
from patternmark_lab.schemes import EMPTY, Scheme, Stack, make_scheme
from tests.translation.small import PAIRS, config

torch.set_num_threads(1)

ONLINE = [name for name in BY_BIAS if name != "soft-by-step"]
LENGTHS = [[7, 9], [5, 6], [11, 3]]


@cache
def small() -> CMLM:
    torch.manual_seed(8)
    return for_use(CMLM(config()))


@cache
def alphabet() -> Alphabet:
    symbols = [f"s{i}" for i in range(codec().size)]
    return Alphabet.from_symbols("small", symbols, range(5))


def a_scheme(name: str, delta: float = 2.0) -> Scheme:
    return make_scheme(name, a_secret(3), alphabet(), delta)


def sources() -> torch.Tensor:
    ids = codec().encode_batch([source for source, _ in PAIRS[: len(LENGTHS)]])
    return padded(ids, small().config.pad, torch.device("cpu"))


def plainly(scheme: Scheme, row: int, length: int, iterations: int, keys: np.ndarray | None):
    """Decode one candidate of one sentence alone, one token after the other."""
    model = small()
    memory = model.encode(sources()[row : row + 1])
    attended = model.project(memory.states)
    tokens, confidence = [EMPTY] * length, [0.0] * length
    for iteration in range(iterations):
        if iteration:
            number = max(1, int(torch.tensor(length) * (1.0 - iteration / iterations)))
            worst = sorted(range(length), key=lambda i: (confidence[i], i))[:number]
            for place in worst:
                tokens[place] = EMPTY
        seen = list(tokens)
        ids = [model.config.mask if t == EMPTY else t for t in seen]
        states = model.states(torch.tensor([ids]), attended, memory.visible, None)[0]
        logits = model.logits(states)
        logits[:, list(model.config.never)] = -math.inf

        def likeliest(place: int, logits: torch.Tensor = logits) -> list[tuple[int, float]]:
            top = logits[place].softmax(-1).topk(50)
            return list(zip(top.indices.tolist(), top.values.tolist(), strict=True))

        for place in (i for i, t in enumerate(seen) if t == EMPTY):
            key = -1 if keys is None else int(keys[row, place])
            bias = plain_bias(
                scheme, seen, place, likeliest=likeliest, key=key, logits=logits[place].numpy()
            )
            log_p = (logits[place].double() + torch.tensor(bias)).log_softmax(-1)
            tokens[place] = int(log_p.argmax())
            confidence[place] = float(log_p.max())
    return tokens, sum(confidence) / length


@pytest.mark.parametrize("name", ONLINE)
@torch.inference_mode()
def test_every_iteration_has_the_bias_of_its_canvas(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("patternmark.models.mask_predict._ROWS_AT_ONCE", {"cpu": 4, "cuda": 4})
    model, lengths = small(), torch.tensor(LENGTHS)
    scheme = a_scheme(name)
    keys = scheme.keys(11, 1, range(len(LENGTHS)))
    of_candidates = None if keys is None else keys.repeat(2, axis=0)
    marks = Stack([scheme], model.embedding.weight).marks([0] * lengths.numel(), of_candidates)
    found = mask_predict(model, model.encode(sources()), lengths, iterations=4, online=marks)
    plain = mask_predict(model, model.encode(sources()), lengths, iterations=4)
    for row, beam in np.ndindex(*lengths.shape):
        length = LENGTHS[row][beam]
        tokens, mean = plainly(scheme, row, length, 4, keys)
        assert found.tokens[row, beam, :length].tolist() == tokens
        assert float(found.log_p[row, beam]) == pytest.approx(mean, abs=1e-4)
    assert (found.tokens != plain.tokens).any()


@torch.inference_mode()
def test_keys_of_positions_do_the_same_on_either_way() -> None:
    model, lengths = small(), torch.tensor(LENGTHS)
    scheme = a_scheme("pattern-mark")
    keys = scheme.keys(11, 1, range(len(LENGTHS)))
    assert keys is not None
    marks = Stack([scheme], model.embedding.weight).marks([0] * 6, keys.repeat(2, axis=0))
    promotion = scheme.marker.prepare(keys, 1.0, like=model.embedding.weight)
    memory = model.encode(sources())
    online, offline = (
        mask_predict(model, memory, lengths, **way)
        for way in ({"online": marks}, {"promotion": promotion})
    )
    assert (online.tokens == offline.tokens).all()
    torch.testing.assert_close(online.log_p, offline.log_p)


@cache
def translator() -> Translator:
    return Translator.open()


@cache
def marking() -> SchemeTranslator:
    return SchemeTranslator(translator())


TEXT = (
    "Herr Präsident, die Kommission hat gestern einen Bericht über die Lage der Landwirtschaft "
    "vorgelegt. Wir begrüßen diesen Bericht, denn er zeigt klar, welche Maßnahmen in den nächsten "
    "Jahren notwendig sind. Die Mitgliedstaaten müssen jetzt handeln und gemeinsam eine Lösung "
    "finden, die den Bauern und den Verbrauchern in allen Regionen Europas wirklich hilft."
)


@pytest.mark.slow
@pytest.mark.parametrize("name", ONLINE)
def test_marks_are_found_in_real_translations(name: str) -> None:
    own = translator().vocabulary.alphabet()
    usual = Decoding(iterations=10, length_beam=1)
    plain = translator().translate([TEXT], usual)[0].text
    # A short text hides a weak mark under some keys: these schemes are asked for three.
    numbers = (6, 7, 8) if name in ("soft", "multikey", "umr") else (6,)
    found = []
    for number in numbers:
        scheme = make_scheme(name, a_secret(number), own, 5.0)
        marked = marking().translate([TEXT], usual, scheme, seed=2)[0].text
        assert marked != plain
        read, unmarked = translator().codec.encode_batch([marked, plain])
        found.append(scheme.log10_p(read))
        assert scheme.log10_p(unmarked) > -2.5
    assert np.mean(found) < -2.0


def test_a_line_is_marked_the_same_among_others() -> None:
    scheme = make_scheme("multikey", a_secret(6), translator().vocabulary.alphabet(), 4.0)
    fast = Decoding(iterations=3, length_beam=1)
    lines = ["Das ist ein Test.", TEXT, "", "Wir kommen morgen."]
    together = marking().translate(lines, fast, scheme, seed=2)
    assert together[2].text == ""
    for number in (0, 1, 3):
        alone = marking().translate([lines[number]], fast, scheme, seed=2)[0]
        assert alone.text == together[number].text


@pytest.mark.slow
def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ParameterError, match="vocabulary"):
        marking().translate(["Ja."], Decoding(), make_scheme("soft", a_secret(1), TINY, 1.0), 1)
    own = translator().vocabulary.alphabet()
    by_step = make_scheme("soft-by-step", a_secret(1), own, 1.0)
    with pytest.raises(ParameterError, match="one token in each step"):
        marking().translate(["Ja."], Decoding(), by_step, 1)
