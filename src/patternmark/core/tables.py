"""Read the tables of a key file: take each field by name and type, refuse unknown fields."""

from __future__ import annotations

from typing import Any

from patternmark.errors import ParameterError


class Table:
    """One table of a key file: `take` each known field, then `finish` to refuse unknown ones."""

    def __init__(self, name: str, tables: dict[str, Any]) -> None:
        self._name = name
        content = tables.pop(name, None)
        if not isinstance(content, dict):
            raise ParameterError(f"the table [{name}] is missing")
        self._content = dict(content)

    def take(self, field: str, kind: type | tuple[type, ...], default: Any = ...) -> Any:
        """Return a field; raise ParameterError if it is missing or has the wrong type."""
        value = self._content.pop(field, default)
        if value is ...:
            raise ParameterError(f"[{self._name}] has no field {field!r}")
        if value is not default and (not isinstance(value, kind) or isinstance(value, bool)):
            raise ParameterError(f"[{self._name}] {field} has the wrong type")
        return value

    def take_float(self, field: str) -> float:
        """Return a field that holds a number."""
        try:
            return float(self.take(field, (int, float)))
        except OverflowError:
            raise ParameterError(f"[{self._name}] {field} is too large") from None

    def finish(self) -> None:
        """Raise ParameterError if a field was not taken: an unknown one could change the mark."""
        if self._content:
            field = next(iter(self._content))
            raise ParameterError(f"[{self._name}] has an unknown field {field!r}")


def whole_numbers(value: Any, what: str) -> tuple[int, ...]:
    """Return a list of whole numbers as a tuple; raise ParameterError if it is anything else."""
    if not isinstance(value, list) or not all(type(number) is int for number in value):
        raise ParameterError(f"{what} must be a list of whole numbers")
    return tuple(value)
