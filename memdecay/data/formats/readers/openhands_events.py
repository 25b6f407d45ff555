"""OpenHands event streams: actions, and observations that name their cause."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from memdecay.data.formats.base import CERTAIN, NO, Draft, Format, guarded
from memdecay.data.formats.calls import read_call, tool_call
from memdecay.data.formats.content import content_text
from memdecay.data.formats.facts import run_facts
from memdecay.data.formats.leftovers import note_leftovers
from memdecay.data.formats.report import Notes
from memdecay.data.formats.sample import Sample
from memdecay.data.formats.source import Record, Source
from memdecay.data.formats.thoughts import THOUGHT_KEYS, thoughts_of
from memdecay.data.formats.values import as_list, as_map, as_str, first_str, maps
from memdecay.data.trace import Message

# Who caused the event and when; the caption that a screen shows for it.
_READ = {"source", "message", "action", "args", "observation", "content", "extras", "cause"}
_READ |= {"llm_metrics", "tool_call_metadata"}
_SILENT = {"agent_state_changed", "change_agent_state", "null", "recall", "condensation"}
_SHELL_STATE = (
    ("Current working directory", "working_dir"),
    ("Python interpreter", "py_interpreter_path"),
)
_THOUGHT_KEYS = ("thought", "content", "final_thought")
_READ_OF_REPLIES = ("role", "content", "tool_calls", *THOUGHT_KEYS)
_SPOKEN = ("message", "finish", "think")
_SETTINGS = {"confirmation_state", "security_risk", "task_completed", "tools", "agent_class"}
_SETTINGS |= {"openhands_version"}
# What a condensation leaves and what is recalled: the model is shown it as a user's message.
_MEMORIES = {
    "condensation": ("summary",),
    "recall": (
        *("repo_instructions", "additional_agent_instructions", "runtime_hosts"),
        *("conversation_instructions", "custom_secrets_descriptions", "microagent_knowledge"),
    ),
}
# Beside a result's text: the call once more, and what files and screens were before and after.
_REPEATED = {"command", "metadata", "code", "name", "arguments", "path", "url", "diff", "outputs"}
_REPEATED |= {"old_content", "new_content", "impl_source", "formatted_output_and_error"}
_REPEATED |= {"trigger_by_action", "prev_exist", "thought"}


def score(sample: Sample) -> int:
    """Tell events with a source and an action or observation, or records with a history of them."""
    records = sample.records()
    inner = [event for record in records for event in maps(record.get("history"))]
    return CERTAIN if any(_is_event(event) for event in (*records, *inner)) else NO


def read(source: Source) -> Iterator[Draft]:
    """Yield the conversation of each event list; loose events of a file together make one."""
    loose: list[Mapping[str, Any]] = []
    for record in source.items():
        if as_list(record.value.get("history")):
            yield from guarded(_run, record, source.notes)
        else:
            loose.append(record.value)
    if loose:
        whole = Record(loose, "")
        yield from guarded(_loose, whole, source.notes)


def _loose(record: Record, notes: Notes) -> Iterator[Draft]:
    yield Draft(_messages(record.value, notes), {"tools": _tools(record.value)})


def _run(record: Record, notes: Notes) -> Iterator[Draft]:
    events: list[Mapping[str, Any]] = []
    for item in record.value["history"]:
        # Older files keep pairs of action and observation.
        listed = item if isinstance(item, list) else [item]
        notes.skip("event that is no object", sum(not isinstance(part, dict) for part in listed))
        events += maps(listed)
    notes.skip("configuration of the run", int(bool(record.value.get("metadata"))), record.where)
    facts = run_facts(record.value, ("history", "metadata"))
    yield Draft(_messages(events, notes), {"tools": _tools(events)} | facts)


def _tools(events: list[Mapping[str, Any]]) -> object:
    """Return the tools that stand beside the system prompt."""
    prompts = (as_map(event.get("args")) for event in events if event.get("action") == "system")
    return next((args["tools"] for args in prompts if args.get("tools")), None)


def _messages(events: list[Mapping[str, Any]], notes: Notes) -> list[Message]:
    messages: list[Message] = []
    calls_of: dict[str, str] = {}
    last_response = ""
    for event in events:
        if memory := _memory(event, notes):
            messages.append(memory)
            continue
        if not _is_event(event) or _is_silent(event):
            notes.skip("event without words for the model")
            continue
        note_leftovers(event, _READ, notes, "event")
        if "observation" in event:
            messages.append(_observation(event, calls_of, notes))
            continue
        response = as_map(as_map(event.get("tool_call_metadata")).get("model_response"))
        response_id = first_str(response, ("id",))
        if response_id and response_id == last_response:
            continue  # The further calls of a reply already read.
        last_response = response_id
        messages.append(_action(event, response, calls_of, notes))
    return messages


def _memory(event: Mapping[str, Any], notes: Notes) -> Message | None:
    """Read what the agent is reminded of."""
    kind = as_str(event.get("observation")) or as_str(event.get("action"))
    held = as_map(event.get("extras")) or as_map(event.get("args"))
    values = [held[key] for key in _MEMORIES.get(kind, ()) if held.get(key)]
    texts = [part for value in values for part in (value if isinstance(value, list) else [value])]
    text = "\n".join(content_text(as_map(part).get("content", part), notes) for part in texts)
    return Message("user", text, (), (("kind", kind),)) if text.strip() else None


def _action(
    event: Mapping[str, Any], response: Mapping[str, Any], calls_of: dict[str, str], notes: Notes
) -> Message:
    args = as_map(event.get("args"))
    action = as_str(event.get("action"))
    texts = [content_text(args.get(key), notes) for key in _THOUGHT_KEYS]
    said = "\n".join(text for text in dict.fromkeys(texts) if text)
    if event.get("source") in ("user", "environment") or action == "system":
        note_leftovers(args, {*_THOUGHT_KEYS, *_SETTINGS}, notes, "message", [said])
        role = "system" if action == "system" else "user"
        return Message(role, said or as_str(event.get("message")))
    reply = next(
        maps([as_map(choice).get("message") for choice in as_list(response.get("choices"))]), {}
    )
    listed = as_list(as_map(reply).get("tool_calls"))
    calls = [call for raw in listed if (call := read_call(raw, notes)) is not None]
    text = content_text(as_map(reply).get("content"), notes) or said
    thoughts = thoughts_of(as_map(reply), notes)
    notes.skip("alternative reply", len(as_list(response.get("choices"))) - 1)
    note_leftovers(reply, _READ_OF_REPLIES, notes, "reply", [text, *thoughts])
    if not calls and action in _SPOKEN:
        note_leftovers(args, {*_THOUGHT_KEYS, *_SETTINGS}, notes, "message", [text])
    elif not calls:
        shown = {key: value for key, value in args.items() if key != "thought"}
        call_id = f"event_{first_str(event, ('id',))}"
        calls = [tool_call(action, shown, call_id, notes)]
        text = content_text(args.get("thought"), notes)
        calls_of[first_str(event, ("id",))] = call_id
    extra = (("reasoning_content", "\n".join(thoughts)),) if thoughts else ()
    return Message("assistant", text, tuple(calls), extra)


def _observation(event: Mapping[str, Any], calls_of: Mapping[str, str], notes: Notes) -> Message:
    metadata = as_map(event.get("tool_call_metadata"))
    call_id = first_str(metadata, ("tool_call_id",)) or calls_of.get(
        first_str(event, ("cause",)), ""
    )
    name = first_str(metadata, ("function_name",)) or as_str(event.get("observation"))
    extras = as_map(event.get("extras"))
    text = _shown(content_text(event.get("content"), notes), extras)
    text = text or content_text(extras.get("outputs"), notes) or as_str(event.get("message"))
    note_leftovers(extras, _REPEATED, notes, "result", [text])
    extra = {"tool_call_id": call_id, "name": name}
    return Message("tool", text, (), tuple((key, value) for key, value in extra.items() if value))


def _shown(output: str, extras: Mapping[str, Any]) -> str:
    """Return a command's output as OpenHands shows it to the model.

    The event keeps apart what the shell's state adds: how the command ended, where it stands.
    """
    state = as_map(extras.get("metadata"))
    if "exit_code" not in state:
        return output
    lines = [f"{as_str(state.get('prefix'))}{output}{as_str(state.get('suffix'))}"]
    for name, key in _SHELL_STATE:
        lines += [f"[{name}: {state[key]}]"] if as_str(state.get(key)) else []
    # -1 stands for a command that still runs.
    ended = state["exit_code"]
    lines += [f"[Command finished with exit code {ended}]"] if ended not in (-1, None) else []
    return "\n".join(lines)


def _is_event(event: Mapping[str, Any]) -> bool:
    kinds = [event.get("action"), event.get("observation")]
    return (
        "source" in event
        and any(isinstance(kind, str) for kind in kinds)
        and ("args" in event or "extras" in event or "cause" in event or "message" in event)
    )


def _is_silent(event: Mapping[str, Any]) -> bool:
    return bool({as_str(event.get(key)) for key in ("action", "observation")} & _SILENT)


FORMAT = Format("openhands-events", "OpenHands event stream", score, read)
