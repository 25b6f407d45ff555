"""memdecay's own traces: an id, a source and messages on each line, labelled or not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from memdecay.data.formats.base import LIKELY, NO, Draft, Format, each_item, has_keys
from memdecay.data.formats.chat import read_messages
from memdecay.data.formats.report import Notes
from memdecay.data.formats.sample import Sample
from memdecay.data.formats.values import as_list, as_str, first_str
from memdecay.data.schema import SchemaError, parse_trace

_OWN_KEYS = ("id", "source", "messages", "spans")


def score(sample: Sample) -> int:
    """Tell objects with an id, a source and messages."""
    if not has_keys(sample, "id", "source", "messages"):
        return NO
    texts = (as_str(record.get("source")) for record in sample.records())
    return LIKELY + 1 if any(texts) else NO


def _read(record: Mapping[str, Any], notes: Notes, where: str) -> Iterator[Draft]:
    try:
        trace = parse_trace(record, default_id="")
    except SchemaError as error:
        place = f"{where}: {error}"[:200]
        notes.repair("trace that breaks the schema read as chat, without its labels", where=place)
        yield _as_chat(record, notes, where)
        return
    messages = list(trace.messages)
    yield Draft(messages, dict(trace.extra), trace.id, trace.source, trace.spans, where)


def _as_chat(record: Mapping[str, Any], notes: Notes, where: str) -> Draft:
    """Read what is left of a trace that does not fit the schema."""
    messages = read_messages(as_list(record.get("messages")), notes, where)
    extra = {key: value for key, value in record.items() if key not in _OWN_KEYS}
    return Draft(messages, extra, first_str(record, ("id",)), as_str(record.get("source")))


FORMAT = Format("memdecay", "memdecay traces", score, each_item(_read))
