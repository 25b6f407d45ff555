"""ToolBench answers: a search tree and the message lists of its training data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from memdecay.data.formats.base import CERTAIN, NO, Draft, Format, each_item
from memdecay.data.formats.calls import tool_call
from memdecay.data.formats.chat import read_messages
from memdecay.data.formats.content import content_text
from memdecay.data.formats.leftovers import note_leftovers
from memdecay.data.formats.report import Notes
from memdecay.data.formats.sample import Sample
from memdecay.data.formats.values import as_list, as_map, as_str, maps
from memdecay.data.trace import Message

_MAX_DEPTH = 200
# How the search went; the nodes that were compared stand in the tree, too.
_READ = ("answer_generation", "tree", "forward_args", "compare_candidates", "win")
_READ_OF_ANSWERS = ("train_messages", "query", "final_answer", "function", "finish_type")


def score(sample: Sample) -> int:
    """Tell an answer with its tree."""
    for record in sample.records():
        if "answer_generation" in record or {"tree", "forward_args"} <= set(record):
            return CERTAIN
    return NO


def _read(record: Mapping[str, Any], notes: Notes, where: str) -> Iterator[Draft]:
    answer = as_map(record.get("answer_generation"))
    lists = [listed for listed in as_list(answer.get("train_messages")) if isinstance(listed, list)]
    extra = _facts(record, answer)
    read = [read_messages(listed, notes, where) for listed in lists]
    said = [text for messages in read for message in messages for text in _said(message)]
    note_leftovers(record, _READ, notes, "search", said)
    note_leftovers(answer, _READ_OF_ANSWERS, notes, "answer", said)
    for messages in read:
        yield Draft(messages, dict(extra), where=where)
    root = as_map(as_map(record.get("tree")).get("tree"))
    if lists:
        notes.skip(
            "branch of the search tree beside the training messages", _leaves(root) - 1, where
        )
        return
    head = [Message("user", as_str(answer.get("query")))] if as_str(answer.get("query")) else []
    for branch in _branches(root, head, notes):
        yield Draft(branch, dict(extra), where=where)


def _facts(record: Mapping[str, Any], answer: Mapping[str, Any]) -> dict[str, Any]:
    meta = {"win": record.get("win"), "answer": answer.get("final_answer")}
    meta |= {"finish_type": answer.get("finish_type")}
    task = as_str(answer.get("query"))[:300]
    return {"task_id": task, "tools": answer.get("function"), "meta": meta}


def _said(message: Message) -> list[str]:
    calls = (as_map(call.get("function")) for call in message.tool_calls)
    parts = (as_str(call.get(key)) for call in calls for key in ("name", "arguments"))
    return [message.content, *parts]


def _leaves(root: Mapping[str, Any]) -> int:
    """Count the ends of the tree."""
    count, open_nodes = 0, [root]
    while open_nodes:
        children = list(maps(open_nodes.pop().get("children")))
        count += not children
        open_nodes += children
    return count


def _branches(
    node: Mapping[str, Any], before: list[Message], notes: Notes, depth: int = 0
) -> Iterator[list[Message]]:
    """Yield the conversation from the root to each leaf."""
    messages = [*before]
    kind, text = node.get("node_type"), as_str(node.get("description"))
    if kind == "Thought" and text:
        messages.append(Message("assistant", text))
    elif kind == "Action":
        messages.append(Message("assistant", "", (tool_call(text, None, "", notes),)))
    elif kind == "Action Input" and before and before[-1].tool_calls:
        name = as_str(before[-1].tool_calls[0]["function"]["name"])
        messages[-1] = Message("assistant", "", (tool_call(name, text, "", notes),))
        if seen := content_text(node.get("observation"), notes):
            messages.append(Message("tool", seen, (), (("name", name),)))
    elif text:
        notes.skip("node of the search tree of an unknown kind")
    children = list(maps(node.get("children")))
    if children and depth >= _MAX_DEPTH:
        notes.skip("rest of a branch of the search tree that is too deep")
    if not children or depth >= _MAX_DEPTH:
        yield messages
        return
    for child in children:
        yield from _branches(child, messages, notes, depth + 1)


FORMAT = Format("toolbench", "ToolBench answer tree", score, each_item(_read), merges=True)
