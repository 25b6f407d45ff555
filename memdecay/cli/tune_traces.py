"""The traces of a fit of regions: which are long enough, and which are held out together."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from memdecay.classifier.errors import ConfigError, TraceError
from memdecay.classifier.llm import LanguageModel
from memdecay.cli.quality_traces import quality_trace, select_traces
from memdecay.data.trace import Trace
from memdecay.runtime.bench.quality.case import QualityCase, prepare_case
from memdecay.runtime.bench.quality.config import QualityConfig
from memdecay.runtime.tuning.stage import TunedMoment
from memdecay.training.splits import draw_tasks, task_groups

_LEAST_SOURCES = 3


def long_cases(
    paths: Sequence[Path],
    select: Path | None,
    min_tokens: int,
    max_tokens: int,
    limit: int | None,
    llm: LanguageModel,
) -> list[tuple[Trace, QualityCase]]:
    """Prepare the traces that are long enough, in the order of the files, each id once.

    Raises:
        TraceError: A file can't be read, or lacks a trace that is named.
    """
    found: dict[str, tuple[Trace, QualityCase]] = {}
    for trace in select_traces(paths, select):
        # Tokenizing takes longer than counting characters, of which a token has at least one.
        if trace.id in found or trace.num_characters < min_tokens:
            continue
        case = prepare_case(quality_trace(trace), llm.tokenizer, QualityConfig())
        if min_tokens < case.num_tokens <= max_tokens:
            found[trace.id] = trace, case
        if len(found) == limit:
            break
    return list(found.values())


def check_labels(traces: Sequence[Trace]) -> None:
    """Refuse traces without labels.

    Raises:
        ConfigError: One has none.
    """
    for trace in traces:
        if not trace.spans:
            raise ConfigError(
                f"--classifier gold takes the regions from labels, but the trace {trace.id!r} has "
                "none; give labelled traces"
            )


def held_out_groups(traces: Sequence[Trace]) -> list[int]:
    """Number what is held out together: sources where there are three or more, else tasks.

    Tasks stay whole: where traces of two sources share one, the sources are held out together.
    """
    tasks = task_groups(traces)
    if len({trace.source for trace in traces}) < _LEAST_SOURCES:
        return tasks
    first_of: dict[object, int] = {}
    groups = list(range(len(traces)))
    for index, trace in enumerate(traces):
        for key in (trace.source or "", tasks[index]):
            known = groups[first_of.setdefault(key, index)]
            groups = [known if group == groups[index] else group for group in groups]
    return groups if len(set(groups)) > 1 else tasks


def split_moments(
    traces: Sequence[Trace], snapshots: Sequence[tuple[str, str]], test_share: float, seed: int
) -> list[TunedMoment]:
    """Say of each snapshot what it is held out with, and whether it only tests the weights.

    Args:
        traces: Those that were read.
        snapshots: Key and trace of each snapshot.
        test_share: Share of the groups that only test.
        seed: Which.

    Raises:
        TraceError: The snapshots are not of two groups or more.
    """
    with_moments = {trace for _, trace in snapshots}
    usable = [trace for trace in traces if trace.id in with_moments]
    groups = held_out_groups(usable)
    if len(set(groups)) < 2:
        raise TraceError(
            f"expected long traces of 2 tasks or more, to fit and test, got {len(set(groups))}; "
            "give more --traces, or a larger --budget, for which shorter ones are long enough"
        )
    _, test = draw_tasks(list(range(len(usable))), groups, test_share, seed)
    group_of = {trace.id: group for trace, group in zip(usable, groups, strict=True)}
    test_ids = {usable[index].id for index in test}
    return [TunedMoment(key, trace, group_of[trace], trace in test_ids) for key, trace in snapshots]
