"""When the cache looks for tokens that go before the budget is used up."""

from __future__ import annotations

from memdecay.runtime.early_config import EarlyConfig


class EarlyLooks:
    """Spaces the looks, so that they cost nearly nothing.

    Args:
        config: The mark and the tokens between two looks.
        budget_tokens: The budget.

    Attributes:
        last_seen: Tokens seen at the last look or move.
    """

    def __init__(self, config: EarlyConfig, budget_tokens: int) -> None:
        self.last_seen = 0
        self._every_tokens = config.every_tokens
        self._most_used = round(config.watermark * budget_tokens, 6)

    def is_due(self, num_seen: int, used_tokens: float) -> bool:
        """Tell whether it is time to look, and note the look if so.

        Args:
            num_seen: Tokens seen so far.
            used_tokens: What the kept tokens take, in tokens at full precision.
        """
        is_due = used_tokens > self._most_used and num_seen - self.last_seen >= self._every_tokens
        if is_due:
            self.last_seen = num_seen
        return is_due

    def take_back(self, num_seen: int) -> None:
        """Note that fewer tokens have been seen after all."""
        self.last_seen = min(self.last_seen, num_seen)
