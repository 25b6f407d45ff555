"""Feed a recorded trace to a cache, and ask it things on the way without disturbing it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from memdecay.classifier.features import role_code
from memdecay.runtime.bench.caches.runner import Runner
from memdecay.runtime.bench.quality.case import QualityCase
from memdecay.runtime.bench.quality.config import QualityConfig
from memdecay.runtime.bench.quality.probes import Probe
from memdecay.runtime.transcript import TokenTable

OnLogProbs = Callable[[int, int, Tensor], None]
OnTokens = Callable[[int], None]
_ASSISTANT = role_code("assistant")


@dataclass(frozen=True, slots=True)
class Answers:
    """What a cache gave besides its predictions.

    Attributes:
        continuation: The greedy continuation of the last turn, without the token that ends it.
        recall_nll: Mean negative log-likelihood of each probe's recalled tokens, nats a token.
    """

    continuation: tuple[int, ...]
    recall_nll: tuple[float, ...]


def replay(
    runner: Runner,
    case: QualityCase,
    config: QualityConfig,
    stop_ids: frozenset[int],
    on_log_probs: OnLogProbs,
    on_tokens: OnTokens | None = None,
) -> Answers:
    """Feed a whole trace in chunks; the assistant's tokens are the recorded ones.

    The last turn begins a chunk of its own, so that it can be continued from there.

    Args:
        runner: Has seen nothing yet.
        case: The trace.
        config: Chunks and lengths.
        stop_ids: Tokens that end an answer.
        on_log_probs: Called with a range of `QualityCase.positions` (first and end) and the
            log-probabilities there, ``(end - first, vocab_size)``, float32.
        on_tokens: Called with the number of tokens after each chunk.
    """
    continuation: tuple[int, ...] = ()
    logits = torch.empty(0)
    with runner.attached():
        for start, end in _chunks(case, config.chunk_tokens):
            if start == case.last_turn:
                continuation = continue_greedily(runner.fork(), logits[-1], start, config, stop_ids)
            first, last = np.searchsorted(case.positions, (start, end)).tolist()
            # Logits of a large vocabulary take a sixth of a small model's time.
            logits = runner.run(case.table.part(start, end), keeps_all_logits=last > first)
            if last > first:
                rows = torch.from_numpy(case.positions[first:last] - start).to(logits.device)
                on_log_probs(first, last, logits[rows].float().log_softmax(dim=-1))
            if on_tokens:
                on_tokens(end - start)
        recall_nll = tuple(
            recall(runner.fork(), case, probe, config.chunk_tokens) for probe in case.probes
        )
    return Answers(continuation, recall_nll)


def continue_greedily(
    runner: Runner,
    last_logits: Tensor,
    start: int,
    config: QualityConfig,
    stop_ids: frozenset[int],
) -> tuple[int, ...]:
    """Write on from here, always the likeliest token, until an end or the most tokens.

    Args:
        runner: A fork that may be used up.
        last_logits: Logits behind its newest token, ``(vocab_size,)``.
        start: Position of the first new token.
        config: The most tokens.
        stop_ids: Tokens that end an answer.
    """
    token_ids: list[int] = []
    with runner.attached():
        while len(token_ids) < config.continuation_tokens:
            token_id = int(last_logits.argmax())
            if token_id in stop_ids:
                break
            token_ids.append(token_id)
            if len(token_ids) < config.continuation_tokens:
                new = _aside(np.array([token_id]), start + len(token_ids))
                last_logits = runner.run(new)[-1]
    return tuple(token_ids)


def recall(runner: Runner, case: QualityCase, probe: Probe, chunk_tokens: int) -> float:
    """Return how surprising a span is that is asked for: an answer's head, the cue, the span.

    Args:
        runner: A fork that may be used up.
        case: The trace.
        probe: The span.
        chunk_tokens: Most tokens of one forward.

    Returns:
        Mean negative log-likelihood of the recalled tokens, nats a token.
    """
    span = case.tokens.input_ids[probe.start : probe.end]
    ids = np.concatenate([case.prompt_ids, span])
    asked = _aside(ids, case.num_tokens)
    with runner.attached():
        logits = torch.cat(
            [
                runner.run(asked.part(i, i + chunk_tokens)).float()
                for i in range(0, len(ids), chunk_tokens)
            ]
        )
    rows = slice(len(ids) - probe.num_recall - 1, len(ids) - 1)
    targets = torch.from_numpy(ids[-probe.num_recall :]).to(logits.device)
    return float(torch.nn.functional.cross_entropy(logits[rows], targets))


def _chunks(case: QualityCase, chunk_tokens: int) -> Iterator[tuple[int, int]]:
    bounds = [0, case.num_tokens]
    if case.last_turn is not None:
        bounds.insert(1, case.last_turn)
    for first, last in itertools.pairwise(bounds):
        for start in range(first, last, chunk_tokens):
            yield start, min(start + chunk_tokens, last)


def _aside(input_ids: NDArray[np.int64], start: int) -> TokenTable:
    """Return tokens of a message that the trace does not have."""
    num_tokens = len(input_ids)
    places = np.arange(start, start + num_tokens, dtype=np.int32)
    return TokenTable(
        input_ids.astype(np.int64),
        np.zeros(num_tokens, np.int32),
        places,
        np.full(num_tokens, _ASSISTANT, np.int8),
    )
