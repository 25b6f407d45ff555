from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memdecay.classifier.regions import Region
from memdecay.data.generator.builder import (
    Piece,
    TraceBuilder,
    context,
    decision,
    dialogue,
    finding,
    instruction,
    surround,
)
from memdecay.data.trace import Span

PIECES = st.builds(Piece, st.text(max_size=12), st.sampled_from(list(Region)))


def test_each_constructor_names_its_region() -> None:
    pieces = [instruction("a"), decision("a"), finding("a"), dialogue("a"), context("a")]

    assert [piece.region for piece in pieces] == list(Region)


def test_neighbours_of_one_region_become_one_span() -> None:
    builder = TraceBuilder()

    builder.add("user", dialogue("ab"), dialogue("c"), decision("d"))

    assert builder.build("t", "s").spans == (
        Span(0, 0, 3, Region.RECENT_DIALOGUE),
        Span(0, 3, 4, Region.KEY_DECISION),
    )


def test_blank_piece_joins_the_piece_before_it() -> None:
    builder = TraceBuilder()

    builder.add("user", decision("a"), context(" \n"), finding("b"))

    assert [(span.end, span.region) for span in builder.build("t", "s").spans] == [
        (3, Region.KEY_DECISION),
        (4, Region.TOOL_SUMMARY),
    ]


def test_message_keeps_its_calls_and_further_fields() -> None:
    builder = TraceBuilder()

    builder.add("assistant", tool_calls=[{"type": "function"}], name="ada")
    trace = builder.build("t", "s", task_id="7")

    assert trace.messages[0].tool_calls == ({"type": "function"},)
    assert dict(trace.messages[0].extra) == {"name": "ada"}
    assert trace.spans == ()
    assert trace.task_id == "7"


@given(st.lists(PIECES, min_size=1, max_size=8))
def test_spans_tile_the_content(pieces: list[Piece]) -> None:
    builder = TraceBuilder()

    builder.add("user", dialogue("start"), *pieces)
    trace = builder.build("t", "s")

    content = trace.messages[0].content
    assert content == "start" + "".join(piece.text for piece in pieces)
    assert trace.spans[0].start == 0
    assert trace.spans[-1].end == len(content) == builder.num_characters
    pairs = zip(trace.spans, trace.spans[1:], strict=False)
    assert all(a.end == b.start and a.region is not b.region for a, b in pairs)


def test_surround_puts_text_into_the_outer_pieces() -> None:
    pieces = surround([finding("a"), context("b")], "<", ">")

    assert pieces == (finding("<a"), context("b>"))


def test_surround_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one piece"):
        surround([], "<")


def test_message_without_text_and_calls_is_refused() -> None:
    with pytest.raises(ValueError, match="got neither"):
        TraceBuilder().add("user", dialogue(""))


def test_message_that_starts_blank_is_refused() -> None:
    with pytest.raises(ValueError, match="blank piece"):
        TraceBuilder().add("user", dialogue("\n"), decision("a"))


def test_trace_without_messages_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one message"):
        TraceBuilder().build("t", "s")
