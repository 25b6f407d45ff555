"""Labels of a growing conversation are those of the whole, and no message is read twice."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memdecay.classifier.rules import GrowingLabels, growing, rule_labels
from tests.classifier.rules.test_tagger import MESSAGES

Messages = list[dict[str, Any]]


def assert_same(found: list[np.ndarray], expected: list[np.ndarray]) -> None:
    assert len(found) == len(expected)
    for own, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(own, other)


@settings(max_examples=80, deadline=None)
@given(MESSAGES, st.lists(st.tuples(st.integers(0, 8), MESSAGES), max_size=3))
def test_labels_are_those_of_the_whole_conversation(
    messages: Messages, changes: list[tuple[int, Messages]]
) -> None:
    growing_labels = GrowingLabels()
    for end in range(len(messages) + 1):
        assert_same(growing_labels.read(messages[:end]), rule_labels(messages[:end]))
    for num_kept, others in changes:
        messages = [*messages[:num_kept], *others]
        assert_same(growing_labels.read(messages), rule_labels(messages))


@settings(max_examples=40, deadline=None)
@given(MESSAGES, MESSAGES)
def test_a_look_at_a_message_that_grows_changes_nothing(
    messages: Messages, versions: Messages
) -> None:
    growing_labels = GrowingLabels()
    for message in versions:
        found = growing_labels.peek(messages, message)
        np.testing.assert_array_equal(found, rule_labels([*messages, message])[-1])
    assert_same(growing_labels.read(messages), rule_labels(messages))


def test_each_message_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = []
    labels_of = growing._labels

    def counted(turn: Any, speakers: Any) -> np.ndarray:
        texts.append(turn.text)
        return labels_of(turn, speakers)

    monkeypatch.setattr(growing, "_labels", counted)
    messages = [{"role": "user", "content": f"Question {index}"} for index in range(5)]
    growing_labels = GrowingLabels()
    for end in range(1, 6):
        growing_labels.read(messages[:end])
    assert texts == [message["content"] for message in messages]
    growing_labels.read([*messages[:3], {"role": "user", "content": "Something else"}])
    assert texts[5:] == ["Something else"]
