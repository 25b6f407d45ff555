from __future__ import annotations

from typing import Any

from memdecay.data.formats.base import Draft
from memdecay.data.formats.merge import MAX_PENDING, MAX_PENDING_CHARACTERS, PrefixMerger
from memdecay.data.formats.report import Notes
from memdecay.data.trace import Message


def _draft(*texts: str, **extra: Any) -> Draft:
    return Draft([Message("user", text) for text in texts], dict(extra))


def _merge(*drafts: Draft, notes: Notes | None = None) -> list[list[str]]:
    merger, notes = PrefixMerger[str](), notes or Notes()
    out = [pair for draft in drafts for pair in merger.add(draft, "file", notes)]
    out += merger.flush()
    return [[message.content for message in draft.messages] for draft, _ in out]


def test_growing_prefixes_become_the_longest_in_any_order() -> None:
    notes = Notes()

    merged = _merge(_draft("a"), _draft("a", "b", "c"), _draft("x"), _draft("a", "b"), notes=notes)

    assert merged == [["a", "b", "c"], ["x"]]
    assert notes.repaired["conversation merged into its longer version"].count == 2


def test_conversations_that_differ_anywhere_stay() -> None:
    drafts = [["a", "b"], ["a", "c"], ["b"]]

    assert _merge(*(_draft(*texts) for texts in drafts)) == drafts


def test_equal_runs_of_other_trials_or_tasks_stay() -> None:
    drafts = [_draft("a", task_id="t", trial="0"), _draft("a", task_id="t", trial="1")]

    assert _merge(*drafts, _draft("a", task_id="u")) == [["a"]] * 3


def test_the_same_tool_output_twice_stays() -> None:
    draft = Draft([Message("tool", "ok"), Message("tool", "ok")])

    assert _merge(draft) == [["ok", "ok"]]


def test_the_window_is_bounded_and_keeps_the_order() -> None:
    merger, notes = PrefixMerger[str](), Notes()

    early = [
        draft.messages[0].content
        for number in range(MAX_PENDING + 5)
        for draft, _ in merger.add(_draft(str(number)), "file", notes)
    ]

    assert early == ["0", "1", "2", "3", "4"]
    assert len(list(merger.flush())) == MAX_PENDING


def test_the_arguments_of_calls_count_to_the_size_of_the_window() -> None:
    merger, notes = PrefixMerger[str](), Notes()
    arguments = "x" * (MAX_PENDING_CHARACTERS // 4)
    early = 0
    for number in range(9):
        call = {"id": str(number), "function": {"name": "write", "arguments": arguments}}
        draft = Draft([Message("user", str(number)), Message("assistant", "", (call,))])
        early += sum(1 for _ in merger.add(draft, "file", notes))

    assert early == 6
