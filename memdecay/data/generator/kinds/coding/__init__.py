"""Coding with a shell."""

from memdecay.data.generator.kinds.coding.run import write_coding

__all__ = ["write_coding"]
