"""Check one trace file from its first line to its last."""

from __future__ import annotations

from pathlib import Path

from memdecay.classifier.regions import REGION_LABELS
from memdecay.data.spill import TemporaryDatabase
from memdecay.data.trace import Trace
from memdecay.data.validation.duplicates import DuplicateCheck
from memdecay.data.validation.findings import FileReport, Severity
from memdecay.data.validation.leakage import LeakageCheck
from memdecay.data.validation.lines import tolerant_traces

MIN_COVERAGE = 0.95
MIN_REGION_SHARE = 0.01


def validate_file(path: Path, against: Path | None = None) -> FileReport:
    """Check a file of traces: schema, spans, coverage, duplicates, balance, leakage.

    Memory stays constant whatever the size of the files: what traces are compared by, digests of
    8 and 16 bytes, lies in a temporary database.

    Args:
        path: A JSONL file (``.gz`` too), labelled or not.
        against: Another such file that must share nothing with this one.

    Raises:
        TraceError: A file cannot be read at all.
        StorageError: The temporary database has no space left.
    """
    report = FileReport(path)
    with TemporaryDatabase() as database:
        leakage = LeakageCheck(against, database) if against else None
        _check_traces(report, DuplicateCheck(database), leakage)
    _check_balance(report)
    return report


def _check_traces(
    report: FileReport, duplicates: DuplicateCheck, leakage: LeakageCheck | None
) -> None:
    for number, trace in tolerant_traces(report):
        _count(trace, report)
        _check_coverage(number, trace, report)
        duplicates.check(number, trace, report)
        if leakage:
            leakage.check(number, trace, report)
    duplicates.finish(report)
    if report.unlabelled:
        counts = f"{report.unlabelled} of {report.traces}"
        text = f"{counts} traces have no spans; label them before training"
        report.add(Severity.NOTE, "unlabelled", 0, text)


def _count(trace: Trace, report: FileReport) -> None:
    report.traces += 1
    report.messages += len(trace.messages)
    report.characters += trace.num_characters
    for span in trace.spans:
        label = span.region.label
        labelled = report.region_characters.get(label, 0)
        report.region_characters[label] = labelled + span.end - span.start


def _check_coverage(number: int, trace: Trace, report: FileReport) -> None:
    labelled = sum(span.end - span.start for span in trace.spans)
    if trace.spans and labelled < MIN_COVERAGE * trace.num_characters:
        share = labelled / trace.num_characters
        text = f"spans cover {share:.0%} of the characters; label the rest too"
        report.add(Severity.WARNING, "coverage", number, text)


def _check_balance(report: FileReport) -> None:
    total = sum(report.region_characters.values())
    if not total:
        return
    for label in REGION_LABELS:
        share = report.region_characters.get(label, 0) / total
        if share == 0:
            text = f"no character is {label}; a classifier cannot learn it from this file"
            report.add(Severity.WARNING, "balance", 0, text)
        elif share < MIN_REGION_SHARE:
            text = f"only {share:.2%} of the characters are {label}; add traces that have more"
            report.add(Severity.NOTE, "balance", 0, text)
