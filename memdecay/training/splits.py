"""Which traces are trained on and which are held out, by task."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass

from sklearn.model_selection import GroupShuffleSplit

from memdecay.classifier.errors import TraceError
from memdecay.data.trace import Trace
from memdecay.training.config import SplitConfig

# Counters and verdicts by which tools tell the runs of one task or the parts of one run apart:
# task7:trial2, session.json:call3, log.txt:trial4:halted:389.
_RUN_MARK = re.compile(
    r"[:/_-](?:(?:trial|attempt|run|sample|call|gen|chat|prompt|turn)[_-]?\d+"
    r"|correct|incorrect|halted|success|failed)(?=$|[:/_.-])",
    re.IGNORECASE,
)
_OPENING_MESSAGES = 2
_MIN_TASKS = 3


@dataclass(frozen=True, slots=True)
class Split:
    """Indices of traces by what they are for."""

    train: tuple[int, ...]
    validation: tuple[int, ...]
    test: tuple[int, ...]


def task_groups(traces: Sequence[Trace]) -> list[int]:
    """Number the task behind each trace, so that runs of one task get one number.

    Two traces belong together when they name the same ``task_id``, when their ids differ only in
    a counter of trials or calls, or when they open with the same messages.

    Returns:
        One group number per trace, in the traces' order.
    """
    parent = list(range(len(traces)))

    def root(index: int) -> int:
        while parent[index] != index:
            parent[index] = parent[parent[index]]
            index = parent[index]
        return index

    first_with: dict[str, int] = {}
    for index, trace in enumerate(traces):
        for key in _task_keys(trace):
            parent[root(index)] = root(first_with.setdefault(key, index))
    return [root(index) for index in range(len(traces))]


def split_traces(traces: Sequence[Trace], config: SplitConfig) -> Split:
    """Draw the held-out traces by whole tasks.

    Raises:
        TraceError: There are fewer than three tasks.
    """
    groups = task_groups(traces)
    num_tasks = len(set(groups))
    if num_tasks < _MIN_TASKS:
        raise TraceError(
            f"the traces hold {num_tasks} task{'s' if num_tasks != 1 else ''}, expected at least "
            f"{_MIN_TASKS} to train, stop and measure on different ones; add labelled traces"
        )
    rest, test = draw_tasks(list(range(len(traces))), groups, config.test_share, config.seed)
    share = config.validation_share / (1 - config.test_share)
    train, validation = draw_tasks(rest, groups, share, config.seed + 1)
    return Split(tuple(train), tuple(validation), tuple(test))


def draw_tasks(
    indices: Sequence[int], groups: Sequence[int], share: float, seed: int
) -> tuple[list[int], list[int]]:
    """Draw a share of the tasks.

    Args:
        indices: Indices of the traces to draw from, of at least two tasks.
        groups: The task of every trace; see `task_groups`.
        share: Share of the tasks to draw.
        seed: Seed of the draw.

    Returns:
        The indices of the traces that stay and of those that were drawn.
    """
    splitter = GroupShuffleSplit(n_splits=1, test_size=share, random_state=seed)
    kept, drawn = next(splitter.split(indices, groups=[groups[index] for index in indices]))
    return [indices[index] for index in kept], [indices[index] for index in drawn]


def _task_keys(trace: Trace) -> list[str]:
    task_id = dict(trace.extra).get("task_id")
    opening = "\0".join(message.content for message in trace.messages[:_OPENING_MESSAGES])
    digest = hashlib.sha256(opening.encode("utf-8", "surrogatepass")).hexdigest()
    keys = [f"opening:{digest}", f"id:{trace.source}:{_RUN_MARK.sub('', trace.id)}"]
    return [*keys, f"task:{trace.source}:{task_id}"] if task_id else keys
