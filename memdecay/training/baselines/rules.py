"""The rule tagger's regions, token by token, on the windows of a store."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memdecay.classifier.regions import Region
from memdecay.data.alignment import UNLABELLED
from memdecay.data.labelling.weak import label_trace
from memdecay.data.preparation import prepare_trace
from memdecay.data.store import ExtractedStore
from memdecay.data.trace import Trace

RuleRegions = Sequence[NDArray[np.int8]]
"""A region for every token of every window, ``(num_tokens,)`` each."""


def rule_regions(traces: Sequence[Trace], store: ExtractedStore, tokenizer: Any) -> RuleRegions:
    """Tag the windows of a store by rules, as they would be tagged while a session goes on.

    Args:
        traces: The traces that the store was extracted from, in the same order.
        store: The store.
        tokenizer: The tokenizer that it was extracted with.
    """
    regions = list(_by_trace(traces, tokenizer))
    records = (store.record(index) for index in range(len(store)))
    return [regions[r.trace][r.start : r.start + r.num_tokens] for r in records]


def _by_trace(traces: Sequence[Trace], tokenizer: Any) -> Iterator[NDArray[np.int8]]:
    for trace in traces:
        spans = label_trace(trace, lookahead=False).spans
        tagged = dataclasses.replace(trace, spans=spans)
        labels = prepare_trace(tagged, tokenizer, max_tokens=1 << 30).labels
        # What the rules say nothing about, the template's own text, keeps nothing alive.
        yield np.where(labels == UNLABELLED, np.int8(Region.ORDINARY_CONTEXT), labels)
