"""The queue of requests that wait for their beginning."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from memdecay.serving.engine.request import ErrorKind, GenerationRequest, RequestRefusedError
from memdecay.serving.engine.turns.turn import Turn


class WaitingQueue:
    """First come, first served, as far as there is room.

    Args:
        max_waiting: Most requests in it.
    """

    def __init__(self, max_waiting: int) -> None:
        self._max_waiting = max_waiting
        self._turns: deque[Turn] = deque()

    def __len__(self) -> int:
        """Return the number of requests."""
        return len(self._turns)

    def __iter__(self) -> Iterator[Turn]:
        """Yield the requests, the first first; they may be removed meanwhile."""
        return iter(tuple(self._turns))

    def add(self, turn: Turn) -> None:
        """Add a request.

        Raises:
            RequestRefusedError: The queue is full, or holds a request of the same session.
        """
        if len(self) >= self._max_waiting:
            raise RequestRefusedError(
                ErrorKind.QUEUE_FULL,
                f"{len(self)} requests are waiting already, which is the most; try again later",
            )
        self._check_session(turn.request)
        self._turns.append(turn)

    def remove(self, turn: Turn) -> None:
        """Take a request out."""
        self._turns.remove(turn)

    def _check_session(self, request: GenerationRequest) -> None:
        if request.session_id is None:
            return
        key = (request.tenant, request.session_id)
        if any((turn.request.tenant, turn.request.session_id) == key for turn in self):
            raise RequestRefusedError(
                ErrorKind.SESSION_BUSY,
                f"a request of session {request.session_id!r} is waiting already; send one after "
                "the other, or use another session",
            )
