"""Run an LLM's decoder up to one layer and read that layer's output."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers import DynamicCache

from memdecay.classifier.decoder import decoder_layers, find_decoder
from memdecay.classifier.llm import LanguageModel

_FLOAT16_MAX = float(np.finfo(np.float16).max)


@contextmanager
def decoder_up_to(model: Any, layer: int) -> Iterator[tuple[Any, nn.Module]]:
    """Give the decoder cut off after ``layer``, and that layer, then put the others back.

    Raises:
        ValueError: The decoder has no such layer.
        ModelError: The decoder's layers can't be found.
    """
    decoder = find_decoder(model)
    layers = decoder_layers(decoder)
    name = next(name for name, child in decoder.named_children() if child is layers)
    if not 0 <= layer < len(layers):
        raise ValueError(f"layer must lie in 0 to {len(layers) - 1}, got {layer}")
    setattr(decoder, name, layers[: layer + 1])
    try:
        yield decoder, layers[layer]
    finally:
        setattr(decoder, name, layers)


def hidden_states_in_chunks(
    llm: LanguageModel, input_ids: NDArray[np.int64], layer: int, chunk_tokens: int
) -> Generator[NDArray[np.float16], None, None]:
    """Yield the output of one decoder layer for consecutive chunks of a sequence.

    Each chunk sees all before it through a KV cache. The output is the residual stream after the
    layer: ``hidden_states[layer + 1]`` of transformers (for the last layer before the final norm).

    Args:
        llm: The model.
        input_ids: ``(n,)``.
        layer: Index of the layer, 0 for the first.
        chunk_tokens: Tokens of one forward pass.

    Yields:
        ``(at most chunk_tokens, hidden_size)``, float16, limited to its range.
    """
    outputs: list[Tensor] = []
    with decoder_up_to(llm.model, layer) as (decoder, last):
        hook = last.register_forward_hook(
            lambda _module, _args, output: outputs.append(_hidden_states_of(output))
        )
        try:
            cache = DynamicCache(config=llm.model.config)
            for start in range(0, input_ids.size, chunk_tokens):
                chunk = torch.from_numpy(input_ids[None, start : start + chunk_tokens])
                with torch.inference_mode():
                    decoder(input_ids=chunk.to(llm.device), cache=cache, use_cache=True)
                yield _to_float16(outputs.pop())
        finally:
            hook.remove()


def _hidden_states_of(output: Any) -> Tensor:
    hidden_states: Tensor = output[0] if isinstance(output, tuple) else output
    return hidden_states


def _to_float16(hidden_states: Tensor) -> NDArray[np.float16]:
    limited = hidden_states[0].clamp(-_FLOAT16_MAX, _FLOAT16_MAX)
    array: NDArray[np.float16] = limited.to(torch.float16).cpu().numpy()
    return array
