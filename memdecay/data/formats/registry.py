"""The formats: found in ``readers``, chosen by content or by name."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable
from functools import cache

from memdecay.classifier.errors import TraceError
from memdecay.data.formats import readers
from memdecay.data.formats.base import NO, Format
from memdecay.data.formats.sample import Sample


@cache
def all_formats() -> dict[str, Format]:
    """Return every format by name: one for each module in ``readers``."""
    names = sorted(module.name for module in pkgutil.iter_modules(readers.__path__))
    modules = (importlib.import_module(f"{readers.__name__}.{name}") for name in names)
    formats: list[Format] = [module.FORMAT for module in modules]
    return {found.name: found for found in formats}


def find_format(name: str) -> Format:
    """Return the format called ``name``.

    Raises:
        TraceError: If there is none.
    """
    formats = all_formats()
    if name not in formats:
        known = ", ".join(formats)
        raise TraceError(f"no format is called {name!r}; choose one of: {known}")
    return formats[name]


def recognise(sample: Sample, formats: Iterable[Format] | None = None) -> Format | None:
    """Return the format that fits a sample best, or None if none fits.

    Args:
        sample: The start of a file.
        formats: Those to choose from, at least one; all if None.
    """
    scores = [(found, _score(found, sample)) for found in formats or all_formats().values()]
    best, score = max(scores, key=lambda pair: pair[1])
    return best if score > NO else None


def _score(found: Format, sample: Sample) -> int:
    try:
        return found.score(sample)
    except RecursionError:  # No format nests its messages that deeply.
        return NO
