import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memdecay.classifier.errors import TraceError
from memdecay.data.trace import Message, Trace
from memdecay.training.config import SplitConfig
from memdecay.training.splits import split_traces, task_groups


def make_trace(trace_id: str, text: str | None = None, task_id: str | None = None) -> Trace:
    extra = (("task_id", task_id),) if task_id else ()
    return Trace(trace_id, (Message("user", text or trace_id),), source="s", extra=extra)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("tau/file.json:task3:trial0", "tau/file.json:task3:trial2"),
        ("autogen/session.json:call3", "autogen/session.json:call12"),
        ("log.txt:trial4:halted:389", "log.txt:trial1:correct:389"),
    ],
)
def test_runs_of_one_task_are_one_group(first: str, second: str) -> None:
    one, other = task_groups([make_trace(first, "a"), make_trace(second, "b")])
    assert one == other


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("tau/file.json:task3:trial0", "tau/file.json:task4:trial0"),
        ("log.txt:trial4:halted:389", "log.txt:trial4:halted:390"),
        ("pick_mug/trial_T2019_0045", "pick_mug/trial_T2019_0046"),
    ],
)
def test_different_tasks_stay_apart(first: str, second: str) -> None:
    one, other = task_groups([make_trace(first, "a"), make_trace(second, "b")])
    assert one != other


def test_same_opening_or_same_task_id_joins() -> None:
    groups = task_groups(
        [
            make_trace("a", "same words"),
            make_trace("b", "same words", task_id="t"),
            make_trace("c", "other words", task_id="t"),
            make_trace("d", "else"),
        ]
    )
    assert groups[0] == groups[1] == groups[2] != groups[3]


@settings(deadline=None, max_examples=50)
@given(
    tasks=st.lists(st.integers(0, 12), min_size=8, max_size=60).filter(
        lambda tasks: len(set(tasks)) >= 5
    ),
    seed=st.integers(0, 100),
)
def test_every_trace_is_in_one_part_and_no_task_in_two(tasks: list[int], seed: int) -> None:
    traces = [
        make_trace(f"run-{index}", task_id=f"task-{task}") for index, task in enumerate(tasks)
    ]
    split = split_traces(traces, SplitConfig(seed=seed))
    parts = (split.train, split.validation, split.test)
    assert sorted(index for part in parts for index in part) == list(range(len(traces)))
    found = [{tasks[index] for index in part} for part in parts]
    assert all(found)
    assert len(set.union(*found)) == sum(map(len, found))


def test_same_seed_draws_the_same_split_and_another_seed_another() -> None:
    traces = [make_trace(f"task-{index}") for index in range(40)]
    assert split_traces(traces, SplitConfig(seed=1)) == split_traces(traces, SplitConfig(seed=1))
    assert split_traces(traces, SplitConfig(seed=1)) != split_traces(traces, SplitConfig(seed=2))


def test_two_tasks_are_too_few() -> None:
    with pytest.raises(TraceError, match="hold 2 tasks, expected at least 3"):
        split_traces([make_trace("a"), make_trace("b")], SplitConfig())


@pytest.mark.parametrize(
    ("validation", "test", "message"),
    [(0.0, 0.1, "validation_share"), (0.1, 1.0, "test_share"), (0.5, 0.5, "together")],
)
def test_bad_shares_are_refused(validation: float, test: float, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SplitConfig(validation, test)
