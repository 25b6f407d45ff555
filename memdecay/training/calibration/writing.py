"""A report as the files of a folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from memdecay.classifier.messages import clean_text
from memdecay.classifier.storage import write_text_atomically
from memdecay.training.calibration.baseline import JSON_FILE
from memdecay.training.calibration.json_report import to_json
from memdecay.training.calibration.markdown import to_markdown
from memdecay.training.calibration.page.html import to_html
from memdecay.training.calibration.report import CalibrationReport
from memdecay.training.calibration.section import Section

HTML_FILE = "index.html"
MARKDOWN_FILE = "report.md"


def write_report(
    report: CalibrationReport,
    folder: Path,
    sections: Sequence[Section] = (),
    *,
    with_page: bool = True,
) -> tuple[Path, ...]:
    """Write a report as JSON, as Markdown and as a page.

    Args:
        report: The report.
        folder: Where to write; made where it is missing, files of the same names are replaced.
        sections: Further parts, shown behind the report's own.
        with_page: Whether to make the HTML page, which needs the extra ``report``.

    Returns:
        The files written, the page first.

    Raises:
        ConfigError: A library that draws the page is not installed.
        StorageError: A file could not be written.
        ValueError: Two sections have one key.
    """
    keys = [section.key for section in sections]
    if len(set(keys)) < len(keys):
        raise ValueError(f"the keys of sections must differ, got {keys}")
    texts = {HTML_FILE: to_html(report, sections)} if with_page else {}
    texts |= {JSON_FILE: to_json(report, sections), MARKDOWN_FILE: to_markdown(report, sections)}
    for name, text in texts.items():
        write_text_atomically(folder / name, clean_text(text))
    return tuple(folder / name for name in texts)
