"""How a model's forward is called with a cache, whatever its arguments are named."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

from torch import nn


@dataclass(frozen=True, slots=True)
class ForwardCall:
    """What a model's forward takes.

    Attributes:
        cache_name: Name of the argument for the cache, which transformers 5.24 renamed.
        takes_logits_to_keep: Whether it can be told how many logits are wanted.
    """

    cache_name: str
    takes_logits_to_keep: bool

    @classmethod
    def of(cls, model: nn.Module) -> ForwardCall:
        """Look at the arguments of a causal language model's forward, or of its decoder's."""
        parameters = inspect.signature(model.forward).parameters
        name = "cache" if "cache" in parameters else "past_key_values"
        return cls(name, "logits_to_keep" in parameters)

    def options(self, cache: object, logits_to_keep: int | None = None) -> dict[str, Any]:
        """Return the arguments for a forward with a cache.

        Args:
            cache: A transformers cache.
            logits_to_keep: Logits of how many of the last tokens are wanted, 0 for all; left to the
                model where that is None, or where the model can't be told.
        """
        options: dict[str, Any] = {self.cache_name: cache, "use_cache": True}
        if logits_to_keep is not None and self.takes_logits_to_keep:
            options["logits_to_keep"] = logits_to_keep
        return options
