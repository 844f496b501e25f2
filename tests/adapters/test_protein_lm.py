import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from patternmark import Detector, Key, Marker, ParameterError, Profile, SequenceError, save_key
from patternmark.core.schemes import Blocks, Paper
from patternmark.core.secret import Secret

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from patternmark.adapters.protein_lm import (  # noqa: E402
    ESM,
    ESM_TOKENS,
    EVODIFF,
    esm_generate,
    order_agnostic_generate,
)
from tests.adapters.tiny_models import tiny_esm, words_key  # noqa: E402

LETTERS = set("ACDEFGHIKLMNPQRSTVWY")
TEMPLATES = ["MK" + "_" * 130, "_" * 150, "_" * 60 + "GSGSGS" + "_" * 80]


def fits(sequence: str, template: str) -> bool:
    pairs = zip(sequence, template, strict=True)
    return all(a == b or (b == "_" and a in LETTERS) for a, b in pairs)


@pytest.fixture
def strong_key(secret: Secret) -> Key:
    return Key.of(secret, Profile(scheme=Paper(), delta=2.5))


@pytest.mark.parametrize("order", ["random", "confidence"])
@pytest.mark.parametrize("scheme", ["paper", "blocks"])
def test_marked_proteins_are_detected_and_unmarked_ones_are_not(
    secret: Secret, order: str, scheme: str
) -> None:
    schemes = {"paper": Paper(), "blocks": Blocks(nonces=1)}
    key = Key.of(secret, Profile(delta=2.5, scheme=schemes[scheme]))
    esm = tiny_esm(columns=40)  # a padded vocabulary
    log10_p = {}
    for delta in (2.5, 0.0):
        sequences = esm_generate(
            esm,
            TEMPLATES,
            Marker(key, delta=delta),
            order=order,
            per_step=5,
            generator=torch.Generator().manual_seed(11),
        )
        assert all(map(fits, sequences, TEMPLATES))
        log10_p[delta] = [verdict.log10_p for verdict in Detector(key).detect_many(sequences)]
    assert max(log10_p[2.5]) < -4
    assert min(log10_p[0.0]) > -2


def test_the_command_line_finds_the_mark_with_the_same_key_file(
    strong_key: Key, tmp_path: Path, run: Callable[..., Any]
) -> None:
    sequences = esm_generate(
        tiny_esm(), ["_" * 120] * 2, Marker(strong_key), per_step=6,
        generator=torch.Generator().manual_seed(12),
    )  # fmt: skip
    save_key(strong_key, tmp_path / "lab.key")
    fasta = tmp_path / "designs.fa"
    fasta.write_text("".join(f">{i}\n{text}\n" for i, text in enumerate(sequences)))
    outcome = run("detect", fasta, "--key", tmp_path / "lab.key", "--json")
    assert outcome.status == 0
    found = [json.loads(line) for line in outcome.out.splitlines()]
    assert [verdict["prediction"] for verdict in found] == [True, True]


def test_the_tokens_are_those_of_the_tokenizer(tmp_path: Path) -> None:
    file = tmp_path / "vocab.txt"
    file.write_text("\n".join(ESM_TOKENS))
    tokenizer = transformers.EsmTokenizer(str(file))
    tokens = tokenizer("MKT<mask>W")["input_ids"]
    assert tokens == [0, 20, 15, 11, 32, 22, 2]
    assert ESM.write(["MKT_W"])[0].tolist() == tokens


def test_a_sequence_has_the_keys_of_its_number_in_any_batch(secret: Secret) -> None:
    marker = Marker(Key.of(secret, Profile(scheme=Blocks(), delta=6.0)))
    common: Any = {"order": "confidence", "temperature": 0.0, "seed": 3}
    esm, templates = tiny_esm(), ["_" * 30] * 3
    together = esm_generate(esm, templates, marker, **common)
    assert esm_generate(esm, templates[:1], marker, first_index=2, **common) == together[2:]
    assert len(set(together)) > 1


@pytest.mark.slow
def test_order_agnostic_sampling_takes_any_model(strong_key: Key) -> None:
    """EvoDiff's alphabet over a real bidirectional model: one residue for each pass, at random."""
    torch.manual_seed(13)
    model = transformers.BertForMaskedLM(
        transformers.BertConfig(
            vocab_size=len(EVODIFF.id_of), hidden_size=32, num_hidden_layers=2,
            num_attention_heads=2, intermediate_size=64, max_position_embeddings=200,
        )
    ).eval()  # fmt: skip
    mask = EVODIFF.id_of["#"]
    left: list[int] = []

    def predict(tokens: Any) -> Any:
        left.append(int((tokens[1] == mask).sum()))
        return model(tokens).logits

    log10_p = {}
    for delta in (2.5, 0.0):
        sequences = order_agnostic_generate(
            predict,
            ["_" * 100, "M" + "_" * 110],
            Marker(strong_key, delta=delta),
            generator=torch.Generator().manual_seed(14),
        )
        assert fits(sequences[0], "_" * 100)
        assert fits(sequences[1], "M" + "_" * 110)
        verdicts = Detector(strong_key).detect_many(sequences)
        log10_p[delta] = [verdict.log10_p for verdict in verdicts]
    assert left == list(range(110, 0, -1)) * 2
    assert max(log10_p[2.5]) < -6
    assert min(log10_p[0.0]) > -2


def test_bad_input_is_refused(key: Key, secret: Secret) -> None:
    esm = tiny_esm()
    with pytest.raises(SequenceError, match="template 2: '1' is not a letter of this model"):
        esm_generate(esm, ["__", "M1_"], Marker(key))
    with pytest.raises(ParameterError, match="order must be random or confidence, not 'left'"):
        esm_generate(esm, ["__"], Marker(key), order="left")
    with pytest.raises(ParameterError, match="per_step must be at least 1, not 0"):
        esm_generate(esm, ["__"], Marker(key), per_step=0)
    with pytest.raises(ParameterError, match="make a key with 'patternmark keygen' for proteins"):
        esm_generate(esm, ["__"], Marker(words_key(secret)))
