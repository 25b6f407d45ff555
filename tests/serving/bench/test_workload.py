"""What the agents say."""

from __future__ import annotations

from typing import Any

import pytest

from memdecay.classifier.errors import ConfigError, TraceError
from memdecay.serving.bench.config import LoadConfig
from memdecay.serving.bench.workload import SYSTEM_TOKENS, digest_of, make_scripts
from tests.tiny import tiny_tokenizer

CONTEXT = 4096
TRACES: list[list[dict[str, Any]]] = [
    [
        {"role": "system", "content": "You mend code. " * 200},
        {"role": "user", "content": "Why does the test fail?"},
        {"role": "assistant", "content": "I look."},
        {"role": "tool", "content": "E   assert 1 == 2\n" * 30},
        {"role": "assistant", "content": None},
        {"role": "user", "content": "   "},
    ],
    [
        {"role": "user", "content": [{"type": "text", "text": "Book a flight."}]},
        {"role": "assistant", "content": "Where to?"},
        {"role": "observation", "content": "flights: 3"},
    ],
]


def config(**options: Any) -> LoadConfig:
    return LoadConfig(
        **({"num_agents": 3, "num_rounds": 6, "dump_tokens": 300, "dump_round": 2} | options)
    )


def length(text: str) -> int:
    return len(tiny_tokenizer()(text, add_special_tokens=False)["input_ids"])


def test_each_agent_says_in_order_what_users_and_tools_said() -> None:
    scripts = make_scripts(TRACES, config(dump_round=9), tiny_tokenizer(), CONTEXT)
    first, second, third = scripts
    assert [message["role"] for message in first.rounds[:4]] == ["user", "tool", "user", "tool"]
    assert first.rounds[0]["content"] == "Agent 1. Why does the test fail?"
    assert first.rounds[2]["content"] == "Book a flight."
    assert second.rounds[0]["content"] == "Agent 2. Book a flight."
    assert second.rounds[1]["content"] == "flights: 3"
    assert len({script.rounds[0]["content"] for script in scripts}) == 3
    assert first.rounds[1:] == third.rounds[1:]


def test_a_system_message_opens_the_conversations_that_had_one() -> None:
    first, second, _ = make_scripts(TRACES, config(), tiny_tokenizer(), CONTEXT)
    (opening,) = first.opening
    assert opening["role"] == "system"
    assert 0 < length(opening["content"]) <= SYSTEM_TOKENS
    assert second.opening == ()


@pytest.mark.parametrize("dump_tokens", [50, 1500])
def test_the_tool_dump_comes_at_its_round_and_has_its_length(dump_tokens: int) -> None:
    scripts = make_scripts(TRACES, config(dump_tokens=dump_tokens), tiny_tokenizer(), CONTEXT)
    for script in scripts:
        assert script.rounds[1]["role"] == "tool"
        # Where the text is cut, the tokens of the rest may join otherwise.
        assert dump_tokens - 8 <= length(script.rounds[1]["content"]) <= dump_tokens + 8


def test_messages_have_at_most_the_tokens_asked_for() -> None:
    traces = [[{"role": "user", "content": "many words " * 500}]]
    for script in make_scripts(traces, config(round_tokens=20), tiny_tokenizer(), CONTEXT):
        lengths = [length(message["content"]) for message in script.rounds]
        del lengths[1]
        assert max(lengths[1:]) <= 21
        assert min(lengths) >= 15


def test_the_whole_conversation_fits_the_context() -> None:
    traces = [[{"role": "user", "content": "many words " * 500}]]
    load = config(num_agents=1, num_rounds=40)
    (script,) = make_scripts(traces, load, tiny_tokenizer(), CONTEXT)
    said = sum(length(message["content"]) for message in script.rounds)
    assert said + load.num_rounds * load.max_tokens < CONTEXT
    assert said > CONTEXT / 4


@pytest.mark.parametrize("options", [{"num_rounds": 200}, {"round_tokens": 3000}])
def test_a_conversation_that_would_not_fit_is_refused(options: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match="context of 4096"):
        make_scripts(TRACES, config(**options), tiny_tokenizer(), CONTEXT)


def test_traces_that_say_nothing_are_refused() -> None:
    with pytest.raises(TraceError, match="no messages"):
        make_scripts([[{"role": "assistant", "content": "a"}]], config(), tiny_tokenizer(), CONTEXT)


def test_the_digest_names_the_workload() -> None:
    one = make_scripts(TRACES, config(), tiny_tokenizer(), CONTEXT)
    assert digest_of(one) == digest_of(make_scripts(TRACES, config(), tiny_tokenizer(), CONTEXT))
    other = make_scripts(TRACES, config(round_tokens=10), tiny_tokenizer(), CONTEXT)
    assert digest_of(one) != digest_of(other)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("num_agents", 0),
        ("num_rounds", 0),
        ("dump_round", 0),
        ("dump_tokens", 0),
        ("max_tokens", 0),
        ("round_tokens", 0),
        ("timeout_s", 0.0),
        ("time_limit_s", -1.0),
    ],
)
def test_a_setting_out_of_range_is_named(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=name):
        LoadConfig(**{name: value})  # type: ignore[arg-type]


def test_the_last_round_is_always_probed() -> None:
    assert LoadConfig(num_rounds=30).probed_rounds == (20, 30)
    assert LoadConfig(num_rounds=8).probed_rounds == (8,)
