"""Everything that a calibration report says, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from memdecay.training.calibration.coverage import Coverage
from memdecay.training.calibration.figures import Figures
from memdecay.training.calibration.slices import Slice
from memdecay.training.calibration.spans import SpanScore
from memdecay.training.calibration.verdict.drift import Drift, TraceRows
from memdecay.training.calibration.verdict.gaps import GapTest
from memdecay.training.calibration.verdict.verdict import Verdict
from memdecay.training.calibration.worst import WorstSpan
from memdecay.training.evaluation import Evaluation


class Part(StrEnum):
    """Which of the traces a report measures."""

    ALL = "all"
    """All, none of which the classifier was trained on."""

    UNSEEN = "unseen"
    """Those that it was not trained on; it was on the others."""

    SEEN = "seen"
    """All, and it was trained on every one."""


@dataclass(frozen=True, slots=True)
class ClassifierFacts:
    """Which classifier was measured.

    Attributes:
        name: The names of its folder and of the one around it.
        llm: The LLM that it reads.
        digest: SHA-256 of its graph.
        temperature: What its logits are divided by.
        best_temperature: What would fit the measured tokens best.
        num_trained_on: Traces that it was trained on.
    """

    name: str
    llm: str
    digest: str
    temperature: float
    best_temperature: float
    num_trained_on: int


@dataclass(frozen=True, slots=True)
class BaselineFacts:
    """Which earlier report was compared with.

    Attributes:
        created: When it was made.
        classifier: Name of the classifier that it measured.
        is_same_classifier: Whether that is the one of this report.
    """

    created: str
    classifier: str
    is_same_classifier: bool


@dataclass(frozen=True, slots=True)
class CalibrationReport:
    """A classifier measured on labelled traces.

    Attributes:
        created: When, in ISO 8601 and UTC.
        classifier: Which classifier.
        evaluation: The figures of `memdecay evaluate`, over all traces given.
        part: Which traces everything below is about.
        parts: The same figures for the seen and the unseen traces alone, where there are both.
        figures: Figures with intervals.
        spans: Scores of whole spans, by region name and under ``all``.
        coverage: What abstaining brings.
        sources: Figures by source.
        positions: Figures by the place in the trace.
        worst: The spans on which the classifier is most wrong.
        gaps: Tests of confidence against accuracy.
        drift: The comparison with an earlier report; None without one.
        baseline: That report; None without one.
        verdict: What all of it amounts to.
        rows: What each measured trace adds, for the comparison with a later report.
        trace_sources: The source of each of those traces.
    """

    created: str
    classifier: ClassifierFacts
    evaluation: Evaluation
    part: Part
    parts: Mapping[Part, Evaluation]
    figures: Figures
    spans: Mapping[str, SpanScore]
    coverage: Coverage
    sources: tuple[Slice, ...]
    positions: tuple[Slice, ...]
    worst: tuple[WorstSpan, ...]
    gaps: tuple[GapTest, ...]
    drift: Drift | None
    baseline: BaselineFacts | None
    verdict: Verdict
    rows: TraceRows
    trace_sources: tuple[str, ...]

    @property
    def num_traces(self) -> int:
        """Traces that were measured."""
        return len(self.rows.digests)

    @property
    def num_tokens(self) -> int:
        """Labelled tokens that were measured."""
        return int(self.figures.sums.num_tokens.sum())
