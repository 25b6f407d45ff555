"""What a response says beside the text: usage, memory, headers."""

from __future__ import annotations

from collections.abc import Sequence

from memdecay.serving.api.schemas.common import (
    CompressedTool,
    DivergenceBody,
    MemoryBody,
    PromptTokensDetails,
    Usage,
)
from memdecay.serving.engine.events import Divergence, Finished, Started


def usage_body(finished: Finished) -> Usage:
    """Return the tokens of a request."""
    usage = finished.usage
    return Usage(
        prompt_tokens=usage.num_prompt_tokens,
        completion_tokens=usage.num_completion_tokens,
        total_tokens=usage.num_prompt_tokens + usage.num_completion_tokens,
        prompt_tokens_details=PromptTokensDetails(cached_tokens=usage.num_cached_tokens),
    )


def memory_body(
    finished: Finished, compressed: Sequence[CompressedTool], ignored: Sequence[str]
) -> MemoryBody:
    """Return what was kept and what was lost, of the session and of the request."""
    memory = finished.memory
    return MemoryBody(
        session_id=memory.session_id,
        tokens_seen=memory.tokens_seen,
        tokens_kept=memory.tokens_kept,
        kept_per_region=memory.kept_per_region,
        kept_per_precision=memory.kept_per_precision,
        evicted_per_region=memory.evicted_per_region,
        newly_evicted_per_region=memory.newly_evicted_per_region,
        kv_bytes=memory.kv_bytes,
        notes=list(memory.notes),
        divergence=_divergence_body(finished.divergence),
        compressed_tools=list(compressed),
        ignored_fields=list(ignored),
    )


def started_headers(started: Started, compressed: Sequence[CompressedTool]) -> dict[str, str]:
    """Return the headers that are known before the answer."""
    headers = {
        "X-Memdecay-Session": started.session_id,
        "X-Memdecay-Cached-Tokens": str(started.num_cached_tokens),
        "X-Memdecay-Origin": started.origin,
    }
    if started.divergence is not None:
        headers["X-Memdecay-Diverged-At"] = str(started.divergence.token_index)
    if compressed:
        cut = sum(tool.characters - tool.kept_characters for tool in compressed)
        headers["X-Memdecay-Compressed-Characters"] = str(cut)
    return headers


def finished_headers(finished: Finished) -> dict[str, str]:
    """Return the headers that are known once the answer is there."""
    memory = finished.memory
    return {
        "X-Memdecay-Tokens-Seen": str(memory.tokens_seen),
        "X-Memdecay-Tokens-Kept": str(memory.tokens_kept),
        "X-Memdecay-Tokens-Faded": str(memory.tokens_faded),
        "X-Memdecay-Evicted": str(sum(memory.newly_evicted_per_region.values())),
    }


def _divergence_body(divergence: Divergence | None) -> DivergenceBody | None:
    if divergence is None:
        return None
    return DivergenceBody(
        token_index=divergence.token_index,
        is_read_again=divergence.is_read_again,
        reason=divergence.reason,
    )
