"""The result of one policy with one budget on one trace."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from memdecay.classifier.regions import REGION_LABELS
from memdecay.runtime.bench.quality.measures import kept_benefit


@dataclass(frozen=True, slots=True)
class RecalledSpan:
    """How well a span was recalled; the values are in nats a token.

    Attributes:
        region: Its region.
        age: Its age, see `memdecay.runtime.bench.quality.probes.AGES`.
        num_tokens: Tokens that had to be recalled.
        nll: How surprising they were with the cache under test.
        full_nll: How surprising they were with a full cache.
        bare_nll: How surprising they were without any of the trace.
    """

    region: str
    age: str
    num_tokens: int
    nll: float
    full_nll: float
    bare_nll: float


@dataclass(frozen=True, slots=True)
class QualityRow:
    """One policy, one budget, one trace. What there was nothing of is NaN, and null in files.

    Attributes:
        trace: The trace's id.
        source: Where the trace comes from.
        policy: The policy as it was asked for.
        budget: Share of the full cache's bytes.
        kv_bytes: Most bytes of keys and values at one time, as the cache reports them.
        full_bytes: Bytes of the full cache's keys and values at the trace's end.
        num_tokens: Tokens of the trace.
        tokens_kept: Tokens that were kept at its end.
        kl: Mean divergence from the full cache's predictions on assistant tokens, nats a token.
        kl_tool: The same on arguments of tool calls.
        kl_copied: The same on spans copied from far back.
        delta_nll: Mean loss of likelihood of the recorded tokens, nats a token.
        delta_nll_tool: The same on arguments of tool calls.
        delta_nll_copied: The same on spans copied from far back.
        top1: Share of predictions with the full cache's likeliest token.
        top1_tool: The same on arguments of tool calls.
        top1_copied: The same on spans copied from far back.
        num_scored: Compared predictions.
        num_tool: Those on arguments.
        num_copied: Those on copied spans.
        continuation_tokens: Length of the full cache's greedy continuation of the last turn.
        continuation_equal: Its tokens from the beginning that the policy wrote too.
        is_continuation_equal: Whether the policy wrote the same continuation to its end.
        seconds: Time that the replay took.
        recall: The spans that were asked for.
    """

    trace: str
    source: str
    policy: str
    budget: float
    kv_bytes: int
    full_bytes: int
    num_tokens: int
    tokens_kept: int
    kl: float
    kl_tool: float
    kl_copied: float
    delta_nll: float
    delta_nll_tool: float
    delta_nll_copied: float
    top1: float
    top1_tool: float
    top1_copied: float
    num_scored: int
    num_tool: int
    num_copied: int
    continuation_tokens: int
    continuation_equal: int
    is_continuation_equal: bool
    seconds: float
    recall: tuple[RecalledSpan, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the row as plain data, with the retention of each region added."""
        data = {key: _finite(value) for key, value in asdict(self).items()}
        data["recall"] = [asdict(span) for span in self.recall]
        data["retention"] = {
            label: _finite(retention(span for span in self.recall if span.region == label))
            for label in REGION_LABELS
        }
        return data

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> QualityRow:
        """Read `to_dict`'s shape.

        Raises:
            KeyError: A value is missing.
            TypeError: A value is of another kind.
        """
        values: dict[str, Any] = {
            field.name: math.nan if data[field.name] is None else data[field.name]
            for field in fields(cls)
        }
        values["recall"] = tuple(RecalledSpan(**span) for span in data["recall"])
        return cls(**values)


def retention(spans: Iterable[RecalledSpan]) -> float:
    """Return which share of the full cache's benefit some spans keep together.

    Sums over all tokens are compared, so that a span on which context hardly helps hardly counts.

    Returns:
        As `kept_benefit`; NaN for no spans.
    """
    spans = tuple(spans)
    nll, full, bare = (
        sum(span.num_tokens * getattr(span, name) for span in spans)
        for name in ("nll", "full_nll", "bare_nll")
    )
    return kept_benefit(nll, full, bare)


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
