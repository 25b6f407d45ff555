"""Everything about a trace that is known before the LLM reads it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memdecay.classifier.rendering import RenderedConversation, render
from memdecay.classifier.tokenization import TokenizedConversation, tokenize
from memdecay.data.alignment import align
from memdecay.data.digests import trace_digest
from memdecay.data.manifest import TraceRecord
from memdecay.data.store import ExtractedWindow
from memdecay.data.trace import Trace
from memdecay.data.windows import TokenWindow, WindowReport, split_into_windows


@dataclass(frozen=True, slots=True)
class PreparedTrace:
    """A trace as tokens with labels, split into windows.

    Attributes:
        rendered: Its text.
        tokens: All its tokens.
        labels: ``(n,)``, int8; the region's index, -1 where unlabelled.
        windows: The windows, which hold each token once.
        report: What the split did.
        record: What the store's manifest says of the trace.
    """

    rendered: RenderedConversation
    tokens: TokenizedConversation
    labels: NDArray[np.int8]
    windows: tuple[TokenWindow, ...]
    report: WindowReport
    record: TraceRecord

    def window(self, window: TokenWindow, hidden_states: NDArray[np.float16]) -> ExtractedWindow:
        """Return a window's row of the store.

        Args:
            window: One of `windows`.
            hidden_states: ``(window.num_tokens, hidden_size)``.
        """
        rows = slice(window.start, window.end)
        tokens = self.tokens
        return ExtractedWindow(
            hidden_states=hidden_states,
            input_ids=tokens.input_ids[rows].astype(np.int32),
            labels=self.labels[rows],
            message_index=tokens.message_index[rows],
            position=tokens.position[rows],
            position_in_message=tokens.position_in_message[rows],
            role=tokens.role[rows],
        )


def prepare_trace(trace: Trace, tokenizer: Any, max_tokens: int) -> PreparedTrace:
    """Render, tokenize, label and split a trace.

    Args:
        trace: The trace.
        tokenizer: The LLM's tokenizer.
        max_tokens: The most tokens in a window.

    Raises:
        ModelError: The tokenizer gives no character offsets.
    """
    rendered = render([message.to_openai() for message in trace.messages], tokenizer)
    tokens = tokenize(rendered, tokenizer)
    windows, report = split_into_windows(tokens.message_index, max_tokens)
    record = TraceRecord(
        id=trace.id,
        source=trace.source,
        task_id=trace.task_id,
        digest=trace_digest(trace),
        num_tokens=report.num_tokens,
        num_windows=report.num_windows,
        cut_messages=report.cut_messages,
        is_neutral=rendered.is_neutral,
    )
    labels = align(trace.spans, rendered, tokens)
    return PreparedTrace(rendered, tokens, labels, windows, report, record)
