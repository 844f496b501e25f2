"""Every error this package raises on purpose.

PatternmarkError
├── ParameterError     a parameter with a wrong value: a row of A that does not sum to 1, ...
├── KeyFileError       a key file that cannot be used: wrong, newer, edited, readable by others
├── SequenceError      one sequence that does not fit the alphabet
└── InputError         a whole file that cannot be used: empty, binary, not what it claims to be

The messages are written for the person who has to correct the input. None of them ever contains a
secret or a part of one.
"""


class PatternmarkWarning(UserWarning):
    """Something to mind that does not stop the work, such as a record that cannot be read."""


class PatternmarkError(Exception):
    """The root: catch this to catch every error that the package raises on purpose."""


class ParameterError(PatternmarkError, ValueError):
    """A parameter of a scheme, chain, pattern set or detector has a wrong value."""


class KeyFileError(PatternmarkError):
    """A key file cannot be read, trusted or written."""


class SequenceError(PatternmarkError, ValueError):
    """A sequence does not fit the alphabet of the key."""


class InputError(PatternmarkError):
    """An input file as a whole cannot be used."""
