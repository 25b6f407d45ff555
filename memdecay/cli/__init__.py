"""The memdecay command."""

from memdecay.cli.app import main

__all__ = ["main"]
