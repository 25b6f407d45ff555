"""Growing prefixes of one conversation, merged into the longest."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from memdecay.data.formats.base import Draft
from memdecay.data.formats.report import Notes
from memdecay.data.formats.values import as_map, dump_json, unpack_json
from memdecay.data.trace import Message

MAX_PENDING = 256
MAX_PENDING_CHARACTERS = 32_000_000
_Key = tuple[str, bytes]
_Owner = TypeVar("_Owner")


@dataclass(slots=True)
class _Pending(Generic[_Owner]):
    draft: Draft
    owner: _Owner
    notes: Notes
    keys: list[_Key]
    characters: int


class PrefixMerger(Generic[_Owner]):
    """Holds back a window of conversations until no longer version of them is to be expected.

    A conversation that starts another one of the same task is dropped in favour of the longer;
    of two equal ones the first stays. The window is bounded in number and characters, so memory
    stays constant however long the file is.
    """

    def __init__(self) -> None:
        self._pending: OrderedDict[int, _Pending[_Owner]] = OrderedDict()
        self._by_end: dict[_Key, int] = {}
        self._by_prefix: dict[_Key, int] = {}
        self._characters = 0
        self._next = 0

    def add(self, draft: Draft, owner: _Owner, notes: Notes) -> Iterator[tuple[Draft, _Owner]]:
        """Take a conversation of ``owner``; yield those that leave the window with theirs."""
        keys, size = _prefix_keys(draft)
        if keys and keys[-1] in self._by_prefix:
            _note(notes, draft)
            return
        place = self._next
        self._next += 1
        for key in keys[:-1]:
            if (shorter := self._by_end.get(key)) is not None:
                place = min(place, shorter)
                gone = self._remove(shorter)
                _note(gone.notes, gone.draft)
        self._insert(place, _Pending(draft, owner, notes, keys, size))
        while len(self._pending) > MAX_PENDING or self._characters > MAX_PENDING_CHARACTERS:
            yield self._pop()

    def flush(self) -> Iterator[tuple[Draft, _Owner]]:
        """Yield what is left, in the order of the first versions."""
        while self._pending:
            yield self._pop()

    def _insert(self, place: int, pending: _Pending[_Owner]) -> None:
        self._pending[place] = pending
        self._characters += pending.characters
        for key in pending.keys:
            self._by_prefix[key] = place
        if pending.keys:
            self._by_end[pending.keys[-1]] = place

    def _pop(self) -> tuple[Draft, _Owner]:
        gone = self._remove(min(self._pending))
        return gone.draft, gone.owner

    def _remove(self, place: int) -> _Pending[_Owner]:
        gone = self._pending.pop(place)
        self._characters -= gone.characters
        for key in gone.keys:
            if self._by_prefix.get(key) == place:
                del self._by_prefix[key]
        if gone.keys and self._by_end.get(gone.keys[-1]) == place:
            del self._by_end[gone.keys[-1]]
        return gone


def _note(notes: Notes, draft: Draft) -> None:
    notes.repair("conversation merged into its longer version", where=draft.where)


def _prefix_keys(draft: Draft) -> tuple[list[_Key], int]:
    """Return a key for every prefix, and the characters of all messages with their calls.

    Equal keys mean equal messages of the same task and trial.
    """
    digest = hashlib.sha1(usedforsecurity=False)
    run = dump_json([draft.extra.get("task_id"), draft.extra.get("trial")])
    keys, size = [], 0
    for message in draft.messages:
        text = _message_text(message)
        digest.update(text.encode("utf-8", "surrogatepass"))
        keys.append((run, digest.digest()))
        size += len(text)
    return keys, size


def _message_text(message: Message) -> str:
    calls = [_call_key(call) for call in message.tool_calls]
    return dump_json([message.role, message.content.strip(), calls])


def _call_key(call: Any) -> object:
    function = as_map(as_map(call).get("function"))
    return [function.get("name"), unpack_json(function.get("arguments"))]
