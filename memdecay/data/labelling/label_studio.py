"""Traces as Label Studio tasks, for people to label or to correct."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

from memdecay.classifier.regions import REGION_LABELS
from memdecay.classifier.storage import write_atomically
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
    """Write the tasks of traces to a JSON file that Label Studio imports, one a line.

    Returns:
        The number of tasks.

    Raises:
        StorageError: The file could not be written.
    """
    count = 0

    def write(temporary: Path) -> None:
        nonlocal count
        with temporary.open("w", encoding="ascii") as stream:
            stream.write("[")
            for task in to_tasks(traces):
                # A lone surrogate has no UTF-8; JSON's own escapes can hold it.
                stream.write(f"{',' if count else ''}\n{json.dumps(task)}")
                count += 1
            stream.write("\n]\n")

    write_atomically(path, write)
    return count


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
