"""Format numbers for people, for the metric widget.

Pure. Called by `widgets`. Never raises for any number.
"""

from __future__ import annotations

FORMATS = ("number", "percent", "duration", "bytes")
"""The formats without a parameter; `currency:XXX` has one."""

# From here on 1.5e+15 is more readable than digits.
_PLAIN_MAX = 1e15

_BYTE_UNITS = ("bytes", "KB", "MB", "GB", "TB", "PB")
_SECOND_MS = 1_000
_DURATION_UNITS = (("d", 86_400 * _SECOND_MS), ("h", 3_600 * _SECOND_MS), ("m", 60 * _SECOND_MS), ("s", _SECOND_MS))


def formatted(value: float, format_: str) -> str:
    """The text of a number: `1,234.5`, `25.6%` of 0.256, `1h 5m` of milliseconds, `1.5 MB`, `9.90 EUR`."""
    kind, _, currency = format_.partition(":")
    if not abs(value) < _PLAIN_MAX:  # also NaN
        return f"{value:.6g} {currency}".rstrip()
    if kind == "percent":
        return f"{_plain(value * 100, digits=1)}%"
    if kind == "duration":
        return _duration(value)
    if kind == "bytes":
        return _bytes(value)
    if kind == "currency":
        return f"{value:,.2f} {currency}"
    return _plain(value, digits=2)


def _plain(value: float, *, digits: int) -> str:
    """With commas between thousands, and no zeros at the end of a fraction."""
    text = f"{value:,.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _duration(milliseconds: float) -> str:
    """The two largest units of it; below a second milliseconds."""
    sign, left = ("-" if milliseconds < 0 else "", abs(milliseconds))
    if left < _SECOND_MS:
        return f"{sign}{_plain(left, digits=0)}ms"
    parts = []
    for unit, length in _DURATION_UNITS:
        count, left = divmod(left, length)
        parts.append((int(count), unit))
    first = next(index for index, (count, _) in enumerate(parts) if count)
    return sign + " ".join(f"{count}{unit}" for count, unit in parts[first : first + 2] if count)


def _bytes(value: float) -> str:
    size, unit = value, 0
    while abs(size) >= 1_024 and unit < len(_BYTE_UNITS) - 1:
        size, unit = size / 1_024, unit + 1
    return f"{_plain(size, digits=1)} {_BYTE_UNITS[unit]}"
