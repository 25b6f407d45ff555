"""Tell a model of its tools, whatever its chat template knows of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from memdecay.classifier.features import role_code
from memdecay.classifier.messages import clean_text, content_text

_SYSTEM = role_code("system")
_INTRODUCTION = (
    "You can call these tools. To call one, write a JSON object with its name and arguments "
    "between <tool_call> and </tool_call>, and nothing behind it."
)


def tools_text(tools: Sequence[Mapping[str, Any]]) -> str:
    """Return the text that tells of tools, one definition a line.

    Args:
        tools: OpenAI tool definitions, at least one.
    """
    lines = (json.dumps(tool, ensure_ascii=False, default=str) for tool in tools)
    return clean_text("\n".join((_INTRODUCTION, "<tools>", *lines, "</tools>")))


def with_tools(
    messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]
) -> tuple[Mapping[str, Any], ...]:
    """Put the tools at the end of the leading system message, or into one of their own.

    Args:
        messages: OpenAI chat messages.
        tools: OpenAI tool definitions; none leaves the messages as they are.
    """
    if not tools:
        return tuple(messages)
    told = tools_text(tools)
    if messages and role_code(str(messages[0].get("role") or "")) == _SYSTEM:
        text = content_text(messages[0].get("content"))
        first = {**messages[0], "content": f"{text}\n\n{told}" if text else told}
        return (first, *messages[1:])
    return ({"role": "system", "content": told}, *messages)
