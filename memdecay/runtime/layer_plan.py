"""Which kind of cache layer each layer of a model gets."""

from __future__ import annotations

from collections.abc import Callable

from transformers import PretrainedConfig
from transformers.cache_utils import (
    CacheLayerMixin,
    DynamicSlidingWindowLayer,
    get_layer_types_and_kwargs,
)

from memdecay.classifier.errors import ModelError
from memdecay.runtime.layer import EvictingLayer

_SLIDING_TYPES = ("sliding_attention", "chunked_attention")


def make_layers(
    model_config: PretrainedConfig, make_layer: Callable[[], EvictingLayer]
) -> list[CacheLayerMixin]:
    """Build an evicting layer for full attention and transformers' own for sliding windows.

    Args:
        model_config: Configuration of the model, as in ``model.config``.
        make_layer: Makes a layer for full attention.

    Raises:
        ModelError: The model has no full-attention layer, or a layer of another kind.
    """
    layer_types, layer_kwargs = get_layer_types_and_kwargs(
        model_config.get_text_config(decoder=True)
    )
    unknown = sorted(set(layer_types) - {"full_attention", *_SLIDING_TYPES})
    if unknown:
        raise ModelError(
            f"the decaying cache evicts from full attention, beside sliding windows, but this "
            f"{model_config.model_type} model has {unknown[0]} layers; use transformers' cache"
        )
    if "full_attention" not in layer_types:
        raise ModelError(
            f"this {model_config.model_type} model has sliding windows in every layer and so "
            "nothing to evict; use transformers' cache, or set sliding_window to None"
        )
    return [
        DynamicSlidingWindowLayer(**kwargs) if layer_type in _SLIDING_TYPES else make_layer()
        for layer_type, kwargs in zip(layer_types, layer_kwargs, strict=True)
    ]
