"""What a forward really takes, measured on a CUDA device."""

from __future__ import annotations

import torch

from memdecay.classifier.errors import ConfigError
from memdecay.classifier.llm import load_llm


def measure_activations(model: str, dtype: str, device: torch.device, chunk_tokens: int) -> int:
    """Load a model and return the bytes that one chunk needs beside weights, keys and values.

    Args:
        model: The model, see `load_llm`.
        dtype: The type of its weights.
        device: A CUDA device; others don't count their memory.
        chunk_tokens: Tokens of the forward.

    Raises:
        ConfigError: The device is no CUDA device.
        ModelError: The model can't be loaded.
    """
    if device.type != "cuda":
        raise ConfigError(
            f"--measure needs a CUDA device, which counts its memory; got {device}; leave it out "
            "for the estimate"
        )
    llm = load_llm(model, dtype, str(device))
    input_ids = torch.zeros(1, chunk_tokens, dtype=torch.long, device=device)
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    with torch.inference_mode():
        output = llm.model(input_ids=input_ids, use_cache=True, logits_to_keep=1)
    peak = torch.cuda.max_memory_allocated(device)
    layers = output.past_key_values.layers
    kept = sum(layer.keys.nbytes + layer.values.nbytes for layer in layers)
    return max(0, int(peak - before - kept))
