"""Calendar and e-mail."""

from memdecay.data.generator.kinds.office.run import write_office

__all__ = ["write_office"]
