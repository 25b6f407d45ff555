"""A short name for a language model's weights, the same in float32 and bfloat16."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import torch
from torch import nn

FINGERPRINT_LENGTH = 16
_SAMPLES_PER_PARAMETER = 32
_ARCHITECTURE_FIELDS = (
    "model_type",
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "vocab_size",
    "rope_parameters",
)


def llm_fingerprint(model: nn.Module) -> str:
    """Return 16 hex digits that tell one language model from another.

    They cover the architecture and evenly spaced samples of every parameter, rounded to
    bfloat16: the same checkpoint loaded in float32 or bfloat16 agrees, another checkpoint or a
    fine-tune differs. (float16 rounds small weights otherwise and may disagree.)

    Args:
        model: A transformers model with its ``config``.
    """
    digest = hashlib.sha256(json.dumps(_architecture(model), sort_keys=True).encode())
    for name, parameter in sorted(model.named_parameters()):
        digest.update(name.encode())
        digest.update(_sample(parameter).view(torch.int16).numpy().tobytes())
    return digest.hexdigest()[:FINGERPRINT_LENGTH]


def _architecture(model: Any) -> dict[str, str]:
    config = model.config.get_text_config()
    return {name: _plain(getattr(config, name, None)) for name in _ARCHITECTURE_FIELDS}


def _plain(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)


def _sample(parameter: torch.Tensor) -> torch.Tensor:
    """Return at most 32 evenly spaced values, bfloat16 on the CPU; none of a meta tensor."""
    if parameter.is_meta:
        return torch.empty(0, dtype=torch.bfloat16)
    flat = parameter.detach().reshape(-1)
    step = max(1, flat.numel() // _SAMPLES_PER_PARAMETER)
    return flat[::step][:_SAMPLES_PER_PARAMETER].to(torch.bfloat16).cpu()
