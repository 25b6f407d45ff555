"""Eviction regret over several traces, as a section of a report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memdecay.classifier.regions import Region
from memdecay.classifier.regret import EvictionRegret
from memdecay.training.calibration.resampling import Estimate, bootstrap_weights, interval
from memdecay.training.calibration.section import Section, Table

REGRET_KEY = "regret"
_NUM_RESAMPLES = 1000


@dataclass(frozen=True, slots=True)
class RegretContext:
    """Under what the regret was measured.

    Attributes:
        model: The language model's name.
        tagger: What gave the regions.
        policy: The eviction policy.
        budget_tokens: The cache's budget.
        max_tokens: Most tokens of a trace that were replayed.
        num_skipped: Traces without an assistant's text behind the budget.
        num_trained_on: Replayed traces that the tagger was trained on.
    """

    model: str
    tagger: str
    policy: str
    budget_tokens: int
    max_tokens: int
    num_skipped: int = 0
    num_trained_on: int = 0


@dataclass(frozen=True, slots=True)
class ConfusionRegret:
    """What one kind of mistake costs, on the traces where it occurs.

    Attributes:
        gold: The region that is right.
        predicted: The region that the tagger gave.
        num_tokens: Tokens confused so.
        num_traces: Traces replayed with this mistake.
        regret: KL divergence above that of the gold regions, nats a token; below 0 where the
            mistake helps.
    """

    gold: Region
    predicted: Region
    num_tokens: int
    num_traces: int
    regret: Estimate


@dataclass(frozen=True, slots=True)
class RegretReport:
    """Regret over some traces; every prediction counts alike.

    Attributes:
        context: Under what it was measured.
        num_traces: Traces replayed.
        num_positions: Predictions compared.
        accuracy: Share of the gold regions' tokens that the tagger got right.
        kl_gold: KL divergence from the full cache with the gold regions, nats a token.
        kl_tagger: The same with the tagger's regions.
        kl_untagged: The same with none.
        regret: What the tagger's mistakes cost together.
        confusions: What each kind costs alone, the most costly first.
    """

    context: RegretContext
    num_traces: int
    num_positions: int
    accuracy: float
    kl_gold: Estimate
    kl_tagger: Estimate
    kl_untagged: Estimate
    regret: Estimate
    confusions: tuple[ConfusionRegret, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain data for JSON."""
        context = self.context
        return {
            "model": context.model,
            "tagger": context.tagger,
            "policy": context.policy,
            "budget_tokens": context.budget_tokens,
            "max_tokens": context.max_tokens,
            "traces": self.num_traces,
            "traces_skipped": context.num_skipped,
            "trained_on": context.num_trained_on,
            "positions": self.num_positions,
            "accuracy": self.accuracy,
            "kl": {
                "gold": self.kl_gold.to_dict(),
                "tagger": self.kl_tagger.to_dict(),
                "untagged": self.kl_untagged.to_dict(),
            },
            "regret": self.regret.to_dict(),
            "confusions": [
                {
                    "gold": confusion.gold.label,
                    "predicted": confusion.predicted.label,
                    "tokens": confusion.num_tokens,
                    "traces": confusion.num_traces,
                    "regret": confusion.regret.to_dict(),
                }
                for confusion in self.confusions
            ],
        }


def regret_report(
    traces: Sequence[EvictionRegret], context: RegretContext, seed: int = 0
) -> RegretReport:
    """Average the regret of some traces, with intervals by resampling them.

    Args:
        traces: The figures of each trace, at least one.
        context: Under what they were measured.
        seed: Of the resampling.

    Raises:
        ValueError: There are no traces.
    """
    if not traces:
        raise ValueError("expected at least one trace, got none")

    def mean(value: Callable[[EvictionRegret], float | None]) -> Estimate:
        return _mean(traces, value, seed)

    num_tokens = sum(trace.num_tokens for trace in traces)
    num_wrong = sum(trace.num_wrong for trace in traces)
    pairs = {(cost.gold, cost.predicted) for trace in traces for cost in trace.confusions}
    confusions = [_confusion(traces, gold, predicted, seed) for gold, predicted in sorted(pairs)]
    return RegretReport(
        context=context,
        num_traces=len(traces),
        num_positions=sum(trace.num_positions for trace in traces),
        accuracy=1 - num_wrong / max(num_tokens, 1),
        kl_gold=mean(lambda trace: trace.kl_gold),
        kl_tagger=mean(lambda trace: trace.kl_tagger),
        kl_untagged=mean(lambda trace: trace.kl_untagged),
        regret=mean(lambda trace: trace.kl_tagger - trace.kl_gold),
        confusions=tuple(sorted(confusions, key=lambda item: -item.regret.value)),
    )


def regret_section(report: RegretReport) -> Section:
    """Return what the tagger's mistakes cost, together and one by one."""
    context = report.context
    skipped = (
        f" {context.num_skipped} more have no assistant's text behind the budget."
        if context.num_skipped
        else ""
    )
    return Section(
        key=REGRET_KEY,
        title="What wrong regions cost",
        paragraphs=(
            f"{context.model} read {report.num_traces} traces of at most {context.max_tokens:,} "
            f"tokens with a budget of {context.budget_tokens:,} (policy {context.policy}), and "
            f"its predictions at {report.num_positions:,} places were compared with those of a "
            f"full cache.{skipped}",
            f"Mean KL divergence in nats a token: {_shown(report.kl_gold)} with the gold regions, "
            f"{_shown(report.kl_tagger)} with those of {context.tagger} "
            f"({report.accuracy:.0%} of the tokens right), {_shown(report.kl_untagged)} without "
            f"regions. The mistakes cost {_shown(report.regret)}.{_flattery(context)}",
            "The table shows what each kind of mistake costs if it is the only one made. Below "
            "zero it helps. Mistakes add up in part only, as tokens compete for the same room.",
        ),
        table=Table(
            header=("confusion", "tokens", "traces", "KL above gold"),
            rows=tuple(
                (
                    f"{confusion.gold.label} taken for {confusion.predicted.label}",
                    f"{confusion.num_tokens:,}",
                    str(confusion.num_traces),
                    _shown(confusion.regret),
                )
                for confusion in report.confusions
            ),
        ),
        data=report.to_dict(),
    )


def _flattery(context: RegretContext) -> str:
    if not context.num_trained_on:
        return ""
    return (
        f" {context.tagger.capitalize()} was trained on {context.num_trained_on} of these traces: "
        "it errs less there than on others, and the mistakes cost more elsewhere."
    )


def _confusion(
    traces: Sequence[EvictionRegret], gold: Region, predicted: Region, seed: int
) -> ConfusionRegret:
    own = [
        {(cost.gold, cost.predicted): cost for cost in trace.confusions}.get((gold, predicted))
        for trace in traces
    ]
    costs = {id(trace): cost for trace, cost in zip(traces, own, strict=True) if cost is not None}

    def regret(trace: EvictionRegret) -> float | None:
        cost = costs.get(id(trace))
        return None if cost is None else cost.kl - trace.kl_gold

    return ConfusionRegret(
        gold=gold,
        predicted=predicted,
        num_tokens=sum(cost.num_tokens for cost in costs.values()),
        num_traces=len(costs),
        regret=_mean(traces, regret, seed),
    )


def _mean(
    traces: Sequence[EvictionRegret],
    value: Callable[[EvictionRegret], float | None],
    seed: int,
) -> Estimate:
    """Average over the traces that have a value, each weighing as its number of predictions."""
    found = [
        (trace.num_positions, number) for trace in traces if (number := value(trace)) is not None
    ]
    sizes, values = (np.array(column, np.float64) for column in zip(*found, strict=True))
    mean = float(np.average(values, weights=sizes))
    if len(found) < 2:
        return Estimate(mean)
    rng = np.random.default_rng(seed)
    weights = bootstrap_weights(len(found), _NUM_RESAMPLES, rng) * sizes
    replicates: NDArray[np.float64] = weights @ values / weights.sum(axis=1)
    return interval(mean, replicates)


def _shown(estimate: Estimate) -> str:
    # Divergences span orders of magnitude: three digits of each, wherever the point is.
    if estimate.low is None or estimate.high is None:
        return f"{estimate.value:.3g}"
    return f"{estimate.value:.3g} [{estimate.low:.3g}, {estimate.high:.3g}]"
