"""Watermark what order-agnostic models generate, and prove it later with a p-value that holds.

The data flows from left to right, each step in the module of its name. The steps up to the reading
are in `core`, the verdict is in `results`:

    key -> schemes (which key promotes what) -> marker (key sequence) -> promote (bias)
        -> a model's sampler -> sequence
        -> reading (what counts) -> statistics (what is measured) -> null (p-value)
        -> detector (verdict)

The packages and modules; each imports from its own line and from those above:

    core                                 what generator and detector share
    masks, null, statistics, fast        repeats, nulls, statistics, compiled loops
    detector, results, evidence, combination    verdicts, and one p-value for many records
    search, scanning, plan, report       many keys, many sequences, planning, pictures
    attacks, quality                     what breaks a mark, what a mark costs
    io, models, designing, translation, adapters    files, models, adapters for other programs
    api                                  what the command line does, as functions for Python
    cli                                  the command line

>>> import patternmark as pm
>>> key = pm.Key.generate(pm.Profile())
>>> pm.Detector(key).detect("MKTAYIAKQR").prediction
False
"""

from importlib import import_module
from typing import TYPE_CHECKING

from patternmark._version import __version__
from patternmark.core.alphabet import PROTEIN, Alphabet
from patternmark.core.key import Key
from patternmark.core.keyfile import load_key, save_key
from patternmark.core.marker import Marker
from patternmark.core.profile import Profile
from patternmark.core.schemes import Blocks, Paper, Turns
from patternmark.detector import Detector
from patternmark.errors import (
    InputError,
    KeyFileError,
    ParameterError,
    PatternmarkError,
    PatternmarkWarning,
    SequenceError,
)
from patternmark.results import Status, Verdict

if TYPE_CHECKING:
    from patternmark.api.alphabets import alphabet
    from patternmark.api.attacking import attack
    from patternmark.api.auditing import audit
    from patternmark.api.biasing import write_bias
    from patternmark.api.designing import design
    from patternmark.api.detecting import combine, detect, detect_stream
    from patternmark.api.measuring import measure_quality
    from patternmark.api.planning import calibrate, power
    from patternmark.api.reporting import plot_verdicts, write_report
    from patternmark.api.scanning import scan
    from patternmark.api.scoring import score
    from patternmark.api.searching import identify, locate
    from patternmark.api.translating import translate

# The module of each function in `api`, which is imported at the first use.
_FUNCTIONS = {
    "alphabet": "alphabets",
    "attack": "attacking",
    "audit": "auditing",
    "calibrate": "planning",
    "combine": "detecting",
    "design": "designing",
    "detect": "detecting",
    "detect_stream": "detecting",
    "identify": "searching",
    "locate": "searching",
    "measure_quality": "measuring",
    "plot_verdicts": "reporting",
    "power": "planning",
    "scan": "scanning",
    "score": "scoring",
    "translate": "translating",
    "write_bias": "biasing",
    "write_report": "reporting",
}

__all__ = [
    "PROTEIN",
    "Alphabet",
    "Blocks",
    "Detector",
    "InputError",
    "Key",
    "KeyFileError",
    "Marker",
    "Paper",
    "ParameterError",
    "PatternmarkError",
    "PatternmarkWarning",
    "Profile",
    "SequenceError",
    "Status",
    "Turns",
    "Verdict",
    "__version__",
    "alphabet",
    "attack",
    "audit",
    "calibrate",
    "combine",
    "design",
    "detect",
    "detect_stream",
    "identify",
    "load_key",
    "locate",
    "measure_quality",
    "plot_verdicts",
    "power",
    "save_key",
    "scan",
    "score",
    "translate",
    "write_bias",
    "write_report",
]


def __getattr__(name: str) -> object:
    if name in _FUNCTIONS:
        return getattr(import_module(f"patternmark.api.{_FUNCTIONS[name]}"), name)
    raise AttributeError(f"module 'patternmark' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
