"""Inspect eval logs: JSON, and ``.eval`` archives with a JSON file for each sample."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

from memdecay.data.formats.base import CERTAIN, LIKELY, NO, Draft, Format, guarded
from memdecay.data.formats.chat import read_messages
from memdecay.data.formats.leftovers import note_leftovers
from memdecay.data.formats.partial import parse_json
from memdecay.data.formats.repeated_keys import RepeatCounter
from memdecay.data.formats.report import Notes
from memdecay.data.formats.sample import Layout, Sample
from memdecay.data.formats.source import Record, Source
from memdecay.data.formats.values import as_list, as_map, as_str, first_str, maps

_ATTACHMENT = "attachment://"
_META_KEYS = ("target", "scores", "metadata", "error")
# The output is the last message; the sandbox is where the tools ran.
_READ = {"messages", "attachments", "events", "output", "epoch", "model_usage", "role_usage"}
_READ |= {"sandbox", "completed_at", "started_at", *_META_KEYS}

_READ_OF_LOGS = ("eval", "plan", "results", "stats", "samples", "reductions", "location")


def score(sample: Sample) -> int:
    """Tell an eval's header and samples, or an archive."""
    if sample.layout is Layout.ZIP:
        return LIKELY
    for record in sample.records():
        if "eval" in record and {"samples", "plan", "version", "status"} & set(record):
            return CERTAIN
        if {"epoch", "input", "target", "messages"} <= set(record):
            return CERTAIN
    return NO


def read(source: Source) -> Iterator[Draft]:
    """Yield the conversation of each sample; attachments go back into the text."""
    records = _archived(source) if source.layout is Layout.ZIP else source.items("samples")
    for record in records:
        yield from guarded(_samples, record, source.notes)


def _archived(source: Source) -> Iterator[Record]:
    try:
        with zipfile.ZipFile(source.path) as archive:
            for name in sorted(archive.namelist()):
                if name.startswith("samples/") and name.endswith(".json"):
                    yield from _member(archive, name, source.notes)
    except (zipfile.BadZipFile, OSError, EOFError, NotImplementedError, ValueError) as error:
        source.notes.skip(f"archive that cannot be read ({type(error).__name__})")


def _member(archive: zipfile.ZipFile, name: str, notes: Notes) -> Iterator[Record]:
    repeats = RepeatCounter()
    try:
        text = archive.read(name).decode("utf-8", "replace")
        value = parse_json(text, repeats.decoder)
    except (zipfile.BadZipFile, zlib.error, OSError, EOFError, RuntimeError, ValueError):
        notes.skip("sample in the archive that cannot be read", where=name)
        return
    repeats.note(notes, name)
    yield Record({"samples": [value]}, name)


def _samples(record: Record, notes: Notes) -> Iterator[Draft]:
    log = record.value
    is_log = "samples" in log or "eval" in log
    samples = as_list(log.get("samples")) if is_log else [log]
    if is_log:
        note_leftovers(log, _READ_OF_LOGS, notes, "log")
    if not samples:
        notes.skip("log without samples", where=record.where)
    task = as_str(as_map(log.get("eval")).get("task"))
    strange = sum(not isinstance(sample, dict) for sample in samples)
    notes.skip("sample that is no object", strange, record.where)
    for sample in maps(samples):
        messages = _with_attachments(as_list(sample.get("messages")), sample)
        notes.skip("event of a sample", len(as_list(sample.get("events"))), record.where)
        found = read_messages(messages, notes, record.where)
        note_leftovers(sample, _READ, notes, "sample", [message.content for message in found])
        yield Draft(found, _facts(sample, task))


def _facts(sample: Mapping[str, Any], task: str) -> dict[str, Any]:
    number = first_str(sample, ("id",))
    meta = {key: sample[key] for key in _META_KEYS if sample.get(key)}
    name = f"{task}:{number}" if task else number
    return {"task_id": name, "trial": first_str(sample, ("epoch",)), "meta": meta}


def _with_attachments(value: Any, sample: Mapping[str, Any], depth: int = 0) -> Any:
    attachments = as_map(sample.get("attachments"))
    if not attachments or depth > 30:
        return value
    if isinstance(value, str):
        if not value.startswith(_ATTACHMENT):
            return value
        return attachments.get(value.removeprefix(_ATTACHMENT), value)
    if isinstance(value, list):
        return [_with_attachments(item, sample, depth + 1) for item in value]
    if isinstance(value, Mapping):
        return {key: _with_attachments(item, sample, depth + 1) for key, item in value.items()}
    return value


FORMAT = Format("inspect", "Inspect eval log", score, read)
