"""The agents: each sends its rounds one after the other, all agents at the same time."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx2

from memdecay.serving.bench.client import AnswerError, TimedAnswer, timed_answer
from memdecay.serving.bench.config import LoadConfig
from memdecay.serving.bench.row import Probe, RoundRow
from memdecay.serving.bench.workload import AgentScript

_LOOK_S = 1.0


@dataclass(frozen=True, slots=True)
class Target:
    """A server and how it is asked.

    Attributes:
        url: Where it answers, without a path.
        fields: What every request says beside the conversation.
        headers: Headers of every request.
        tells_memory: Whether it has memdecay's `/v1/status`.
        can_salt: Whether it knows `cache_salt`, with which a conversation is read anew.
    """

    url: str
    fields: Mapping[str, Any]
    headers: Mapping[str, str] = field(default_factory=dict)
    tells_memory: bool = False
    can_salt: bool = False


@dataclass(frozen=True, slots=True)
class Driven:
    """What a server was seen doing.

    Attributes:
        rows: The rounds in the order of their ends.
        probes: The rounds that were sent again with nothing cached.
        peak_kv_bytes: See `ServerRun`.
        kv_limit_bytes: See `ServerRun`.
        was_cut: Whether the time limit ended it.
    """

    rows: tuple[RoundRow, ...]
    probes: tuple[Probe, ...]
    peak_kv_bytes: int | None
    kv_limit_bytes: int | None
    was_cut: bool


async def drive(
    target: Target,
    scripts: Sequence[AgentScript],
    config: LoadConfig,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> Driven:
    """Let the agents talk to a server.

    An agent ends at its first failed round; the rounds behind it then fail as well. The last
    rounds are sent again, one at a time, when all agents have ended.

    Args:
        target: The server.
        scripts: What each agent says.
        config: The settings.
        progress: Called with the rounds done and their number.
    """
    timeout = httpx2.Timeout(config.timeout_s, connect=10.0)
    limits = httpx2.Limits(max_connections=None)
    async with httpx2.AsyncClient(
        base_url=target.url, headers=dict(target.headers), timeout=timeout, limits=limits
    ) as client:
        load = _Load(client, target, scripts, config, progress)
        return await load.run()


class _Load:
    """The state of one run."""

    def __init__(
        self,
        client: httpx2.AsyncClient,
        target: Target,
        scripts: Sequence[AgentScript],
        config: LoadConfig,
        progress: Callable[[int, int], None],
    ) -> None:
        self._client = client
        self._target = target
        self._scripts = scripts
        self._config = config
        self._progress = progress
        self._rows: list[RoundRow] = []
        self._kv_bytes: list[int] = []
        self._kv_limit: int | None = None
        self._started = 0.0
        self._was_cut = False

    async def run(self) -> Driven:
        watching = asyncio.ensure_future(self._watch()) if self._target.tells_memory else None
        try:
            self._started = time.perf_counter()
            said = await asyncio.gather(*map(self._hold, range(len(self._scripts))))
            probes = await self._probe(said[0]) if self._target.can_salt else []
        finally:
            if watching is not None:
                watching.cancel()
                await asyncio.wait({watching})
        return Driven(
            tuple(self._rows),
            tuple(probes),
            max(self._kv_bytes, default=None),
            self._kv_limit,
            self._was_cut,
        )

    async def _hold(self, agent: int) -> list[Mapping[str, str]]:
        """Hold one agent's conversation; return its messages."""
        script = self._scripts[agent]
        said: list[Mapping[str, str]] = list(script.opening)
        error = ""
        for number, message in enumerate(script.rounds, start=1):
            if self._is_over():
                self._was_cut = True
                break
            said.append(message)
            answer = None
            began = time.perf_counter()
            if not error:
                try:
                    answer = await self._ask(said, self._config.max_tokens)
                except AnswerError as failure:
                    error = str(failure)
            self._rows.append(self._row(agent, number, began, answer, error))
            self._progress(len(self._rows), sum(len(script.rounds) for script in self._scripts))
            said.append({"role": "assistant", "content": "" if answer is None else answer.text})
        return said

    async def _ask(
        self, said: Sequence[Mapping[str, str]], max_tokens: int, **more: str
    ) -> TimedAnswer:
        fields = {**self._target.fields, "max_tokens": max_tokens, "temperature": 0, **more}
        return await timed_answer(self._client, said, fields)

    def _row(
        self, agent: int, number: int, began: float, answer: TimedAnswer | None, error: str
    ) -> RoundRow:
        now = time.perf_counter()
        return RoundRow(
            agent=agent,
            round=number,
            end_s=now - self._started,
            first_token_s=now - began if answer is None else answer.first_token_s,
            total_s=now - began,
            prompt_tokens=None if answer is None else answer.prompt_tokens,
            cached_tokens=None if answer is None else answer.cached_tokens,
            answer_tokens=None if answer is None else answer.answer_tokens,
            error=error,
        )

    def _is_over(self) -> bool:
        limit = self._config.time_limit_s
        return limit is not None and time.perf_counter() - self._started > limit

    async def _probe(self, said: Sequence[Mapping[str, str]]) -> list[Probe]:
        """Send an agent's conversation up to some of its rounds with nothing cached."""
        own = [row for row in self._rows if row.agent == 0 and not row.error]
        last = max((row.round for row in own), default=0)
        num_opening = len(self._scripts[0].opening)
        probes = []
        for number in sorted({min(number, last) for number in self._config.probed_rounds if last}):
            salt = f"uncached-{uuid.uuid4().hex}"
            part = said[: num_opening + 2 * number - 1]
            try:
                answer = await self._ask(part, 1, cache_salt=salt)
            except AnswerError:
                continue
            probes.append(Probe(number, answer.first_token_s, answer.prompt_tokens))
        return probes

    async def _watch(self) -> None:
        """Look at the server's memory again and again."""
        while True:
            try:
                answer = await self._client.get("/v1/status")
                device = answer.raise_for_status().json()["tiers"]["device"]
                self._kv_bytes.append(device["used_bytes"])
                self._kv_limit = device["limit_bytes"]
            except (httpx2.HTTPError, ValueError, KeyError):
                pass  # The figure is one of many; the rounds tell whether the server is well.
            await asyncio.sleep(_LOOK_S)
