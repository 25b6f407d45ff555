"""An audit of labels as files: one suspect a line, or Markdown to read."""

from __future__ import annotations

import json
from pathlib import Path

from memdecay.classifier.regions import REGION_LABELS
from memdecay.classifier.storage import write_text_atomically
from memdecay.data.hindsight.audit import TRUST, Audit, Doubt, Suspect

_MAX_CHARACTERS = 300
_MEANING = {
    Doubt.RULES: "the rules see another region",
    Doubt.LATE_DECISION: "labelled as passing, but later decisions keep looking at it",
    Doubt.VISITED: "labelled as passing, but looked back at far more than usual",
    Doubt.UNVISITED: "labelled as lasting, but hardly looked back at",
}


def write_audit(audit: Audit, path: Path) -> None:
    """Write an audit as Markdown if the path ends in ``.md``, else as JSON, one suspect a line.

    Raises:
        StorageError: The file could not be written.
    """
    if path.suffix.lower() == ".md":
        text = audit_markdown(audit)
    else:
        lines = (json.dumps(suspect.to_dict(), ensure_ascii=False) for suspect in audit.suspects)
        text = "".join(f"{line}\n" for line in lines)
    write_text_atomically(path, text)


def audit_markdown(audit: Audit) -> str:
    """Return the whole audit as Markdown."""
    parts = [
        "# Labels that attention or the rules contradict",
        f"{len(audit.suspects)} doubts; {sum(audit.num_segments.values())} segments of "
        f"{audit.num_traces} traces had enough text behind them. Visits: attention from a distance "
        "over what is usual at the same ages; 1 is as usual.",
        _region_table(audit),
    ]
    for doubt in TRUST:
        own = [suspect for suspect in audit.suspects if suspect.doubt is doubt]
        if own:
            parts.append(f"## {doubt.value} ({len(own)}): {_MEANING[doubt]}")
            parts += [_entry(suspect) for suspect in own]
    return "\n\n".join(parts) + "\n"


def _region_table(audit: Audit) -> str:
    lines = ["| region | segments | median visits | doubted |", "|---|---|---|---|"]
    for label in REGION_LABELS:
        num_doubted = sum(suspect.region.label == label for suspect in audit.suspects)
        median = audit.median_visits.get(label)
        shown = "" if median is None else f"{median:.2f}"
        lines.append(f"| {label} | {audit.num_segments[label]} | {shown} | {num_doubted} |")
    return "\n".join(lines)


def _entry(suspect: Suspect) -> str:
    place = (
        f"{suspect.trace_id}, message {suspect.message} ({suspect.role}), "
        f"{suspect.start}-{suspect.end}"
    )
    head = f"**{suspect.region.label}**, {_evidence(suspect)}: {place}"
    # Four spaces make code of every line, whatever stands in it.
    lines = _excerpt(suspect.text).splitlines() or [""]
    return "\n".join([head, "", *(f"    {line}" for line in lines)])


def _evidence(suspect: Suspect) -> str:
    if suspect.rules_region is not None:
        return f"rules say **{suspect.rules_region.label}**"
    by_decisions = (
        "" if suspect.decision_visits is None else f", {suspect.decision_visits:.2f} from decisions"
    )
    return f"visits {suspect.visits:.2f}{by_decisions}"


def _excerpt(text: str) -> str:
    shown = "".join(
        sign if sign.isprintable() or sign == "\n" else "\N{REPLACEMENT CHARACTER}"
        for sign in text.replace("\t", " ")
    )
    if len(shown) <= _MAX_CHARACTERS:
        return shown
    return f"{shown[:_MAX_CHARACTERS]} ..."
