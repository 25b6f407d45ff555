"""Fit the regions in stages, table before weights, and keep what other traces say is worth it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from memdecay.classifier.region_settings import RegionSettings
from memdecay.classifier.regions import RegionTable
from memdecay.runtime.tuning.evidence import Evidence
from memdecay.runtime.tuning.parameters import without_regions
from memdecay.runtime.tuning.stage import (
    Judge,
    MomentResult,
    StageFit,
    TunedMoment,
    held_out_gain,
    is_gain,
)
from memdecay.runtime.tuning.table_fit import TableConfig, fit_table, never_fading
from memdecay.runtime.tuning.weights_fit import WeightsConfig, fit_weights, most_judgements

OnProgress = Callable[[int, int], None]


class Stage(StrEnum):
    """What is fitted, in this order."""

    TABLE = "table"
    WEIGHTS = "weights"


class Outcome(StrEnum):
    """What the chosen settings are.

    Attributes:
        FITTED: Those of the last stage that was kept.
        GIVEN: Those that the fit began with, since no stage was kept.
        NONE: Settings under which regions play no part: the others raise the divergence.
    """

    FITTED = "fitted"
    GIVEN = "given"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class TuneConfig:
    """What is fitted and how.

    Attributes:
        stages: The stages, at least one.
        table: How the table is fitted; the regions that it keeps never fade in the settings that
            the fit begins with either, unless regions play no part there.
        weights: How the weights are searched for.
    """

    stages: frozenset[Stage] = frozenset(Stage)
    table: TableConfig = field(default_factory=TableConfig)
    weights: WeightsConfig = field(default_factory=WeightsConfig)

    def __post_init__(self) -> None:
        """Check the ranges.

        Raises:
            ValueError: There is no stage.
        """
        if not self.stages:
            raise ValueError(f"expected a stage or more of {', '.join(Stage)}, got none")


@dataclass(frozen=True, slots=True)
class Tuned:
    """What a fit in stages found.

    Attributes:
        given: The settings that it began with.
        stages: The stages, in order.
        chosen: The settings to use.
        outcome: What these are.
    """

    given: RegionSettings
    stages: tuple[StageFit, ...]
    chosen: RegionSettings
    outcome: Outcome


def tune_regions(
    judge: Judge,
    evidence: Mapping[str, Evidence],
    moments: Sequence[TunedMoment],
    given: RegionSettings,
    config: TuneConfig,
    on_progress: OnProgress | None = None,
) -> Tuned:
    """Fit table and weights, and keep each only where traces that it has not seen gain by it.

    The table that is judged at a moment is fitted to all other groups, the one that is kept to
    all of them. The weights are searched for on top of it; if it was not kept, on top of the given
    one. While they are searched for and tested, the table is fitted to the groups of the fit alone.

    Args:
        judge: Gives divergences.
        evidence: By key, of all moments; only the table needs it.
        moments: Of two groups or more, some of which only test the weights.
        given: Settings to begin with: what is not fitted, and the table where none is kept.
        config: What to fit.
        on_progress: Called with the divergences that were computed and those in all; the number in
            all is the most there may be.

    Raises:
        ValueError: There are too few groups, or none to fit the weights or to test them.
        TraceError: Too few tokens are ordinary context to fit a table.
    """
    if given != without_regions(given):
        given = replace(given, table=never_fading(given.table, config.table.kept))
    counted = _Counted(judge, _most_judgements(moments, config), on_progress)
    stages: list[StageFit] = []
    chosen = weights_base = given
    if Stage.TABLE in config.stages:
        stages.append(_fit_table_stage(counted, evidence, moments, given, config.table))
        if stages[-1].is_kept:
            chosen = stages[-1].fitted
            seen = [moment for moment in moments if not moment.is_test]
            weights_base = replace(given, table=_table_of(evidence, seen, config.table))
    if Stage.WEIGHTS in config.stages:
        stages.append(fit_weights(counted, moments, weights_base, config.weights))
        if stages[-1].is_kept:
            chosen = replace(stages[-1].fitted, table=chosen.table)
    counted.finish()
    if any(stage.is_kept for stage in stages):
        return Tuned(given, tuple(stages), chosen, Outcome.FITTED)
    # No stage was kept, so each began with the given settings; the first has the most to say.
    if held_out_gain(stages[0].moments, "kl_before") > 0:
        return Tuned(given, tuple(stages), given, Outcome.GIVEN)
    return Tuned(given, tuple(stages), without_regions(given), Outcome.NONE)


def _fit_table_stage(
    judge: Judge,
    evidence: Mapping[str, Evidence],
    moments: Sequence[TunedMoment],
    given: RegionSettings,
    config: TableConfig,
) -> StageFit:
    groups = sorted({moment.group for moment in moments})
    if len(groups) < 2:
        raise ValueError(f"expected moments of two groups or more, got {len(groups)}")
    # The same question is not asked twice where the given settings are no regions.
    before = None if given == without_regions(given) else given
    results = []
    for group in groups:
        others = [moment for moment in moments if moment.group != group]
        settings = replace(given, table=_table_of(evidence, others, config))
        results += [
            MomentResult(
                moment.key,
                moment.trace,
                True,
                judge(moment.key, None),
                judge(moment.key, before),
                judge(moment.key, settings),
            )
            for moment in moments
            if moment.group == group
        ]
    fitted = replace(given, table=_table_of(evidence, moments, config))
    return StageFit("table", fitted, tuple(results), is_gain(tuple(results)))


def _table_of(
    evidence: Mapping[str, Evidence], moments: Sequence[TunedMoment], config: TableConfig
) -> RegionTable:
    return fit_table([evidence[moment.key] for moment in moments], config)


def _most_judgements(moments: Sequence[TunedMoment], config: TuneConfig) -> int:
    most = 0
    if Stage.TABLE in config.stages:
        most += 3 * len(moments)
    if Stage.WEIGHTS in config.stages:
        most += most_judgements(moments, config.weights)
    return most


class _Counted:
    """Asks the judge once for each question and reports how many were asked."""

    def __init__(self, judge: Judge, total: int, on_progress: OnProgress | None) -> None:
        self._judge = judge
        self._total = total
        self._on_progress = on_progress
        self._known: dict[tuple[str, RegionSettings | None], float] = {}

    def __call__(self, key: str, settings: RegionSettings | None) -> float:
        question = key, settings
        if question not in self._known:
            self._known[question] = self._judge(key, settings)
            if self._on_progress:
                self._on_progress(len(self._known), self._total)
        return self._known[question]

    def finish(self) -> None:
        if self._on_progress:
            self._on_progress(self._total, self._total)
