"""Where sessions lie: on the device, in CPU memory, on disk, or given up."""

from __future__ import annotations

import hashlib
import logging
from collections import Counter
from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from memdecay.classifier.errors import StorageError
from memdecay.serving.engine.config import EngineConfig
from memdecay.serving.engine.events import Tier
from memdecay.serving.engine.model.memory import SessionMemory
from memdecay.serving.engine.model.state import load_memory, save_memory, state_bytes
from memdecay.serving.engine.sessions.disk import DamagedSessionError, SessionFolder
from memdecay.serving.engine.sessions.record import to_record
from memdecay.serving.engine.sessions.session import ServedSession
from memdecay.serving.engine.sessions.store import SessionStore
from memdecay.serving.engine.views import TierUse

logger = logging.getLogger(__name__)

_CPU = torch.device("cpu")


class Tiers:
    """Moves idle sessions down where room is needed, and back up when they go on.

    What is worth least goes first, see `ServedSession.worth`. Running sessions are never moved.

    Args:
        config: Limits of each tier.
        store: The sessions.
        new_memory: Makes an empty memory.
        device: Where the model's keys and values lie.
        folder: Sessions on disk; None leaves that tier out.
        clock: Returns the time in seconds.
    """

    def __init__(
        self,
        config: EngineConfig,
        store: SessionStore,
        new_memory: Callable[[], SessionMemory],
        device: torch.device,
        folder: SessionFolder | None,
        clock: Callable[[], float],
    ) -> None:
        self._config = config
        self._store = store
        self._new_memory = new_memory
        self._device = device
        self._folder = folder
        self._clock = clock
        self.num_offloaded: Counter[str] = Counter()
        self.num_restored: Counter[str] = Counter()

    def claim(self, session: ServedSession, num_bytes: int) -> bool:
        """Promise a session room on the device, at the cost of idle ones.

        Args:
            session: The session, which is not running.
            num_bytes: Bytes that its buffers may take.

        Returns:
            Whether there is room; if not, nothing has changed.
        """
        others = [one for one in self._store if one.reserved_bytes and one is not session]
        idle = self._cheapest_first(one for one in others if not one.is_running)
        moved: list[ServedSession] = []
        while not self._fits(others, num_bytes):
            if not idle:
                return False
            moved.append(idle.pop(0))
            others.remove(moved[-1])
        for one in moved:
            self.offload(one)
        session.reserved_bytes = num_bytes
        return True

    def bring(self, session: ServedSession) -> Tier:
        """Put a session's memory on the device; an empty one where it was given up.

        Returns:
            The tier in which it was.
        """
        tier = session.tier
        if tier == "device":
            return tier
        memory = self._new_memory()
        state = self._take_state(session)
        if state is not None:
            try:
                load_memory(memory, state, self._device)
                self.num_restored[tier] += 1
            except ValueError as error:
                session.lost_because = str(error)
        session.memory = memory
        return tier

    def offload(self, session: ServedSession) -> None:
        """Move an idle session off the device, to the next tier that has room for it."""
        session.look()
        memory, session.memory = session.memory, None
        session.reserved_bytes = 0
        if memory is None or not memory.num_tokens:
            return
        is_kept_on_cpu = self._config.cpu_memory_bytes > 0
        if not is_kept_on_cpu and self._folder is None:
            self._give_up(session)
            return
        state = save_memory(memory, _CPU)
        if is_kept_on_cpu and self._make_cpu_room(state_bytes(state)):
            session.saved, session.saved_bytes = state, state_bytes(state)
            self.num_offloaded["cpu"] += 1
        else:
            self._to_disk(session, state)

    def save_all(self) -> None:
        """Write every idle session to disk, if there is one, as before an end of the server."""
        if self._folder is None:
            return
        for session in self._store:
            if session.is_running:
                continue
            if session.memory is not None and session.memory.num_tokens:
                session.look()
                state: dict[str, Tensor] | None = save_memory(session.memory, _CPU)
                session.memory, session.reserved_bytes = None, 0
            else:
                state, session.saved = session.saved, None
            if state is not None:
                self._to_disk(session, state)

    def discard(self, session: ServedSession) -> None:
        """Free a session's memory in every tier."""
        session.memory = session.saved = None
        session.reserved_bytes = session.saved_bytes = 0
        if session.stored is not None and self._folder is not None:
            self._folder.remove(session.stored)
        session.stored = None

    def use(self) -> dict[str, TierUse]:
        """Return how full each tier is."""
        device = [one for one in self._store if one.memory is not None]
        cpu = [one for one in self._store if one.saved is not None]
        disk = [one for one in self._store if one.stored is not None]
        allocated = sum(one.memory.cache.allocated_bytes for one in device if one.memory)
        has_disk = self._folder is not None
        return {
            "device": TierUse(len(device), allocated, self._config.kv_memory_bytes),
            "cpu": TierUse(
                len(cpu), sum(one.saved_bytes for one in cpu), self._config.cpu_memory_bytes
            ),
            "disk": TierUse(
                len(disk),
                sum(one.saved_bytes for one in disk),
                self._config.disk_bytes if has_disk else 0,
            ),
        }

    def _fits(self, others: list[ServedSession], num_bytes: int) -> bool:
        limit = self._config.kv_memory_bytes
        used = sum(max(one.reserved_bytes, one.facts.kv_bytes) for one in others)
        has_bytes = limit is None or used + num_bytes <= limit
        return has_bytes and len(others) < self._config.max_sessions

    def _cheapest_first(self, sessions: Iterable[ServedSession]) -> list[ServedSession]:
        now, half_life_s = self._clock(), self._config.value_half_life_s
        return sorted(sessions, key=lambda session: session.worth(now, half_life_s))

    def _make_cpu_room(self, num_bytes: int) -> bool:
        limit = self._config.cpu_memory_bytes
        if num_bytes > limit:
            return False
        saved = self._cheapest_first(one for one in self._store if one.saved is not None)
        used = sum(one.saved_bytes for one in saved)
        for session in saved:
            if used + num_bytes <= limit:
                break
            used -= session.saved_bytes
            state, session.saved = session.saved, None
            assert state is not None, "only sessions in CPU memory were chosen"
            self._to_disk(session, state)
        return True

    def _to_disk(self, session: ServedSession, state: dict[str, Tensor]) -> None:
        session.saved_bytes = 0
        if self._folder is None or not self._make_disk_room(state_bytes(state)):
            self._give_up(session)
            return
        try:
            session.stored = self._folder.write(_file_name(session), to_record(session), state)
        except StorageError as error:
            logger.warning("A session is given up: %s", error, extra=_names(session))
            self._give_up(session, "it could not be written to disk")
            return
        session.saved_bytes = session.stored.size_bytes
        self.num_offloaded["disk"] += 1

    def _make_disk_room(self, num_bytes: int) -> bool:
        if num_bytes > self._config.disk_bytes:
            return False
        stored = self._cheapest_first(one for one in self._store if one.stored is not None)
        used = sum(one.saved_bytes for one in stored)
        for session in stored:
            if used + num_bytes <= self._config.disk_bytes:
                break
            used -= session.saved_bytes
            self.discard(session)
            self._give_up(session)
        return True

    def _give_up(self, session: ServedSession, why: str = "it had to make room for others") -> None:
        session.lost_because = why
        self.num_offloaded["none"] += 1

    def _take_state(self, session: ServedSession) -> dict[str, Tensor] | None:
        """Return a session's saved memory, which no tier holds afterwards."""
        state, session.saved = session.saved, None
        stored = session.stored
        if stored is not None and self._folder is not None:
            try:
                state = self._folder.read(stored)
            except DamagedSessionError as error:
                logger.warning("A session has to be read again: %s", error, extra=_names(session))
                session.lost_because = "its file on disk was damaged"
        self.discard_saved(session)
        return state

    def discard_saved(self, session: ServedSession) -> None:
        """Free what a session has in CPU memory and on disk."""
        memory, reserved_bytes = session.memory, session.reserved_bytes
        self.discard(session)
        session.memory, session.reserved_bytes = memory, reserved_bytes


def _names(session: ServedSession) -> dict[str, str]:
    """Return what a line of the log says of a session."""
    return {"tenant": session.tenant, "session_id": session.session_id}


def _file_name(session: ServedSession) -> str:
    owner = f"{len(session.tenant)}:{session.tenant}:{session.session_id}"
    return hashlib.sha256(owner.encode()).hexdigest()[:32]
