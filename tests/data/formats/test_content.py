from __future__ import annotations

import pytest

from memdecay.data.formats.blocks import split_blocks
from memdecay.data.formats.content import content_text
from memdecay.data.formats.report import Notes


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (None, ""),
        ("", ""),
        ("hi", "hi"),
        ([], ""),
        ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "a\nb"),
        ([{"type": "text", "value": "a"}], "a"),
        ([{"type": "text", "content": "a"}], "a"),
        (["a", {"text": "b"}, None], "a\nb"),
        ({"type": "text", "text": "a"}, "a"),
        ({"content": [{"text": "a"}], "isError": False}, "a"),
        ({"status": "ok", "n": 1}, '{"status": "ok", "n": 1}'),
        ({"text": "a", "n": 1}, '{"text": "a", "n": 1}'),
        (3, "3"),
        (True, "true"),
    ],
)
def test_content_of_any_type_becomes_text(content: object, text: str) -> None:
    assert content_text(content, Notes()) == text


@pytest.mark.parametrize("kind", ["image", "image_url", "input_image", "input_audio", "file"])
def test_media_leave_a_mark_and_are_counted(kind: str) -> None:
    notes = Notes()

    text = content_text([{"type": "text", "text": "see"}, {"type": kind, kind: {}}], notes)

    assert text.startswith("see\n[")
    assert sum(finding.count for finding in notes.skipped.values()) == 1


def test_content_nested_too_deeply_is_skipped_and_noted() -> None:
    content: object = "x"
    for _ in range(500):
        content = [content]
    notes = Notes()

    assert content_text(content, notes) == ""
    assert "content nested too deeply" in notes.skipped


def test_results_keep_their_order_and_their_calls() -> None:
    blocks = [
        {"type": "tool_result", "tool_use_id": "a", "content": "1", "is_error": True},
        {"type": "tool_result", "tool_use_id": "b"},
        {"type": "text", "text": "go on"},
    ]

    parts = split_blocks(blocks, Notes())

    assert [(m.content, dict(m.extra)["tool_call_id"]) for m in parts.results] == [
        ("1", "a"),
        ("", "b"),
    ]
    assert dict(parts.results[0].extra)["is_error"] is True
    assert (parts.text, parts.text_first) == ("go on", False)


def test_encrypted_reasoning_is_noted() -> None:
    notes = Notes()

    parts = split_blocks([{"type": "redacted_thinking", "data": "x"}], notes)

    assert parts.reasoning == []
    assert notes.skipped["encrypted reasoning"].count == 1
