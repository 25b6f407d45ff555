"""Customer service with tools."""

from memdecay.data.generator.kinds.service.run import write_service

__all__ = ["write_service"]
