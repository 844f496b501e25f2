import subprocess
import sys

import numpy as np
import pytest

from patternmark import PROTEIN, Alphabet, Key, Marker, ParameterError, Profile
from patternmark.core.alphabet import NO_KEY
from patternmark.core.schemes import Paper
from patternmark.core.secret import Secret

torch = pytest.importorskip("torch")

from patternmark.adapters.logit_bias import LogitBias, batch_keys, letter_columns  # noqa: E402
from patternmark.adapters.protein_lm import ESM, EVODIFF  # noqa: E402
from tests.adapters.tiny_models import NUM_COLUMNS, NUM_TOKENS, SPECIAL, words_key  # noqa: E402


def test_columns_beyond_the_alphabet_and_special_tokens_are_left_alone(secret: Secret) -> None:
    marker = Marker(words_key(secret))
    keys = np.array([[0, 1], [1, NO_KEY]])
    logits = torch.randn(2, 2, NUM_COLUMNS)
    marked = LogitBias(marker, keys).add_to(logits)
    bias = marked - logits
    assert not bias[..., NUM_TOKENS:].any()
    assert not bias[..., list(SPECIAL)].any()
    expected = marker.bias(keys, temperature=1.0)
    np.testing.assert_allclose(bias[..., :NUM_TOKENS].numpy(), expected, atol=1e-6)
    assert expected.any()
    exact = LogitBias(marker, keys).add_to(logits[..., :NUM_TOKENS])
    torch.testing.assert_close(exact, marked[..., :NUM_TOKENS])


@pytest.mark.parametrize("layout", [ESM, EVODIFF])
def test_letters_are_promoted_wherever_a_model_has_them(key: Key, layout: object) -> None:
    id_of = layout.id_of  # type: ignore[attr-defined]
    marker = Marker(key)
    bias = LogitBias(marker, [0, 1], letter_columns(PROTEIN, id_of)).add_to(
        torch.zeros(2, len(id_of))
    )
    for number in (0, 1):
        promoted = {token for token, column in id_of.items() if bias[number, column]}
        assert promoted == {
            PROTEIN.letters[i] for i in np.flatnonzero(marker.key.partition.members[number])
        }


def test_only_letters_that_carry_a_mark_may_be_written(key: Key) -> None:
    bias = LogitBias(Marker(key), [0], letter_columns(PROTEIN, ESM.id_of))
    written = {token for token, i in ESM.id_of.items() if bias.writable(33)[i]}
    assert written == set(PROTEIN.letters) - {"X"}


def test_greedy_decoding_gets_the_full_delta_for_either_reading(secret: Secret) -> None:
    for delta_at in ("logits", "tempered"):
        marker = Marker(Key.of(secret, Profile(scheme=Paper(), delta=2.0, delta_at=delta_at)))
        assert LogitBias(marker, [0], temperature=0.0).add_to(torch.zeros(1, 21)).max() == 2.0


def test_the_temperature_scales_a_tempered_delta(secret: Secret) -> None:
    marker = Marker(Key.of(secret, Profile(scheme=Paper(), delta=2.0, delta_at="tempered")))
    assert LogitBias(marker, [0], temperature=0.5).add_to(torch.zeros(1, 21)).max() == 1.0


def test_some_positions_can_be_named(secret: Secret) -> None:
    marker = Marker(words_key(secret))
    keys = torch.as_tensor(batch_keys(marker, 3, 8))
    logits = torch.randn(3, 8, NUM_COLUMNS)
    bias, some = LogitBias(marker, keys), torch.rand(3, 8) < 0.5
    torch.testing.assert_close(bias.add_to(logits[some], some), bias.add_to(logits)[some])


def test_rows_have_the_keys_of_their_number(secret: Secret) -> None:
    marker = Marker(words_key(secret, scheme="turns", starts=16))
    whole = batch_keys(marker, 6, 40, seed="job")
    np.testing.assert_array_equal(batch_keys(marker, 2, 40, "job", first_index=3), whole[3:5])
    assert len({row.tobytes() for row in whole}) > 1


def test_a_key_for_something_else_is_refused(key: Key, secret: Secret) -> None:
    with pytest.raises(ParameterError, match="has 20 columns of logits, fewer than the 21 symbols"):
        LogitBias(Marker(key), [0]).add_to(torch.zeros(1, 20))
    with pytest.raises(ParameterError, match="alphabet 'words' is made of token ids"):
        letter_columns(words_key(secret).profile.alphabet, ESM.id_of)
    dna = Alphabet.from_symbols("dna", "ACGT", [], written_in_letters=True)
    with pytest.raises(ParameterError, match="no token for letter 'G'"):
        letter_columns(dna, {"A": 0, "C": 1})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("missing", "module", "remedy"),
    [
        ("torch", "llada", "hooks need torch: pip install 'patternmark[text]'"),
        ("transformers", "transformers", "needs transformers: pip install transformers"),
    ],
)
def test_what_is_missing_is_said(missing: str, module: str, remedy: str) -> None:
    code = f"import sys; sys.modules[{missing!r}] = None; import patternmark.adapters.{module}"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.stderr.splitlines()[-1].startswith("patternmark.errors.PatternmarkError")
    assert remedy in run.stderr
