"""Which sources are held out together, and on what is trained meanwhile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from memdecay.classifier.errors import TraceError
from memdecay.data.trace import Trace
from memdecay.training.config import SplitConfig
from memdecay.training.splits import Split, draw_tasks, task_groups

UNNAMED = "unnamed"
"""The source of traces that name none."""

_MIN_SOURCES = 2
_MIN_TASKS = 2


@dataclass(frozen=True, slots=True)
class Fold:
    """Sources that one model never sees.

    Attributes:
        sources: Their names.
        split: Their traces as ``test``; the other sources' as ``train`` and ``validation``.
    """

    sources: tuple[str, ...]
    split: Split

    @property
    def name(self) -> str:
        """The sources in one text."""
        return ", ".join(self.sources)


def source_of(trace: Trace) -> str:
    """Return the name under which a trace's source is held out."""
    return trace.source or UNNAMED


def source_folds(
    traces: Sequence[Trace], config: SplitConfig, num_folds: int | None = None
) -> list[Fold]:
    """Hold out every source once, and draw validation tasks from the others.

    A trace whose task also occurs in the held-out sources is left out of that fold altogether.

    Args:
        traces: Labelled traces of at least two sources.
        config: Share of the validation tasks, and the seed of their draw.
        num_folds: How many folds to pack the sources into, evenly by characters; None for one fold
            a source.

    Raises:
        TraceError: There are fewer than two sources, or the sources beside a fold hold fewer than
            two tasks to train and stop on.
        ValueError: ``num_folds`` is below two or above the number of sources.
    """
    sizes: dict[str, int] = {}
    for trace in traces:
        sizes[source_of(trace)] = sizes.get(source_of(trace), 0) + trace.num_characters
    if len(sizes) < _MIN_SOURCES:
        raise TraceError(
            f"the traces name {len(sizes)} source, expected at least {_MIN_SOURCES} to hold one "
            "out; give traces of more sources, or use `memdecay train`"
        )
    groups = task_groups(traces)
    packs: list[tuple[str, ...]] = [(name,) for name in sizes]
    if num_folds is not None:
        packs = _pack(sizes, num_folds)
    return [_fold(pack, traces, groups, config) for pack in packs]


def _pack(sizes: Mapping[str, int], num_folds: int) -> list[tuple[str, ...]]:
    """Put each source, the largest first, into the fold that is the smallest so far."""
    if not _MIN_SOURCES <= num_folds <= len(sizes):
        raise ValueError(
            f"folds must lie in {_MIN_SOURCES} to the {len(sizes)} sources, got {num_folds}"
        )
    packs: list[list[str]] = [[] for _ in range(num_folds)]
    for name in sorted(sizes, key=lambda name: (-sizes[name], name)):
        min(packs, key=lambda pack: sum(sizes[member] for member in pack)).append(name)
    return [tuple(pack) for pack in packs]


def _fold(
    sources: tuple[str, ...], traces: Sequence[Trace], groups: Sequence[int], config: SplitConfig
) -> Fold:
    test = [index for index, trace in enumerate(traces) if source_of(trace) in sources]
    tested_tasks = {groups[index] for index in test}
    others = [index for index in range(len(traces)) if groups[index] not in tested_tasks]
    if len({groups[index] for index in others}) < _MIN_TASKS:
        raise TraceError(
            f"without {', '.join(sources)} the traces hold fewer than {_MIN_TASKS} tasks, expected "
            "one to train on and one to stop on; add labelled traces of other sources"
        )
    train, validation = draw_tasks(others, groups, config.validation_share, config.seed)
    return Fold(sources, Split(tuple(train), tuple(validation), tuple(test)))
