"""Label Studio's JSON export, back as labelled traces."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from memdecay.classifier.errors import TraceError
from memdecay.data.formats.files import text_pieces
from memdecay.data.formats.json_stream import JsonStream
from memdecay.data.formats.report import Notes
from memdecay.data.labelling.studio_marks import Marks, read_marks
from memdecay.data.spill import TemporaryDatabase, TextLists, text_key
from memdecay.data.trace import Trace


@dataclass(slots=True)
class ExportAccount:
    """What became of an export's tasks and of the traces.

    Attributes:
        tasks: Tasks in the export.
        not_annotated: Of them, those without an annotation that counts: not yet labelled, skipped
            by the annotator, or labelled by somebody else than the one asked for.
        of_other_traces: Of them, those of traces that were not given.
        left_out: Traces of which nothing is annotated.
        bare_messages: Messages with text that have no label, in the other traces.
        misplaced_marks: Marks whose text is not what stands at their offsets.
    """

    tasks: int = 0
    not_annotated: int = 0
    of_other_traces: int = 0
    left_out: int = 0
    bare_messages: int = 0
    misplaced_marks: int = 0

    def lines(self) -> list[str]:
        """Return what a person should know, nothing for a count of zero."""
        texts = {
            f"of {self.tasks} tasks without an annotation that counts": self.not_annotated,
            f"of {self.tasks} tasks on traces that are not in the file": self.of_other_traces,
            "traces left out, of which nothing is annotated": self.left_out,
            "messages without a label in the traces written": self.bare_messages,
            "marks whose text is not what stands at their place; look at them": (
                self.misplaced_marks
            ),
        }
        return [f"{count} {text}" for text, count in texts.items() if count]


def read_export(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the tasks of Label Studio's JSON export.

    Raises:
        TraceError: The file is missing, no JSON or no list of tasks. Raised while iterating.
    """
    notes = Notes()
    stream = JsonStream(text_pieces(path, notes), notes)
    if stream.peek() != "[":
        raise TraceError(f"{path} is no list of tasks; export from Label Studio as JSON")
    for number, task in stream.elements():
        _check_whole(path, notes)
        if not _is_task(task):
            raise TraceError(
                f"{path}, item {number} is no task; export from Label Studio as JSON, not JSON-MIN"
            )
        yield task
    if stream.peek():
        notes.skip("text behind the list")
    _check_whole(path, notes)


def from_tasks(
    traces: Iterable[Trace],
    tasks: Iterable[Mapping[str, Any]],
    annotator: int | None = None,
    account: ExportAccount | None = None,
) -> Iterator[Trace]:
    """Yield the traces that were annotated, with the spans of the tasks' annotations.

    Where the same characters were marked twice, the later mark counts. A task without an
    annotation leaves its message unlabelled.

    Args:
        traces: The traces that the tasks were made of.
        tasks: Label Studio's export.
        annotator: Take the annotations of this user id only; else each message's newest.
        account: Filled with what was left out, complete at the end of the iteration.

    Raises:
        TraceError: A task's text is not that of its message, a mark is out of range or unknown, or
            (at the end) no trace was annotated.
        StorageError: There is no space left for temporary files.
    """
    account = ExportAccount() if account is None else account
    is_any = False
    with TemporaryDatabase() as database:
        by_trace = database.lists("tasks")
        for task in tasks:
            account.tasks += 1
            _keep(task, annotator, by_trace, account)
        account.of_other_traces = account.tasks
        seen = database.sightings("traces")
        for trace in traces:
            kept = [json.loads(text) for text in by_trace.get(trace.id)]
            if not seen.first(text_key(trace.id)):
                account.of_other_traces -= len(kept)
            seen.add((text_key(trace.id),), 1)
            labelled = _labelled(trace, kept, account)
            if labelled is None:
                account.left_out += 1
            else:
                is_any = True
                yield labelled
    if not is_any:
        raise TraceError(
            "the export holds no annotation of these traces; give the traces that the tasks were "
            "made of, and the annotator who worked on them"
        )


def _check_whole(path: Path, notes: Notes) -> None:
    """Refuse what an import of traces would repair: labels must lie where they were put."""
    for what in (*notes.repaired, *notes.skipped):
        raise TraceError(f"{path} is not JSON ({what}); export it again, as JSON, not JSON-MIN")


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


def _keep(
    task: Mapping[str, Any], annotator: int | None, by_trace: TextLists, account: ExportAccount
) -> None:
    """Keep of a task what its trace will need, its text as a digest."""
    annotations = [
        annotation
        for annotation in task.get("annotations") or ()
        if not annotation.get("was_cancelled") and annotator in (None, _user(annotation))
    ]
    newest = max(annotations, key=_updated, default=None)
    account.not_annotated += newest is None
    data = task["data"]
    kept = {
        "message": data.get("message"),
        "text": text_key(str(data.get("text"))).hex(),
        "updated": _updated(newest or {}),
        "result": None if newest is None else newest.get("result") or [],
    }
    by_trace.add(str(data.get("trace_id")), json.dumps(kept))


def _user(annotation: Mapping[str, Any]) -> object:
    user = annotation.get("completed_by")
    return user.get("id") if isinstance(user, dict) else user


def _updated(annotation: Mapping[str, Any]) -> str:
    return str(annotation.get("updated_at") or annotation.get("created_at") or "")


def _labelled(trace: Trace, kept: list[dict[str, Any]], account: ExportAccount) -> Trace | None:
    """Return the trace with the spans of its tasks; None if they give it none."""
    newest: dict[int, dict[str, Any]] = {}
    for task in sorted(kept, key=lambda task: str(task["updated"])):
        index = _message_of(task, trace)
        if task["result"] is not None:
            newest[index] = task
    marks = [_marks(trace, index, newest[index]) for index in sorted(newest)]
    spans = tuple(span for found in marks for span in found.spans)
    if not spans:
        return None
    account.misplaced_marks += sum(found.misplaced for found in marks)
    with_text = {index for index, message in enumerate(trace.messages) if message.content}
    account.bare_messages += len(with_text - {span.message for span in spans})
    return replace(trace, spans=spans)


def _marks(trace: Trace, index: int, task: Mapping[str, Any]) -> Marks:
    text = trace.messages[index].content
    return read_marks(task["result"], index, text, _where(index, trace))


def _message_of(task: Mapping[str, Any], trace: Trace) -> int:
    index = task["message"]
    if not isinstance(index, int) or not 0 <= index < len(trace.messages):
        raise TraceError(
            f"{_where(index, trace)} is on no message of it; import with the file of the export"
        )
    if task["text"] != text_key(trace.messages[index].content).hex():
        raise TraceError(
            f"{_where(index, trace)} has another text; import with the file of the export"
        )
    return index


def _where(index: object, trace: Trace) -> str:
    return f"the task for message {index!r} of the trace {trace.id!r}"
