"""Put an answer into its session, and report what the session remembers."""

from __future__ import annotations

from memdecay.serving.engine.counters import difference
from memdecay.serving.engine.events import MemoryReport
from memdecay.serving.engine.sessions.store import SessionStore
from memdecay.serving.engine.turns.turn import Turn


def settle(turn: Turn, store: SessionStore, now: float) -> MemoryReport:
    """Write the answer of a request that ends into its session.

    Args:
        turn: The request, its answer whole.
        store: Finds the session by what it has answered from now on.
        now: The time.
    """
    session, beginning = turn.session, turn.beginning
    assert beginning is not None, "the request has begun"
    turn.tell_tagger(is_finished=True)
    session.transcript = session.transcript.with_reply(turn.answer_tokens(), turn.answer.text)
    notes = beginning.notes
    memory = session.memory
    # A stop text of several tokens has been run in part, but is no part of the answer.
    if memory is not None and not memory.take_back(len(session.transcript.tokens)):
        notes = (*notes, "The session's memory was given up; it is read again next time.")
    if memory is not None:
        # Idle sessions take no more than they keep, and go on alike wherever they lay.
        memory.cache.give_up_waiting()
    session.num_turns += 1
    session.last_used_at = now
    store.note_prompt(session, turn.prompt)
    session.take_snapshot()
    facts = session.facts
    return MemoryReport(
        session_id=session.session_id,
        tokens_seen=facts.tokens_seen,
        tokens_kept=facts.tokens_kept,
        kept_per_region=facts.kept_per_region,
        evicted_per_region=facts.evicted_per_region,
        newly_evicted_per_region=difference(facts.evicted_per_region, beginning.evicted_before),
        kv_bytes=facts.kv_bytes,
        notes=notes,
        kept_per_precision=facts.kept_per_precision,
    )
