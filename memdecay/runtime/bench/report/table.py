"""The rows of a benchmark, looked at by policy and budget."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from memdecay.runtime.bench.caches.variants import Variant
from memdecay.runtime.bench.quality.row import QualityRow
from memdecay.runtime.bench.report.statistics import (
    Interval,
    IsoQuality,
    geometric_mean,
    iso_quality,
    ratio_interval,
    retention_interval,
)


class ResultTable:
    """Rows by policy and budget; traces stand in one order everywhere.

    Args:
        rows: All rows.
        variants: The policies, in the order in which they are shown.
    """

    def __init__(self, rows: Sequence[QualityRow], variants: Sequence[Variant]) -> None:
        self._rows = {(row.policy, row.budget, row.trace): row for row in rows}
        self.variants = tuple(variants)
        self.traces = tuple(dict.fromkeys(row.trace for row in rows))
        self.budgets = tuple(sorted({row.budget for row in rows if row.policy != "full"}))
        self.sources = tuple(sorted({row.source for row in rows}))

    @property
    def evicting(self) -> tuple[str, ...]:
        """Names of the policies that have a budget."""
        return tuple(variant.name for variant in self.variants if variant.policy != "full")

    def rows(self, policy: str, budget: float) -> list[QualityRow]:
        """Return a policy's rows, one a trace."""
        keys = ((policy, budget, trace) for trace in self.traces)
        return [self._rows[key] for key in keys if key in self._rows]

    def values(self, policy: str, budget: float, name: str) -> list[float]:
        """Return a value of every trace, NaN where there is none."""
        keys = ((policy, budget, trace) for trace in self.traces)
        return [
            float(getattr(self._rows[key], name)) if key in self._rows else math.nan for key in keys
        ]

    def best_baseline(self, budget: float, name: str = "kl") -> str | None:
        """Return the baseline, which only evicts, with the least divergence.

        It is the one with the lowest geometric mean over all traces.
        """
        means = {
            variant.name: geometric_mean(self.values(variant.name, budget, name))
            for variant in self.variants
            if variant.is_baseline
        }
        known = {policy: mean for policy, mean in means.items() if math.isfinite(mean)}
        return min(known, key=lambda policy: known[policy]) if known else None

    def ratio(self, policy: str, other: str, budget: float, name: str = "kl") -> Interval:
        """Return a policy's value divided by another's, the geometric mean over traces."""
        return ratio_interval(self.values(policy, budget, name), self.values(other, budget, name))

    def retention(
        self, policy: str, budget: float, region: str | None = None, age: str | None = None
    ) -> Interval:
        """Return the share of the full cache's benefit that a policy keeps in recalling spans."""
        return retention_interval(self._recall_sums(policy, budget, region, age))

    def memory(self, policy: str, kl: float) -> IsoQuality | None:
        """Return the memory that a policy needs for a mean divergence; None without rows."""
        curve = [
            (
                np.mean([row.kv_bytes / row.full_bytes for row in rows]),
                np.mean([r.kl for r in rows]),
            )
            for budget in self.budgets
            if (rows := self.rows(policy, budget))
        ]
        if not curve:
            return None
        shares, divergences = zip(*curve, strict=True)
        return iso_quality([float(s) for s in shares], [float(d) for d in divergences], kl)

    def _recall_sums(
        self, policy: str, budget: float, region: str | None, age: str | None
    ) -> NDArray[np.float64]:
        sums = []
        for row in self.rows(policy, budget):
            spans = [
                span
                for span in row.recall
                if region in (None, span.region) and age in (None, span.age)
            ]
            if spans:
                weights = np.array([span.num_tokens for span in spans])
                nlls = np.array([(s.nll, s.full_nll, s.bare_nll) for s in spans])
                sums.append(weights @ nlls)
        return np.array(sums).reshape(-1, 3)
