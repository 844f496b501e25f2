"""Marked translation: CMLM and published checkpoints on lines of text."""

from importlib.util import find_spec

from patternmark.errors import PatternmarkError

for _package in ("torch", "tokenizers", "safetensors"):
    if find_spec(_package) is None:
        raise PatternmarkError(f"translation needs {_package}: pip install 'patternmark[text]'")
