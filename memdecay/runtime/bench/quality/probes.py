"""Which spans of a trace are to be recalled at its end."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from memdecay.classifier.regions import Region
from memdecay.runtime.bench.quality.config import QualityConfig

AGES: tuple[tuple[str, int, int], ...] = (("512-2047", 512, 2048), ("2048+", 2048, 1 << 62))
"""Ages in tokens before the trace's end: name, least and end."""
_STRIDE_TOKENS = 96
_MIN_RECALL_TOKENS = 8


@dataclass(frozen=True, slots=True)
class Probe:
    """A span that stands once in the trace, and is asked for at its end.

    Attributes:
        region: The region of all its tokens.
        age: One of `AGES`' names.
        start: Its first token.
        num_cue: Tokens that are given.
        num_recall: Tokens after them that are to be recalled.
    """

    region: Region
    age: str
    start: int
    num_cue: int
    num_recall: int

    @property
    def end(self) -> int:
        """The token after its last."""
        return self.start + self.num_cue + self.num_recall


def choose_probes(
    input_ids: NDArray[np.int64],
    regions: NDArray[np.int8],
    message_index: NDArray[np.int32],
    config: QualityConfig,
) -> tuple[Probe, ...]:
    """Choose up to some spans for each region and age, evenly spread.

    A span lies in one message and one region. Its cue, and what follows the cue, stand nowhere
    else in the trace, so that only the span itself can answer.

    Args:
        input_ids: ``(n,)``, int64.
        regions: ``(n,)``, int8; below zero where unlabelled.
        message_index: ``(n,)``.
        config: Lengths and numbers.
    """
    num_tokens = len(input_ids)
    grams = _grams(input_ids, config.cue_tokens)
    counts = Counter(grams)
    is_unique = np.array([counts[gram] == 1 for gram in grams], np.bool_)
    cells: dict[tuple[int, str], list[Probe]] = {}
    for start, end in _runs(regions, message_index):
        for probe in _in_run(
            start, end, num_tokens, Region(int(regions[start])), config, is_unique
        ):
            cells.setdefault((probe.region, probe.age), []).append(probe)
    chosen = [_spread(cells[key], config.probes_per_cell) for key in sorted(cells)]
    return tuple(probe for probes in chosen for probe in probes)


def _grams(input_ids: NDArray[np.int64], length: int) -> list[bytes]:
    return [input_ids[i : i + length].tobytes() for i in range(len(input_ids) - length + 1)]


def _runs(regions: NDArray[np.int8], message_index: NDArray[np.int32]) -> Iterator[tuple[int, int]]:
    """Yield stretches of one labelled region within one message."""
    changes = (np.diff(regions) != 0) | (np.diff(message_index) != 0)
    bounds = [0, *(np.flatnonzero(changes) + 1).tolist(), len(regions)]
    for start, end in itertools.pairwise(bounds):
        if end > start and regions[start] >= 0:
            yield start, end


def _in_run(
    start: int,
    end: int,
    num_tokens: int,
    region: Region,
    config: QualityConfig,
    is_unique: NDArray[np.bool_],
) -> Iterator[Probe]:
    """Yield a run's probes: in each stride the first whose cue and end stand nowhere else."""
    next_start = start
    for first in range(start, end):
        num_recall = min(config.recall_tokens, end - first - config.cue_tokens)
        age = _age(num_tokens - first)
        is_long_enough = num_recall >= min(_MIN_RECALL_TOKENS, config.recall_tokens)
        if first < next_start or age is None or not is_long_enough:
            continue
        if is_unique[first] and is_unique[first + num_recall]:
            yield Probe(region, age, first, config.cue_tokens, num_recall)
            next_start = first + _STRIDE_TOKENS


def _age(num_tokens_since: int) -> str | None:
    return next((name for name, least, end in AGES if least <= num_tokens_since < end), None)


def _spread(probes: list[Probe], num_wanted: int) -> list[Probe]:
    if len(probes) <= num_wanted:
        return probes
    # The middle of equal parts: neither the trace's very first span nor its last.
    return [probes[(2 * i + 1) * len(probes) // (2 * num_wanted)] for i in range(num_wanted)]
