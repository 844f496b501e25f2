"""Write the numbers on the page of `patternmark bench scale`."""

from __future__ import annotations

from math import floor, log10

from patternmark.scanning.keyset import LONGEST

LABELS = {
    "paper": "paper's scheme",
    "blocks R=1": "blocks, 1 nonce",
    "blocks": "blocks, 32 nonces",
}
_NAMED_SIZES = ((1e12, "trillion"), (1e9, "billion"), (1e6, "million"))


def table(*heads: str) -> list[str]:
    """Return the first two lines of a table; columns whose head ends with a colon align right."""
    names = " | ".join(head.removesuffix(":") for head in heads)
    sides = "|".join("---:" if head.endswith(":") else "---" for head in heads)
    return [f"| {names} |", f"|{sides}|"]


def two_digits(value: float) -> str:
    """Return a number with two significant digits.

    >>> [two_digits(x) for x in (0.01234, 1.96, 34.4, 8123.0, 0.0)]
    ['0.012', '2.0', '34', '8,100', '0']
    """
    if value == 0.0:
        return "0"
    digits = 1 - floor(log10(abs(value)))
    rounded = round(value, digits)
    if rounded and floor(log10(abs(rounded))) > floor(log10(abs(value))):
        digits -= 1  # 9.96 is 10 and not 10.0
    return f"{rounded:,.{max(0, digits)}f}"


def amount(value: float) -> str:
    """Return a large number in words.

    >>> amount(2.4e9), amount(24_000)
    ('2.4 billion', '24,000')
    """
    for size, name in _NAMED_SIZES:
        if value >= size:
            return f"{two_digits(value / size)} {name}"
    return two_digits(value)


def power_of_ten(log10_value: float) -> str:
    """Return 10^x as text.

    >>> power_of_ten(-15.38), power_of_ten(-0.0001)
    ('4.2 × 10^-16', '1.0 × 10^0')
    """
    exponent = floor(log10_value)
    mantissa = 10.0 ** (log10_value - exponent)
    if round(mantissa, 1) >= 10.0:
        mantissa, exponent = 1.0, exponent + 1
    return f"{mantissa:.1f} × 10^{exponent}"


def duration(seconds: float) -> str:
    """Return a time in the unit that fits.

    >>> [duration(x) for x in (12.3, 2040.0, 7200.0, 1e6)]
    ['12 s', '34 min', '2.0 h', '12 days']
    """
    for size, name, most in ((1.0, "s", 90.0), (60.0, "min", 90.0), (3600.0, "h", 72.0)):
        if seconds / size < most:
            return f"{two_digits(seconds / size)} {name}"
    return f"{two_digits(seconds / 86400.0)} days"


def core_hours(seconds: float) -> str:
    """Return seconds as hours."""
    return two_digits(seconds / 3600.0)


def with_range(seconds: dict[str, float]) -> str:
    """Return the median of hours, with the smallest and the largest."""
    low, high = core_hours(seconds["low"]), core_hours(seconds["high"])
    return f"{core_hours(seconds['median'])} ({low} to {high})"


def dollars(value: float) -> str:
    """Return a price with two digits.

    >>> dollars(0.2), dollars(406.0)
    ('under $1', '$410')
    """
    return "under $1" if value < 1.0 else f"${two_digits(value)}"


def percent(share: float) -> str:
    """Return a share in percent.

    >>> percent(0.01), percent(0.834)
    ('1 %', '83 %')
    """
    return f"{two_digits(100.0 * share).removesuffix('.0')} %"


def length(value: int | None) -> str:
    """Return a length, or text that it is longer than a segment."""
    return f"over {LONGEST:,}" if value is None else f"{value:,}"
