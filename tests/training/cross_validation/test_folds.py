import pytest

from memdecay.classifier.errors import TraceError
from memdecay.classifier.regions import Region
from memdecay.data.trace import Message, Span, Trace
from memdecay.training.config import SplitConfig
from memdecay.training.cross_validation.folds import UNNAMED, source_folds


def make_trace(name: str, source: str, text: str = "", task: str = "") -> Trace:
    text = text or f"text of {name}"
    return Trace(
        name,
        (Message("user", text),),
        source,
        (Span(0, 0, 4, Region.KEY_DECISION),),
        (("task_id", task),) if task else (),
    )


def traces_of(sizes: dict[str, int]) -> list[Trace]:
    return [
        make_trace(f"{source}-{index}", source)
        for source, count in sizes.items()
        for index in range(count)
    ]


def test_every_source_is_held_out_once_and_never_trained_on_meanwhile() -> None:
    traces = traces_of({"a": 3, "b": 4, "c": 2})
    folds = source_folds(traces, SplitConfig())
    assert [fold.sources for fold in folds] == [("a",), ("b",), ("c",)]
    for fold in folds:
        tested = {traces[index].source for index in fold.split.test}
        seen = {traces[index].source for index in (*fold.split.train, *fold.split.validation)}
        assert tested == set(fold.sources)
        assert not tested & seen
        assert fold.split.train
        assert fold.split.validation
        assert not set(fold.split.train) & set(fold.split.validation)
    assert sorted(index for fold in folds for index in fold.split.test) == list(range(9))


def test_packed_folds_keep_sources_whole_and_even() -> None:
    traces = traces_of({"large": 10, "b": 5, "c": 3, "d": 2, "e": 1})
    folds = source_folds(traces, SplitConfig(), num_folds=2)
    assert {frozenset(fold.sources) for fold in folds} == {
        frozenset({"large"}),
        frozenset({"b", "c", "d", "e"}),
    }
    assert {fold.name for fold in folds} == {"large", "b, c, d, e"}


def test_a_task_of_the_held_out_source_is_trained_on_nowhere() -> None:
    shared = "the very same task in two sources"
    traces = [*traces_of({"a": 2, "b": 4}), make_trace("twin-a", "a", shared)]
    traces.append(make_trace("twin-b", "b", shared))
    fold_a, fold_b = source_folds(traces, SplitConfig())
    assert 7 not in (*fold_a.split.train, *fold_a.split.validation, *fold_a.split.test)
    assert 6 not in (*fold_b.split.train, *fold_b.split.validation, *fold_b.split.test)


def test_traces_without_a_source_are_a_source() -> None:
    folds = source_folds(traces_of({"": 3, "b": 3}), SplitConfig())
    assert [fold.name for fold in folds] == [UNNAMED, "b"]


def test_a_single_source_is_refused() -> None:
    with pytest.raises(TraceError, match="the traces name 1 source, expected at least 2"):
        source_folds(traces_of({"a": 5}), SplitConfig())


def test_too_few_other_tasks_are_refused() -> None:
    with pytest.raises(TraceError, match="without a the traces hold fewer than 2 tasks"):
        source_folds(traces_of({"a": 3, "b": 1}), SplitConfig())


@pytest.mark.parametrize("num_folds", [1, 4])
def test_a_number_of_folds_out_of_range_is_refused(num_folds: int) -> None:
    with pytest.raises(ValueError, match="folds must lie in 2 to the 3 sources"):
        source_folds(traces_of({"a": 2, "b": 2, "c": 2}), SplitConfig(), num_folds)
