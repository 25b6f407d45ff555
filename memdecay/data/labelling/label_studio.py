"""Traces as Label Studio tasks, and its JSON export back as labelled traces."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

from memdecay.classifier.errors import TraceError
from memdecay.classifier.regions import REGION_LABELS, Region
from memdecay.classifier.storage import write_text_atomically
from memdecay.data.trace import Span, Trace

_COLOURS = ("#8e44ad", "#d4a017", "#27ae60", "#2980b9", "#95a5a6")


def labeling_config() -> str:
    """Return the labelling interface, in Label Studio's XML, with the five regions."""
    labels = "\n".join(
        f'    <Label value={quoteattr(label)} background={quoteattr(colour)} hotkey="{key}"/>'
        for key, (label, colour) in enumerate(zip(REGION_LABELS, _COLOURS, strict=True), start=1)
    )
    return (
        '<View>\n  <Header value="Message $message ($role) of $trace_id"/>\n'
        f'  <Labels name="region" toName="text">\n{labels}\n  </Labels>\n'
        '  <Text name="text" value="$text" granularity="word"/>\n</View>\n'
    )


def to_tasks(traces: Iterable[Trace]) -> Iterator[dict[str, Any]]:
    """Yield a task for each message that has text; spans go along as predictions to correct.

    Offsets count code points, as Label Studio does.
    """
    for trace in traces:
        for index, message in enumerate(trace.messages):
            if not message.content:
                continue
            task: dict[str, Any] = {
                "data": {
                    "trace_id": trace.id,
                    "message": index,
                    "role": message.role,
                    "text": message.content,
                }
            }
            spans = [span for span in trace.spans if span.message == index]
            if spans:
                results = [_result(span, message.content) for span in spans]
                task["predictions"] = [{"model_version": "memdecay", "result": results}]
            yield task


def write_tasks(traces: Iterable[Trace], path: Path) -> int:
    """Write the tasks of traces to a JSON file that Label Studio imports.

    Returns:
        The number of tasks.

    Raises:
        StorageError: The file could not be written.
    """
    tasks = list(to_tasks(traces))
    # A lone surrogate has no UTF-8; JSON's own escapes can hold it.
    write_text_atomically(path, json.dumps(tasks, ensure_ascii=True, indent=1) + "\n")
    return len(tasks)


def read_export(path: Path) -> list[dict[str, Any]]:
    """Read Label Studio's JSON export.

    Raises:
        TraceError: The file is missing, no JSON or no list of tasks.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise TraceError(f"{path} does not exist; give Label Studio's JSON export") from error
    except OSError as error:
        raise TraceError(f"{path} cannot be read ({error.strerror})") from error
    except (ValueError, RecursionError) as error:
        raise TraceError(f"{path} is not JSON ({error}); export as JSON, not JSON-MIN") from error
    if not isinstance(data, list) or not all(map(_is_task, data)):
        raise TraceError(f"{path} is no list of tasks; export from Label Studio as JSON")
    return data


def _is_task(task: object) -> bool:
    if not isinstance(task, dict) or not isinstance(task.get("data"), dict):
        return False
    annotations = task.get("annotations") or []
    return isinstance(annotations, list) and all(map(_is_annotation, annotations))


def _is_annotation(annotation: object) -> bool:
    if not isinstance(annotation, dict):
        return False
    results = annotation.get("result") or []
    return isinstance(results, list) and all(
        isinstance(result, dict) and isinstance(result.get("value") or {}, dict)
        for result in results
    )


def from_tasks(
    traces: Iterable[Trace], tasks: Iterable[Mapping[str, Any]], annotator: int | None = None
) -> Iterator[Trace]:
    """Yield the traces that were annotated, with the spans of the tasks' annotations.

    Where the same characters were marked twice, the later mark counts. A task without an
    annotation leaves its message unlabelled.

    Args:
        traces: The traces that the tasks were made of.
        tasks: Label Studio's export.
        annotator: Take the annotations of this user id only; else each task's newest.

    Raises:
        TraceError: A task's text is not that of its message, a mark is out of range or unknown, or
            (at the end) no trace was annotated.
    """
    is_annotated = False
    by_trace: dict[str, list[Mapping[str, Any]]] = {}
    for task in tasks:
        by_trace.setdefault(str(task["data"].get("trace_id")), []).append(task)
    for trace in traces:
        spans = [
            span
            for task in by_trace.get(trace.id, ())
            for span in _task_spans(task, trace, annotator)
        ]
        if spans:
            is_annotated = True
            yield replace(trace, spans=tuple(sorted(spans, key=lambda s: (s.message, s.start))))
    if not is_annotated:
        raise TraceError(
            "the export holds no annotation of these traces; give the traces that the tasks were "
            "made of, and the annotator who worked on them"
        )


def _result(span: Span, text: str) -> dict[str, Any]:
    return {
        "id": f"m{span.message}s{span.start}",
        "from_name": "region",
        "to_name": "text",
        "type": "labels",
        "value": {
            "start": span.start,
            "end": span.end,
            "text": text[span.start : span.end],
            "labels": [span.region.label],
        },
    }


def _task_spans(task: Mapping[str, Any], trace: Trace, annotator: int | None) -> list[Span]:
    index = task["data"].get("message")
    where = f"the task for message {index!r} of the trace {trace.id!r}"
    if not isinstance(index, int) or not 0 <= index < len(trace.messages):
        raise TraceError(f"{where} is on no message of it; import with the file of the export")
    text = trace.messages[index].content
    if task["data"].get("text") != text:
        raise TraceError(f"{where} has another text; import with the file of the export")
    annotations = [
        annotation
        for annotation in task.get("annotations") or ()
        if not annotation.get("was_cancelled") and annotator in (None, _user(annotation))
    ]
    if not annotations:
        return []
    newest = max(annotations, key=lambda item: str(item.get("updated_at") or ""))
    return _merge(newest.get("result") or (), index, text, where)


def _user(annotation: Mapping[str, Any]) -> object:
    user = annotation.get("completed_by")
    return user.get("id") if isinstance(user, dict) else user


def _merge(results: Iterable[Mapping[str, Any]], index: int, text: str, where: str) -> list[Span]:
    regions: list[Region | None] = [None] * len(text)
    for result in results:
        if result.get("type") != "labels":
            continue
        start, end, region = _mark(result.get("value") or {}, text, where)
        regions[start:end] = [region] * (end - start)
    return list(_runs(regions, index))


def _mark(value: Mapping[str, Any], text: str, where: str) -> tuple[int, int, Region]:
    start, end, labels = value.get("start"), value.get("end"), value.get("labels")
    if not isinstance(start, int) or not isinstance(end, int) or not 0 <= start < end:
        raise TraceError(f"{where}: a mark goes from {start} to {end}; expected 0 <= start < end")
    if not isinstance(labels, list) or len(labels) != 1:
        raise TraceError(f"{where}: a mark has the labels {labels}; expected one region")
    try:
        region = Region.from_label(str(labels[0]))
    except ValueError as error:
        raise TraceError(f"{where}: {error}") from error
    if end > len(text) or text[start:end] != value.get("text"):
        offsets = _code_points(text)  # Older releases count UTF-16 units.
        if end >= len(offsets):
            raise TraceError(f"{where}: a mark ends at {end}, after the text")
        start, end = offsets[start], offsets[end]
    return start, end, region


def _runs(regions: list[Region | None], index: int) -> Iterator[Span]:
    start = 0
    for end in range(1, len(regions) + 1):
        if end == len(regions) or regions[end] != regions[start]:
            region = regions[start]
            if region is not None:
                yield Span(index, start, end, region)
            start = end


def _code_points(text: str) -> list[int]:
    """Return the code point at which each UTF-16 unit stands, and the end."""
    if all(char <= "\uffff" for char in text):
        return list(range(len(text) + 1))
    offsets = []
    for position, char in enumerate(text):
        offsets += [position] * (2 if char > "\uffff" else 1)
    return [*offsets, len(text)]
