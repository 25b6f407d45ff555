"""Data analysis."""

from memdecay.data.generator.kinds.analysis.run import write_analysis

__all__ = ["write_analysis"]
