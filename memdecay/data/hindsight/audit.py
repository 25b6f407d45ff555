"""Labels that attention or the rules contradict: suspects of error, and late decisions."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any

import numpy as np

from memdecay.classifier.regions import Region
from memdecay.data.hindsight.late_decisions import PASSING, late_decisions
from memdecay.data.hindsight.measured import MeasuredTrace
from memdecay.data.hindsight.second_opinion import Opinion, doubted_by_rules
from memdecay.data.hindsight.segments import VisitedSegment, visited_segments

_LASTING = (Region.KEY_DECISION, Region.TOOL_SUMMARY)


class Doubt(Enum):
    """What attention says against a label."""

    LATE_DECISION = "late_decision"
    """Labelled as passing, yet later decisions keep looking at it."""

    VISITED = "visited"
    """Labelled as passing, yet looked back at far more than usual."""

    RULES = "rules"
    """The rules see another region."""

    UNVISITED = "unvisited"
    """Labelled as lasting, yet hardly looked back at."""


TRUST = (Doubt.RULES, Doubt.UNVISITED, Doubt.LATE_DECISION, Doubt.VISITED)
"""The doubts, those that proved right most often on planted errors first."""


@dataclass(frozen=True, slots=True)
class AuditConfig:
    """When a label is doubted.

    Attributes:
        min_age: The least age in tokens of attention that counts.
        tail: Share of all segments at either end whose visits are out of the ordinary, above 0 and
            at most a half.
        min_factor: How many times more or less than usual the visits must be at least, above 1.
        rules_share: Share of all labelled spans that the rules may doubt at most, 0 to 1.
        min_decision_tokens: The least tokens of what may be a late decision; a heading is none.
    """

    min_age: int = 64
    tail: float = 0.05
    min_factor: float = 1.5
    rules_share: float = 0.05
    min_decision_tokens: int = 8

    def __post_init__(self) -> None:
        """Check the ranges.

        Raises:
            ValueError: A value is out of its range.
        """
        if self.min_age < 1:
            raise ValueError(f"min_age must be 1 or more, got {self.min_age}")
        if not 0 < self.tail <= 0.5:
            raise ValueError(f"tail must be above 0 and at most 0.5, got {self.tail}")
        if not (math.isfinite(self.min_factor) and self.min_factor > 1):
            raise ValueError(f"min_factor must be above 1, got {self.min_factor}")
        if not 0 <= self.rules_share <= 1:
            raise ValueError(f"rules_share must be from 0 to 1, got {self.rules_share}")
        if self.min_decision_tokens < 1:
            raise ValueError(
                f"min_decision_tokens must be 1 or more, got {self.min_decision_tokens}"
            )


@dataclass(frozen=True, slots=True)
class Suspect:
    """A stretch of text whose label is contradicted.

    Attributes:
        trace_id: Its trace.
        source: The trace's source.
        message: Index of its message.
        role: That message's role.
        start: First character in the message's content.
        end: Its end.
        region: Its label.
        doubt: What speaks against it.
        visits: Attention over what is usual at its ages; None where the rules contradict.
        decision_visits: The same from later key decisions alone; None where too few followed.
        text: The stretch itself.
        rules_region: The region that the rules see; None where attention contradicts.
        rules_belief: The rules' belief in the label, above 0 and at most 1.
    """

    trace_id: str
    source: str
    message: int
    role: str
    start: int
    end: int
    region: Region
    doubt: Doubt
    visits: float | None
    decision_visits: float | None
    text: str
    rules_region: Region | None = None
    rules_belief: float | None = None

    @property
    def strength(self) -> float:
        """How far from usual the visits are, in doublings, or the rules' surprise in bits."""
        if self.rules_belief is not None:
            return -math.log2(self.rules_belief)
        visits = self.visits
        if self.doubt is Doubt.LATE_DECISION and self.decision_visits is not None:
            visits = self.decision_visits
        return 0.0 if visits is None else abs(math.log2(visits))

    def to_dict(self) -> dict[str, Any]:
        """Return the suspect as plain data for JSON."""
        seen = self.rules_region
        names = {
            "region": self.region.label,
            "doubt": self.doubt.value,
            "rules_region": None if seen is None else seen.label,
        }
        return asdict(self) | names | {"strength": round(self.strength, 3)}


@dataclass(frozen=True, slots=True)
class Audit:
    """The outcome over some traces.

    Attributes:
        num_traces: Traces read.
        num_segments: Segments judged, by region label.
        median_visits: Median visits of the judged segments, by region label.
        suspects: The doubted labels in the order of `TRUST`, the strongest first.
    """

    num_traces: int
    num_segments: dict[str, int]
    median_visits: dict[str, float]
    suspects: tuple[Suspect, ...]


def audit_labels(traces: Iterable[MeasuredTrace], config: AuditConfig | None = None) -> Audit:
    """Find labels that later attention or the rules contradict.

    A segment is doubted if its visits lie in the outer tail of all segments and are some times
    more or less than usual: at the upper end where its label is a passing one (recent_dialogue,
    ordinary_context), at the lower end where it is a lasting one (key_decision, tool_summary).
    Standing instructions are never doubted so: models obey them without looking back at them.

    Late decisions are found as `late_decisions` tells.

    The rules doubt spans whose label they believe in least, see `doubted_by_rules`.

    Args:
        traces: Labelled traces with their attention.
        config: When to doubt.
    """
    config = config or AuditConfig()
    found = [(measured, visited_segments(measured, config.min_age)) for measured in traces]
    segments = [segment for _, own in found for segment in own]
    bounds = _bounds(segments, config)
    late = late_decisions(found, config.tail, config.min_decision_tokens)
    suspects = []
    for index, (measured, own) in enumerate(found):
        for segment in own:
            is_late = (index, segment) in late
            doubt = Doubt.LATE_DECISION if is_late else _doubt(segment, bounds)
            suspects += [] if doubt is None else [_suspect(measured, segment, doubt)]
    labelled = [measured.aligned.trace for measured, _ in found]
    suspects += map(_rule_suspect, doubted_by_rules(labelled, config.rules_share))
    suspects.sort(key=lambda suspect: (TRUST.index(suspect.doubt), -suspect.strength))
    visits = {
        region: [segment.visits for segment in segments if segment.region is region]
        for region in Region
    }
    return Audit(
        num_traces=len(found),
        num_segments={region.label: len(visits[region]) for region in Region},
        median_visits={
            region.label: float(np.median(visits[region])) for region in Region if visits[region]
        },
        suspects=tuple(suspects),
    )


@dataclass(frozen=True, slots=True)
class _Bounds:
    low: float
    high: float


def _bounds(segments: Sequence[VisitedSegment], config: AuditConfig) -> _Bounds:
    visits = np.array([segment.visits for segment in segments])
    if not visits.size:
        return _Bounds(0.0, math.inf)
    low, high = np.quantile(visits, (config.tail, 1 - config.tail))
    return _Bounds(min(low, 1 / config.min_factor), max(high, config.min_factor))


def _doubt(segment: VisitedSegment, bounds: _Bounds) -> Doubt | None:
    if segment.region in _LASTING:
        return Doubt.UNVISITED if segment.visits <= bounds.low else None
    is_passing = segment.region in PASSING
    return Doubt.VISITED if is_passing and segment.visits >= bounds.high else None


def _suspect(measured: MeasuredTrace, segment: VisitedSegment, doubt: Doubt) -> Suspect:
    trace = measured.aligned.trace
    message = trace.messages[segment.message]
    return Suspect(
        trace_id=trace.id,
        source=trace.source,
        message=segment.message,
        role=message.role,
        start=segment.start,
        end=segment.end,
        region=segment.region,
        doubt=doubt,
        visits=segment.visits,
        decision_visits=segment.decision_visits,
        text=message.content[segment.start : segment.end],
    )


def _rule_suspect(opinion: Opinion) -> Suspect:
    trace, span = opinion.trace, opinion.span
    message = trace.messages[span.message]
    return Suspect(
        trace_id=trace.id,
        source=trace.source,
        message=span.message,
        role=message.role,
        start=span.start,
        end=span.end,
        region=span.region,
        doubt=Doubt.RULES,
        visits=None,
        decision_visits=None,
        text=message.content[span.start : span.end],
        rules_region=opinion.region,
        rules_belief=opinion.belief,
    )
