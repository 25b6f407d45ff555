"""What a check of a trace file found."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any


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
    """All findings on one file, and its counts.

    Attributes:
        file: The file.
        traces: Lines that are traces.
        messages: Messages in them.
        region_characters: Labelled characters by region name.
        characters: All characters of contents.
        findings: In the order of the file.
    """

    file: Path
    traces: int = 0
    messages: int = 0
    characters: int = 0
    region_characters: dict[str, int] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)

    def add(self, severity: Severity, code: str, line: int, message: str) -> None:
        """Note a finding."""
        self.findings.append(Finding(severity, code, str(self.file), line, message))

    @property
    def has_errors(self) -> bool:
        """Whether anything keeps the file from being used."""
        return any(finding.severity is Severity.ERROR for finding in self.findings)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain data."""
        return {
            "file": str(self.file),
            "traces": self.traces,
            "messages": self.messages,
            "characters": self.characters,
            "region_characters": self.region_characters,
            "findings": [asdict(finding) for finding in self.findings],
        }
