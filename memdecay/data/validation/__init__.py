"""Checks of trace files that report everything they find."""

from memdecay.data.validation.findings import FileReport, Finding, Severity
from memdecay.data.validation.validate import validate_file

__all__ = ["FileReport", "Finding", "Severity", "validate_file"]
