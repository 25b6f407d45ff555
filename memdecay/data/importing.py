"""Importing trace files of any known format: recognise, read, clean, count."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from memdecay.classifier.errors import TraceError
from memdecay.data.formats.base import Draft, Format
from memdecay.data.formats.finish import finish_draft
from memdecay.data.formats.merge import PrefixMerger
from memdecay.data.formats.registry import find_format, recognise
from memdecay.data.formats.report import ImportReport, Notes
from memdecay.data.formats.sample import Layout, Sample, read_sample
from memdecay.data.formats.source import Source
from memdecay.data.formats.text import clean_text
from memdecay.data.spill import Sightings, TemporaryDatabase, text_key
from memdecay.data.trace import Trace

# SWE-bench's names of tasks, which benchmarks give to their files: django__django-11138.
_INSTANCE = re.compile(r"[A-Za-z0-9][\w.-]*?__[\w.-]+?-\d+")


@dataclass(frozen=True, slots=True)
class _File:
    """A file of the import with its unique label, how to read it, and its account."""

    path: Path
    label: str
    layout: Layout
    format: Format | None = None
    within: str = ""
    notes: Notes = field(default_factory=Notes)


class TraceImport:
    """Reads the traces of files and folders, and accounts for each file.

    Iterate to get the traces; the reports are complete once the iteration has ended. Memory stays
    constant whatever the size of a file: JSON Lines, logs, and JSON whose records stand in a list
    are read record by record.

    Args:
        sources: Files, or folders whose files are all read.
        format_name: The format of all files; recognised from each file's start if None.
        leave_out: Files not to read, the output for example.

    Raises:
        TraceError: If a path or the format does not exist, or (at the end of the iteration) if
            not a single trace was found.
        StorageError: If there is no space left for the ids, kept in a temporary file.
    """

    def __init__(
        self,
        sources: Sequence[Path],
        format_name: str | None = None,
        leave_out: Sequence[Path] = (),
    ) -> None:
        self._format = find_format(format_name) if format_name else None
        self._paths = list(_labelled(sources, {path.resolve() for path in leave_out}))
        self._files: list[_File] = []
        self._numbers: dict[str, Iterator[int]] = {}

    @property
    def reports(self) -> tuple[ImportReport, ...]:
        """The account of each file read so far."""
        return tuple(_report(file) for file in self._files)

    def __iter__(self) -> Iterator[Trace]:
        self._files, self._numbers = [], {}
        with TemporaryDatabase() as database:
            ids = database.sightings("ids")
            for draft, file in self._drafts():
                trace = finish_draft(draft, self._free_id(draft, file, ids), file.notes)
                if trace is not None:
                    file.notes.count(len(trace.messages))
                    yield trace
        self._check_any_trace()

    def _drafts(self) -> Iterator[tuple[Draft, _File]]:
        """Yield the drafts of all files, of growing prefixes the longest."""
        merger, held = PrefixMerger[_File](), None
        for path, label in self._paths:
            file = self._open(path, label)
            if file.format is None:
                continue
            # Some tools log a file for each model call: growing prefixes cross files.
            group = (path.parent, file.format.name) if file.format.merges else None
            if held is not None and group != held:
                yield from merger.flush()
            held = group
            drafts = _drafts(file)
            for draft in drafts:
                if group:
                    yield from merger.add(draft, file, file.notes)
                else:
                    yield draft, file
        yield from merger.flush()

    def _open(self, path: Path, label: str) -> _File:
        sample = read_sample(path)
        found, within = _recognise(sample, self._format)
        file = _File(path, label, sample.layout, found, within)
        if found is None:
            file.notes.skip("file of no known format" if sample.text.strip() else "empty file")
        self._files.append(file)
        return file

    def _free_id(self, draft: Draft, file: _File, ids: Sightings) -> str:
        """Return the draft's own id or one of the file's label and a number; never one twice."""
        numbers = self._numbers.setdefault(file.label, itertools.count(1))
        # Cleaned first: two ids may differ in nothing but what is removed.
        own, label = clean_text(draft.id, file.notes), clean_text(file.label, Notes())
        trace_id = own or f"{label}:{next(numbers)}"
        while ids.first(key := text_key(trace_id)):
            trace_id = f"{own or label}:{next(numbers)}"
        ids.add((key,), 1)
        return trace_id

    def _check_any_trace(self) -> None:
        if not self._files:
            raise TraceError("no traces found: the folder holds no files; check the path")
        if any(file.notes.num_traces for file in self._files):
            return
        first = next((file for file in self._files if file.format), self._files[0])
        found = f" was read as {first.format.name}" if first.format else ""
        what = next(iter(first.notes.skipped), "it has no messages")
        raise TraceError(
            f"no traces found: {first.path}{found}: {what}; check the file, or name its format "
            "with --format"
        )


def _recognise(sample: Sample, forced: Format | None) -> tuple[Format | None, str]:
    """Return the format, and the key under which the records stand where an object is around them.

    Such objects are what interfaces answer page by page: ``{"data": [...], "meta": {...}}``.
    """
    formats = (forced,) if forced else None
    if found := recognise(sample, formats):
        return found, ""
    for key in sample.enclosing_keys():
        if found := recognise(sample.within(key), formats):
            return found, key
    return forced, ""


def _drafts(file: _File) -> Iterator[Draft]:
    if file.format is None:
        return
    instance = _INSTANCE.search(file.path.name)
    source = Source(file.path, file.label, file.layout, file.notes, file.within)
    for draft in file.format.read(source):
        task = draft.extra.get("task_id") or (instance.group() if instance else None)
        if task or file.format.is_one_task:
            draft.extra["task_id"] = task or file.label
        yield draft


def _labelled(sources: Sequence[Path], leave_out: set[Path]) -> Iterator[tuple[Path, str]]:
    """Yield the files in order with a label each, unique within the import."""
    seen: set[str] = set()
    for source in sources:
        if not source.exists():
            raise TraceError(f"{source} does not exist; check the path")
        if not source.is_file() and not source.is_dir():
            # Files are read twice, first to recognise their format.
            raise TraceError(f"{source} is no file and no folder; save what it gives to a file")
        paths = sorted(_visible_files(source)) if source.is_dir() else [source]
        for path in paths:
            if path.resolve() in leave_out:
                continue
            base = path.relative_to(source).as_posix() if source.is_dir() else path.name
            label = next(name for name in _variants(base) if name not in seen)
            seen.add(label)
            yield path, label


def _visible_files(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*"):
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if path.is_file() and not hidden:
            yield path


def _variants(base: str) -> Iterator[str]:
    yield base
    for number in itertools.count(2):
        yield f"{base}({number})"


def _report(file: _File) -> ImportReport:
    notes = file.notes
    return ImportReport(
        path=str(file.path),
        format=file.format.name if file.format else "",
        traces=notes.num_traces,
        messages=notes.num_messages,
        repaired=tuple(notes.repaired.values()),
        skipped=tuple(notes.skipped.values()),
        noticed=tuple(notes.noticed.values()),
    )
