from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memdecay.classifier.hindsight import AgeBuckets
from memdecay.classifier.llm import LanguageModel
from memdecay.classifier.regions import Region
from memdecay.data.alignment import UNLABELLED
from memdecay.data.hindsight.audit import Audit, AuditConfig, Doubt, audit_labels
from memdecay.data.hindsight.audit_report import audit_markdown, write_audit
from memdecay.data.hindsight.cutting import cut_to_messages
from memdecay.data.hindsight.measured import (
    NUM_SINKS,
    SINK_LIFT,
    AlignedTrace,
    MeasuredTrace,
    align_trace,
    measure_traces,
)
from memdecay.data.hindsight.second_opinion import doubted_by_rules
from memdecay.data.hindsight.segments import visited_segments
from memdecay.data.trace import Message, Span, Trace
from tests.data.hindsight.measured import LiftOf, lines_trace, measure_with
from tests.tiny import tiny_language_model

ORDINARY, DECISION = Region.ORDINARY_CONTEXT, Region.KEY_DECISION


@pytest.fixture(scope="module")
def llm() -> LanguageModel:
    return tiny_language_model(max_position_embeddings=4096)


def measured(llm: LanguageModel, trace: Trace, lift_of: LiftOf) -> MeasuredTrace:
    aligned = align_trace(trace, llm, 4096)
    buckets = AgeBuckets.log_spaced(aligned.tokens.num_tokens)
    return next(measure_traces([aligned], llm, measure_with(lift_of), buckets))


def tokens_of_line(aligned: AlignedTrace, line: int) -> set[int]:
    span = aligned.trace.spans[line]
    shift = aligned.rendered.messages[0].content_start
    starts = aligned.tokens.offsets[:, 0] - shift
    return set(np.flatnonzero((starts >= span.start) & (starts < span.end)).tolist())


def fading(ages: Any) -> Any:
    return 5.0 * ages**-0.5


def test_visits_are_one_where_all_fade_alike(llm: LanguageModel) -> None:
    trace = lines_trace("alike", [ORDINARY] * 40)
    segments = visited_segments(measured(llm, trace, lambda _, ages: fading(ages)), 16)
    assert len(segments) > 20
    assert {round(segment.visits, 6) for segment in segments} == {1.0}


def test_a_segment_that_gets_three_times_as_much_has_three_times_the_visits(
    llm: LanguageModel,
) -> None:
    trace = lines_trace("one", [ORDINARY] * 40)
    favoured = tokens_of_line(align_trace(trace, llm, 4096), 7)

    def lift_of(token: int, ages: Any) -> Any:
        return fading(ages) * (3.0 if token in favoured else 1.0)

    segments = visited_segments(measured(llm, trace, lift_of), 16)
    visits = {segment.start: segment.visits for segment in segments}
    chosen = visits.pop(trace.spans[7].start)
    # The favourite is a fortieth of what is usual itself.
    assert all(0.85 < value <= 1.0 for value in visits.values())
    assert 2.5 < chosen < 3.0


def test_one_odd_token_does_not_carry_a_segment(llm: LanguageModel) -> None:
    trace = lines_trace("odd", [ORDINARY] * 40)
    odd = max(tokens_of_line(align_trace(trace, llm, 4096), 7))

    def lift_of(token: int, ages: Any) -> Any:
        return np.full_like(ages, 16.0 if token == odd else 1.0)

    segments = visited_segments(measured(llm, trace, lift_of), 16)
    visits = {segment.start: segment.visits for segment in segments}
    assert visits[trace.spans[7].start] < 2.5


def audit_of(llm: LanguageModel) -> Audit:
    """Audit 60 lines with a forgotten decision, a favourite of all and one of the decisions."""
    regions = [ORDINARY] * 60
    for line in (5, 20, 30, 32, 40, 41, 42, 43, 44, 45):
        regions[line] = DECISION
    trace = lines_trace("run-1", regions)
    aligned = align_trace(trace, llm, 4096)
    lines = {token: line for line in range(60) for token in tokens_of_line(aligned, line)}
    factors = {5: 0.1, 10: 6.0}

    def lift_of(token: int, ages: Any) -> Any:
        usual = 3.0 if lines.get(token) in (20, 40) else 1.0
        return np.full_like(ages, factors.get(lines.get(token, -1), usual))

    one = measured(llm, trace, lift_of)
    late = sorted(tokens_of_line(aligned, 15))
    one.received.lifts[1][late] *= 20.0  # From decisions alone.
    return audit_labels([one], AuditConfig(rules_share=0, min_age=16))


def test_forgotten_decisions_and_favourite_context_are_doubted(llm: LanguageModel) -> None:
    audit = audit_of(llm)
    line = len("one more line of some words\n")
    found = {(suspect.start // line, suspect.doubt) for suspect in audit.suspects}
    assert {(5, Doubt.UNVISITED), (15, Doubt.LATE_DECISION)} <= found
    assert 10 in {place for place, doubt in found if doubt is not Doubt.UNVISITED}
    assert not {20, 40} & {place for place, _ in found}
    assert audit.num_traces == 1
    strengths = [suspect.strength for suspect in audit.suspects]
    assert strengths == sorted(strengths, reverse=True)
    assert audit.suspects[0].text == "one more line of some words\n"


def late_lines(
    llm: LanguageModel, role: str = "user", visits: float = 6.0, **options: int
) -> set[int]:
    """Audit 60 lines of which decisions look at six decisions 6 times as usual and at line 15."""
    decisions = (4, 8, 12, 20, 24, 28, *range(50, 58))
    trace = lines_trace("run", [DECISION if i in decisions else ORDINARY for i in range(60)])
    trace = replace(trace, messages=(replace(trace.messages[0], role=role),))
    one = measured(llm, trace, lambda _, ages: np.full_like(ages, 1.0))
    for line in (*decisions[:6], 15):
        tokens = sorted(tokens_of_line(one.aligned, line))
        one.received.lifts[1][tokens] *= visits if line == 15 else 6.0
    audit = audit_labels([one], AuditConfig(rules_share=0, min_age=16, **options))
    late = [suspect for suspect in audit.suspects if suspect.doubt is Doubt.LATE_DECISION]
    return {suspect.start // len("one more line of some words\n") for suspect in late}


def test_what_decisions_look_at_as_at_decisions_is_a_late_one(llm: LanguageModel) -> None:
    assert late_lines(llm, visits=8.0) == {15}
    assert late_lines(llm, visits=3.0) == set()


def test_tools_and_headings_decide_nothing(llm: LanguageModel) -> None:
    assert late_lines(llm, "assistant", 8.0) == {15}
    assert late_lines(llm, "tool", 8.0) == set()
    assert late_lines(llm, "user", 8.0, min_decision_tokens=100) == set()


def test_standing_instructions_are_never_doubted(llm: LanguageModel) -> None:
    trace = lines_trace("rules", [Region.SYSTEM_INSTRUCTION] * 40)
    generator = np.random.default_rng(0)
    one = measured(llm, trace, lambda _, ages: np.full_like(ages, generator.exponential()))
    assert audit_labels([one], AuditConfig(rules_share=0, min_age=16)).suspects == ()


def test_an_audit_of_nothing_finds_nothing() -> None:
    audit = audit_labels([])
    assert audit.suspects == ()
    assert "0 doubts; 0 segments of 0 traces" in audit_markdown(audit)


def test_sinks_and_template_tokens_are_not_judged(llm: LanguageModel) -> None:
    trace = lines_trace("sinks", [ORDINARY] * 10)
    one = measured(
        llm, trace, lambda token, ages: np.full_like(ages, 2 * SINK_LIFT * (token == 60))
    )
    labels = one.aligned.labels
    assert not one.is_judged[:NUM_SINKS].any()
    assert not one.is_judged[labels == UNLABELLED].any()
    assert not one.is_judged[60]
    assert one.is_judged.sum() == (labels[NUM_SINKS:] != UNLABELLED).sum() - 1


def test_it_is_written_as_lines_of_json_or_markdown(llm: LanguageModel, tmp_path: Path) -> None:
    audit = audit_of(llm)
    write_audit(audit, tmp_path / "audit.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
    assert [row["start"] for row in rows] == [suspect.start for suspect in audit.suspects]
    assert {row["region"] for row in rows} == {"ordinary_context", "key_decision"}
    write_audit(audit, tmp_path / "audit.md")
    text = (tmp_path / "audit.md").read_text()
    assert "    one more line of some words" in text
    assert "## unvisited (" in text


def test_hostile_text_stays_a_block_of_code_in_markdown(llm: LanguageModel) -> None:
    line = "\x1b[31m ``` <b> # words and words |\r"
    trace = lines_trace("evil", [ORDINARY] * 60, line=line + "\n")
    aligned = align_trace(trace, llm, 4096)
    favoured = tokens_of_line(aligned, 9)
    one = measured(
        llm, trace, lambda token, ages: np.full_like(ages, 1.0 + 9 * (token in favoured))
    )
    text = audit_markdown(audit_labels([one], AuditConfig(rules_share=0, min_age=16)))
    assert "\x1b" not in text
    assert all(row.startswith("    ") for row in text.splitlines() if "<b>" in row)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"min_age": 0}, "min_age must be 1 or more"),
        ({"tail": 0.0}, "tail must be above 0"),
        ({"tail": 0.6}, "at most 0.5"),
        ({"min_factor": 1.0}, "min_factor must be above 1"),
        ({"rules_share": -0.1}, "rules_share must be from 0 to 1"),
        ({"rules_share": 1.1}, "rules_share must be from 0 to 1"),
        ({"min_decision_tokens": 0}, "min_decision_tokens must be 1 or more"),
    ],
)
def test_senseless_settings_are_refused(options: dict[str, Any], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        AuditConfig(**options)


def test_traces_are_cut_to_their_first_tokens(llm: LanguageModel) -> None:
    trace = lines_trace("long", [ORDINARY] * 10)
    aligned = align_trace(trace, llm, 50)
    assert aligned.is_cut
    assert aligned.tokens.num_tokens == len(aligned.labels) == 50
    assert not align_trace(trace, llm, 4000).is_cut
    with pytest.raises(ValueError, match="max_tokens must be 1 or more, got 0"):
        align_trace(trace, llm, 0)


def test_cutting_to_messages_keeps_whole_ones_with_their_labels(llm: LanguageModel) -> None:
    messages = tuple(Message("user", f"message {index} of some words") for index in range(6))
    trace = Trace("t", messages, spans=tuple(Span(index, 0, 7, DECISION) for index in range(6)))
    num_tokens = align_trace(trace, llm, 4000).tokens.num_tokens
    assert cut_to_messages(trace, llm, num_tokens) is trace
    cut = cut_to_messages(trace, llm, num_tokens - 1)
    assert cut is not None
    assert cut.messages == messages[:5]
    assert [span.message for span in cut.spans] == [0, 1, 2, 3, 4]
    assert cut_to_messages(trace, llm, 3) is None


def tool_trace(name: str, label: Region) -> Trace:
    """Return a trace whose rules are sure of every message; the calls' label is given."""
    contents = (
        ("system", "You are a helpful agent. You must always answer in English."),
        ("user", "Please find the order number of Ada Lovelace."),
        ("assistant", 'Action: search\nAction Input: {"name": "Ada Lovelace"}'),
        ("user", "Thank you, goodbye!"),
    )
    regions = (Region.SYSTEM_INSTRUCTION, Region.RECENT_DIALOGUE, label, Region.RECENT_DIALOGUE)
    return Trace(
        name,
        tuple(Message(role, text) for role, text in contents),
        spans=tuple(
            Span(index, 0, len(text), region)
            for index, ((_, text), region) in enumerate(zip(contents, regions, strict=True))
        ),
    )


def test_a_label_that_the_rules_contradict_is_doubted(llm: LanguageModel) -> None:
    traces = [tool_trace(f"t{index}", Region.TOOL_SUMMARY) for index in range(4)]
    traces.append(tool_trace("wrong", Region.RECENT_DIALOGUE))
    doubts = doubted_by_rules(traces, 1 / 20)
    assert [(found.trace.id, found.span.message) for found in doubts] == [("wrong", 2)]
    assert doubts[0].region is Region.TOOL_SUMMARY
    assert doubts[0].surprise > 1
    assert doubted_by_rules(traces, 0.0) == ()
    assert all(found.region is not found.span.region for found in doubted_by_rules(traces, 1.0))

    all_alike = [measured(llm, trace, lambda _, ages: fading(ages)) for trace in traces]
    audit = audit_labels(all_alike, AuditConfig(min_age=1))
    (suspect,) = audit.suspects
    assert (suspect.trace_id, suspect.doubt) == ("wrong", Doubt.RULES)
    assert suspect.to_dict()["rules_region"] == "tool_summary"
    assert suspect.strength == pytest.approx(doubts[0].surprise)
    assert "rules say **tool_summary**" in audit_markdown(audit)


@given(
    cuts=st.lists(st.integers(0, 60), min_size=2, max_size=6, unique=True),
    region=st.sampled_from(Region),
)
def test_any_span_gets_an_opinion_and_beliefs_are_shares(cuts: list[int], region: Region) -> None:
    text = "Thought: I will look.\nObservation: it rains.\nSo be it, then.\n"
    places = sorted(cuts)
    spans = tuple(
        Span(1, start, end, region) for start, end in pairwise(places) if end <= len(text)
    )
    trace = Trace("t", (Message("user", ""), Message("assistant", text)), spans=spans)
    for opinion in doubted_by_rules([trace], 1.0):
        assert 0 < opinion.belief < 1
        assert opinion.span in spans
