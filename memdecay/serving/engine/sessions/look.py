"""A session as its tenant may see it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memdecay.classifier.features import ROLES, UNKNOWN_ROLE
from memdecay.classifier.tokenization import NO_MESSAGE
from memdecay.runtime.transcript import TokenTable
from memdecay.serving.engine.model.state import kept_positions
from memdecay.serving.engine.sessions.disk import DamagedSessionError, SessionFolder
from memdecay.serving.engine.sessions.session import ServedSession
from memdecay.serving.engine.views import ForgottenSpan, SessionView

_MAX_CHARACTERS = 400


def view_session(
    session: ServedSession, now: float, ttl_s: float | None, forgotten: tuple[ForgottenSpan, ...]
) -> SessionView:
    """Return a session's view.

    Args:
        session: The session.
        now: The time.
        ttl_s: Seconds of idleness after which sessions are deleted; None for never.
        forgotten: What it has evicted.
    """
    facts = session.look()
    idle_s = 0.0 if session.is_running else max(0.0, now - session.last_used_at)
    return SessionView(
        session_id=session.session_id,
        is_named=session.is_named,
        tier=session.tier,
        is_running=session.is_running,
        num_turns=session.num_turns,
        tokens_seen=facts.tokens_seen,
        tokens_kept=facts.tokens_kept,
        kept_per_region=facts.kept_per_region,
        evicted_per_region=facts.evicted_per_region,
        kv_bytes=facts.kv_bytes if session.memory is not None else session.saved_bytes,
        idle_s=idle_s,
        expires_in_s=None if ttl_s is None else max(0.0, ttl_s - idle_s),
        history=tuple(session.history),
        forgotten=forgotten,
        kept_per_precision=facts.kept_per_precision,
    )


def forgotten_spans(
    session: ServedSession, tokenizer: Any, folder: SessionFolder | None
) -> tuple[ForgottenSpan, ...]:
    """Return what a session has evicted, oldest first.

    A session whose memory was given up or is damaged gives none.

    Args:
        session: The session.
        tokenizer: The model's tokenizer.
        folder: Sessions on disk.
    """
    kept = _kept_positions(session, folder)
    if kept is None:
        return ()
    tokens = session.transcript.tokens
    is_gone = np.ones(min(session.facts.tokens_seen, len(tokens)), np.bool_)
    is_gone[kept[kept < is_gone.size]] = False
    return tuple(
        ForgottenSpan(
            start=start,
            stop=stop,
            message_index=_message_index(tokens, start),
            role=_role(tokens, start),
            text=_shortened(tokenizer.decode(tokens.input_ids[start:stop].tolist())),
        )
        for start, stop in _runs(is_gone, tokens.message_index)
    )


def _kept_positions(
    session: ServedSession, folder: SessionFolder | None
) -> NDArray[np.int64] | None:
    if session.memory is not None:
        positions: NDArray[np.int64] = session.memory.cache.slots.positions[0].cpu().numpy()
        return positions
    state = session.saved
    if session.stored is not None and folder is not None:
        try:
            state = folder.read(session.stored)
        except DamagedSessionError:
            return None
    if state is None:
        return None
    saved: NDArray[np.int64] = kept_positions(state).numpy()
    return saved


def _runs(
    is_gone: NDArray[np.bool_], message_index: NDArray[np.int32]
) -> Iterator[tuple[int, int]]:
    """Yield the ends of neighbouring tokens that are gone and belong to one message."""
    start: int | None = None
    for position in range(is_gone.size):
        is_new_message = position > 0 and message_index[position] != message_index[position - 1]
        if start is not None and (is_new_message or not is_gone[position]):
            yield start, position
            start = None
        if start is None and is_gone[position]:
            start = position
    if start is not None:
        yield start, int(is_gone.size)


def _message_index(tokens: TokenTable, position: int) -> int | None:
    index = int(tokens.message_index[position])
    return None if index == NO_MESSAGE else index


def _role(tokens: TokenTable, position: int) -> str | None:
    code = int(tokens.role[position])
    return None if code == UNKNOWN_ROLE else ROLES[code]


def _shortened(text: str) -> str:
    if len(text) <= _MAX_CHARACTERS:
        return text
    half = _MAX_CHARACTERS // 2
    return f"{text[:half]} … {text[-half:]}"
