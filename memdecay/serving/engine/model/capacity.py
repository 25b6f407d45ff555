"""How many bytes sessions take, known before they run."""

from __future__ import annotations

import torch
from transformers import PretrainedConfig

from memdecay.runtime.cache import DecayCache
from memdecay.runtime.layer import EvictingLayer

_GROWTH = 1.5
"""Buffers that are never evicted from grow by half more than they need."""


def kv_bytes_per_token(
    cache: DecayCache, model_config: PretrainedConfig, dtype: torch.dtype
) -> int:
    """Return 2 * full-attention layers * key heads * head size * bytes of a number.

    Args:
        cache: A cache of the model; tells which layers have full attention.
        model_config: Configuration of the model.
        dtype: Type of its keys and values.
    """
    config = model_config.get_text_config(decoder=True)
    num_heads = config.num_attention_heads
    num_key_heads = getattr(config, "num_key_value_heads", None) or num_heads
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // num_heads
    num_layers = sum(isinstance(layer, EvictingLayer) for layer in cache.layers)
    return int(2 * num_layers * num_key_heads * head_dim * dtype.itemsize)


def session_bytes(cache: DecayCache, bytes_per_token: int, num_tokens: int) -> int:
    """Return the most bytes that a session's buffers take.

    Args:
        cache: The session's cache.
        bytes_per_token: See `kv_bytes_per_token`.
        num_tokens: Tokens that it will have seen; counts only where nothing is ever evicted.
    """
    if cache.policy.evicts:
        return cache.config.budget_tokens * bytes_per_token
    most = max(cache.config.budget_tokens, int(num_tokens * _GROWTH))
    return most * bytes_per_token
