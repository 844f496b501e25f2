"""Read the tables of a key file: every field by name and type, none left over."""

from __future__ import annotations

from typing import Any

from patternmark.errors import ParameterError


class Table:
    """One table of a key file: fields are taken out, and none may be left over."""

    def __init__(self, name: str, tables: dict[str, Any]) -> None:
        self._name = name
        content = tables.pop(name, None)
        if not isinstance(content, dict):
            raise ParameterError(f"the table [{name}] is missing")
        self._content = dict(content)

    def take(self, field: str, kind: type | tuple[type, ...], default: Any = ...) -> Any:
        """Return a field, or refuse one that is missing or of another type."""
        value = self._content.pop(field, default)
        if value is ...:
            raise ParameterError(f"[{self._name}] has no field {field!r}")
        if value is not default and (not isinstance(value, kind) or isinstance(value, bool)):
            raise ParameterError(f"[{self._name}] {field} has the wrong type")
        return value

    def finish(self) -> None:
        """Refuse fields that nobody took: they could change the mark."""
        if self._content:
            field = next(iter(self._content))
            raise ParameterError(f"[{self._name}] has an unknown field {field!r}")


def whole_numbers(value: Any, what: str) -> tuple[int, ...]:
    """Return a list of whole numbers as a tuple, or refuse it."""
    if not isinstance(value, list) or not all(type(number) is int for number in value):
        raise ParameterError(f"{what} must be a list of whole numbers")
    return tuple(value)
