"""What a format is: a name, a way to recognise it and a way to read it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from memdecay.data.formats.report import Notes
from memdecay.data.formats.sample import Sample
from memdecay.data.formats.source import Group, Record, Source
from memdecay.data.trace import Message, Span

CERTAIN, LIKELY, GENERIC, NO = 90, 60, 30, 0


@dataclass(slots=True)
class Draft:
    """A conversation as a reader finds it, before cleaning.

    Attributes:
        messages: The conversation in order.
        extra: Facts about the run: ``task_id`` (the split key), ``tools``, ``meta``.
        id: The id that the file gives; empty for one made of the file's name and a number.
        source: Where the run comes from, if the file says so.
        spans: Region labels, if the file has them.
        where: The place in the file, for the report.
    """

    messages: list[Message]
    extra: dict[str, Any] = field(default_factory=dict)
    id: str = ""
    source: str = ""
    spans: tuple[Span, ...] = ()
    where: str = ""


@dataclass(frozen=True, slots=True)
class Format:
    """One format of trace files.

    Attributes:
        name: What ``--format`` takes.
        title: The format in words.
        score: How sure a sample is of this format: ``NO`` to ``CERTAIN``; the highest wins.
        read: Yields the conversations of a file.
        merges: Whether files log growing prefixes of one conversation, to be merged.
        is_one_task: Whether the conversations of a file belong to one task unless they say
            otherwise, and so must not be split over train and test.
    """

    name: str
    title: str
    score: Callable[[Sample], int]
    read: Callable[[Source], Iterable[Draft]]
    merges: bool = False
    is_one_task: bool = False


def each_item(
    read_item: Callable[[Mapping[str, Any], Notes, str], Iterable[Draft]], *lists: str
) -> Callable[[Source], Iterator[Draft]]:
    """Make a reader of files in which every object is a conversation of its own.

    Args:
        read_item: Yields the conversations of an object.
        lists: Keys under which an object has many conversations, see `Source.groups`.
    """

    def read_record(record: Record, notes: Notes) -> Iterable[Draft]:
        return read_item(record.value, notes, record.where)

    def read(source: Source) -> Iterator[Draft]:
        for record in source.items(*lists):
            yield from guarded(read_record, record, source.notes)

    return read


def guarded(
    read_record: Callable[[Record, Notes], Iterable[Draft]], record: Record, notes: Notes
) -> Iterator[Draft]:
    """Yield the drafts of a record; one nested too deeply costs itself, not the file."""
    try:
        drafts = list(read_record(record, notes))
    except RecursionError:
        notes.skip("record nested too deeply", where=record.where)
        return
    for draft in drafts:
        draft.where = draft.where or record.where
        yield draft


def conversations_of(
    group: Group,
    is_message: Callable[[object], bool],
    is_conversation: Callable[[object], bool],
) -> Iterator[Record]:
    """Tell a list of conversations from a list of messages, which is one conversation.

    Args:
        group: The list.
        is_message: Tells an element that makes the list one conversation, from there on.
        is_conversation: Tells an element that is a conversation by itself.

    Yields:
        The conversations, or a record of all messages. Elements that are neither go with what
        comes first.
    """
    unclear: list[Record] = []
    for record in group.records:
        if is_message(record.value):
            messages = [*unclear, record, *group.records]
            yield Record([message.value for message in messages], group.where)
            return
        unclear.append(record)
        if is_conversation(record.value):
            # The further elements are read one by one: not all need to be in memory.
            yield from unclear
            yield from group.records
            return
    if unclear:
        yield Record([record.value for record in unclear], group.where)


def has_keys(sample: Sample, *keys: str) -> bool:
    """Tell whether most of the first objects have all ``keys``."""
    records = sample.records()
    fitting = sum(1 for record in records if all(key in record for key in keys))
    return bool(records) and 2 * fitting > len(records)
