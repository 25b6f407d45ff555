"""How much attention tokens received in hindsight, by their age at the time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class AgeBuckets:
    """Ages in tokens, cut into ranges that widen with age.

    Bucket ``b`` holds the ages from ``edges[b]`` to before ``edges[b + 1]``. A token's age for a
    query is the number of tokens from the one to the other; the query's own token has age 0.

    Attributes:
        edges: Rising whole numbers from 1 on, at least two.
    """

    edges: tuple[int, ...]

    def __post_init__(self) -> None:
        """Check the edges.

        Raises:
            ValueError: They are fewer than two, do not rise, or begin below 1.
        """
        rises = all(low < high for low, high in zip(self.edges, self.edges[1:], strict=False))
        if len(self.edges) < 2 or self.edges[0] < 1 or not rises:
            raise ValueError(
                f"edges must be two or more rising numbers from 1 on, got {self.edges}"
            )

    @classmethod
    def log_spaced(cls, max_age: int, per_octave: int = 2) -> AgeBuckets:
        """Return buckets from age 1 to ``max_age``, so many for each doubling of the age.

        >>> AgeBuckets.log_spaced(16, per_octave=1).edges
        (1, 2, 4, 8, 16, 17)

        Raises:
            ValueError: ``max_age`` or ``per_octave`` is below 1.
        """
        if max_age < 1 or per_octave < 1:
            raise ValueError(
                f"max_age and per_octave must be 1 or more, got {max_age} and {per_octave}"
            )
        num_steps = int(np.ceil(np.log2(max_age) * per_octave)) + 1
        steps = np.round(2.0 ** (np.arange(num_steps) / per_octave)).astype(int)
        return cls((*sorted({int(age) for age in steps if age <= max_age}), max_age + 1))

    def __len__(self) -> int:
        """Return the number of buckets."""
        return len(self.edges) - 1

    @property
    def centres(self) -> NDArray[np.float64]:
        """Geometric mean of the first and the last age of each bucket, ``(buckets,)``."""
        edges = np.array(self.edges, np.float64)
        centres: NDArray[np.float64] = np.sqrt(edges[:-1] * (edges[1:] - 1))
        return centres

    def of(self, ages: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return each age's bucket; -1 below the first and ``len`` above the last."""
        bucket: NDArray[np.int64] = np.searchsorted(self.edges, ages, side="right") - 1
        return bucket

    def first_from(self, age: int) -> int:
        """Return the first bucket that holds no younger ages than this; ``len`` if there is none.

        >>> AgeBuckets((1, 4, 16, 64)).first_from(5)
        2
        """
        return min(int(np.searchsorted(self.edges, age, side="left")), len(self))


@dataclass(frozen=True, slots=True)
class ReceivedAttention:
    """The attention that each token of a sequence received from the tokens after it.

    A query that sees ``k`` tokens (its own among them) and gives one of them the share ``p`` adds
    ``p * k``: 1 where it looks everywhere alike, whatever the length.

    Attributes:
        buckets: The ages that are told apart.
        lifts: ``(groups, n, buckets)``, float64; the sum over the queries of each group.
        num_queries: ``(groups, n, buckets)``, int64; how many queries that is.
    """

    buckets: AgeBuckets
    lifts: NDArray[np.float64]
    num_queries: NDArray[np.int64]

    @property
    def num_tokens(self) -> int:
        """Tokens of the sequence."""
        return int(self.lifts.shape[1])

    def total(self) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Return lifts and numbers of queries over all groups, ``(n, buckets)`` each."""
        return self.lifts.sum(axis=0), self.num_queries.sum(axis=0)


def count_queries(query_groups: NDArray[np.int8], buckets: AgeBuckets) -> NDArray[np.int64]:
    """Return how many queries of each group see each token at the ages of each bucket.

    Args:
        query_groups: ``(n,)``, int8; the group of every token when it asks, from 0.
        buckets: The ages.

    Returns:
        ``(groups, n, buckets)``, int64.
    """
    num_tokens = query_groups.size
    num_groups = int(query_groups.max(initial=0)) + 1
    # until[g, i]: queries of the group among the first i tokens.
    until = np.zeros((num_groups, num_tokens + 1), np.int64)
    np.cumsum(query_groups == np.arange(num_groups)[:, None], axis=1, out=until[:, 1:])
    places = np.arange(num_tokens)[:, None] + np.array(buckets.edges)[None]
    reached = until[:, np.minimum(places, num_tokens)]  # (groups, n, edges)
    counts: NDArray[np.int64] = np.diff(reached, axis=2)
    return counts
