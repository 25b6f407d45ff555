"""Bring a session to the prompt of its next request."""

from __future__ import annotations

import torch

from memdecay.runtime.transcript import Transcript
from memdecay.serving.engine.events import Divergence, Origin
from memdecay.serving.engine.model.state import load_memory
from memdecay.serving.engine.sessions.digests import root_digest
from memdecay.serving.engine.sessions.prefix_cache import Prefix, PrefixCache
from memdecay.serving.engine.sessions.session import ServedSession
from memdecay.serving.engine.sessions.store import salt_of
from memdecay.serving.engine.sessions.tiers import Tiers
from memdecay.serving.engine.turns.prompt import Prompt
from memdecay.serving.engine.turns.stops import ReadingStops
from memdecay.serving.engine.turns.turn import Beginning, Turn

PUBLIC_ROOT = root_digest("public")


def prefix_root(tenant: str, salt: str) -> bytes:
    """Return the root of a tenant's prefixes with this salt."""
    return root_digest("tenant", tenant, salt)


class Beginner:
    """Finds out how much of a prompt a session has read already, and takes back the rest.

    Args:
        tiers: Brings sessions to the device.
        prefixes: Beginnings for sessions that have read nothing.
        stops: Where reading stops.
        device: Where the model's keys and values lie.
    """

    def __init__(
        self, tiers: Tiers, prefixes: PrefixCache, stops: ReadingStops, device: torch.device
    ) -> None:
        self._tiers = tiers
        self._prefixes = prefixes
        self._stops = stops
        self._device = device

    def begin(self, turn: Turn, session: ServedSession) -> Beginning:
        """Make the prompt the session's transcript, and its memory the beginning of that."""
        notes: list[str] = []
        salt = salt_of(turn.request)
        if session.salt != salt:
            self._start_anew(session)
            session.salt = salt
            notes.append("The session was read with another salt and begins anew.")
        tier = self._tiers.bring(session)
        memory = session.memory
        assert memory is not None, "the session was brought to the device"
        was_lost = bool(session.lost_because)
        if was_lost:
            notes.append(
                f"The session's memory was given up because {session.lost_because}: the whole "
                "conversation is read again."
            )
            session.lost_because = ""
        num_before = len(session.transcript.tokens)
        transcript, num_same = turn.prompt.continue_from(session.transcript)
        # The last token has to run in any case: the logits behind it are needed.
        is_read_again = not memory.take_back(min(num_same, len(transcript.tokens) - 1))
        session.transcript = transcript
        divergence = None
        if num_same < num_before or is_read_again:
            divergence = _divergence(num_same, is_read_again or was_lost)
        origin: Origin = "session" if memory.num_tokens else "new"
        if not memory.num_tokens and self._use_prefix(turn.prompt, session):
            origin = "prefix"
        reading = turn.prompt.reading(
            num_same if origin == "session" else memory.num_tokens, len(transcript.tokens)
        )
        if memory.tagger is not None and reading is not None:
            memory.tagger.read(reading)
        if memory.num_tokens:
            is_pinned = turn.prompt.pinned_tokens(turn.request.pins, transcript.tokens)
            if not memory.pin_read(is_pinned[: memory.num_tokens]):
                notes.append(
                    "A pinned message was read in an earlier turn, and parts of it were evicted "
                    "before it was pinned."
                )
        return Beginning(
            session=session,
            num_prompt_tokens=len(transcript.tokens),
            num_cached_tokens=memory.num_tokens,
            origin=origin,
            restored_from=tier,
            divergence=divergence,
            notes=tuple(notes),
            evicted_before=session.look().evicted_per_region,
        )

    def _start_anew(self, session: ServedSession) -> None:
        self._tiers.discard_saved(session)
        if session.memory is not None:
            session.memory.forget()
        session.transcript = Transcript.empty()
        session.lost_because = ""

    def _use_prefix(self, prompt: Prompt, session: ServedSession) -> bool:
        memory = session.memory
        if not self._prefixes.is_on or memory is None:
            return False
        token_ids = prompt.tokens.input_ids
        roots = (prefix_root(session.tenant, session.salt), PUBLIC_ROOT)

        def is_of_use(prefix: Prefix) -> bool:
            num_tokens = len(prefix.token_ids)
            is_stop = prefix.is_kept or self._stops.is_shared_stop(prompt, num_tokens)
            # The last token has to run in any case.
            return is_stop and num_tokens < len(token_ids)

        prefix = self._prefixes.find(roots, token_ids, is_of_use)
        if prefix is None:
            return False
        load_memory(memory, prefix.state(), self._device)
        return True


def _divergence(num_same: int, is_read_again: bool) -> Divergence:
    sentence = (
        f"The conversation's past has changed from token {num_same} on, through the client or the "
        "chat template"
    )
    if is_read_again:
        ending = "; tokens there were evicted, faded or given up, so all of it is read again."
    else:
        ending = "; it is read again from there."
    return Divergence(num_same, is_read_again, sentence + ending)
