"""Watch what a model attends to, on a few layers and a few steps, with any attention kernel."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel

from memdecay.runtime.attention_mass import attention_mass
from memdecay.runtime.cache import DecayCache
from memdecay.runtime.layer import EvictingLayer, bookkeeping


@contextmanager
def observe_attention(decoder: PreTrainedModel, cache: DecayCache) -> Iterator[None]:
    """Feed the attention of a few layers to the cache, until the block ends.

    The model's attention implementation is wrapped: it computes what it always does, and for the
    watched layers the softmax of a few queries is computed beside it.

    Args:
        decoder: The part of a model that holds the layers.
        cache: Receives the attention mass; how often is in its ``config.feedback``.

    Raises:
        ValueError: ``config.feedback.layers`` names a layer that isn't full attention.
    """
    base = decoder.config._attn_implementation
    recorder = _Recorder(cache)
    # The base's name stays in front: transformers looks for "flash" or "sdpa" in it.
    name = f"{base}_memdecay_{id(recorder)}"
    AttentionInterface.register(name, _wrap(recorder, base))
    if base in (masks := AttentionMaskInterface()):
        # Without a mask function of that name, transformers would ignore padding.
        AttentionMaskInterface.register(name, masks[base])
    try:
        decoder.set_attn_implementation(name)
        yield
    finally:
        decoder.set_attn_implementation(base)
        AttentionInterface._global_mapping.pop(name, None)
        AttentionMaskInterface._global_mapping.pop(name, None)


def _wrap(recorder: _Recorder, base: str) -> Callable[..., Any]:
    def attend(
        module: nn.Module,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attention_mask: Any,
        **kwargs: Any,
    ) -> Any:
        recorder.see(module, query, key, attention_mask, kwargs)
        return _attention_function(module, base)(
            module, query, key, value, attention_mask, **kwargs
        )

    return attend


def _attention_function(module: nn.Module, base: str) -> Callable[..., Any]:
    """Look the wrapped function up; eager attention lives beside each model's own module."""
    own = getattr(sys.modules[type(module).__module__], "eager_attention_forward", None)
    function: Callable[..., Any] = AttentionInterface().get_interface(base, own)
    return function


class _Recorder:
    """Decide which attention calls to observe and blend them into the cache's average."""

    def __init__(self, cache: DecayCache) -> None:
        self._cache = cache
        self._feedback = cache.config.feedback
        self._layers = _watched_layers(cache)
        self._last_seen = 0
        self._masses: list[Tensor] = []

    def see(
        self,
        module: nn.Module,
        query: Tensor,
        key: Tensor,
        attention_mask: Any,
        kwargs: dict[str, Any],
    ) -> None:
        """Observe one attention call if its layer is watched and an observation is due."""
        layer_idx = getattr(module, "layer_idx", None)
        if layer_idx not in self._layers or not self._cache.holds(key, layer_idx):
            return
        tokens_since = self._cache.tokens_seen - self._last_seen
        if 0 <= tokens_since < self._feedback.observe_every_tokens and query.shape[2] == 1:
            return
        with bookkeeping():
            window = query[:, :, -self._feedback.window_queries :]
            mass = attention_mass(
                window, key, attention_mask, kwargs.get("scaling"), kwargs.get("softcap")
            )
        self._masses.append(mass)
        if layer_idx == self._layers[-1]:
            self._flush(tokens_since)

    def _flush(self, tokens_since: int) -> None:
        """Average over the watched layers and hand the result to the cache."""
        mass = torch.stack([mass.to(self._masses[0].device) for mass in self._masses]).mean(dim=0)
        half_lives = max(tokens_since, 1) / self._feedback.half_life_tokens
        self._cache.observe_attention(mass, new_weight=1 - 0.5**half_lives)
        self._masses.clear()
        self._last_seen = self._cache.tokens_seen


def _watched_layers(cache: DecayCache) -> tuple[int, ...]:
    full = [idx for idx, layer in enumerate(cache.layers) if isinstance(layer, EvictingLayer)]
    wanted = cache.config.feedback.layers
    if not wanted:
        return tuple(sorted({full[len(full) // 2], full[3 * len(full) // 4]}))
    if unknown := set(wanted) - set(full):
        raise ValueError(
            f"layer {min(unknown)} of feedback.layers is not a full-attention layer of this model"
        )
    return tuple(sorted(set(wanted)))
