"""Weak labels: the rules' outcome on a trace, with every rule's votes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from memdecay.classifier.rules import DEFAULT_RULES, Rule, RuleVotes, rule_votes
from memdecay.data.labelling.arrays import spans_from_labels
from memdecay.data.trace import Span, Trace


@dataclass(frozen=True, slots=True)
class LabelledResult:
    """What the rules say about a trace.

    Attributes:
        trace: The trace, as it came.
        spans: Region labels that cover every character of every message.
        votes: Each rule's votes on each segment.
    """

    trace: Trace
    spans: tuple[Span, ...]
    votes: RuleVotes

    @property
    def labelled_trace(self) -> Trace:
        """The trace with the rules' spans in place of its own."""
        return replace(self.trace, spans=self.spans)


def label_trace(
    trace: Trace, rules: Sequence[Rule] = DEFAULT_RULES, *, lookahead: bool = True
) -> LabelledResult:
    """Label a trace by rules.

    Args:
        trace: The trace; spans that it has are not looked at.
        rules: The rules to ask.
        lookahead: Whether later messages may bear on earlier ones.

    Raises:
        ValueError: There are no rules.
    """
    messages = [message.to_openai() for message in trace.messages]
    votes = rule_votes(messages, rules=rules, lookahead=lookahead)
    return LabelledResult(trace, spans_from_labels(votes.labels()), votes)


def label_traces(
    traces: Iterable[Trace], rules: Sequence[Rule] = DEFAULT_RULES, *, lookahead: bool = True
) -> Iterator[LabelledResult]:
    """Label traces by rules, one at a time; see `label_trace`."""
    return (label_trace(trace, rules, lookahead=lookahead) for trace in traces)
