from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import memdecay.classifier.rules
from memdecay.classifier.regions import Region
from memdecay.classifier.rules import DEFAULT_RULES, Rule, rule_labels, rule_votes

ROLES = st.sampled_from(["system", "user", "assistant", "tool", "function", "env", ""])
LINES = st.sampled_from(
    [
        "Hello, can you help me?",
        "Question: where is it?",
        "Observation: OK.",
        "Thought: I need to look.",
        "Action: search[it]",
        "```bash\nls\n```",
        "ValueError: no",
        '{"id": "AB12_3"}',
        "\x1b[31m\ud800\0",
        "",
        "火鸡。",
    ]
)
MESSAGES = st.lists(
    st.fixed_dictionaries(
        {
            "role": ROLES,
            "content": st.lists(LINES | st.text(max_size=40), max_size=6).map("\n".join),
        }
    ),
    max_size=8,
)


def region_of(messages: list[dict[str, Any]], index: int, part: str) -> Region:
    labels = rule_labels(messages, lookahead=True)[index]
    start = messages[index]["content"].index(part)
    return Region(int(np.bincount(labels[start : start + len(part)]).argmax()))


@settings(max_examples=60, deadline=None)
@given(MESSAGES, st.booleans())
def test_every_character_gets_a_region(messages: list[dict[str, Any]], lookahead: bool) -> None:
    labels = rule_labels(messages, lookahead=lookahead)
    assert [len(regions) for regions in labels] == [len(m["content"]) for m in messages]
    assert all(((regions >= 0) & (regions < len(Region))).all() for regions in labels)


@settings(max_examples=60, deadline=None)
@given(MESSAGES, st.integers(0, 8))
def test_without_lookahead_labels_stay_when_the_conversation_goes_on(
    messages: list[dict[str, Any]], count: int
) -> None:
    whole = rule_labels(messages, lookahead=False)
    beginning = rule_labels(messages[:count], lookahead=False)
    for left, right in zip(beginning, whole, strict=False):
        np.testing.assert_array_equal(left, right)


REACT = [
    {"role": "user", "content": "Question: In which year did the mill open?"},
    {"role": "assistant", "content": "Thought: I need to search the mill.\nAction: search[mill]"},
    {"role": "user", "content": "Observation: The mill opened in 1871."},
    {"role": "assistant", "content": "Thought: So it was 1871.\nAction: finish[1871]"},
]


@pytest.mark.parametrize(
    ("index", "part", "region"),
    [
        (0, "Question", Region.SYSTEM_INSTRUCTION),
        (1, "Thought: I need", Region.KEY_DECISION),
        (1, "Action: search[mill]", Region.TOOL_SUMMARY),
        (2, "opened in 1871", Region.TOOL_SUMMARY),
        (3, "finish[1871]", Region.KEY_DECISION),
    ],
)
def test_a_react_run_is_labelled(index: int, part: str, region: Region) -> None:
    assert region_of(REACT, index, part) is region


def test_a_service_chat_is_labelled() -> None:
    chat = [
        {"role": "system", "content": "You help customers of a shop."},
        {"role": "user", "content": "Hi, I want to send something back."},
        {"role": "assistant", "content": "Gladly. May I have your order number?"},
        {"role": "user", "content": "It is #W4471902."},
    ]
    expected = [
        Region.SYSTEM_INSTRUCTION,
        Region.RECENT_DIALOGUE,
        Region.RECENT_DIALOGUE,
        Region.KEY_DECISION,
    ]
    assert [Region(int(labels[0])) for labels in rule_labels(chat)] == expected


@pytest.mark.parametrize("system", [[], ["You are a helpful assistant."]])
def test_answers_in_a_chat_without_tools_are_dialogue(system: list[str]) -> None:
    chat = [
        *({"role": "system", "content": text} for text in system),
        {"role": "user", "content": "How does yeast make dough rise?"},
        {"role": "assistant", "content": "It eats sugar.\n- The gas lifts the dough.\n"},
        {"role": "user", "content": "And what does cold do?"},
        {"role": "assistant", "content": "It slows it. Do you want to know more about that?"},
    ]
    regions = [set(labels.tolist()) for labels in rule_labels(chat)[-3:]]
    assert regions == [{Region.RECENT_DIALOGUE}] * 3


def test_a_question_in_chinese_opens_a_chat() -> None:
    chat = [
        {"role": "user", "content": "什么使面团发酵"},
        {"role": "assistant", "content": "酵母吃糖\n- 气体使它变大"},
        {"role": "user", "content": "冷呢"},
        {"role": "assistant", "content": "冷使它变慢"},
    ]
    assert [set(labels.tolist()) for labels in rule_labels(chat, lookahead=False)] == [
        {Region.RECENT_DIALOGUE}
    ] * 4


@pytest.mark.parametrize(
    "opening", ["Question: who built it?", "Your job is to name the builder.", "x " * 700]
)
def test_the_answer_to_a_task_is_a_decision(opening: str) -> None:
    run = [{"role": "user", "content": opening}, {"role": "assistant", "content": "It was Ada."}]
    assert region_of(run, 1, "Ada") is Region.KEY_DECISION


def test_results_in_an_agents_own_log_are_results() -> None:
    page = "Mill Lane is a lane. " * 30 + "Its far end is quiet."
    log = (
        "Thought: I need to search the mill.\nAction: search[mill]\n"
        f"Observation: It opened in 1871.\nThought: I open the page.\nObservation 2: {page}\n"
        "Action: finish[1871]\n"
    )
    run = [REACT[0], {"role": "assistant", "content": log}]
    assert region_of(run, 1, "It opened in 1871.") is Region.TOOL_SUMMARY
    assert region_of(run, 1, "Its far end is quiet.") is Region.ORDINARY_CONTEXT
    assert region_of(run, 1, "I open the page") is Region.KEY_DECISION


def test_a_result_that_an_assistant_reports_is_read_as_one() -> None:
    page = '"og:title": "Prices",\n' * 60 + '"og:type": "page"\n'
    run = [
        {"role": "user", "content": "Question: what did the flat cost?"},
        {"role": "assistant", "content": "Please search for the price."},
        {"role": "assistant", "content": f"I typed 'price'. Here is a screenshot:\n{page}"},
    ]
    assert region_of(run, 2, '"og:type"') is Region.ORDINARY_CONTEXT


def test_records_in_the_words_of_agents_that_answer_one_another_are_context() -> None:
    ledger = "Ledger:\n{\n" + '  "is_done": false,\n' * 6 + "}\nWe search next.\n"
    run = [
        {"role": "user", "content": "What did the flat cost?"},
        {"role": "assistant", "content": "Plan: first the price."},
        {"role": "assistant", "content": ledger},
    ]
    assert region_of(run, 2, '"is_done"') is Region.ORDINARY_CONTEXT
    assert region_of(run, 2, "We search next.") is Region.KEY_DECISION


def test_a_call_in_a_json_block_is_a_call() -> None:
    block = '```json\n{"tool": "find", "args": {"name": "mill"}}\n```'
    run = [REACT[0], {"role": "assistant", "content": f"I look it up.\n{block}"}]
    assert region_of(run, 1, '"tool": "find"') is Region.TOOL_SUMMARY


def test_the_error_counts_and_its_frames_do_not() -> None:
    frames = "".join(f'  File "/a/b{i}.py", line {i}\n    call_{i}()\n' for i in range(20))
    result = f"Traceback (most recent call last):\n{frames}KeyError: 'colour'\n"
    messages = [*REACT[:2], {"role": "tool", "content": result}]
    assert region_of(messages, 2, "b17.py") is Region.ORDINARY_CONTEXT
    assert region_of(messages, 2, "KeyError: 'colour'") is Region.TOOL_SUMMARY


@pytest.mark.parametrize(
    "text",
    [
        *("```\n" * 5000, "\n" * 50000, "{" * 50000, "a_" * 25000, "<execute>" * 5000),
        *("I typed" + "\n" * 50000, "Observation: \n" * 5000, '"a":\n' * 9000),
    ],
)
@pytest.mark.parametrize("role", ["user", "assistant", "tool"])
def test_hostile_text_is_labelled(role: str, text: str) -> None:
    labels = rule_labels([REACT[0], REACT[1], {"role": role, "content": text}], lookahead=True)
    assert len(labels[2]) == len(text)


def test_votes_add_up_to_the_outcome() -> None:
    votes = rule_votes(REACT)
    assert votes.votes.shape == (len(DEFAULT_RULES), len(votes.lengths), len(Region))
    np.testing.assert_array_equal(votes.regions, votes.votes.sum(axis=0).argmax(axis=1))


def test_asking_no_rules_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one rule"):
        rule_votes(REACT, rules=())


@pytest.mark.parametrize(
    ("name", "weight", "match"), [("", 1.0, "name"), ("r", 0.0, "weight"), ("r", np.inf, "weight")]
)
def test_a_rule_checks_its_fields(name: str, weight: float, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        Rule(name, "", lambda _: (), weight)


def test_rule_names_are_unique() -> None:
    names = [rule.name for rule in DEFAULT_RULES]
    assert len(set(names)) == len(names)


def test_rules_name_no_source_of_traces(shared_dir: Path) -> None:
    sources = {path.stem for path in (shared_dir / "traces").glob("*.jsonl")} - {"lats", "react"}
    folder = Path(memdecay.classifier.rules.__file__).parent
    code = "\n".join(path.read_text(encoding="utf-8") for path in folder.glob("*.py")).lower()
    assert not [name for name in sources if re.search(rf"\b{re.escape(name)}\b", code)]
