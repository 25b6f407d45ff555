"""Where reading a prompt stops between two forwards."""

from __future__ import annotations

from dataclasses import dataclass

from memdecay.serving.engine.sessions.digests import BLOCK_TOKENS
from memdecay.serving.engine.turns.prompt import Prompt


@dataclass(frozen=True, slots=True)
class ReadingStops:
    """The places between the forwards that read a prompt.

    They depend on the prompt alone. A conversation's system messages are the beginning that it may
    share, up to the end of a whole block: every session stops there, and begins only with prefixes
    that end where it would stop in any case. So a session that starts from the prefix cache goes
    through the same forwards as one that reads all.

    Attributes:
        chunk_tokens: Most tokens of one forward.
        are_shared: Whether beginnings are shared at all.
    """

    chunk_tokens: int
    are_shared: bool

    def pause(self, prompt: Prompt) -> int:
        """Return the end of the beginning that a prompt may share; 0 if it shares none."""
        return block_end(prompt.num_system_tokens()) if self.are_shared else 0

    def next_stop(self, prompt: Prompt, start: int) -> int:
        """Return where a forward that begins at ``start`` ends at the latest."""
        pause = self.pause(prompt)
        end = start + self.chunk_tokens
        return min(end, pause) if start < pause else end

    def is_shared_stop(self, prompt: Prompt, num_tokens: int) -> bool:
        """Tell whether a reading from the start stops here, within the shared beginning."""
        pause = self.pause(prompt)
        if num_tokens == pause:
            return pause > 0
        is_chunk_end = num_tokens % self.chunk_tokens == 0 and block_end(num_tokens) == num_tokens
        return 0 < num_tokens < pause and is_chunk_end


def block_end(num_tokens: int) -> int:
    """Return the end of the last whole block within so many tokens."""
    return num_tokens // BLOCK_TOKENS * BLOCK_TOKENS
