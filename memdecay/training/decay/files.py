"""Sections as files of their own, and back for a calibration report to show."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from html import escape
from pathlib import Path
from typing import Any

from memdecay.classifier.errors import ConfigError
from memdecay.classifier.regions import REGION_LABELS
from memdecay.classifier.storage import write_text_atomically
from memdecay.training.calibration.section import Section, Table
from memdecay.training.calibration.visible import in_markdown, visible

JSON_FILE = "report.json"
MARKDOWN_FILE = "report.md"
HTML_FILE = "section.html"
SECTION_FILE = "section.json"
_FORMAT = "memdecay-section-1"
_REGION_COLOURS = ("#8e44ad", "#b98600", "#2e8b57", "#2379a5", "#78818c")
_COLOURS = {
    "ink": "#1d2430",
    "muted": "#5d6675",
    "grid": "#dfe2e7",
    "accent": "#2457c5",
    "second": "#c2571a",
    "surface": "#ffffff",
    **dict(zip(REGION_LABELS, _REGION_COLOURS, strict=True)),
}


def write_section(section: Section, folder: Path) -> tuple[Path, ...]:
    """Write a section as figures, as Markdown, as a piece of HTML and for `read_section`.

    Args:
        section: The section.
        folder: Where to write; made where it is missing, files of the same names are replaced.

    Returns:
        The files written.

    Raises:
        StorageError: A file could not be written.
    """
    texts = {
        JSON_FILE: json.dumps(section.data, indent=2, ensure_ascii=False) + "\n",
        MARKDOWN_FILE: section_markdown(section),
        HTML_FILE: section_html(section),
        SECTION_FILE: json.dumps({"format": _FORMAT, **asdict(section)}, ensure_ascii=False) + "\n",
    }
    for name, text in texts.items():
        write_text_atomically(folder / name, text)
    return tuple(folder / name for name in texts)


def read_section(path: Path) -> Section:
    """Read a section that `write_section` wrote.

    Args:
        path: Its folder or its file.

    Raises:
        ConfigError: There is none, or it can't be read as one.
    """
    file = path / SECTION_FILE if path.is_dir() else path
    try:
        return _section(json.loads(file.read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise ConfigError(
            f"{file} can't be read as a section of a report ({error}); give a folder that "
            "`memdecay calibrate-decay` or `memdecay calibrate-regret` wrote"
        ) from error


def section_markdown(section: Section) -> str:
    """Return a section as Markdown, without its charts."""
    parts = [f"# {in_markdown(section.title)}", *map(in_markdown, section.paragraphs)]
    if section.table is not None:
        lines = [section.table.header, ("---",) * len(section.table.header)]
        text = [" | ".join(map(in_markdown, row)) for row in (lines[0], *section.table.rows)]
        text.insert(1, " | ".join(lines[1]))
        parts.append("\n".join(f"| {line} |" for line in text))
    return "\n\n".join(parts) + "\n"


def section_html(section: Section) -> str:
    """Return a section as a piece of HTML that can stand in a page or be opened by itself."""
    colours = "; ".join(f"--{name}: {colour}" for name, colour in _COLOURS.items())
    style = f"{colours}; background: var(--surface); color: var(--ink)"
    parts = [f"<h2>{_escaped(section.title)}</h2>"]
    parts += [f"<p>{_escaped(paragraph)}</p>" for paragraph in section.paragraphs]
    parts += [f"<figure>{chart}</figure>" for chart in section.charts]
    if section.table is not None:
        parts.append(_html_table(section.table))
    body = "\n".join(parts)
    return (
        f'<!DOCTYPE html>\n<meta charset="utf-8">\n<section id="{section.key}" style="{style}">\n'
        f"{body}\n</section>\n"
    )


def _html_table(table: Table) -> str:
    def row(cells: Sequence[str], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{_escaped(cell)}</{tag}>" for cell in cells) + "</tr>"

    rows = [row(table.header, "th"), *(row(cells, "td") for cells in table.rows)]
    return "<table>\n" + "\n".join(rows) + "\n</table>"


def _escaped(text: str) -> str:
    return escape(visible(text))


def _section(data: Any) -> Section:
    if data["format"] != _FORMAT:
        raise ValueError(f"its format is {data['format']!r}, expected {_FORMAT!r}")
    table = data["table"]
    return Section(
        key=data["key"],
        title=data["title"],
        paragraphs=tuple(data["paragraphs"]),
        charts=tuple(data["charts"]),
        table=None
        if table is None
        else Table(tuple(table["header"]), tuple(tuple(row) for row in table["rows"])),
        data=data["data"],
    )
