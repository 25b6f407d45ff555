"""A budget in bytes, and the cache configuration that keeps to it."""

from __future__ import annotations

import torch
from transformers import PretrainedConfig

from memdecay.classifier.errors import BudgetError
from memdecay.runtime.bench.quality.config import QualityConfig
from memdecay.runtime.config import CacheConfig


def full_cache_bytes(model_config: PretrainedConfig, num_tokens: int, dtype: torch.dtype) -> int:
    """Return the bytes of a full cache's keys and values.

    Args:
        model_config: As in ``model.config``. Sliding-window layers count as full attention.
        num_tokens: Tokens of one sequence.
        dtype: What the keys and values are stored in.
    """
    config = model_config.get_text_config(decoder=True)
    num_heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    numbers = 2 * int(config.num_hidden_layers) * int(num_heads) * int(head_dim)
    return numbers * dtype.itemsize * num_tokens


def tokens_for_budget(budget: float, num_tokens: int) -> int:
    """Return how many tokens at full precision a share of the full cache's bytes holds.

    Args:
        budget: Share of the full cache's bytes, above 0, at most 1.
        num_tokens: Tokens of the trace.

    Raises:
        ValueError: The share is out of its range.
    """
    if not 0 < budget <= 1:
        raise ValueError(f"a budget must be above 0 and at most 1, got {budget}")
    return max(1, int(round(budget * num_tokens, 6)))


def cache_config(policy: str, budget: float, num_tokens: int, config: QualityConfig) -> CacheConfig:
    """Return the configuration of a cache that holds a share of a trace's full cache.

    Eviction makes room for exactly one chunk, so that every policy uses as much of its budget as
    chunks of this size allow.

    Args:
        policy: Name of the policy.
        budget: Share of the full cache's bytes, above 0, at most 1.
        num_tokens: Tokens of the trace.
        config: The chunk and the protected tokens.

    Raises:
        BudgetError: The budget can't hold the protected tokens and a chunk.
    """
    budget_tokens = tokens_for_budget(budget, num_tokens)
    needed = config.num_sinks + config.num_recent + config.chunk_tokens
    if budget_tokens < needed:
        raise BudgetError(
            f"a budget of {budget:g} of {num_tokens} tokens holds {budget_tokens}, but the "
            f"protected tokens and a chunk are {needed}; give longer traces or a larger budget"
        )
    low_tokens = budget_tokens - config.chunk_tokens
    return CacheConfig(
        budget_tokens=budget_tokens,
        low_watermark=low_tokens / budget_tokens,
        num_sinks=config.num_sinks,
        num_recent=config.num_recent,
        policy=policy,
        storage_dtype=config.kv_dtype,
    )
