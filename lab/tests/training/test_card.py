"""The card says what card.json says, and that is what happened."""

import json
from pathlib import Path

import pytest

from lab.tests.training.small import PARAGRAPHS, SETTINGS, codec, corpus
from patternmark import __version__
from patternmark.models.weights import file_sha256
from patternmark_lab.training.card import card, render, write_card
from patternmark_lab.training.trainer import Training
from patternmark_lab.training.validation import (
    Check,
    measure,
    paragraphs_check,
    sentences_check,
)
from tests.translation.small import PAIRS, config

ABOUT = {"command": "patternmark train cmlm a.tsv", "device": "CPU", "patternmark": __version__}
DATA = {
    "files": [{"file": "a.tsv", "role": "sentences", "pairs": 20, "sha256": "ab" * 32}],
    "pairs": 20,
    "target_tokens": 312,
}


def test_the_card_holds_the_facts_of_the_training(tmp_path: Path) -> None:
    training = Training(tmp_path, config(), SETTINGS)
    training.run(corpus(), about=ABOUT)
    checks = [sentences_check("valid.tsv", PAIRS), Check("bleu_long", "p.tsv", [])]
    scores = measure(training.model, codec(), checks)
    assert [(s["name"], s["file"], s["pairs"]) for s in scores] == [("bleu", "valid.tsv", 20)]
    write_card(tmp_path, card(training, DATA, scores, ["Data: with thanks."]))
    facts = json.loads((tmp_path / "card.json").read_text())
    assert facts["weights_sha256"] == file_sha256(tmp_path / "model.safetensors")
    assert facts["parameters"] == sum(p.numel() for p in training.model.parameters())
    assert facts["training"]["steps"] == 12
    assert facts["training"]["target_tokens_seen"] == training.progress.tokens > 0
    assert facts["training"]["settings"]["seed"] == 3
    assert facts["validation"] == scores
    text = (tmp_path / "README.md").read_text()
    assert text == render(facts)
    for part in (
        f"| parameters | {facts['parameters']:,} |",
        "| steps | 12 (100% of what was planned) |",
        f"| a.tsv | sentences | 20 | `{'ab' * 32}` |",
        f"| valid.tsv | sentences | 20 | {scores[0]['bleu']:.2f} | `nrefs:1\\|case:mixed",
        "```bash\npatternmark train cmlm a.tsv\n```",
        f"| 0 to 12 | {facts['runs'][0]['minutes']:.1f} | CPU | {__version__} |",
        "Data: with thanks.",
    ):
        assert part in text


@pytest.mark.slow
def test_measuring_leaves_the_network_as_it_was(tmp_path: Path) -> None:
    training = Training(tmp_path, config(), SETTINGS)
    first = measure(training.model, codec(), [sentences_check("v", PAIRS)])
    assert training.model.training
    assert measure(training.model, codec(), [sentences_check("v", PAIRS)]) == first


def test_longer_texts_to_check_have_50_to_100_tokens() -> None:
    check = paragraphs_check("p.tsv", PARAGRAPHS, codec())
    assert len(check.pairs) == len(PARAGRAPHS)
    for _, target in check.pairs:
        assert 50 <= len(codec().encode_batch([target])[0]) <= 100
