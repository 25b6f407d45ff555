"""The spans on which a classifier is most wrong, in their text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memdecay.classifier.regions import REGION_LABELS, Region
from memdecay.classifier.rendering import render
from memdecay.classifier.tokenization import tokenize
from memdecay.data.trace import Trace
from memdecay.training.calibration.spans import runs
from memdecay.training.calibration.tokens import TaggedTokens, logits_of
from memdecay.training.calibration.visible import shortened, visible

_MAX_PER_TRACE = 2
_MAX_CHARACTERS = 420
_MAX_ID_CHARACTERS = 80
_CONTEXT_CHARACTERS = 60


@dataclass(frozen=True, slots=True)
class WrongSpan:
    """Neighbouring tokens of one message with one label and one wrong tag.

    Attributes:
        trace: Index of the trace.
        message: Index of the message.
        first: Position of its first token in the trace.
        last: Position of its last.
        label: What it is.
        tag: What the classifier takes it for.
        num_tokens: Labelled tokens in it.
        confidence: Mean probability of the wrong tag.
        loss: Negative log-likelihood of the label, summed over the tokens, nats.
    """

    trace: int
    message: int
    first: int
    last: int
    label: Region
    tag: Region
    num_tokens: int
    confidence: float
    loss: float


@dataclass(frozen=True, slots=True)
class SpanText:
    """The text of a span, safe to show, with what stands around it; all cut to a length."""

    before: str
    text: str
    after: str


@dataclass(frozen=True, slots=True)
class WorstSpan:
    """A wrong span with its trace.

    Attributes:
        span: The span.
        trace_id: Id of its trace, safe to show.
        source: Source of its trace, safe to show.
        role: Role of its message, safe to show.
        text: Its text; None where texts are left out.
    """

    span: WrongSpan
    trace_id: str
    source: str
    role: str
    text: SpanText | None

    def to_dict(self) -> dict[str, Any]:
        """Return the span as plain data for JSON."""
        span = self.span
        return {
            "trace": self.trace_id,
            "source": self.source,
            "message": span.message,
            "role": self.role,
            "first_token": span.first,
            "last_token": span.last,
            "tokens": span.num_tokens,
            "label": span.label.label,
            "tagged": span.tag.label,
            "confidence": round(span.confidence, 4),
            "loss": round(span.loss, 2),
            "text": None if self.text is None else self.text.text,
        }


def wrong_spans(tokens: TaggedTokens, num_spans: int) -> tuple[WrongSpan, ...]:
    """Return the wrong spans that cost the most likelihood, at most two of a trace."""
    is_wrong = tokens.predicted != tokens.labels
    firsts = runs(tokens, tokens.labels * len(REGION_LABELS) + tokens.predicted)
    ends = np.append(firsts[1:], len(tokens))
    label_logits = logits_of(tokens.region_probs)[np.arange(len(tokens)), tokens.labels]
    loss = _sum_runs(-label_logits, firsts)
    confidence = _sum_runs(tokens.confidence, firsts) / (ends - firsts)
    per_trace: Counter[int] = Counter()
    found: list[WrongSpan] = []
    for run in np.argsort(-loss, kind="stable").tolist():
        first, end = int(firsts[run]), int(ends[run])
        trace = int(tokens.trace[first])
        if len(found) == num_spans or not is_wrong[first] or per_trace[trace] == _MAX_PER_TRACE:
            continue
        per_trace[trace] += 1
        found.append(
            WrongSpan(
                trace=trace,
                message=int(tokens.message[first]),
                first=int(tokens.position[first]),
                last=int(tokens.position[end - 1]),
                label=Region(int(tokens.labels[first])),
                tag=Region(int(tokens.predicted[first])),
                num_tokens=end - first,
                confidence=float(confidence[run]),
                loss=float(loss[run]),
            )
        )
    return tuple(found)


def with_texts(
    spans: Sequence[WrongSpan], traces: Sequence[Trace], tokenizer: Any, *, show_text: bool
) -> tuple[WorstSpan, ...]:
    """Look up the texts of wrong spans.

    Args:
        spans: The spans.
        traces: The traces that they lie in.
        tokenizer: The tokenizer that the tokens were made with.
        show_text: Whether the texts may be shown.
    """
    texts: dict[WrongSpan, SpanText] = {}
    if show_text:
        for trace in {span.trace for span in spans}:
            texts |= _texts([s for s in spans if s.trace == trace], traces[trace], tokenizer)
    return tuple(
        WorstSpan(
            span=span,
            trace_id=shortened(visible(traces[span.trace].id), _MAX_ID_CHARACTERS),
            source=shortened(visible(traces[span.trace].source), _MAX_ID_CHARACTERS),
            role=_role(traces[span.trace], span.message),
            text=texts.get(span),
        )
        for span in spans
    )


def _role(trace: Trace, message: int) -> str:
    if not 0 <= message < len(trace.messages):
        return ""
    return shortened(visible(trace.messages[message].role), _MAX_ID_CHARACTERS)


def _texts(
    spans: Sequence[WrongSpan], trace: Trace, tokenizer: Any
) -> Mapping[WrongSpan, SpanText]:
    rendered = render([message.to_openai() for message in trace.messages], tokenizer)
    offsets = tokenize(rendered, tokenizer).offsets
    texts = {}
    for span in spans:
        start, end = int(offsets[span.first, 0]), int(offsets[span.last, 1])
        message = rendered.messages[span.message]
        low, high = max(message.start, start - _CONTEXT_CHARACTERS), end + _CONTEXT_CHARACTERS
        texts[span] = SpanText(
            before=visible(rendered.text[low:start]),
            text=visible(shortened(rendered.text[start:end], _MAX_CHARACTERS)),
            after=visible(rendered.text[end : min(message.end, high)]),
        )
    return texts


def _sum_runs(values: NDArray[np.float32], firsts: NDArray[np.int64]) -> NDArray[np.float64]:
    sums: NDArray[np.float64] = np.add.reduceat(values.astype(np.float64), firsts)
    return sums
