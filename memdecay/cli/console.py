"""What a person sees: the consoles, the log lines and the progress bars."""

from __future__ import annotations

import logging
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
    return Console(highlight=False)


def error_console() -> Console:
    """Return the console for errors and progress, on standard error."""
    return Console(stderr=True, highlight=False)


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
    with progress_bars() as add_bar:
        yield add_bar(description, unit)


@contextmanager
def progress_bars() -> Iterator[Callable[[str, str], ProgressCallback]]:
    """Show the bars of work that goes on in stages; each appears with its first report.

    Yields:
        A function that adds a bar; it takes a description and a unit as `progress_bar` does.
    """
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[unit]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=error_console(), transient=True) as progress:

        def add_bar(description: str, unit: str) -> ProgressCallback:
            task = progress.add_task(description, total=None, start=False, visible=False, unit=unit)

            def report(done: int, total: int) -> None:
                progress.start_task(task)  # Does nothing but the first time.
                progress.update(task, completed=done, total=total, visible=True)

            return report

        yield add_bar
