"""Tokens that may not go, and what finds room beside them: sinks, the newest, those pinned."""

from __future__ import annotations

from memdecay.classifier.errors import BudgetError
from memdecay.runtime.config import CacheConfig
from memdecay.runtime.metadata import Slots


def num_safe(slots: Slots | None, config: CacheConfig) -> int:
    """Return how many tokens of a row may not go.

    Args:
        slots: The kept tokens; None before there are any.
        config: How many sinks and recent tokens.
    """
    if slots is None or not bool(slots.is_pinned.any()):
        return config.num_protected
    is_safe = slots.is_pinned | slots.is_sink(config.num_sinks)
    is_old = ~slots.is_recent(config.num_recent)
    return int((is_safe & is_old).sum(dim=1).max()) + config.num_recent


def check_pins(
    slots: Slots | None, num_to_come: int, room_tokens: int, config: CacheConfig
) -> None:
    """Check that new tokens find room beside all that may not go.

    Args:
        slots: The kept tokens with all pins.
        num_to_come: Tokens that are pinned before they have been seen.
        room_tokens: Room that new tokens need.
        config: The budget and the guards.

    Raises:
        BudgetError: They don't.
    """
    safe = num_safe(slots, config) + num_to_come
    if safe + room_tokens > config.budget_tokens:
        raise BudgetError(
            f"the tokens to pin do not fit: with all that is protected they would be {safe} of a "
            f"budget of {config.budget_tokens} tokens, and new ones need {room_tokens}; "
            "pin less or raise the budget"
        )


def chunk_error(num_new: int, slots: Slots | None, config: CacheConfig) -> BudgetError:
    """Say that so many new tokens find no room beside those that may not go."""
    safe = num_safe(slots, config)
    return BudgetError(
        f"a chunk of {num_new} tokens does not fit a budget of {config.budget_tokens} tokens of "
        f"which {safe} are protected; use chunks of at most {config.budget_tokens - safe} tokens"
    )
