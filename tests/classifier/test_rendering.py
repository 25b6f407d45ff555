from __future__ import annotations

import functools
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memdecay.classifier.messages import ToolCall
from memdecay.classifier.rendering import RenderedConversation, render
from tests.tiny import CHATML, NATIVE_TOOLS, STRICT, TRIMMING, tiny_tokenizer

TEMPLATES = (CHATML, STRICT, TRIMMING, NATIVE_TOOLS, None)
CALL = {"id": "c", "type": "function", "function": {"name": "find", "arguments": '{"q": "x"}'}}
BROKEN = {"id": "d", "type": "function", "function": {"name": "get", "arguments": '{"q": '}}

DROPPING = CHATML.replace(
    "message['content'] + '<|im_end|>'",
    "('' if loop.last else message['content']) + '<|im_end|>'",
)
NO_TOOL_ROLE = CHATML.replace(
    "{% for message in messages %}",
    "{% for message in messages %}"
    "{% if message['role'] == 'tool' %}{{ raise_exception('no') }}{% endif %}",
)
REWRITING = CHATML.replace("message['content'] +", "message['content'].split('</think>')[-1] +")
CALLS_ONLY = NATIVE_TOOLS.replace(
    "'\\n<tool_call>", "('\\n' if message['content'] else '') + '<tool_call>"
)
NO_SYSTEM = (
    "{% if messages[0]['role'] == 'system' %}{{ raise_exception('no') }}{% endif %}" + CHATML
)


tokenizer_with = functools.cache(tiny_tokenizer)


def contents(rendered: RenderedConversation) -> list[str]:
    return [rendered.text[m.content_start : m.content_end] for m in rendered.messages]


def calls(rendered: RenderedConversation) -> list[str]:
    return [rendered.text[m.calls_start : m.calls_end] for m in rendered.messages]


def check_ranges(rendered: RenderedConversation) -> None:
    end = rendered.parts[0].start
    for part in rendered.parts:
        assert part.start == end
        assert part.start <= part.content_start <= part.content_end
        assert part.content_end <= part.calls_start <= part.calls_end <= part.end
        end = part.end
    assert end == len(rendered.text)


messages_strategy = st.lists(
    st.fixed_dictionaries(
        {
            "role": st.sampled_from(["system", "user", "assistant", "tool", "observation", "Bob"]),
            "content": st.none()
            | st.text(st.characters(), max_size=20)
            | st.sampled_from(
                [" \n", "", "\n x \n", "<|im_end|>", "a<|im_end|>\n<|im_start|>user\n"]
            ),
        },
        optional={"tool_calls": st.lists(st.sampled_from([CALL, BROKEN]), max_size=2)},
    ),
    min_size=1,
    max_size=6,
)


@pytest.mark.parametrize("template", [*TEMPLATES, CALLS_ONLY, REWRITING, NO_TOOL_ROLE])
@settings(deadline=None, max_examples=60)
@given(messages=messages_strategy, prompt=st.booleans())
def test_every_content_is_found_where_it_is(
    template: str | None, messages: list[dict[str, Any]], prompt: bool
) -> None:
    rendered = render(messages, tokenizer_with(template), add_generation_prompt=prompt)
    check_ranges(rendered)
    for message, where in zip(messages, rendered.messages, strict=True):
        content = "".join(
            "\ufffd" if "\ud800" <= c <= "\udfff" else c for c in message["content"] or ""
        )
        found = rendered.text[where.content_start : where.content_end]
        assert found in (content, content.strip(), content.lstrip(), content.rstrip())
        assert content[where.content_skip :].startswith(found)
        assert bool(rendered.text[where.calls_start : where.calls_end]) == bool(
            message.get("tool_calls")
        )


@pytest.mark.parametrize("template", [CHATML, TRIMMING, NATIVE_TOOLS])
@pytest.mark.parametrize("prompt", [False, True])
def test_text_is_what_the_template_gives(template: str, prompt: bool) -> None:
    tokenizer = tokenizer_with(template)
    messages = [
        {"role": "user", "content": " hello \n"},
        {"role": "assistant", "content": "\nhi"},
        {"role": "user", "content": ""},
    ]
    rendered = render(messages, tokenizer, add_generation_prompt=prompt)
    expected = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=prompt)
    assert rendered.text == expected
    assert not rendered.is_neutral


def test_trimmed_contents_say_how_much_is_gone() -> None:
    (message,) = render(
        [{"role": "user", "content": "\n\n x y \n"}], tokenizer_with(TRIMMING)
    ).messages
    assert message.content_skip == 3
    assert message.content_end - message.content_start == 3


def test_inserted_system_prompt_belongs_to_no_message() -> None:
    rendered = render([{"role": "user", "content": "hello"}], tokenizer_with(CHATML))
    (message,) = rendered.messages
    assert rendered.text[: message.start].endswith("assistant.<|im_end|>\n")
    assert rendered.text[message.start :] == "<|im_start|>user\nhello<|im_end|>\n"


def test_messages_end_with_their_own_suffix() -> None:
    messages = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    first, second = render(messages, tokenizer_with(TRIMMING)).messages
    text = render(messages, tokenizer_with(TRIMMING)).text
    assert text[first.start : first.end] == "<|im_start|>user\na<|im_end|>\n"
    assert text[second.start : second.end] == "<|im_start|>assistant\nb<|im_end|>\n"


def test_generation_prompt_is_an_assistant_message_without_content() -> None:
    rendered = render(
        [{"role": "user", "content": "a"}], tokenizer_with(CHATML), add_generation_prompt=True
    )
    prompt = rendered.generation_prompt
    assert prompt is not None
    assert (prompt.index, prompt.role) == (1, "assistant")
    assert rendered.text[prompt.start : prompt.end] == "<|im_start|>assistant\n"
    assert prompt.content_start == prompt.content_end == prompt.end


def test_calls_become_text_where_the_template_knows_none() -> None:
    messages = [{"role": "assistant", "content": "Look.", "tool_calls": [CALL, BROKEN]}]
    rendered = render(messages, tokenizer_with(CHATML))
    assert contents(rendered) == ["Look."]
    expected = "\n".join(
        ToolCall(name, arguments).to_text()
        for name, arguments in (("find", {"q": "x"}), ("get", '{"q": '))
    )
    assert calls(rendered) == [f"\n{expected}"]


@pytest.mark.parametrize("content", ["Look.", "", None])
@pytest.mark.parametrize("template", [NATIVE_TOOLS, CALLS_ONLY])
def test_native_calls_are_written_by_the_template(template: str, content: str | None) -> None:
    tokenizer = tokenizer_with(template)
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": content, "tool_calls": [CALL]},
        {"role": "tool", "content": "found", "tool_call_id": "c"},
    ]
    rendered = render(messages, tokenizer)
    native = {"id": "c", "type": "function", "function": {"name": "find", "arguments": {"q": "x"}}}
    expected = tokenizer.apply_chat_template(
        [messages[0], {**messages[1], "tool_calls": [native]}, messages[2]], tokenize=False
    )
    assert rendered.text == expected
    assert contents(rendered) == ["go", content or "", "found"]
    assert calls(rendered)[1].strip() == (
        '<tool_call>\n{"name": "find", "arguments": {"q": "x"}}\n</tool_call>'
    )
    assert rendered.text[rendered.messages[1].calls_end :].startswith("<|im_end|>\n")


def test_tool_results_speak_as_the_user_where_the_template_refuses_tools() -> None:
    messages = [{"role": "user", "content": "a"}, {"role": "function", "content": "b"}]
    rendered = render(messages, tokenizer_with(NO_TOOL_ROLE))
    assert not rendered.is_neutral
    assert rendered.text.endswith("<|im_start|>user\nb<|im_end|>\n")
    assert rendered.messages[1].role == "function"


@pytest.mark.parametrize("template", [STRICT, NO_SYSTEM, DROPPING, None])
def test_refusing_templates_give_the_neutral_rendering(template: str | None) -> None:
    messages = [
        {"role": "system", "content": "s"},
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
    ]
    rendered = render(messages, tokenizer_with(template), add_generation_prompt=True)
    call = ToolCall("find", {"q": "x"}).to_text()
    assert rendered.is_neutral
    assert rendered.text == f"[system]\ns\n\n[assistant]\n{call}\n\n[assistant]\n"


def test_strict_template_is_used_where_the_order_fits() -> None:
    messages = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    rendered = render(messages, tokenizer_with(STRICT))
    assert (rendered.is_neutral, rendered.text) == (False, "[INST] a [/INST] b<|im_end|>")


def test_neutral_rendering_can_be_asked_for() -> None:
    rendered = render(
        [{"role": "user", "content": "a"}], tokenizer_with(CHATML), force_neutral=True
    )
    assert rendered.text == "[user]\na\n\n"


def test_rewriting_template_gets_the_contents_unchanged() -> None:
    messages = [{"role": "assistant", "content": "<think>why</think>so"}]
    assert contents(render(messages, tokenizer_with(REWRITING))) == ["<think>why</think>so"]


def test_no_messages_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one message"):
        render([], tokenizer_with(CHATML))


def test_long_conversations_take_seconds() -> None:
    messages = [{"role": "user", "content": "word " * 300} for _ in range(1000)]
    start = time.perf_counter()
    render(messages, tokenizer_with(CHATML))
    assert time.perf_counter() - start < 5
