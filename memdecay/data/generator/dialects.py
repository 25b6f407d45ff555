"""The ways in which agents write a tool call and get its result."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from memdecay.data.generator.builder import Piece, TraceBuilder, finding, surround
from memdecay.data.generator.wording import Wording


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool as its description names it.

    Attributes:
        name: Name of the function.
        purpose: One sentence on what it does.
        parameters: Parameter names with their descriptions.
    """

    name: str
    purpose: str
    parameters: Mapping[str, str] = field(default_factory=dict)

    def to_schema(self) -> dict[str, Any]:
        """Return the tool as a JSON schema in OpenAI's shape."""
        properties = {
            name: {"type": "string", "description": text} for name, text in self.parameters.items()
        }
        parameters = {"type": "object", "properties": properties, "required": list(properties)}
        return {
            "type": "function",
            "function": {
                "name": self.name,
                "description": self.purpose,
                "parameters": parameters,
            },
        }


def _tool_call_tag(name: str, arguments: Mapping[str, Any]) -> str:
    body = json.dumps({"name": name, "arguments": arguments})
    return f"<tool_call>\n{body}\n</tool_call>"


def _xml(name: str, arguments: Mapping[str, Any]) -> str:
    rows = "".join(f"<parameter={key}>{value}</parameter>\n" for key, value in arguments.items())
    return f"<function={name}>\n{rows}</function>"


def _nested_xml(name: str, arguments: Mapping[str, Any]) -> str:
    rows = "".join(f"  <{key}>{value}</{key}>\n" for key, value in arguments.items())
    return f"<{name}>\n{rows}</{name}>"


def _action_input(name: str, arguments: Mapping[str, Any]) -> str:
    return f"Action: {name}\nAction Input: {json.dumps(arguments)}"


def _bracket(name: str, arguments: Mapping[str, Any]) -> str:
    return f"Action: {name}[{', '.join(str(value) for value in arguments.values())}]"


def _json_block(name: str, arguments: Mapping[str, Any]) -> str:
    return f"```json\n{json.dumps({'tool': name, 'args': arguments}, indent=2)}\n```"


def _execute(name: str, arguments: Mapping[str, Any]) -> str:
    inner = ", ".join(f"{key}={value!r}" for key, value in arguments.items())
    return f"<execute>\nprint({name}({inner}))\n</execute>"


_TEXT_CALLS = {
    "tool_call": (_tool_call_tag, "tool", "<tool_response>\n", "\n</tool_response>"),
    "xml": (_xml, "user", "OBSERVATION:\n", ""),
    "nested_xml": (_nested_xml, "user", "<result>\n", "\n</result>"),
    "action_input": (_action_input, "user", "Observation: ", ""),
    "bracket": (_bracket, "tool", "Observation: ", ""),
    "json_block": (_json_block, "user", "Tool result:\n", ""),
    "execute": (_execute, "user", "Output:\n", "\n"),
}
STRUCTURED_STYLES = ("openai", "openai_without_ids", "function_role")
TEXT_STYLES = tuple(_TEXT_CALLS)


class Dialect:
    """Writes calls and results of one run in one style."""

    def __init__(self, wording: Wording, style: str) -> None:
        """Choose the style.

        Raises:
            ValueError: No style has this name.
        """
        if style not in STRUCTURED_STYLES + TEXT_STYLES:
            raise ValueError(
                f"unknown style {style!r}; expected one of "
                f"{', '.join(STRUCTURED_STYLES + TEXT_STYLES)}"
            )
        self.style = style
        self._wording = wording
        self._id_prefix = wording.pick(["call_", "toolu_01", "chatcmpl-tool-", "t"])
        self._last: tuple[str, str] = ("", "")

    @property
    def is_structured(self) -> bool:
        """Whether calls stand in ``tool_calls`` and not in the text."""
        return self.style in STRUCTURED_STYLES

    def call(
        self, builder: TraceBuilder, name: str, arguments: Mapping[str, Any], *before: Piece
    ) -> None:
        """Add an assistant message with a call, after the pieces that lead to it."""
        if self.is_structured:
            self._structured_call(builder, name, arguments, before)
            return
        text = _TEXT_CALLS[self.style][0](name, arguments)
        builder.add("assistant", *(surround(before, suffix="\n") if before else ()), finding(text))

    def result(self, builder: TraceBuilder, *pieces: Piece) -> None:
        """Add the message that answers the last call."""
        name, call_id = self._last
        if self.style == "openai":
            builder.add("tool", *pieces, tool_call_id=call_id, name=name)
        elif self.style == "openai_without_ids":
            builder.add("tool", *pieces, name=name)
        elif self.style == "function_role":
            builder.add("function", *pieces, name=name)
        else:
            _, role, prefix, suffix = _TEXT_CALLS[self.style]
            builder.add(role, *surround(pieces, prefix, suffix))

    def _structured_call(
        self,
        builder: TraceBuilder,
        name: str,
        arguments: Mapping[str, Any],
        before: Sequence[Piece],
    ) -> None:
        function = {"name": name, "arguments": dict(arguments)}
        call: dict[str, Any] = {"type": "function", "function": function}
        call_id = self._id_prefix + self._wording.code("~~~~~~~~")
        if self.style == "openai":
            function["arguments"] = json.dumps(arguments)
            call = {"id": call_id, **call}
        self._last = (name, call_id)
        builder.add("assistant", *before, tool_calls=(call,))


def describe_tools(wording: Wording, tools: Sequence[Tool]) -> str:
    """Return the tools as a section of a system message, in one of several notations."""
    notation = wording.pick(["list", "json", "signature", "tags", "manual"])
    if notation == "json":
        rows = [json.dumps(tool.to_schema()) for tool in tools]
        return "Available functions, one JSON schema a line:\n" + "\n".join(rows)
    if notation == "tags":
        rows = [json.dumps(tool.to_schema()["function"]) for tool in tools]
        return "<tools>\n" + "\n".join(rows) + "\n</tools>"
    if notation == "manual":
        return wording("{The following tools exist|Tool manual}:\n\n") + "\n\n".join(
            _manual_entry(i, tool) for i, tool in enumerate(tools, 1)
        )
    if notation == "signature":
        rows = [
            f"def {tool.name}({', '.join(f'{name}: str' for name in tool.parameters)}) -> str:\n"
            f'    """{tool.purpose}"""'
            for tool in tools
        ]
        return "You may call these Python functions:\n\n" + "\n\n".join(rows)
    rows = [
        f"{i}. {tool.name}({', '.join(tool.parameters)}): {tool.purpose}"
        for i, tool in enumerate(tools, 1)
    ]
    return wording("{Tools:|You have these tools:|# Tools}\n") + "\n".join(rows)


def _manual_entry(number: int, tool: Tool) -> str:
    example = ", ".join(f'{name}="{name} of your choice"' for name in tool.parameters)
    rows = "".join(f"    {name} (string): {text}\n" for name, text in tool.parameters.items())
    return (
        f"[{number}] {tool.name}({', '.join(f'{name}: str' for name in tool.parameters)}) -> str\n"
        f"{tool.purpose}\n{rows}For example: {tool.name}({example})"
    )
