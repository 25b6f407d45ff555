"""`memdecay label --audit`: labels that later attention contradicts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rich.table import Table

from memdecay.classifier.hindsight import AgeBuckets
from memdecay.classifier.llm import load_llm
from memdecay.classifier.regions import REGION_LABELS
from memdecay.classifier.storage import check_writable
from memdecay.cli.console import output_console, progress_bar
from memdecay.cli.report import REGION_COLOURS
from memdecay.cli.traces import load_labelled_traces
from memdecay.data.hindsight.audit import Audit, audit_labels
from memdecay.data.hindsight.audit_report import write_audit
from memdecay.data.hindsight.measured import align_trace, measure_traces
from memdecay.runtime.hindsight import received_attention


@dataclass(frozen=True, slots=True)
class AuditOptions:
    """What the command line says about the audit.

    Attributes:
        model: Name or folder of the language model.
        dtype: Its type.
        device: Its device.
        max_tokens: First tokens of each trace that are read.
    """

    model: str
    dtype: str
    device: str
    max_tokens: int


def audit_traces(traces: Path, out: Path, options: AuditOptions) -> None:
    """Run the labelled traces of a file through a model and write which labels are doubtful.

    Raises:
        TraceError: The file has a line that is no labelled trace, or none at all.
        ModelError: The model can't be loaded.
        StorageError: The outcome can't be written.
    """
    check_writable(out)
    labelled = load_labelled_traces([traces])
    llm = load_llm(options.model, options.dtype, options.device)
    buckets = AgeBuckets.log_spaced(max(options.max_tokens - 1, 1))
    aligned = [align_trace(trace, llm, options.max_tokens) for trace in labelled]
    with progress_bar("Reading", "tokens") as progress:
        found = audit_labels(measure_traces(aligned, llm, received_attention, buckets, progress))
    write_audit(found, out)
    _print(found)
    output_console().out(f"{len(found.suspects)} doubtful labels written to {out}")


def _print(found: Audit) -> None:
    table = Table(title=f"Attention to the labels of {found.num_traces} traces")
    table.add_column("region")
    for name in ("segments", "median visits", "doubted"):
        table.add_column(name, justify="right")
    for label in REGION_LABELS:
        median = found.median_visits.get(label)
        table.add_row(
            f"[{REGION_COLOURS[label]}]{label}[/]",
            str(found.num_segments[label]),
            "" if median is None else f"{median:.2f}",
            str(sum(suspect.region.label == label for suspect in found.suspects)),
        )
    output_console().print(table)
