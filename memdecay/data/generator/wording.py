"""Saying one thing in many ways: templates with alternatives, chosen by a seeded generator."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")
_NAME = re.compile(r"\{([a-z_]+)\}")
_ALTERNATIVES = re.compile(r"\{([^{}]*\|[^{}]*)\}")
_SLOT = re.compile("\x00([a-z_]+)\x00")


class Wording:
    """Fills templates and makes the other choices of a run.

    ``{a|b}`` picks one alternative (they nest, one may be empty), ``{name}`` inserts a value.

    >>> Wording(random.Random(0))("{Hi|Hello}, order {order}", order="A7").endswith("order A7")
    True
    """

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def __call__(self, template: str, **values: object) -> str:
        """Return the template with one alternative of each choice and the values put in.

        Raises:
            KeyError: The template names a value that was not given.
        """
        text = _NAME.sub("\x00\\1\x00", template)
        while _ALTERNATIVES.search(text):
            text = _ALTERNATIVES.sub(lambda match: self.pick(match[1].split("|")), text, count=1)
        return _SLOT.sub(lambda match: str(values[match[1]]), text)

    def pick(self, options: Sequence[T]) -> T:
        """Return one of the options."""
        return self.rng.choice(options)

    def some(self, options: Sequence[T], low: int, high: int) -> list[T]:
        """Return ``low`` to ``high`` different options, in the order given."""
        count = min(self.rng.randint(low, high), len(options))
        return [options[i] for i in sorted(self.rng.sample(range(len(options)), count))]

    def shuffled(self, options: Sequence[T]) -> list[T]:
        """Return all options in another order."""
        return self.rng.sample(list(options), len(options))

    def chance(self, probability: float) -> bool:
        """Return True with this probability."""
        return self.rng.random() < probability

    def number(self, low: int, high: int) -> int:
        """Return an integer from ``low`` to ``high``, both included."""
        return self.rng.randint(low, high)

    def code(self, pattern: str) -> str:
        """Return an id: ``#`` becomes a digit, ``@`` a capital letter, ``~`` a hex digit."""
        alphabets = {"#": "0123456789", "@": "ABCDEFGHJKLMNPQRSTUVWXYZ", "~": "0123456789abcdef"}
        return "".join(self.pick(alphabets[c]) if c in alphabets else c for c in pattern)
