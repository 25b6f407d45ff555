"""Whether a request can be served at all, found out before anything of it is read."""

from __future__ import annotations

from memdecay.runtime.config import CacheConfig
from memdecay.serving.engine.request import ErrorKind, GenerationRequest, RequestRefusedError
from memdecay.serving.engine.turns.prompt import Prompt


def check_memory(request: GenerationRequest, prompt: Prompt, config: CacheConfig) -> None:
    """Check that what must stay in an evicting session's memory fits its budget.

    That are the first and the newest tokens, the pinned messages, and the newest message if it is
    a user's.

    Raises:
        RequestRefusedError: It does not fit.
    """
    pinned = prompt.pinned_tokens(request.pins, prompt.tokens)
    newest = prompt.newest_user_tokens()
    must_stay = pinned | newest
    must_stay[: config.num_sinks] = True
    must_stay[len(must_stay) - min(config.num_recent, len(must_stay)) :] = True
    if must_stay.sum() > config.low_tokens:
        raise RequestRefusedError(
            ErrorKind.TOO_LONG,
            f"the newest user message ({newest.sum()} tokens) and the pinned messages "
            f"({pinned.sum()} tokens) need {must_stay.sum()} tokens of memory with what is always "
            f"kept, but a session keeps {config.low_tokens} of its budget of "
            f"{config.budget_tokens}; send less, pin less or raise the budget",
        )


def check_bytes(needed_bytes: int, limit_bytes: int | None) -> None:
    """Check that a session fits the memory of all sessions together.

    Raises:
        RequestRefusedError: It would not, even if it were alone.
    """
    if limit_bytes is not None and needed_bytes > limit_bytes:
        raise RequestRefusedError(
            ErrorKind.TOO_LONG,
            f"this session needs {needed_bytes:,} bytes of KV memory, the server has "
            f"{limit_bytes:,} for all sessions; send a shorter conversation, lower max_tokens, or "
            "run the server with a smaller budget or more KV memory",
        )
