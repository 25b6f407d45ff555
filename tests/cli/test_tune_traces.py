"""What a fit holds out together: sources, where there are some, and never half a task."""

from __future__ import annotations

import pytest

from memdecay.classifier.errors import TraceError
from memdecay.cli.tune_traces import held_out_groups, split_moments
from memdecay.data.trace import Message, Trace


def trace(name: str, source: str, opening: str | None = None) -> Trace:
    """Return a trace of a task of its own, unless its opening is that of another."""
    return Trace(name, (Message("user", opening or f"Task {name}"),), source=source)


def test_sources_are_held_out_together_where_there_are_three() -> None:
    traces = [trace("1", "a"), trace("2", "b"), trace("3", "a"), trace("4", "c")]
    first, second, third, fourth = held_out_groups(traces)
    assert first == third
    assert len({first, second, fourth}) == 3


def test_sources_that_share_a_task_are_held_out_together() -> None:
    traces = [
        trace("1", "a", "Mend it"), trace("2", "b"), trace("3", "c", "Mend it"), trace("4", "c"),
    ]  # fmt: skip
    first, second, third, fourth = held_out_groups(traces)
    assert first == third == fourth != second


def test_tasks_are_held_out_where_sources_are_few_or_hang_together() -> None:
    few = [trace("1", "a"), trace("2", "a"), trace("3", "b"), trace("4", "a", "Task 1")]
    first, second, third, fourth = held_out_groups(few)
    assert first == fourth
    assert len({first, second, third}) == 3
    chained = [
        trace("1", "a", "x"), trace("2", "b", "x"), trace("3", "b", "y"), trace("4", "c", "y"),
    ]  # fmt: skip
    assert len(set(held_out_groups(chained))) == 2


def test_whole_groups_fit_or_test() -> None:
    traces = [trace(str(number), "abcdef"[number % 6]) for number in range(18)]
    snapshots = [(f"{each.id}{part}", each.id) for each in traces[:16] for part in "xy"]
    moments = split_moments(traces, snapshots, 0.4, 0)

    assert [(moment.key, moment.trace) for moment in moments] == snapshots
    sides: dict[int, set[bool]] = {}
    for moment in moments:
        sides.setdefault(moment.group, set()).add(moment.is_test)
    assert all(len(each) == 1 for each in sides.values())
    assert len(sides) == 6
    assert {True, False} == {side for each in sides.values() for side in each}
    assert split_moments(traces, snapshots, 0.4, 0) == moments


def test_one_task_is_too_few() -> None:
    runs = [trace("1", "a", "x"), trace("2", "a", "x")]
    with pytest.raises(TraceError, match="long traces of 2 tasks or more, to fit and test, got 1"):
        split_moments(runs, [("k1", "1"), ("k2", "2")], 0.4, 0)
