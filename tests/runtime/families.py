"""Tiny random models of every family that the cache is promised for, with each attention."""

from __future__ import annotations

import copy
from functools import cache

import torch
from transformers import (
    AutoModelForCausalLM,
    Gemma2Config,
    Gemma3TextConfig,
    LlamaConfig,
    MistralConfig,
    Phi3Config,
    PreTrainedConfig,
    PreTrainedModel,
    Qwen2Config,
    Qwen3Config,
)

from tests.runtime.reference import TINY

SLIDING_WINDOW = 8
_MIXED = {**TINY, "num_hidden_layers": 4, "head_dim": 8, "sliding_window": SLIDING_WINDOW}
_LAYER_TYPES = ["sliding_attention", "full_attention"] * 2
CONFIGS: dict[str, PreTrainedConfig] = {
    "llama": LlamaConfig(**TINY),
    "qwen2": Qwen2Config(**TINY),
    "qwen3": Qwen3Config(**TINY, head_dim=16),
    "mistral": MistralConfig(**TINY, sliding_window=None),
    "phi3": Phi3Config(**TINY, sliding_window=None),
    "gemma2": Gemma2Config(**_MIXED, layer_types=_LAYER_TYPES, query_pre_attn_scalar=20),
    "gemma3": Gemma3TextConfig(**_MIXED, layer_types=_LAYER_TYPES, query_pre_attn_scalar=8),
}
FAMILIES = [
    (family, implementation)
    for family in CONFIGS
    for implementation in ("sdpa", "eager")
    # Its logits are capped, which torch's attention can't do; transformers refuses it.
    if (family, implementation) != ("gemma2", "sdpa")
]


@cache
def tiny_family(family: str, implementation: str | None = None) -> PreTrainedModel:
    """Return a random model in float32, with transformers' choice of attention for None."""
    torch.manual_seed(0)
    # A model writes its attention into the configuration.
    config = copy.deepcopy(CONFIGS[family])
    model: PreTrainedModel = AutoModelForCausalLM.from_config(
        config, attn_implementation=implementation
    )
    return model.eval()
