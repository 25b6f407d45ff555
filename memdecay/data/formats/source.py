"""A file to import: its records one after the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memdecay.data.formats.files import text_lines, text_pieces
from memdecay.data.formats.json_stream import JsonStream
from memdecay.data.formats.partial import parse_json
from memdecay.data.formats.repeated_keys import RepeatCounter
from memdecay.data.formats.report import Notes
from memdecay.data.formats.sample import Layout


@dataclass(frozen=True, slots=True)
class Record:
    """One JSON value of a file and its place, such as ``line 12``."""

    value: Any
    where: str


@dataclass(frozen=True, slots=True)
class Group:
    """Records that stand together.

    Attributes:
        records: The records, read as they are asked for.
        is_list: Whether they are the elements of a list; else it is one value of its own.
        where: The place of the list or value.
    """

    records: Iterator[Record]
    is_list: bool
    where: str


@dataclass(frozen=True, slots=True)
class Source:
    """A readable file with its notes.

    Attributes:
        path: The file.
        label: The file's name in trace ids, unique within an import.
        layout: How the file holds its records.
        notes: Where readers note what they repair and skip.
        within: Key of the objects that hold the records in a list; empty where none does.
    """

    path: Path
    label: str
    layout: Layout
    notes: Notes
    within: str = ""

    def groups(self, *lists: str) -> Iterator[Group]:
        """Yield the JSON values: one a line, or the few of a JSON file, whose lists are streamed.

        Args:
            lists: Keys of lists whose elements do not need each other. A file that is one object
                becomes a list of such objects then, each with one element.
        """
        if self.layout is Layout.JSON_LINES:
            yield from map(self._line_group, self._line_values())
            return
        stream, number = JsonStream(self._pieces(self.notes), self.notes), 0
        while sign := stream.peek():
            number += 1
            group = self._group(stream, sign, number, lists)
            yield group
            for _ in group.records:
                pass  # What a reader has left goes before the next value.

    def values(self) -> Iterator[Record]:
        """Yield the JSON values, each list as a whole."""
        for group in self.groups():
            if group.is_list:
                yield Record([record.value for record in group.records], group.where)
            else:
                yield from group.records

    def items(self, *lists: str) -> Iterator[Record]:
        """Yield the objects: lists are opened, what is no object is skipped and noted.

        Args:
            lists: See `groups`.
        """
        for group in self.groups(*lists):
            for record in group.records:
                if isinstance(record.value, dict):
                    yield record
                else:
                    self.notes.skip("record that is no object", where=record.where)

    def lines(self) -> Iterator[str]:
        """Yield the lines as text, with their line breaks."""
        return text_lines(self.path, self.notes)

    def _pieces(self, notes: Notes) -> Iterator[str]:
        return text_pieces(self.path, notes)

    def _line_values(self) -> Iterator[Record]:
        repeats = RepeatCounter()
        for number, line in enumerate(self.lines(), 1):
            if not line.strip():
                continue
            where = f"line {number}"
            repeats.restart()
            try:
                value = parse_json(line.strip(), repeats.decoder)
            except ValueError:
                self.notes.skip("line that is no JSON", where=where)
                continue
            repeats.note(self.notes, where)
            yield Record(value, where)

    def _line_group(self, record: Record) -> Group:
        value, where = record.value, record.where
        if self.within and isinstance(value, dict) and isinstance(value.get(self.within), list):
            self._note_beside(key for key in value if key != self.within)
            value = value[self.within]
        if not isinstance(value, list):
            return Group(iter((record,)), is_list=False, where=where)
        items = (Record(item, _item(where, number)) for number, item in enumerate(value, 1))
        return Group(items, is_list=True, where=where)

    def _group(self, stream: JsonStream, sign: str, number: int, lists: tuple[str, ...]) -> Group:
        where = f"value {number}" if number > 1 else ""
        if sign == "[":
            items = (Record(item, _item(where, place)) for place, item in stream.elements())
            return Group(items, is_list=True, where=where)
        if sign == "{" and self.within:
            return Group(self._enclosed(stream, where), is_list=True, where=where)
        if sign == "{" and lists and number == 1:
            return Group(self._opened(stream, lists), is_list=True, where=where)
        records = (Record(value, where) for value in stream.value())
        return Group(records, is_list=False, where=where)

    def _enclosed(self, stream: JsonStream, where: str) -> Iterator[Record]:
        """Yield the elements of the list that the object at hand is there for."""
        for key, number, value in stream.members((self.within,)):
            if number:
                yield Record(value, _item(where, number))
            elif key != self.within or value:  # A list comes as an empty one first.
                self._note_beside((key,))

    def _note_beside(self, keys: Iterable[str]) -> None:
        for key in keys:
            self.notes.skip(f"{key[:40]} beside the records")

    def _opened(self, stream: JsonStream, lists: tuple[str, ...]) -> Iterator[Record]:
        """Yield the file's object once for each element of some of its lists."""
        # What stands behind a list belongs to its elements, too: the file is read twice.
        scout = JsonStream(self._pieces(Notes()), Notes())
        rest = {key: value for key, number, value in scout.members(lists) if not number}
        is_any = False
        for key, number, value in stream.members(lists):
            if not number:
                continue
            if not isinstance(value, dict):
                self.notes.skip("record that is no object", where=_item("", number))
                continue
            is_any = True
            yield Record({**rest, key: [value]}, _item("", number))
        if not is_any:
            yield Record(rest, "")


def _item(where: str, number: int) -> str:
    return f"{where}, item {number}" if where else f"item {number}"
