"""Watermark what order-agnostic models generate, and prove it later with a p-value that holds.

The data walks from left to right, each step in the module of its name:

    key -> schedule (which key promotes what) -> mark (key sequence) -> promote (bias)
        -> a model's sampler -> sequence
        -> reading (what counts) -> statistics (what is measured) -> null (p-value)
        -> detect (verdict)

>>> import patternmark as pm
>>> key = pm.Key.generate(pm.Profile())
>>> pm.Detector(key).detect("MKTAYIAKQR").prediction
False
"""

from patternmark._version import __version__
from patternmark.alphabet import PROTEIN, PROTEIN_BACKGROUND, Alphabet
from patternmark.chain import NO_KEY, KeyChain
from patternmark.detect import Detector
from patternmark.errors import (
    InputError,
    KeyFileError,
    ParameterError,
    PatternmarkError,
    SequenceError,
)
from patternmark.io.keyfile import load_key, save_key
from patternmark.key import Key
from patternmark.mark import Marker
from patternmark.null import PatternNull
from patternmark.partition import Partition
from patternmark.patterns import Patterns
from patternmark.profile import Profile
from patternmark.verdict import Status, Verdict

__all__ = [
    "NO_KEY",
    "PROTEIN",
    "PROTEIN_BACKGROUND",
    "Alphabet",
    "Detector",
    "InputError",
    "Key",
    "KeyChain",
    "KeyFileError",
    "Marker",
    "ParameterError",
    "Partition",
    "PatternNull",
    "PatternmarkError",
    "Patterns",
    "Profile",
    "SequenceError",
    "Status",
    "Verdict",
    "__version__",
    "load_key",
    "save_key",
]
