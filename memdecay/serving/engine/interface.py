"""The engine as the server sees it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from memdecay.serving.engine.events import Event, Listener
from memdecay.serving.engine.request import GenerationRequest
from memdecay.serving.engine.views import EngineStats, SessionView


class RequestHandle(Protocol):
    """A request that was taken in."""

    @property
    def request_id(self) -> str:
        """The request's name."""

    def __iter__(self) -> Iterator[Event]:
        """Yield the events, waiting for each; ends behind `Finished` or `Failed`."""

    def cancel(self) -> None:
        """End the request at the next step; it still gets its last event."""


class ServingEngine(Protocol):
    """Runs requests of many tenants; every method may be called from any thread."""

    @property
    def model_name(self) -> str:
        """Name of the language model."""

    @property
    def max_context(self) -> int:
        """Most tokens that one conversation may have seen."""

    @property
    def is_working(self) -> bool:
        """Whether requests can be taken in; never waits for a step."""

    def start(self) -> None:
        """Begin to work."""

    def stop(self, *, timeout_s: float | None = None) -> None:
        """Refuse new requests, finish the running ones and end.

        Args:
            timeout_s: Seconds after which those that still run are cancelled; None waits.
        """

    def submit(self, request: GenerationRequest, listener: Listener | None = None) -> RequestHandle:
        """Take a request in; it starts at the next step that has room for it.

        Rendering and tokenizing happen here, in the caller's thread.

        Args:
            request: The request.
            listener: Gets each event, in the engine's thread, and must not block. The handle then
                yields nothing.

        Raises:
            RequestRefusedError: It can't run: bad input, too long for the budget, a full queue.
        """

    def cancel(self, request_id: str) -> bool:
        """End a request at the next step; return whether it was waiting or running."""

    def tokenize(self, request: GenerationRequest) -> tuple[int, ...]:
        """Return the token ids that a request's prompt has.

        Raises:
            RequestRefusedError: The request can't be rendered, or is far too long.
        """

    def sessions(self, tenant: str) -> tuple[SessionView, ...]:
        """Return a tenant's sessions, the last used first, without ``forgotten``."""

    def session(self, tenant: str, session_id: str, *, explain: bool = False) -> SessionView | None:
        """Return one session, with ``forgotten`` if asked for; None if the tenant has no such."""

    def delete_session(self, tenant: str, session_id: str) -> bool:
        """Cancel its request, free its memory in every tier; return whether there was one."""

    def stats(self) -> EngineStats:
        """Return figures for a metrics page."""
