"""Long sessions."""

from memdecay.data.generator.session.run import long_session, write_session

__all__ = ["long_session", "write_session"]
