import subprocess
import sys
from typing import Literal

import numpy as np
import pytest

from patternmark.translation.bleu import bleu, chrf, resampled_scores


def test_bleu_is_sacrebleu_s_and_says_how_it_was_counted() -> None:
    import sacrebleu

    found = ["The dog is asleep under the table.", "She reads every evening."]
    wanted = ["The dog is sleeping under the table.", "She reads a book every evening."]
    score = bleu(found, wanted)
    assert score.score == pytest.approx(sacrebleu.corpus_bleu(found, [wanted]).score)
    assert score.signature == (
        f"nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:{sacrebleu.__version__}"
    )
    assert bleu(wanted, wanted).score == pytest.approx(100.0)


@pytest.mark.parametrize("name", ["BLEU", "chrF"])
def test_resamples_are_of_the_same_texts_for_all(name: Literal["BLEU", "chrF"]) -> None:
    references = [
        f"the {w} one goes to market number {w}" for w in ["a", "b", "c", "d", "e", "f", "g", "h"]
    ]
    worse = [
        text.replace("market", "house") if i % 2 else text for i, text in enumerate(references)
    ]
    scores = resampled_scores(name, worse, references, 300, seed=4)
    whole = (bleu if name == "BLEU" else chrf)(worse, references, resamples=300)
    assert scores.shape == (301,)
    assert scores[0] == pytest.approx(whole.score)
    assert whole.half is not None
    low, high = np.quantile(scores[1:], [0.025, 0.975])
    assert (high - low) / 2 == pytest.approx(whole.half, rel=0.25)
    again = resampled_scores(name, references, references, 300, seed=4)
    assert again == pytest.approx(100.0)
    np.testing.assert_array_equal(scores, resampled_scores(name, worse, references, 300, seed=4))


def test_chrf_is_sacrebleu_s_and_has_an_interval() -> None:
    import sacrebleu

    found = ["The dog is asleep under the table.", "She reads every evening.", "No."]
    wanted = ["The dog is sleeping under the table.", "She reads a book every evening.", "No."]
    score = chrf(found, wanted, resamples=200)
    assert score.score == pytest.approx(sacrebleu.corpus_chrf(found, [wanted]).score)
    assert score.half is not None
    assert 0.0 < score.half < 50.0
    assert "nc:6" in score.signature
    assert chrf(wanted, wanted).half is None


@pytest.mark.parametrize(
    ("package", "module", "remedy"),
    [
        ("torch", "patternmark.translation", "pip install 'patternmark[text]'"),
        ("safetensors", "patternmark.translation", "pip install 'patternmark[text]'"),
        ("sacrebleu", "patternmark.translation.bleu", "BLEU needs sacrebleu: pip install"),
    ],
)
def test_a_package_that_is_missing_is_named(package: str, module: str, remedy: str) -> None:
    code = (
        f"import sys, importlib; sys.modules[{package!r}] = None\n"
        "from patternmark.errors import PatternmarkError\n"
        "try:\n"
        f"    found = importlib.import_module({module!r})\n"
        "    found.metric_of_sacrebleu()\n"
        "except PatternmarkError as error: print(error)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert package in run.stdout
    assert remedy in run.stdout
