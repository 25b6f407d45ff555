import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memdecay.serving.compression import compress_tool_result

PROSE = st.sampled_from(
    ["the quick fox", "went home", "nothing of note", "über alles", "and so on and so forth"]
)
FACTS = st.sampled_from(
    ["order #4711", "id=ab-12", "src/main.py:33", "0.25", "MAX_SIZE", "2f1c9e", "retries: 3"]
)
ERRORS = st.sampled_from(
    ["ValueError: no such city", "connection refused", "Traceback (most recent call last):"]
)
LINES = st.lists(st.one_of(PROSE, FACTS, ERRORS, st.just("")), min_size=1, max_size=30)
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.lists(PROSE | FACTS, max_size=12).map(" ".join),
)
DOCUMENTS = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=25,
).filter(lambda value: isinstance(value, list | dict))
LIMITS = st.integers(1, 300)


def numbers(text: str) -> set[str]:
    return {word for word in text.split() if re.search(r"\d", word) and "…" not in word}


@given(LINES, LIMITS)
def test_numbers_and_names_of_a_text_stay(lines: list[str], limit: int) -> None:
    text = "\n".join(lines)
    compressed = compress_tool_result(text, limit)
    assert numbers(text) <= set(compressed.text.split())


@given(LINES, LIMITS)
def test_lines_of_errors_stay_whole(lines: list[str], limit: int) -> None:
    compressed = compress_tool_result("\n".join(lines), limit).text.split("\n")
    errors = [line for line in lines if re.search("Error|refused|Traceback", line)]
    assert [line for line in compressed if line in errors] == errors


@given(LINES, LIMITS)
def test_result_never_grows_and_says_whether_it_is_cut(lines: list[str], limit: int) -> None:
    text = "\n".join(lines)
    compressed = compress_tool_result(text, limit)
    assert compressed.is_cut == (compressed.text != text)
    assert len(compressed.text) < len(text) if compressed.is_cut else compressed.text == text


@given(st.text(), st.integers(1, 50))
def test_any_text_is_taken(text: str, limit: int) -> None:
    compressed = compress_tool_result(text, limit)
    assert len(compressed.text) <= len(text)
    if len(text) <= limit:
        assert compressed.text == text


def skeleton(value: Any) -> Any:
    """Return a document with its texts blanked."""
    if isinstance(value, dict):
        return {key: skeleton(item) for key, item in value.items()}
    if isinstance(value, list):
        return [skeleton(item) for item in value]
    return "" if isinstance(value, str) else value


@given(DOCUMENTS, LIMITS, st.sampled_from([None, 2]))
def test_json_keeps_its_structure_keys_and_numbers(
    document: Any, limit: int, indent: int | None
) -> None:
    text = json.dumps(document, indent=indent)
    compressed = compress_tool_result(text, limit)
    assert skeleton(json.loads(compressed.text)) == skeleton(document)


def test_numbers_stay_as_they_are_written() -> None:
    text = '{"price": 1.50, "big": 123456789012345678901234567890, "note": "' + "so it is " * 40
    compressed = compress_tool_result(text + '"}', 20).text
    assert '"price": 1.50, "big": 123456789012345678901234567890' in compressed


def test_prose_gives_way_to_a_mark() -> None:
    text = "\n".join(f"the fox number {i} went home to have a rest at last" for i in range(50))
    compressed = compress_tool_result(text, 100)
    assert compressed.is_cut
    assert "… 25 …" in compressed.text
    assert len(compressed.text) < len(text) / 2


def test_lines_without_facts_are_counted() -> None:
    text = "first\n" + "just words without any fact\n" * 9 + "last 1"
    assert "[… 9 lines]" in compress_tool_result(text, 30).text


def test_beginning_and_end_stay() -> None:
    text = "the very first line\n" + "some more words here\n" * 50 + "the very last line"
    compressed = compress_tool_result(text, 100).text
    assert compressed.startswith("the very first line\n")
    assert compressed.endswith("\nthe very last line")


def test_error_in_a_single_line_keeps_its_sentence() -> None:
    text = "All is well so far. " * 20 + "The upload failed for lack of room. " + "Bye now. " * 20
    assert "The upload failed for lack of room." in compress_tool_result(text, 60).text


def test_deeply_nested_json_is_taken_as_text() -> None:
    text = "[" * 5000 + "]" * 5000
    assert len(compress_tool_result(text, 10).text) <= len(text)


def test_limit_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="max_characters must be 1 or more, got 0"):
        compress_tool_result("text", 0)
