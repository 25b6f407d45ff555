"""Ask a tokenizer's chat template for a conversation, in the ways it may accept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jinja2 import TemplateError

from memdecay.classifier.messages import ChatMessage
from memdecay.classifier.placement import Body, Frame, PlacedText, place, placeholder
from memdecay.classifier.roles import ROLES, role_code

_PLAIN = (("user",), ("system", "user"), ("user", "assistant"))
"""Roles of conversations of which any template takes one."""

# What a template's own expressions may raise, besides Jinja's errors.
_REFUSALS = (
    TemplateError,
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)


@dataclass(frozen=True, slots=True)
class _Manner:
    """One way of presenting a conversation: who writes the calls, who gives the results."""

    has_native_calls: bool
    tool_role: str


def render_with_template(
    messages: Sequence[ChatMessage], tokenizer: Any, add_generation_prompt: bool
) -> PlacedText | None:
    """Return the template's rendering; None if it refuses, drops or reorders messages."""
    for manner in _manners(messages, tokenizer):
        placed = _render(messages, tokenizer, manner, add_generation_prompt)
        if placed is not None:
            return placed
    return None


def template_fault(tokenizer: Any) -> str | None:
    """Return why the chat template can render no conversation at all.

    Args:
        tokenizer: A transformers tokenizer.

    Returns:
        The reason in a line: the template does not parse, or fails on the plainest conversations.
        None where it works, and where there is none.
    """
    try:
        tokenizer.get_chat_template()
    except ValueError:
        return None
    reason = ""
    for roles in _PLAIN:
        messages = [{"role": role, "content": "Hello"} for role in roles]
        try:
            tokenizer.apply_chat_template(messages, tokenize=False)
        except _REFUSALS as error:
            reason = reason or str(error).strip().partition("\n")[0] or type(error).__name__
        else:
            return None
    return reason


def template_role(role: str, tool_role: str = "tool") -> str:
    """Return the standard name of a role; free names speak as the user.

    >>> template_role("observation"), template_role("gpt"), template_role("Reviewer")
    ('tool', 'assistant', 'user')
    """
    code = role_code(role)
    name = ROLES[code] if code >= 0 else "other"
    return {"other": "user", "tool": tool_role}.get(name, name)


def calls_as_text(message: ChatMessage) -> str:
    """Return the message's calls as they follow its content; empty without calls."""
    separator = "\n" if message.content and message.calls else ""
    return separator + message.calls_text


def _manners(messages: Sequence[ChatMessage], tokenizer: Any) -> list[_Manner]:
    try:
        template = str(tokenizer.get_chat_template())
    except ValueError:
        return []
    is_native = "tool_calls" in template and any(message.calls for message in messages)
    manners = [_Manner(has_native_calls=True, tool_role="tool")] if is_native else []
    manners.append(_Manner(has_native_calls=False, tool_role="tool"))
    if any(template_role(message.role) == "tool" for message in messages):
        manners.append(_Manner(has_native_calls=False, tool_role="user"))
    return manners


def _render(
    messages: Sequence[ChatMessage],
    tokenizer: Any,
    manner: _Manner,
    add_generation_prompt: bool,
) -> PlacedText | None:
    bodies = [_body(message, manner) for message in messages]
    blanks = [
        _presented(message, placeholder(index), manner) for index, message in enumerate(messages)
    ]
    rendering = _apply(tokenizer, blanks)
    plain = frame = _parse(rendering, len(messages))
    if manner.has_native_calls:
        frame = _parse(_apply(tokenizer, _blanks_with_calls(messages, manner)), len(messages))
    reals = [
        _presented(message, body.text, manner) | _native_calls(message, manner)
        for message, body in zip(messages, bodies, strict=True)
    ]
    text = _apply(tokenizer, reals)
    if rendering is None or plain is None or frame is None or text is None:
        return None
    placed = place(text, plain, frame, bodies)
    if not add_generation_prompt:
        return placed
    prompted = _apply(tokenizer, blanks, add_generation_prompt=True)
    prompt = prompted[len(rendering) :] if prompted and prompted.startswith(rendering) else ""
    return PlacedText(placed.text + prompt, placed.places, prompt)


def _body(message: ChatMessage, manner: _Manner) -> Body:
    if manner.has_native_calls:
        return Body(message.content, has_native_calls=bool(message.calls))
    return Body(message.content, calls=calls_as_text(message))


def _presented(message: ChatMessage, content: str, manner: _Manner) -> dict[str, Any]:
    presented: dict[str, Any] = {
        "role": template_role(message.role, manner.tool_role),
        "content": content,
    }
    if message.name:
        presented["name"] = message.name
    if message.tool_call_id:
        presented["tool_call_id"] = message.tool_call_id
    return presented


def _native_calls(
    message: ChatMessage, manner: _Manner, name_prefix: str = ""
) -> dict[str, list[dict[str, Any]]]:
    if not (manner.has_native_calls and message.calls):
        return {}
    calls = [call.to_openai() for call in message.calls]
    calls[0]["function"]["name"] = name_prefix + calls[0]["function"]["name"]
    return {"tool_calls": calls}


def _blanks_with_calls(messages: Sequence[ChatMessage], manner: _Manner) -> list[dict[str, Any]]:
    """Return the messages with placeholders, in the first call's name where content is empty.

    Templates often write a message of calls only in another way, so its content stays empty.
    """
    blanks = []
    for index, message in enumerate(messages):
        is_only_calls = bool(message.calls) and not message.content
        content = "" if is_only_calls else placeholder(index)
        name_prefix = placeholder(index) if is_only_calls else ""
        blanks.append(
            _presented(message, content, manner) | _native_calls(message, manner, name_prefix)
        )
    return blanks


def _parse(rendering: str | None, num_messages: int) -> Frame | None:
    return None if rendering is None else Frame.parse(rendering, num_messages)


def _apply(
    tokenizer: Any, messages: list[dict[str, Any]], *, add_generation_prompt: bool = False
) -> str | None:
    try:
        return str(
            tokenizer.apply_chat_template(
                messages, tokenize=False, add_generation_prompt=add_generation_prompt
            )
        )
    except _REFUSALS:
        return None
