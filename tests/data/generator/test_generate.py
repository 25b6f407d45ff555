from __future__ import annotations

import itertools
import subprocess
import sys
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memdecay.classifier.regions import Region
from memdecay.data.generator import (
    KINDS,
    PACKAGED_NUM_TRACES,
    PACKAGED_SEED,
    generate_trace,
    generate_traces,
    is_generated,
)
from memdecay.data.trace import Message, Trace

SEEDS = st.integers(0, 2**63)


@pytest.fixture(scope="module")
def traces() -> list[Trace]:
    return list(generate_traces(PACKAGED_NUM_TRACES, PACKAGED_SEED))


def assert_spans_tile_every_message(trace: Trace) -> None:
    for index, message in enumerate(trace.messages):
        end = 0
        for span in (span for span in trace.spans if span.message == index):
            assert span.start == end
            assert span.end > span.start
            end = span.end
        assert end == len(message.content)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(KINDS), SEEDS)
def test_every_character_has_one_region(kind: str, seed: int) -> None:
    trace = generate_trace(kind, seed)

    assert_spans_tile_every_message(trace)
    assert list(trace.spans) == sorted(trace.spans, key=lambda span: (span.message, span.start))


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(KINDS), SEEDS)
def test_no_template_mark_is_left(kind: str, seed: int) -> None:
    trace = generate_trace(kind, seed)

    text = "\n".join(message.content for message in trace.messages)
    assert "\x00" not in text
    assert "{noun}" not in text
    assert "{service}" not in text


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(KINDS), SEEDS)
def test_message_that_only_calls_tools_is_the_only_one_without_text(kind: str, seed: int) -> None:
    trace = generate_trace(kind, seed)

    assert all(message.content.strip() or message.tool_calls for message in trace.messages)


def test_same_seed_gives_the_same_traces() -> None:
    assert list(generate_traces(20, 5)) == list(generate_traces(20, 5))


def test_other_seed_gives_other_traces() -> None:
    pairs = zip(generate_traces(20, 5), generate_traces(20, 6), strict=True)

    assert all(a.messages != b.messages for a, b in pairs)


def test_fewer_traces_are_the_start_of_more() -> None:
    assert list(generate_traces(7, 1)) == list(generate_traces(23, 1))[:7]


def test_output_does_not_depend_on_the_order_of_hashes() -> None:
    script = (
        "import hashlib; from memdecay.data.generator import generate_traces; "
        "print(hashlib.sha256(repr(list(generate_traces(20, 3))).encode()).hexdigest())"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={"PYTHONHASHSEED": seed, "PATH": ""},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    }

    assert len(digests) == 1


def test_ids_are_unique(traces: list[Trace]) -> None:
    assert len({trace.id for trace in traces}) == len(traces)


def test_all_kinds_are_there(traces: list[Trace]) -> None:
    counts = Counter(trace.source for trace in traces)

    assert set(counts) == {f"synthetic-{kind}" for kind in KINDS}
    assert min(counts.values()) >= PACKAGED_NUM_TRACES // len(KINDS)


def test_share_of_regions_is_like_that_of_real_runs(traces: list[Trace]) -> None:
    counts: Counter[Region] = Counter()
    for span in itertools.chain.from_iterable(trace.spans for trace in traces):
        counts[span.region] += span.end - span.start

    total = counts.total()
    assert 0.2 < counts[Region.SYSTEM_INSTRUCTION] / total < 0.35
    assert 0.08 < counts[Region.KEY_DECISION] / total < 0.2
    assert 0.1 < counts[Region.TOOL_SUMMARY] / total < 0.25
    assert 0.05 < counts[Region.RECENT_DIALOGUE] / total < 0.2
    assert 0.25 < counts[Region.ORDINARY_CONTEXT] / total < 0.45


def test_lengths_vary(traces: list[Trace]) -> None:
    lengths = [trace.num_characters for trace in traces]

    assert min(lengths) < 1000
    assert max(lengths) > 12_000
    assert sum(lengths) < 600_000


def test_formats_vary(traces: list[Trace]) -> None:
    messages = [message for trace in traces for message in trace.messages]
    text = "\n".join(message.content for message in messages)

    assert {"system", "user", "assistant", "tool", "function"} <= {m.role for m in messages}
    assert {trace.messages[0].role for trace in traces} >= {"system", "user"}
    calls = [call for message in messages for call in message.tool_calls]
    assert {"id" in call for call in calls} == {True, False}
    for mark in ("<tool_call>", "```bash", "Action Input:", "<function=", "Search[", "click["):
        assert mark in text


@pytest.mark.parametrize("region", list(Region))
def test_role_alone_does_not_give_the_region(traces: list[Trace], region: Region) -> None:
    roles = {
        trace.messages[span.message].role
        for trace in traces
        for span in trace.spans
        if span.region is region
    }

    assert len(roles) >= 2


def test_runs_share_few_phrases(traces: list[Trace]) -> None:
    grams = [assistant_grams(trace, length=8) for trace in traces]
    overlaps = [
        len(a & b) / min(len(a), len(b)) for a, b in itertools.combinations(grams, 2) if a and b
    ]

    assert sum(overlaps) / len(overlaps) < 0.02
    assert sum(overlap > 0.5 for overlap in overlaps) / len(overlaps) < 0.005


def assistant_grams(trace: Trace, length: int) -> set[tuple[str, ...]]:
    words = " ".join(m.content for m in trace.messages if m.role == "assistant").split()
    return {tuple(words[i : i + length]) for i in range(len(words) - length + 1)}


def test_unknown_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown kind 'chess'"):
        generate_trace("chess", 0)


def test_negative_number_of_traces_is_refused() -> None:
    with pytest.raises(ValueError, match="num_traces must be 0 or above, got -1"):
        generate_traces(-1, 0)


def test_generated_traces_are_told_from_recorded_ones() -> None:
    assert all(is_generated(trace) for trace in generate_traces(len(KINDS), seed=3))
    message = Message("user", "hello")
    for source in ("", "coding", "synthetic-", "synthetic-other", "swe-agent"):
        assert not is_generated(Trace("a", (message,), source))
