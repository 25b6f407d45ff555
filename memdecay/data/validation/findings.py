"""What a check of a trace file found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

MAX_FINDINGS = 1_000


class Severity(StrEnum):
    """How bad a finding is: only an error keeps a file from being used."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was found.

    Attributes:
        severity: How bad it is.
        code: A stable name of the kind of finding.
        file: The file.
        line: Its line, from 1; 0 for the whole file.
        message: What was found and what to do.
    """

    severity: Severity
    code: str
    file: str
    line: int
    message: str

    def __str__(self) -> str:
        """Return the finding as one line."""
        place = f"{self.file}:{self.line}" if self.line else self.file
        return f"{place}: {self.severity}: {self.message} [{self.code}]"


@dataclass(slots=True)
class FileReport:
    """The findings on one file, and its counts.

    Attributes:
        file: The file.
        traces: Lines that are traces.
        unlabelled: Those that came without spans; refused spans are spans.
        messages: Messages in them.
        region_characters: Labelled characters by region name.
        characters: All characters of contents.
        findings: In the order of the file, of each kind `MAX_FINDINGS` at most.
        further: How many findings there are beyond those, by kind.
    """

    file: Path
    traces: int = 0
    unlabelled: int = 0
    messages: int = 0
    characters: int = 0
    region_characters: dict[str, int] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    further: dict[str, int] = field(default_factory=dict)
    _held: Counter[str] = field(default_factory=Counter)

    def add(self, severity: Severity, code: str, line: int, message: str) -> None:
        """Note a finding; beyond `MAX_FINDINGS` of a kind only their number is kept."""
        if self._held[code] >= MAX_FINDINGS:
            self.further[code] = self.further.get(code, 0) + 1
            return
        self._held[code] += 1
        self.findings.append(Finding(severity, code, str(self.file), line, message))

    @property
    def num_findings(self) -> int:
        """How many findings there are, those of which only the number is kept included."""
        return len(self.findings) + sum(self.further.values())

    @property
    def has_errors(self) -> bool:
        """Whether anything keeps the file from being used."""
        return any(finding.severity is Severity.ERROR for finding in self.findings)

    def lines(self) -> Iterator[str]:
        """Yield the findings as lines, then what there is beyond them, then the counts."""
        yield from map(str, self.findings)
        for code, count in self.further.items():
            yield f"{self.file}: {count} more findings of this kind [{code}]"
        counts = f"{self.traces} traces, {self.messages} messages, {self.num_findings} findings"
        yield f"{self.file}: {counts}"

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain data."""
        return {
            "file": str(self.file),
            "traces": self.traces,
            "messages": self.messages,
            "characters": self.characters,
            "region_characters": self.region_characters,
            "findings": [asdict(finding) for finding in self.findings],
            "further_findings": self.further,
        }
