"""Find the weights in the distribution patternmark-models: 38 MB that no detector needs."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from patternmark.errors import PatternmarkError


def shipped_folder(name: str) -> Path:
    """Return the folder of a model: `cmlm-de-en`, the translator, or `structure-predictor`."""
    try:
        return Path(str(resources.files("patternmark_models") / name))
    except ModuleNotFoundError:
        raise PatternmarkError(
            f"the model {name} is in patternmark-models, which is not installed: 'pip install "
            "patternmark-models', or from a clone of patternmark 'pip install ./models'"
        ) from None
