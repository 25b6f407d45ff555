"""What an import did to a file: counts, repairs, and everything left out with the reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

MAX_KINDS = 100


@dataclass(frozen=True, slots=True)
class Finding:
    """One kind of event within a file.

    Attributes:
        what: The event in words.
        count: How often it happened.
        where: The first place (``line 12``); empty when the place does not matter.
    """

    what: str
    count: int
    where: str = ""


@dataclass(slots=True)
class Notes:
    """Collects counts and findings while a file is read."""

    repaired: dict[str, Finding] = field(default_factory=dict)
    skipped: dict[str, Finding] = field(default_factory=dict)
    noticed: dict[str, Finding] = field(default_factory=dict)
    num_traces: int = 0
    num_messages: int = 0

    def count(self, num_messages: int) -> None:
        """Count a trace."""
        self.num_traces += 1
        self.num_messages += num_messages

    def repair(self, what: str, count: int = 1, where: str = "") -> None:
        """Note a change of the content; a count of zero notes nothing."""
        _add(self.repaired, what, count, where)

    def skip(self, what: str, count: int = 1, where: str = "") -> None:
        """Note something left out, with the reason."""
        _add(self.skipped, what, count, where)

    def notice(self, what: str, count: int = 1, where: str = "") -> None:
        """Note something odd that stays as it is."""
        _add(self.noticed, what, count, where)


def _add(findings: dict[str, Finding], what: str, count: int, where: str) -> None:
    if count <= 0:
        return
    if what not in findings and len(findings) >= MAX_KINDS:
        what = "further kinds"
    old = findings.get(what, Finding(what, 0, where))
    findings[what] = Finding(what, old.count + count, old.where or where)


@dataclass(frozen=True, slots=True)
class ImportReport:
    """The account of one file.

    Attributes:
        path: The file.
        format: The name of its format; empty when none fits.
        traces: Traces written.
        messages: Messages in them.
        repaired: Changes of the content (NUL characters removed, calls paired, ...).
        skipped: What was left out and why.
        noticed: What is odd but stays as it is.
    """

    path: str
    format: str = ""
    traces: int = 0
    messages: int = 0
    repaired: tuple[Finding, ...] = ()
    skipped: tuple[Finding, ...] = ()
    noticed: tuple[Finding, ...] = ()

    def to_dict(self) -> Mapping[str, object]:
        """Return the report for JSON."""
        return {
            "path": self.path,
            "format": self.format,
            "traces": self.traces,
            "messages": self.messages,
            "repaired": [_finding_dict(finding) for finding in self.repaired],
            "skipped": [_finding_dict(finding) for finding in self.skipped],
            "noticed": [_finding_dict(finding) for finding in self.noticed],
        }


def _finding_dict(finding: Finding) -> dict[str, object]:
    return {"what": finding.what, "count": finding.count, "where": finding.where}
