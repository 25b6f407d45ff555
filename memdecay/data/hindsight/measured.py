"""Labelled traces beside the attention that their tokens received."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from memdecay.classifier.hindsight import AgeBuckets, ReceivedAttention
from memdecay.classifier.llm import LanguageModel
from memdecay.classifier.regions import Region
from memdecay.classifier.rendering import RenderedConversation, render
from memdecay.classifier.tokenization import TokenizedConversation, tokenize
from memdecay.data.alignment import UNLABELLED, align
from memdecay.data.trace import Trace

NUM_SINKS = 4
"""First tokens of a sequence, on which models lean whatever they say."""

SINK_LIFT = 50.0
"""Mean lift from which a token counts as a sink wherever it stands."""

OTHER_QUERIES, DECISION_QUERIES = 0, 1
"""The groups of queries that are told apart: what the agent decides, and all else."""

MeasureAttention = Callable[
    [LanguageModel, NDArray[np.int64], AgeBuckets, NDArray[np.int8]], ReceivedAttention
]
"""Runs a sequence: model, token ids ``(n,)``, ages, groups of queries ``(n,)``."""


@dataclass(frozen=True, slots=True)
class AlignedTrace:
    """The beginning of a trace as tokens with labels.

    Attributes:
        trace: The trace.
        rendered: All of it as text.
        tokens: Its first tokens.
        labels: ``(n,)``, int8; the region of each, -1 where unlabelled.
        is_cut: Whether the trace has more tokens than these.
    """

    trace: Trace
    rendered: RenderedConversation
    tokens: TokenizedConversation
    labels: NDArray[np.int8]
    is_cut: bool = False

    @property
    def query_groups(self) -> NDArray[np.int8]:
        """``(n,)``, int8; which tokens ask as a part of a decision."""
        groups: NDArray[np.int8] = np.where(
            self.labels == Region.KEY_DECISION, DECISION_QUERIES, OTHER_QUERIES
        ).astype(np.int8)
        return groups


@dataclass(frozen=True, slots=True)
class MeasuredTrace:
    """An aligned trace and what its tokens received.

    Attributes:
        aligned: The trace.
        received: The attention, by the groups of `AlignedTrace.query_groups`.
        is_judged: ``(n,)``, bool; tokens that have a label and are no sinks.
    """

    aligned: AlignedTrace
    received: ReceivedAttention
    is_judged: NDArray[np.bool_]


def align_trace(trace: Trace, llm: LanguageModel, max_tokens: int) -> AlignedTrace:
    """Render, tokenize and label a trace, and keep its first tokens.

    Args:
        trace: The trace.
        llm: The model that is going to read it.
        max_tokens: The most tokens; the model's context limits them too.

    Raises:
        ValueError: ``max_tokens`` is below 1.
        ModelError: The tokenizer gives no character offsets.
    """
    if max_tokens < 1:
        raise ValueError(f"max_tokens must be 1 or more, got {max_tokens}")
    rendered = render([message.to_openai() for message in trace.messages], llm.tokenizer)
    tokens = tokenize(rendered, llm.tokenizer)
    labels = align(trace.spans, rendered, tokens)
    num_tokens = min(max_tokens, llm.max_context)
    is_cut = tokens.num_tokens > num_tokens
    return AlignedTrace(trace, rendered, tokens.first(num_tokens), labels[:num_tokens], is_cut)


def measure_traces(
    traces: Sequence[AlignedTrace],
    llm: LanguageModel,
    measure: MeasureAttention,
    buckets: AgeBuckets,
    on_progress: Callable[[int, int], None] | None = None,
) -> Iterator[MeasuredTrace]:
    """Run traces one after the other.

    Args:
        traces: The traces.
        llm: The model.
        measure: See `memdecay.runtime.hindsight.received_attention`.
        buckets: The ages to tell apart.
        on_progress: Called with the tokens read and the tokens in all after each trace.
    """
    total, done = sum(aligned.tokens.num_tokens for aligned in traces), 0
    for aligned in traces:
        received = measure(llm, aligned.tokens.input_ids, buckets, aligned.query_groups)
        done += aligned.tokens.num_tokens
        if on_progress is not None:
            on_progress(done, total)
        yield MeasuredTrace(aligned, received, _judged(aligned, received))


def _judged(aligned: AlignedTrace, received: ReceivedAttention) -> NDArray[np.bool_]:
    lifts, num_queries = received.total()
    mean = lifts.sum(axis=1) / np.maximum(num_queries.sum(axis=1), 1)
    is_judged: NDArray[np.bool_] = (aligned.labels != UNLABELLED) & (mean < SINK_LIFT)
    is_judged[:NUM_SINKS] = False
    return is_judged
