"""Traces cut to their first messages."""

from __future__ import annotations

from dataclasses import replace

from memdecay.classifier.llm import LanguageModel
from memdecay.data.hindsight.measured import align_trace
from memdecay.data.trace import Trace


def cut_to_messages(trace: Trace, llm: LanguageModel, max_tokens: int) -> Trace | None:
    """Return the trace's first messages, as many as are whole within some tokens.

    Args:
        trace: The trace; it comes back as it is where it fits.
        llm: The model that is going to read it.
        max_tokens: The most tokens; the model's context limits them too.

    Returns:
        The shorter trace with its labels; None where the first message alone is too long.

    Raises:
        ValueError: ``max_tokens`` is below 1.
        ModelError: The tokenizer gives no character offsets.
    """
    aligned = align_trace(trace, llm, max_tokens)
    if not aligned.is_cut:
        return trace
    num_messages = int(aligned.tokens.message_index[-1])
    if num_messages < 1:
        return None
    return replace(
        trace,
        messages=trace.messages[:num_messages],
        spans=tuple(span for span in trace.spans if span.message < num_messages),
    )
