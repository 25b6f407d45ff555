"""Region labels as arrays of characters, and back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from memdecay.classifier.regions import Region
from memdecay.data.trace import Span, Trace

UNLABELLED = -1


def character_labels(trace: Trace, spans: Iterable[Span] | None = None) -> list[NDArray[np.int8]]:
    """Return the region of every character of every message.

    Args:
        trace: The trace that the spans lie on.
        spans: The labels; the trace's own if not given.

    Returns:
        One ``(num_characters,)`` int8 array per message, `UNLABELLED` outside spans.
    """
    labels = [np.full(len(message.content), UNLABELLED, np.int8) for message in trace.messages]
    for span in trace.spans if spans is None else spans:
        labels[span.message][span.start : span.end] = span.region
    return labels


def spans_from_labels(labels: Sequence[NDArray[np.int8]]) -> tuple[Span, ...]:
    """Return the longest spans of equal region; unlabelled characters get none."""
    spans = []
    for message, regions in enumerate(labels):
        if not len(regions):
            continue
        cuts = [0, *(np.flatnonzero(np.diff(regions)) + 1).tolist(), len(regions)]
        spans += [
            Span(message, start, end, Region(int(regions[start])))
            for start, end in pairwise(cuts)
            if regions[start] != UNLABELLED
        ]
    return tuple(spans)
