"""Small hand-written files of every format, with what they hold."""

from __future__ import annotations

import io
import json
import zipfile
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class FileSample:
    """A file's content, the format it should be taken for, and the roles of each trace in it."""

    format: str
    name: str
    content: bytes
    roles: tuple[str, ...]


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, indent=1).encode()


def _lines(*values: Any) -> bytes:
    return "".join(f"{json.dumps(value, ensure_ascii=False)}\n" for value in values).encode()


def _call(name: str, arguments: Any, call_id: str = "c1") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


CHAT = [
    {"role": "system", "content": "Help with trains."},
    {"role": "user", "content": "When does the next train leave?"},
    {"role": "assistant", "content": None, "tool_calls": [_call("timetable", '{"n": 1}')]},
    {"role": "tool", "tool_call_id": "c1", "content": "12:04"},
    {"role": "assistant", "content": "At four past twelve."},
]

_ANTHROPIC = {
    "system": [{"type": "text", "text": "Help."}],
    "messages": [
        {"role": "user", "content": "Read a.txt"},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Open it.", "signature": "x"},
                {"type": "text", "text": "Reading."},
                {"type": "tool_use", "id": "t1", "name": "read", "input": {"path": "a.txt"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "t1", "content": [{"text": "hello"}]},
                {"type": "text", "text": "And now?"},
            ],
        },
    ],
}

_RESPONSES = [
    {"role": "user", "content": [{"type": "input_text", "text": "Weather?"}]},
    {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Ask the tool."}]},
    {"type": "function_call", "call_id": "f1", "name": "weather", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "f1", "output": "sunny"},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Sun."}]},
]


def _claude(kind: str, uuid: str, parent: str | None, content: Any, **more: Any) -> dict[str, Any]:
    message = {"role": kind, "content": content}
    return {
        "type": kind,
        "uuid": uuid,
        "parentUuid": parent,
        "sessionId": "s",
        "message": message,
    } | more


_CLAUDE = _lines(
    {"type": "summary", "summary": "A title", "leafUuid": "u4"},
    _claude("user", "u1", None, "Fix it"),
    _claude(
        "assistant", "u2", "u1", [{"type": "tool_use", "id": "t", "name": "Bash", "input": {}}]
    ),
    _claude("user", "u3", "u2", [{"type": "tool_result", "tool_use_id": "t", "content": "ok"}]),
    _claude("assistant", "u4", "u3", [{"type": "text", "text": "Done."}]),
)


def _codex(kind: str, payload: Any) -> dict[str, Any]:
    return {"timestamp": "2025-01-01T00:00:00Z", "type": kind, "payload": payload}


_CODEX_ITEMS = [
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Run it"}]},
    {"type": "function_call", "name": "shell", "arguments": "{}", "call_id": "k"},
    {"type": "function_call_output", "call_id": "k", "output": '{"output":"ok","metadata":{}}'},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Ran."}]},
]
_CODEX = _lines(
    _codex("session_meta", {"id": "s1", "cwd": "/p", "instructions": "Be brief."}),
    *(_codex("response_item", item) for item in _CODEX_ITEMS),
    _codex("event_msg", {"type": "agent_message", "message": "Ran."}),
)
_CODEX_OLD = _lines(
    {"id": "s0", "timestamp": "2025-01-01T00:00:00Z", "instructions": None},
    {"record_type": "state"},
    *_CODEX_ITEMS,
)

_PI = _lines(
    {"type": "session", "id": "p1", "cwd": "/p"},
    {"type": "message", "message": {"role": "user", "content": [{"type": "text", "text": "Go"}]}},
    {
        "type": "message",
        "message": {
            "role": "assistant",
            "content": [{"type": "toolCall", "id": "x", "name": "read", "arguments": {"p": 1}}],
        },
    },
    {
        "type": "message",
        "message": {
            "role": "toolResult",
            "toolCallId": "x",
            "toolName": "read",
            "content": [{"type": "text", "text": "text"}],
        },
    },
    {"type": "compaction", "summary": "So far: read."},
    {"type": "model_change", "modelId": "m"},
)

_GEMINI = _json(
    {
        "sessionId": "g",
        "projectHash": "h",
        "messages": [
            {"id": "1", "type": "user", "content": "Read it"},
            {
                "id": "2",
                "type": "gemini",
                "content": "Reading",
                "thoughts": [{"subject": "Plan", "description": "read"}],
                "toolCalls": [
                    {
                        "id": "c",
                        "name": "read_file",
                        "args": {"p": "a"},
                        "result": [{"functionResponse": {"response": {"output": "body"}}}],
                    }
                ],
            },
        ],
    }
)

_SWE_AGENT = _json(
    {
        "environment": "swe_main",
        "trajectory": [{"action": "ls", "observation": "a", "response": "ls", "thought": "t"}],
        "history": [
            {"role": "system", "content": "S", "agent": "main", "message_type": "system_prompt"},
            {"role": "user", "content": "Demo", "agent": "main", "is_demo": True},
            {"role": "assistant", "content": "ls", "agent": "main", "thought": "t", "action": "ls"},
            {"role": "user", "content": "a.py", "agent": "main", "message_type": "observation"},
        ],
        "info": {"exit_status": "submitted"},
    }
)

_MINI = _json(
    {
        "info": {"exit_status": "Submitted"},
        "messages": [
            {"role": "system", "content": "S"},
            {"role": "user", "content": "Task"},
            {"role": "assistant", "content": "THOUGHT: look\n```bash\nls\n```", "extra": {}},
            {"role": "user", "content": "<returncode>0</returncode>\n<output>a</output>"},
        ],
        "trajectory_format": "mini-swe-agent-1",
    }
)

_SMITH = _lines(
    {
        "instance_id": "a__b-1",
        "messages": [
            {"role": "user", "content": "Task"},
            {"role": "assistant", "content": "<function=bash>\n<parameter=c>ls</parameter>"},
            {"role": "user", "content": "OBSERVATION:\na.py"},
        ],
    }
)

_EVENTS = _json(
    [
        {"id": 0, "source": "user", "action": "message", "args": {"content": "Rename it"}},
        {
            "id": 1,
            "source": "agent",
            "action": "run",
            "args": {"command": "mv a b", "thought": "Mv"},
        },
        {"id": 2, "source": "agent", "cause": 1, "observation": "run", "content": "", "extras": {}},
        {"id": 3, "source": "environment", "observation": "agent_state_changed", "extras": {}},
        {"id": 4, "source": "agent", "action": "finish", "args": {"thought": "Renamed."}},
    ]
)

_LLM_LOG = _json(
    {
        "messages": CHAT[:2],
        "response": {"choices": [{"message": {"role": "assistant", "content": "Soon."}}]},
        "kwargs": {"tools": [{"name": "timetable"}]},
        "cost": 0.1,
    }
)

_TAU = _json(
    [
        {
            "task_id": 3,
            "trial": trial,
            "reward": 1.0,
            "info": {"task": {"actions": ["gold"]}},
            "traj": [*CHAT, {"role": "user", "content": "Thanks! ###STOP###"}],
        }
        for trial in (0, 1)
    ]
)

_TAU2 = _json(
    {
        "info": {"environment_info": {"policy": "Be kind."}},
        "tasks": [],
        "simulations": [
            {
                "id": "r",
                "task_id": "7",
                "trial": 0,
                "reward_info": {"reward": 1},
                "messages": [
                    {"role": "assistant", "content": "Hi!"},
                    {"role": "user", "content": "Look up 4"},
                    {
                        "role": "assistant",
                        "content": None,
                        "tool_calls": [
                            {
                                "id": "a",
                                "name": "find",
                                "arguments": {"n": 4},
                                "requestor": "assistant",
                            }
                        ],
                    },
                    {"id": "a", "role": "tool", "content": "four", "requestor": "assistant"},
                    {"role": "user", "content": "###STOP###"},
                ],
            }
        ],
    }
)

_REACT = b"""Question: Who wrote it?
Thought 1: Search.
Action 1: Search[it]
Observation 1: A page says:
Thought 9: this is the page's own text
Observation 4: so is this
Thought 2: Found.
Action 2: Finish[Ann]
Observation 2: Answer is CORRECT
Correct answer: Ann

Question: And that?
Thought 1: Search.
Action 1: Search[that]
Observation 1: nothing
"""

_LANGCHAIN_REACT = b"""Question: two plus two?
Thought: use the calculator
Action: calc
Action Input: 2+2
Observation: 4
Thought: done
Final Answer: 4
"""

_ALFWORLD = b"""You are in the middle of a room.
Your task is to: put a cup on the shelf.
> think: I need a cup.
OK.
> go to shelf 1
You see a cup.
> take cup 1 from shelf 1
You take it.
"""

_PROMPTS = _json({"act": _REACT.decode(), "plain": "Claim: x\nAnswer: yes\n"})

_LANGSMITH = _json(
    {
        "post": [
            {
                "id": "r",
                "trace_id": "t",
                "dotted_order": "1",
                "run_type": "llm",
                "inputs": {"messages": CHAT[:2]},
            }
        ],
        "patch": [
            {
                "trace_id": "t",
                "dotted_order": "1",
                "outputs": {"choices": [{"message": {"role": "assistant", "content": "Soon"}}]},
            }
        ],
    }
)


def _lc(kind: str, **kwargs: Any) -> dict[str, Any]:
    return {"lc": 1, "type": "constructor", "id": ["langchain", "messages", kind], "kwargs": kwargs}


_LANGCHAIN = _lines(
    {
        "id": "r1",
        "trace_id": "t1",
        "run_type": "llm",
        "inputs": {
            "messages": [[_lc("SystemMessage", content="S"), _lc("HumanMessage", content="Q")]]
        },
        "outputs": {
            "generations": [
                [
                    {
                        "text": "",
                        "message": _lc(
                            "AIMessage",
                            content="",
                            tool_calls=[
                                {"name": "f", "args": {"a": 1}, "id": "c", "type": "tool_call"}
                            ],
                        ),
                    }
                ]
            ]
        },
    }
)

_LANGFUSE = _json(
    {
        "trace": {"id": "t", "name": "agent", "input": "[]", "output": "{}"},
        "observations": [
            {
                "id": "o2",
                "traceId": "t",
                "type": "GENERATION",
                "startTime": "2025-01-01T00:00:02Z",
                "input": json.dumps(CHAT[:4]),
                "output": json.dumps(CHAT[4]),
            },
            {
                "id": "o1",
                "traceId": "t",
                "type": "GENERATION",
                "startTime": "2025-01-01T00:00:01Z",
                "input": json.dumps(CHAT[:2]),
                "output": {
                    "role": "assistant",
                    "content": "",
                    "additional_kwargs": {"tool_calls": CHAT[2]["tool_calls"]},
                },
            },
            {"id": "o3", "traceId": "t", "type": "SPAN", "input": "x"},
        ],
    }
)
_CHATML = _json(
    {
        "o1": {
            "input": {"success": True, "data": CHAT[:2]},
            "output": {
                "success": True,
                "data": [{"json": {"message": {"role": "assistant", "content": "Hi"}}}],
            },
        },
        "o2": {"input": {"success": False, "error": {"name": "E"}}},
    }
)

_PARTS = [
    {"role": "user", "parts": [{"type": "text", "content": "Weather?"}]},
    {
        "role": "assistant",
        "parts": [{"type": "tool_call", "id": "c", "name": "w", "arguments": {"city": "Bonn"}}],
    },
    {"role": "user", "parts": [{"type": "tool_call_response", "id": "c", "result": "rain"}]},
]
_REPLY_PARTS = [{"role": "assistant", "parts": [{"type": "text", "content": "Rain."}]}]


def _otlp(**attributes: str) -> bytes:
    listed = [
        {"key": key.replace("__", "."), "value": {"stringValue": value}}
        for key, value in attributes.items()
    ]
    span = {"traceId": "t", "spanId": "s", "name": "chat", "attributes": listed}
    return _json({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]})


_OTEL = _otlp(
    gen_ai__system_instructions=json.dumps([{"type": "text", "content": "Be brief."}]),
    gen_ai__input__messages=json.dumps(_PARTS),
    gen_ai__output__messages=json.dumps(_REPLY_PARTS),
)
_OTEL_EVENTS = _lines(
    {
        "name": "chat",
        "trace_id": "t",
        "attributes": {"gen_ai.system": "openai"},
        "events": [
            {"name": "gen_ai.system.message", "attributes": {"content": "S"}},
            {"name": "gen_ai.user.message", "attributes": {"content": "Q"}},
            {
                "name": "gen_ai.choice",
                "attributes": {"message": '{"role":"assistant","content":"A"}'},
            },
        ],
    }
)
_OPENINFERENCE = _lines(
    {
        "context": {"trace_id": "t"},
        "name": "llm",
        "attributes": {
            "llm.input_messages.0.message.role": "user",
            "llm.input_messages.0.message.content": "2*3?",
            "llm.output_messages.0.message.role": "assistant",
            "llm.output_messages.0.message.tool_calls.0.tool_call.function.name": "multiply",
            "llm.output_messages.0.message.tool_calls.0.tool_call.function.arguments": '{"a":2}',
            "llm.tools.0.tool.json_schema": '{"name":"multiply"}',
        },
    }
)

_INSPECT_SAMPLE = {
    "id": 1,
    "epoch": 1,
    "input": "q",
    "target": "gold",
    "messages": [
        {"role": "user", "content": "attachment://a1"},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": "c", "function": "go", "arguments": {"url": "u"}}],
        },
        {"role": "tool", "tool_call_id": "c", "function": "go", "content": "page"},
    ],
    "attachments": {"a1": "A long question"},
}
_INSPECT = _json(
    {"version": 2, "status": "success", "eval": {"task": "web"}, "samples": [_INSPECT_SAMPLE]}
)


def _eval_archive() -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("header.json", "{}")
        archive.writestr("samples/1_epoch_1.json", json.dumps(_INSPECT_SAMPLE))
    return stream.getvalue()


_AIDER = b"""
# aider chat started at 2025-01-01 10:00:00

> Aider v0.35.1  
> Git repo: .git  

#### fix the bug  
#### please  

Sure:

```python
> quoted in code
```

> Applied edit to a.py  

# aider chat started at 2025-01-02 10:00:00

#### hello  
"""  # noqa: W291  aider ends its lines with two spaces.

_AUTOGEN_PROMPT = [
    {"type": "SystemMessage", "content": "S"},
    {"type": "UserMessage", "source": "User", "content": ["Part one", "part two"]},
]
_AUTOGEN = _json(
    [
        {"mode": "create", "messages": _AUTOGEN_PROMPT, "response": {"content": "One."}},
        {
            "mode": "create",
            "messages": [
                *_AUTOGEN_PROMPT,
                {"type": "AssistantMessage", "source": "Assistant", "content": "One."},
                {"type": "UserMessage", "source": "User", "content": "Call it"},
            ],
            "response": {"content": [{"id": "c", "name": "f", "arguments": "{}"}]},
        },
    ]
)

_WHO = _json(
    {
        "history": [
            {"content": "Find it", "role": "human"},
            {"content": "Plan", "role": "Orchestrator (thought)"},
            {"content": "A page", "name": "WebSurfer", "role": "assistant"},
        ],
        "question": "q",
        "ground_truth": "42",
        "mistake_agent": "WebSurfer",
        "mistake_step": "2",
        "question_ID": "id-7",
    }
)

_FUNCTION_CHAT = [
    {"role": "system", "content": "S"},
    {"role": "user", "content": "Q"},
    {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
    {"role": "function", "name": "f", "content": "r"},
    {"role": "assistant", "content": "Done"},
]
_TOOLBENCH = _json(
    {
        "win": True,
        "tree": {"tree": {"children": [{"node_type": "Action"}, {"node_type": "Thought"}]}},
        "forward_args": {},
        "answer_generation": {
            "query": "Q",
            "final_answer": "Done",
            "train_messages": [_FUNCTION_CHAT[:3], _FUNCTION_CHAT],
        },
    }
)
_TOOLBENCH_TREE = _json(
    {
        "tree": {
            "tree": {
                "node_type": "Action Input",
                "children": [
                    {
                        "node_type": "Action",
                        "description": "f",
                        "children": [
                            {"node_type": "Action Input", "description": "{}", "observation": "r"}
                        ],
                    },
                    {"node_type": "Thought", "description": "Stop"},
                ],
            }
        },
        "forward_args": {},
        "answer_generation": {"query": "Q"},
    }
)

_WEBVOYAGER = _json(
    [
        {"role": "system", "content": "You act as a robot browsing the web."},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "A task"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
            ],
        },
        {"role": "assistant", "content": "Thought: look\nAction: Click [1]"},
    ]
)

_INTERCODE = _json(
    {
        "0": {
            "environment": "ic_bash",
            "dataset": "d.json",
            "task_id": 0,
            "query": "Count files",
            "turn_history": {
                "thoughts": ["List."],
                "actions": ["execute[ls]", "submit"],
                "observations": ["a", [1, 2]],
                "rewards": [0, 1],
            },
        }
    }
)

_LATS = b"""2023-10-10 01:48:25,478 - INFO - {}
2023-10-10 01:48:25,502 - INFO - PROMPT: WebShop
Instruction:
a red cup
[Search]

Action: search[cup]
Observation: [Back]
2023-10-10 01:48:26,502 - INFO - PROMPT: WebShop
Instruction:
a red cup
[Search]

Action: search[cup]
Observation: [Back]

Action: click[Buy Now]
2023-10-10 01:48:27,502 - INFO - VALUE PROMPT: judge it
"""

_ATIF = _json(
    {
        "schema_version": "ATIF-v1.6",
        "session_id": "s",
        "agent": {"name": "a", "version": "1", "model_name": "m"},
        "steps": [
            {"step_id": 1, "source": "user", "message": "Do it"},
            {
                "step_id": 2,
                "source": "agent",
                "message": "Listing",
                "tool_calls": [
                    {"tool_call_id": "c", "function_name": "bash", "arguments": {"keys": "ls"}}
                ],
                "observation": {"results": [{"source_call_id": "c", "content": "a.txt"}]},
            },
        ],
    }
)

_SHAREGPT = _json(
    [
        {
            "conversations": [
                {"from": "human", "value": "Soup?"},
                {"from": "function_call", "value": '{"name": "find", "arguments": {"q": "soup"}}'},
                {"from": "observation", "value": '{"n": 1}'},
                {"from": "gpt", "value": "One."},
            ],
            "system": "Cook.",
            "tools": '[{"name": "find"}]',
        }
    ]
)
_HERMES = _lines(
    {
        "conversations": [
            {"from": "system", "value": "Tools: <tools>[]</tools>"},
            {"from": "human", "value": "Price?"},
            {"from": "gpt", "value": '<tool_call>\n{"name": "p", "arguments": {}}\n</tool_call>'},
            {"from": "tool", "value": "<tool_response>\n3\n</tool_response>"},
        ]
    }
)
_OWN = _lines(
    {
        "id": "x/1",
        "source": "x",
        "messages": [
            {"role": "user", "content": "hi", "kind": "k"},
            {"role": "tool", "content": "t"},
        ],
        "spans": [{"message": 0, "start": 0, "end": 2, "region": "recent_dialogue"}],
        "meta": {"a": 1},
    }
)

SAMPLES = (
    FileSample("openai-chat", "chat.jsonl", _lines({"messages": CHAT}), ("suata",)),
    FileSample(
        "openai-chat",
        "list.json",
        _json([{"messages": CHAT}, {"messages": CHAT[1:]}]),
        ("suata", "uata"),
    ),
    FileSample("openai-chat", "bare.json", _json(CHAT), ("suata",)),
    FileSample("openai-chat", "bare.jsonl", _lines(CHAT, CHAT[1:]), ("suata", "uata")),
    FileSample("openai-chat", "loose.jsonl", _lines(*CHAT), ("suata",)),
    FileSample(
        "openai-chat",
        "deep.jsonl",
        _lines(
            {
                "request": {"body": {"messages": CHAT[:2]}},
                "response": {"choices": [{"message": {"role": "assistant", "content": "x"}}]},
            }
        ),
        ("sua",),
    ),
    FileSample("openai-chat", "legacy.json", _json({"messages": _FUNCTION_CHAT}), ("suata",)),
    FileSample("openai-responses", "items.json", _json(_RESPONSES), ("uata",)),
    FileSample(
        "openai-responses",
        "response.jsonl",
        _lines({"instructions": "Be brief", "input": _RESPONSES[:1], "output": _RESPONSES[2:3]}),
        ("sua",),
    ),
    FileSample("anthropic", "request.json", _json(_ANTHROPIC), ("suatu",)),
    FileSample("sharegpt", "sharegpt.json", _SHAREGPT, ("suata",)),
    FileSample("sharegpt", "hermes.jsonl", _HERMES, ("suat",)),
    FileSample("claude-code", "session.jsonl", _CLAUDE, ("uata",)),
    FileSample("codex", "rollout.jsonl", _CODEX, ("suata",)),
    FileSample("codex", "rollout-old.jsonl", _CODEX_OLD, ("uata",)),
    FileSample("pi", "pi.jsonl", _PI, ("uatu",)),
    FileSample("gemini-cli", "session.json", _GEMINI, ("uat",)),
    FileSample("swe-agent", "a.traj", _SWE_AGENT, ("suau",)),
    FileSample("mini-swe-agent", "a.traj.json", _MINI, ("suau",)),
    FileSample("swe-smith", "smith.jsonl", _SMITH, ("uau",)),
    FileSample("openhands-events", "events.json", _EVENTS, ("uata",)),
    FileSample("openhands-llm-log", "log.json", _LLM_LOG, ("sua",)),
    FileSample("tau-bench", "runs.json", _TAU, ("suatau", "suatau")),
    FileSample("tau2", "results.json", _TAU2, ("sauat",)),
    FileSample("react-text", "log.txt", _REACT, ("uatat", "uat")),
    FileSample("react-text", "langchain.txt", _LANGCHAIN_REACT, ("uata",)),
    FileSample("react-text", "alfworld.txt", _ALFWORLD, ("uatatat",)),
    FileSample("react-prompts", "prompts.json", _PROMPTS, ("uatatuat", "ua")),
    FileSample("langsmith", "body.json", _LANGSMITH, ("sua",)),
    FileSample("langsmith", "runs.jsonl", _LANGCHAIN, ("sua",)),
    FileSample("langfuse", "export.json", _LANGFUSE, ("suata",)),
    FileSample("langfuse", "chatml.json", _CHATML, ("sua",)),
    FileSample("otel-genai", "otlp.json", _OTEL, ("suata",)),
    FileSample("otel-genai", "events.jsonl", _OTEL_EVENTS, ("sua",)),
    FileSample("openinference", "spans.jsonl", _OPENINFERENCE, ("ua",)),
    FileSample("inspect", "inspect.json", _INSPECT, ("uat",)),
    FileSample("inspect", "log.eval", _eval_archive(), ("uat",)),
    FileSample("aider", "history.md", _AIDER, ("tuat", "u")),
    FileSample("autogen", "session.json", _AUTOGEN, ("suaua",)),
    FileSample("who-and-when", "6.json", _WHO, ("uaa",)),
    FileSample("toolbench", "answer.json", _TOOLBENCH, ("suata",)),
    FileSample("toolbench", "tree.json", _TOOLBENCH_TREE, ("uat", "ua")),
    FileSample("webvoyager", "messages.json", _WEBVOYAGER, ("sua",)),
    FileSample("intercode", "intercode.json", _INTERCODE, ("uatat",)),
    FileSample("lats-log", "search.log", _LATS, ("uata",)),
    FileSample("atif", "trajectory.json", _ATIF, ("uat",)),
    FileSample("memdecay", "own.jsonl", _OWN, ("ut",)),
)
