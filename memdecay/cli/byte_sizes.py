"""Sizes as people write them on a command line."""

from __future__ import annotations

import re

from memdecay.classifier.errors import ConfigError

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(i?B)?", re.IGNORECASE)
_POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def parse_bytes(text: str, option: str) -> int:
    """Return the bytes of a size such as ``4GiB``, ``500MB`` or ``1048576``.

    Args:
        text: A number and, if wanted, a unit: with an ``i`` powers of 1024, without powers of 1000.
        option: The option's name, for the error.

    Raises:
        ConfigError: The text is no such size.
    """
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise ConfigError(f"{option} needs a size such as 4GiB or 500MB, got {text!r}")
    number, prefix, unit = match.groups()
    base = 1000 if (unit or "").upper() == "B" else 1024
    return int(float(number) * base ** _POWERS[prefix.upper()])


def show_bytes(size_bytes: float) -> str:
    """Return a size for people.

    >>> show_bytes(900), show_bytes(3 * 2**30)
    ('900 B', '3.0 GiB')
    """
    unit = 0
    while size_bytes >= 1024 and unit < len(_UNITS) - 1:
        size_bytes /= 1024
        unit += 1
    return f"{size_bytes:.1f} {_UNITS[unit]}" if unit else f"{size_bytes:.0f} B"
