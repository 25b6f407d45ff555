"""Which sessions have been idle for too long, or are too many."""

from __future__ import annotations

from memdecay.serving.engine.config import EngineConfig
from memdecay.serving.engine.sessions.session import ServedSession
from memdecay.serving.engine.sessions.store import SessionStore


def superfluous(store: SessionStore, config: EngineConfig, now: float) -> list[ServedSession]:
    """Return the idle sessions that have to go.

    Args:
        store: All sessions.
        config: How long an unused one lives, and how many there may be.
        now: The time.
    """
    idle = [session for session in store if not session.is_running]
    idle.sort(key=lambda session: session.worth(now, config.value_half_life_s))
    ttl_s = config.session_ttl_s
    going = [one for one in idle if ttl_s is not None and now - one.last_used_at > ttl_s]
    left = [one for one in idle if one not in going]
    num_over = len(store) - len(going) - config.max_known_sessions
    return going + left[: max(0, num_over)]
