"""Replay a conversation with right and with wrong regions, and compare what it costs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memdecay.classifier.llm import LanguageModel
from memdecay.classifier.propagation import PropagationConfig
from memdecay.classifier.regions import NUM_REGIONS, Region
from memdecay.classifier.regret import ConfusionCost, EvictionRegret
from memdecay.runtime.comparison import Replay, assistant_positions, mean_kl, replay
from memdecay.runtime.config import CacheConfig
from memdecay.runtime.given_tagger import GivenTagger
from memdecay.runtime.session import Session
from memdecay.runtime.tagging import SessionTagger

ChatMessages = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class RegretConfig:
    """How regret is measured.

    Attributes:
        max_confusions: The most kinds of mistakes that are made alone, the most frequent first.
        max_positions: The most predictions that are compared, spread over the conversation.
        chunk_tokens: Tokens of one forward, as in the quality benchmark, or a quarter of the budget
            where that is less. A session reads a tenth at a time, which takes twice as long.
        propagation: How importance spreads from the regions.
    """

    max_confusions: int = 6
    max_positions: int = 128
    chunk_tokens: int = 64
    propagation: PropagationConfig = field(default_factory=PropagationConfig)

    def __post_init__(self) -> None:
        """Check the ranges.

        Raises:
            ValueError: A count is out of its range.
        """
        if self.max_confusions < 0:
            raise ValueError(f"max_confusions must be 0 or more, got {self.max_confusions}")
        for name in ("max_positions", "chunk_tokens"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be 1 or more, got {getattr(self, name)}")


def eviction_regret(
    llm: LanguageModel,
    cache_config: CacheConfig,
    messages: ChatMessages,
    gold: NDArray[np.int8],
    tagger: SessionTagger,
    config: RegretConfig | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> EvictionRegret | None:
    """Measure what a tagger's mistakes cost on one recorded conversation.

    The conversation is replayed under the budget with the gold regions, with the tagger's most
    likely regions, with none, and for each frequent confusion with gold regions in which only that
    mistake was made. Tokens without a gold region have the tagger's in all of them.

    Args:
        llm: The language model.
        cache_config: Budget and policy.
        messages: The conversation.
        gold: ``(n,)``, int8; the right region of each of its tokens, -1 where there is none.
        tagger: The tagger.
        config: Settings.
        on_progress: Called with the replays done and the replays in all.

    Returns:
        The figures; None where the conversation has no assistant's text behind the budget.

    Raises:
        ValueError: ``gold`` is not one region a token.
    """
    config = config or RegretConfig()
    positions = assistant_positions(
        messages, llm, after=cache_config.budget_tokens, max_positions=config.max_positions
    )
    if not len(positions):
        return None
    full = Session(
        llm, replace(cache_config, policy="full"), tagger, chunk_tokens=config.chunk_tokens
    )
    reference = replay(full, messages, positions)
    predicted = full.cache.slots.regions[0].cpu().numpy().astype(np.int8)
    if gold.shape != predicted.shape:
        raise ValueError(
            f"gold must have the shape {predicted.shape} of the conversation's tokens, got "
            f"{gold.shape}"
        )
    right = np.where(gold < 0, predicted, gold).astype(np.int8)
    pairs = _confusions(right, predicted)[: config.max_confusions]
    num_replays, num_done = len(pairs) + 4, 1
    found: dict[bytes, float] = {}

    def kl(regions: NDArray[np.int8] | None) -> float:
        nonlocal num_done
        # A tagger with one kind of mistake, or with none, has the regions of another replay.
        key = b"" if regions is None else regions.tobytes()
        if key not in found:
            given = None
            if regions is not None:
                given = GivenTagger(regions, tagger.region_table, config.propagation)
            session = Session(llm, cache_config, given)
            session.chunk_tokens = _chunk(config.chunk_tokens, session)
            found[key] = _kl(reference, session, messages)
        num_done += 1
        if on_progress is not None:
            on_progress(num_done, num_replays)
        return found[key]

    return EvictionRegret(
        num_positions=len(positions),
        num_tokens=int((gold >= 0).sum()),
        num_wrong=int((right != predicted).sum()),
        kl_gold=kl(right),
        kl_tagger=kl(predicted),
        kl_untagged=kl(None),
        confusions=tuple(
            ConfusionCost(of, to, count, kl(_with_confusion(right, predicted, of, to)))
            for of, to, count in pairs
        ),
    )


def _kl(reference: Replay, session: Session, messages: ChatMessages) -> float:
    return mean_kl(reference, replay(session, messages, reference.positions))


def _chunk(chunk_tokens: int, session: Session) -> int:
    quarter = session.cache.config.budget_tokens // 4
    return max(session.chunk_tokens, min(chunk_tokens, quarter))


def _confusions(
    right: NDArray[np.int8], predicted: NDArray[np.int8]
) -> list[tuple[Region, Region, int]]:
    """Return gold region, predicted region and number of tokens, the most frequent first."""
    cells = right.astype(np.int64) * NUM_REGIONS + predicted
    counts = np.bincount(cells, minlength=NUM_REGIONS**2).reshape(NUM_REGIONS, NUM_REGIONS)
    found = [
        (of, to, int(counts[of, to]))
        for of in Region
        for to in Region
        if of is not to and counts[of, to]
    ]
    return sorted(found, key=lambda item: -item[2])


def _with_confusion(
    right: NDArray[np.int8], predicted: NDArray[np.int8], of: Region, to: Region
) -> NDArray[np.int8]:
    is_confused = (right == of) & (predicted == to)
    return np.where(is_confused, to, right).astype(np.int8)
