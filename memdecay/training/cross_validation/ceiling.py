"""How well a second annotator meets the first: what no classifier needs to exceed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memdecay.classifier.regions import NUM_REGIONS
from memdecay.data.alignment import UNLABELLED
from memdecay.data.labelling.agreement import second_labelling
from memdecay.data.preparation import prepare_trace
from memdecay.data.trace import Trace
from memdecay.training.calibration.tokens import TaggedTokens

_NO_LIMIT = 1 << 30


def second_annotator(traces: Sequence[Trace], tokenizer: Any) -> TaggedTokens | None:
    """Return the tokens that two annotators labelled, the second's region as the prediction.

    Args:
        traces: Labelled traces, some with the second annotator's spans.
        tokenizer: The LLM's tokenizer, so that tokens count as they do for the classifier.

    Returns:
        The tokens, or None if no trace was labelled twice.

    Raises:
        TraceError: The second annotator's spans do not fit the trace.
    """
    rows = list(_twice_labelled(traces, tokenizer))
    if not rows:
        return None
    first, second, trace = (np.concatenate(column) for column in zip(*rows, strict=True))
    nothing = np.zeros(len(first), np.int64)
    return TaggedTokens(
        region_probs=np.eye(NUM_REGIONS, dtype=np.float32)[second],
        labels=first,
        trace=trace,
        message=nothing,
        position=nothing,
    )


def _twice_labelled(
    traces: Sequence[Trace], tokenizer: Any
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]]:
    for index, trace in enumerate(traces):
        other = second_labelling(trace)
        if other is None:
            continue
        first = prepare_trace(trace, tokenizer, _NO_LIMIT).labels.astype(np.int64)
        second = prepare_trace(other, tokenizer, _NO_LIMIT).labels.astype(np.int64)
        both = (first != UNLABELLED) & (second != UNLABELLED)
        yield first[both], second[both], np.full(int(both.sum()), index, np.int64)
