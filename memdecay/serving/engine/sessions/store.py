"""Finding the session that a request goes on with."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

from memdecay.serving.engine.request import GenerationRequest
from memdecay.serving.engine.sessions.digests import message_digests, root_digest
from memdecay.serving.engine.sessions.session import ServedSession
from memdecay.serving.engine.turns.prompt import Prompt


def salt_of(request: GenerationRequest) -> str:
    """Return what tells a request's sessions and prefixes from those of other salts."""
    return root_digest(request.cache_salt, request.prompt_cache_key).hex()


class SessionStore:
    """All sessions that are known, by name and by what was said in them.

    A session without a name is found by a conversation that holds the messages of its last prompt,
    an answer, and more; a raw prompt by one that begins with all that the session has read and
    written. Both are looked up under the tenant and the salt, and only idle sessions are found:
    two requests at the same time never share one.
    """

    def __init__(self) -> None:
        self._by_id: dict[tuple[str, str], ServedSession] = {}
        self._by_digest: dict[bytes, list[ServedSession]] = {}

    def __len__(self) -> int:
        """Return the number of sessions."""
        return len(self._by_id)

    def __iter__(self) -> Iterator[ServedSession]:
        """Yield the sessions."""
        return iter(tuple(self._by_id.values()))

    def of(self, tenant: str) -> list[ServedSession]:
        """Return a tenant's sessions, the last used first."""
        own = [session for session in self if session.tenant == tenant]
        return sorted(own, key=lambda session: session.last_used_at, reverse=True)

    def get(self, tenant: str, session_id: str) -> ServedSession | None:
        """Return the session with this name or the engine's name for it."""
        return self._by_id.get((tenant, session_id))

    def find(self, request: GenerationRequest, prompt: Prompt) -> ServedSession | None:
        """Return the session that a request goes on with; None if it begins a new one."""
        if request.session_id is not None:
            return self.get(request.tenant, request.session_id)
        if prompt.messages:
            return self._find_conversation(request, prompt)
        return self._find_text(request, prompt)

    def create(self, request: GenerationRequest, now: float) -> ServedSession:
        """Return a new session for a request, which is known from now on."""
        session = ServedSession(
            tenant=request.tenant,
            session_id=request.session_id or f"auto-{uuid.uuid4().hex}",
            is_named=request.session_id is not None,
            salt=salt_of(request),
            created_at=now,
            last_used_at=now,
        )
        self.add(session)
        return session

    def add(self, session: ServedSession) -> None:
        """Make a session known."""
        self._by_id[session.tenant, session.session_id] = session
        if session.digest is not None and not session.is_named:
            self._by_digest.setdefault(session.digest, []).append(session)

    def remove(self, session: ServedSession) -> None:
        """Forget a session."""
        self._by_id.pop((session.tenant, session.session_id), None)
        self._unlink(session)

    def note_prompt(self, session: ServedSession, prompt: Prompt) -> None:
        """Note which messages a session has answered, so that their continuation finds it."""
        self._unlink(session)
        session.digest = None
        if prompt.messages:
            root = root_digest(session.tenant, session.salt)
            session.digest = message_digests(root, prompt.messages)[-1]
            if not session.is_named:
                self._by_digest.setdefault(session.digest, []).append(session)

    def _unlink(self, session: ServedSession) -> None:
        if session.digest is None or session.is_named:
            return
        others = [one for one in self._by_digest.get(session.digest, ()) if one is not session]
        if others:
            self._by_digest[session.digest] = others
        else:
            self._by_digest.pop(session.digest, None)

    def _find_conversation(
        self, request: GenerationRequest, prompt: Prompt
    ) -> ServedSession | None:
        digests = message_digests(root_digest(request.tenant, salt_of(request)), prompt.messages)
        for num_messages in range(len(prompt.messages) - 1, 0, -1):
            if prompt.is_answered_from(num_messages):
                known = self._by_digest.get(digests[num_messages], ())
                idle = [session for session in known if not session.is_running]
                if len(idle) == 1:  # Comparing the tokens takes time.
                    return idle[0]
                if idle:
                    return max(idle, key=lambda session: self._match(session, prompt))
        return None

    def _find_text(self, request: GenerationRequest, prompt: Prompt) -> ServedSession | None:
        salt = salt_of(request)
        found = [
            session
            for session in self
            if (session.tenant, session.salt) == (request.tenant, salt)
            and not session.is_named
            and not session.is_running
            and session.digest is None
            and self._match(session, prompt)[0] == len(session.transcript.tokens) > 0
        ]
        return max(found, key=lambda session: self._match(session, prompt), default=None)

    def _match(self, session: ServedSession, prompt: Prompt) -> tuple[int, bool, float]:
        """Return how well a session fits: the same tokens, its memory kept, used of late."""
        num_same = prompt.continue_from(session.transcript)[1]
        return num_same, session.tier != "none", session.last_used_at
