"""The assumptions of `patternmark bench scale`; each field is an option of the command."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from fractions import Fraction
from math import ceil

from patternmark.errors import ParameterError

SAMPLE = 8192  # number of random sequences on which all keys are timed together


@dataclass(frozen=True)
class Setting:
    """The assumptions."""

    proteins: int = 2_400_000_000
    segments: float = 1.0  # per protein
    mean_length: int = 200
    keys: int = 10_000
    fpr: float = 0.01
    fdr: float = 0.01
    cores: int = 16  # per machine
    files: int = 25
    disk: float = 500.0  # MB/s that a machine reads
    core_hour: float = 0.05  # US dollars
    gpu_hour: float = 5.0

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if not value > 0:
                raise ParameterError(
                    f"{name.replace('_', ' ')} must be a number above 0, not {value:g}"
                )
        if self.fpr >= 1.0 or self.fdr >= 1.0:
            raise ParameterError("--fpr and --fdr must be below 1")
        if self.segments < 1.0:
            raise ParameterError("--segments must be at least 1")

    @property
    def num_segments(self) -> int:
        """The number of segments of all proteins, without rounding error."""
        return ceil(self.proteins * Fraction(str(self.segments)))

    @property
    def num_tests(self) -> int:
        """The number of tested pairs of a segment and a key."""
        return self.num_segments * self.keys
