"""Read a trace file to its end, noting each broken line instead of stopping at it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, cast

from memdecay.data.jsonl import raw_lines
from memdecay.data.schema import SchemaError, parse_trace
from memdecay.data.trace import Trace
from memdecay.data.validation.findings import FileReport, Severity


def tolerant_traces(report: FileReport) -> Iterator[tuple[int, Trace]]:
    """Yield line numbers and traces of the report's file; what is broken goes into the report.

    A trace whose spans are at fault is yielded without the faulty ones.

    Raises:
        TraceError: The file cannot be read at all.
    """
    count = 0
    for number, raw in raw_lines(report.file):
        trace = _parse(raw, number, report)
        if trace is not None:
            count += 1
            yield number, trace
    if not count:
        report.add(
            Severity.ERROR, "empty", 0, "no traces; expected one JSON object with messages a line"
        )


def _parse(raw: bytes, number: int, report: FileReport) -> Trace | None:
    try:
        data = json.loads(raw.decode("utf-8"))
    except UnicodeDecodeError as error:
        reason = f"no UTF-8 text ({error.reason} at byte {error.start}); save the file as UTF-8"
        report.add(Severity.ERROR, "encoding", number, reason)
        return None
    except (ValueError, RecursionError) as error:
        reason = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
        report.add(Severity.ERROR, "json", number, f"no JSON ({reason}); mend or delete the line")
        return None
    default_id = f"{report.file.name}:{number}"
    try:
        trace = parse_trace(data, default_id)
    except SchemaError as error:
        if isinstance(data, dict) and isinstance(data.get("spans"), list):
            return _without_faulty_spans(data, default_id, number, report)
        report.add(Severity.ERROR, "schema", number, f"{error}")
        return None
    report.unlabelled += not trace.spans
    return trace


def _without_faulty_spans(
    data: dict[str, Any], default_id: str, number: int, report: FileReport
) -> Trace | None:
    try:
        parse_trace({**data, "spans": None}, default_id)
    except SchemaError as error:
        report.add(Severity.ERROR, "schema", number, f"{error}")
        return None
    good = []
    for place, span in enumerate(data["spans"]):
        try:
            parse_trace({**data, "spans": [span]}, default_id)
        except SchemaError as error:
            text = str(error).replace("spans[0]", f"spans[{place}]")
            report.add(Severity.ERROR, "span", number, text)
        else:
            good.append(cast("dict[str, Any]", span))
    return parse_trace({**data, "spans": _disjoint(good, number, report)}, default_id)


def _disjoint(spans: list[dict[str, Any]], number: int, report: FileReport) -> list[dict[str, Any]]:
    spans = sorted(spans, key=lambda span: (span["message"], span["start"], span["end"]))
    clashing = {
        place
        for place, (left, right) in enumerate(pairwise(spans), start=1)
        if left["message"] == right["message"] and right["start"] < left["end"]
    }
    for place in sorted(clashing):
        left, right = spans[place - 1], spans[place]
        report.add(
            Severity.ERROR,
            "overlap",
            number,
            f"spans overlap in messages[{left['message']}]: {left['start']} to {left['end']} and "
            f"{right['start']} to {right['end']}; give each character one region",
        )
    return [] if clashing else spans
