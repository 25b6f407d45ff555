"""Web shopping."""

from memdecay.data.generator.kinds.shopping.run import write_shopping

__all__ = ["write_shopping"]
