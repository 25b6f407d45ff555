"""Run the speed benchmark: fill the caches side by side, then let them decode in turns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from memdecay.runtime.bench.speed.contestants import Contestant, Forward, Lineup
from memdecay.runtime.bench.speed.row import CacheState, Measured, SpeedRow, make_row
from memdecay.runtime.bench.speed.timing import Clock, PartTimers, device_clock

OnProgress = Callable[[int, int], None]


class SpeedBenchmark:
    """Times contestants in turns, so that a slow moment of the machine falls on all of them.

    For each number of tokens seen all caches start empty. They are filled chunk by chunk, one
    after the other, then decode block by block in the same way, in an order that rotates. Last
    come as many steps with timers around their parts, which the other figures leave out. Before
    all that, compiled kernels are loaded and a few tokens run, which is timed apart.

    Args:
        lineup: Makes the contestants.
        clock: Gives seconds; by default one that waits for the model's device.
    """

    def __init__(self, lineup: Lineup, clock: Clock | None = None) -> None:
        self._lineup = lineup
        self._config = lineup.config
        self._device = lineup.llm.device
        self._clock = clock or device_clock(self._device)
        self._forward = Forward(lineup.llm)
        self._num_done = 0
        self._on_progress: OnProgress | None = None
        self._preparation_s = 0.0

    @property
    def preparation_s(self) -> float:
        """Seconds that loading kernels took before anything was timed; it is in no row."""
        return self._preparation_s

    def run(
        self,
        on_progress: OnProgress | None = None,
        on_rows: Callable[[Sequence[SpeedRow]], None] | None = None,
    ) -> list[SpeedRow]:
        """Measure and return a row for each contestant and number of tokens seen.

        Args:
            on_progress: Called with the tokens run and the tokens in all.
            on_rows: Called with all rows so far when a number of tokens seen is done.

        Raises:
            BudgetError: The budget can't hold the protected tokens.
            ModelError: The model has layers that the cache does not know.
        """
        self._num_done, self._on_progress = 0, on_progress
        for seen in self._config.seen:
            self._lineup.chunk_tokens(seen)  # Refuses a budget before anything is run.
        self._warm_up()
        rows: list[SpeedRow] = []
        for seen in self._config.seen:
            rows += self._measure(seen)
            if on_rows:
                on_rows(rows)
        return rows

    @property
    def _num_tokens(self) -> int:
        steps = 2 * self._config.num_steps
        num_contestants = 1 + len(self._lineup.variants)
        return num_contestants * sum(seen + steps for seen in self._config.seen)

    def _warm_up(self) -> None:
        """Let what only a first run pays for be paid: kernels, ONNX Runtime, memory."""
        seen = self._config.seen[0]
        contestants = self._lineup.make(seen, PartTimers(self._clock))
        start_s = self._clock()
        for contestant in contestants:
            contestant.prepare()
        self._preparation_s = self._clock() - start_s
        chunk = min(seen, self._lineup.chunk_tokens(seen))
        tokens = self._random_ids(chunk + 2)
        for contestant in contestants:
            with contestant.attached():
                for part in (tokens[:, :chunk], tokens[:, chunk:-1], tokens[:, -1:]):
                    self._forward(contestant, part)

    def _measure(self, seen: int) -> list[SpeedRow]:
        timers = PartTimers(self._clock)
        contestants = self._lineup.make(seen, timers)
        measured = [Measured.empty() for _ in contestants]
        pairs = list(zip(contestants, measured, strict=True))
        tokens = self._random_ids(seen + 2 * self._config.num_steps)
        self._fill(pairs, tokens[:, :seen])
        self._decode(pairs, tokens[:, seen : seen + self._config.num_steps])
        timers.is_on = True
        self._decode_parts(pairs, tokens[:, seen + self._config.num_steps :])
        states = [_state(contestant) for contestant in contestants]
        return [
            make_row(seen, state, own, states[0], measured[0])
            for state, own in zip(states, measured, strict=True)
        ]

    def _fill(self, pairs: list[tuple[Contestant, Measured]], tokens: Tensor) -> None:
        chunk_tokens = self._lineup.chunk_tokens(tokens.shape[1])
        for i, chunk in enumerate(torch.split(tokens, chunk_tokens, dim=1)):
            for contestant, own in _rotated(pairs, i):
                with contestant.attached():
                    own.prefill_s.append(self._timed(contestant, chunk))
                own.prefill_tokens.append(chunk.shape[1])
                own.memory.append((sum(own.prefill_tokens), contestant.kv_bytes))

    def _decode(self, pairs: list[tuple[Contestant, Measured]], tokens: Tensor) -> None:
        seen = sum(pairs[0][1].prefill_tokens)
        for i, block in enumerate(torch.split(tokens, self._config.block_steps, dim=1)):
            seen += block.shape[1]
            for contestant, own in _rotated(pairs, i):
                before = self._start_workspace()
                with contestant.attached():
                    steps = torch.split(block, 1, dim=1)
                    own.step_s.append([self._timed(contestant, step) for step in steps])
                own.memory.append((seen, contestant.kv_bytes))
                own.workspace_bytes = self._workspace(before, own.workspace_bytes)

    def _decode_parts(self, pairs: list[tuple[Contestant, Measured]], tokens: Tensor) -> None:
        for i, block in enumerate(torch.split(tokens, self._config.block_steps, dim=1)):
            for contestant, own in _rotated(pairs, i):
                contestant.timers.seconds = dict(own.parts_s)
                with contestant.attached():
                    for step in torch.split(block, 1, dim=1):
                        own.parts_step_s += self._timed(contestant, step)
                own.parts_s = contestant.timers.seconds
                own.num_parts_steps += block.shape[1]

    def _timed(self, contestant: Contestant, tokens: Tensor) -> float:
        start_s = self._clock()
        self._forward(contestant, tokens)
        elapsed_s = self._clock() - start_s
        self._num_done += tokens.shape[1]
        if self._on_progress:
            self._on_progress(self._num_done, self._num_tokens)
        return elapsed_s

    def _start_workspace(self) -> int:
        if self._device.type != "cuda":
            return 0
        torch.cuda.reset_peak_memory_stats(self._device)
        return int(torch.cuda.memory_allocated(self._device))

    def _workspace(self, before: int, known: int | None) -> int | None:
        if self._device.type != "cuda":
            return None
        return max(known or 0, int(torch.cuda.max_memory_allocated(self._device)) - before)

    def _random_ids(self, num_tokens: int) -> Tensor:
        generator = torch.Generator().manual_seed(self._config.seed)
        vocab_size = int(self._lineup.llm.model.config.get_text_config().vocab_size)
        ids = torch.randint(vocab_size, (1, num_tokens), generator=generator)
        return ids.to(self._device)


def _rotated(
    pairs: list[tuple[Contestant, Measured]], turn: int
) -> Iterator[tuple[Contestant, Measured]]:
    """Give the contestants in an order that changes with every turn."""
    first = turn % len(pairs)
    yield from (*pairs[first:], *pairs[:first])


def _state(contestant: Contestant) -> CacheState:
    return CacheState(
        contestant.name,
        contestant.budget_tokens,
        contestant.tokens_kept,
        contestant.kv_bytes,
        contestant.peak_bytes,
    )
