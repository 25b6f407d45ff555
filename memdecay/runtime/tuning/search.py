"""A search for the least of a slow, noisy function of few numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
_STEPS = (1.0, 0.5, 0.25)
_LEAST_GAIN = 1e-3


@dataclass(frozen=True, slots=True)
class Found:
    """Where a search ended.

    Attributes:
        vector: The best place.
        value: The function there.
        num_evaluations: Places that were tried.
        is_finished: Whether the search ended by itself, not by the most evaluations.
    """

    vector: Vector
    value: float
    num_evaluations: int
    is_finished: bool


class _EnoughError(Exception):
    """The most evaluations were made."""


def coordinate_search(
    function: Callable[[Vector], float],
    start: Vector,
    low: Vector,
    high: Vector,
    max_evaluations: int,
) -> Found:
    """Go downhill one number at a time with steps that shrink from 1 to a quarter.

    A step must gain at least 0.001, so that noise leads nowhere. After both neighbours of a
    number were tried, the bottom of the parabola through them is tried as well. A place is never
    evaluated twice.

    Args:
        function: What is to become small.
        start: The first place.
        low: Least values.
        high: Largest values.
        max_evaluations: After so many the best place so far is returned, at least 1.

    Raises:
        ValueError: ``max_evaluations`` is below 1.
    """
    if max_evaluations < 1:
        raise ValueError(f"max_evaluations must be 1 or more, got {max_evaluations}")
    walk = _Walk(function, low, high, max_evaluations)
    best, value = start, walk.evaluate(start)
    is_finished = True
    try:
        for step in _STEPS:
            is_moving = True
            while is_moving:
                is_moving = False
                for index in range(len(start)):
                    moved, new = walk.along(best, value, index, step)
                    if new < value - _LEAST_GAIN:
                        best, value, is_moving = moved, new, True
    except _EnoughError:
        is_finished = False
        best, value = walk.best()
    return Found(best, value, walk.num_evaluations, is_finished)


class _Walk:
    def __init__(
        self, function: Callable[[Vector], float], low: Vector, high: Vector, most: int
    ) -> None:
        self._function = function
        self._low = low
        self._high = high
        self._most = most
        self._known: dict[tuple[float, ...], float] = {}

    @property
    def num_evaluations(self) -> int:
        return len(self._known)

    def evaluate(self, vector: Vector) -> float:
        key = tuple(vector.tolist())
        if key not in self._known:
            if len(self._known) >= self._most:
                raise _EnoughError
            self._known[key] = self._function(vector)
        return self._known[key]

    def best(self) -> tuple[Vector, float]:
        key = min(self._known, key=lambda key: self._known[key])
        return np.array(key), self._known[key]

    def along(self, best: Vector, value: float, index: int, step: float) -> tuple[Vector, float]:
        """Return the best place and value found by changing one number."""
        found = [(best, value)]
        for change in (step, -step):
            moved = self._moved(best, index, change)
            if moved[index] != best[index]:
                found.append((moved, self.evaluate(moved)))
        bottom = _bottom([(place[index], each) for place, each in found])
        if bottom is not None:
            moved = self._moved(best, index, round(bottom - best[index], 2))
            found.append((moved, self.evaluate(moved)))
        return min(found, key=lambda pair: pair[1])

    def _moved(self, vector: Vector, index: int, change: float) -> Vector:
        moved = vector.copy()
        moved[index] = np.clip(vector[index] + change, self._low[index], self._high[index])
        return moved


def _bottom(points: list[tuple[float, float]]) -> float | None:
    """Return the bottom of the parabola through three points; None where the middle isn't least.

    A bottom that lies next to the middle gains nothing and is left out.
    """
    if len(points) < 3:
        return None
    (a, fa), (b, fb), (c, fc) = sorted(points)
    if not (fb < fa and fb < fc):
        return None
    numerator = (b - a) ** 2 * (fb - fc) - (b - c) ** 2 * (fb - fa)
    denominator = (b - a) * (fb - fc) - (b - c) * (fb - fa)
    bottom = b - numerator / (2 * denominator)
    return None if abs(bottom - b) < 0.2 * (c - a) / 2 else bottom
