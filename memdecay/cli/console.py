"""What a person sees: the consoles, the log lines and the progress bars."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.logging import RichHandler
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

ProgressCallback = Callable[[int, int], None]


def output_console() -> Console:
    """Return the console for results, on standard output."""
    return Console(file=sys.stdout, highlight=False)


def error_console() -> Console:
    """Return the console for errors and progress, on standard error."""
    return Console(file=sys.stderr, highlight=False)


def log_handler() -> logging.Handler:
    """Return a handler that writes log lines beside progress bars without breaking them."""
    handler = RichHandler(
        console=error_console(),
        show_time=False,
        show_path=False,
        markup=False,
        rich_tracebacks=False,
    )
    handler.setFormatter(logging.Formatter("%(message)s"))
    return handler


@contextmanager
def progress_bar(description: str, unit: str) -> Iterator[ProgressCallback]:
    """Show a bar with the time left, driven by calls of ``(done, total)``.

    Args:
        description: What is being done.
        unit: What is counted, for example ``tokens``.
    """
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(unit),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=error_console(), transient=True) as progress:
        task = progress.add_task(description, total=None)

        def report(done: int, total: int) -> None:
            progress.update(task, completed=done, total=total)

        yield report
