"""How far a forgetting cache's predictions are from those of a full one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from memdecay.classifier.features import role_code
from memdecay.classifier.llm import LanguageModel
from memdecay.classifier.rendering import render
from memdecay.classifier.tokenization import tokenize
from memdecay.runtime.session import Session

_ASSISTANT = role_code("assistant")


@dataclass(frozen=True, slots=True)
class Replay:
    """What a session predicted while it was fed a recorded conversation.

    Attributes:
        positions: ``(n,)``, int64; the tokens whose successors were predicted.
        log_probs: ``(n, vocab_size)``, float32, on the CPU.
    """

    positions: NDArray[np.int64]
    log_probs: Tensor


def assistant_positions(
    messages: Sequence[Mapping[str, Any]], llm: LanguageModel, *, after: int, max_positions: int
) -> NDArray[np.int64]:
    """Return positions whose next token is one that the assistant wrote.

    Args:
        messages: The recorded conversation.
        llm: The model that is going to read it.
        after: Positions before this one are left out; nothing is evicted there yet.
        max_positions: The most positions, spread evenly.

    Returns:
        ``(n,)``, int64, rising; empty where the assistant wrote nothing that late.
    """
    tokens = tokenize(render(messages, llm.tokenizer), llm.tokenizer)
    is_written = (tokens.role == _ASSISTANT) & ~tokens.is_special
    positions = np.flatnonzero(is_written) - 1
    positions = positions[positions >= after]
    if len(positions) > max_positions:
        chosen = np.linspace(0, len(positions) - 1, max_positions).round().astype(np.int64)
        positions = positions[chosen]
    return positions


def replay(
    session: Session,
    messages: Sequence[Mapping[str, Any]],
    positions: NDArray[np.int64],
    on_progress: Callable[[int, int], None] | None = None,
) -> Replay:
    """Feed a recorded conversation and keep the predictions at some positions.

    Args:
        session: A session without messages.
        messages: The conversation.
        positions: ``(n,)``, int64, rising, at least one; see `assistant_positions`.
        on_progress: Called with the tokens read and the tokens in all after each chunk.
    """
    found: list[Tensor] = []

    def gather(start: int, logits: Tensor) -> None:
        low, high = np.searchsorted(positions, (start, start + len(logits)))
        rows = torch.from_numpy(positions[low:high] - start).to(logits.device)
        found.append(torch.log_softmax(logits[rows].float(), dim=-1).cpu())

    session.feed(messages, on_logits=gather, on_progress=on_progress, logits_at=positions)
    return Replay(positions, torch.cat(found))


def mean_kl(reference: Replay, other: Replay) -> float:
    """Return the mean Kullback-Leibler divergence from a reference, in nats a token.

    ``mean over positions of sum over tokens of p * (log p - log q)``, p the reference's and q the
    other's probabilities.

    Raises:
        ValueError: The two hold different positions, or none.
    """
    if not np.array_equal(reference.positions, other.positions) or not len(other.positions):
        raise ValueError(
            "expected two replays of the same positions, at least one, got "
            f"{len(reference.positions)} and {len(other.positions)}"
        )
    difference = reference.log_probs - other.log_probs
    return float((reference.log_probs.exp() * difference).sum(dim=-1).mean())
