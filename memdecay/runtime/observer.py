"""Watch what a model attends to, on a few layers and a few steps, with any attention kernel."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel

from memdecay.runtime.attention_mass import attention_mass
from memdecay.runtime.cache import DecayCache
from memdecay.runtime.layer import EvictingLayer, bookkeeping
from memdecay.runtime.packed_states import PackedStates
from memdecay.runtime.policies.base import Blend

AttentionFunction = Callable[..., Any]
"""Takes module, query, key, value, attention_mask and keywords, as transformers calls it."""

_FLASH = "flash"
"""What transformers knows flash attention by, in the names of implementations."""


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
    recorder = AttentionRecorder(cache, last_seen=cache.tokens_seen)

    def attend(
        base: AttentionFunction,
        module: nn.Module,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attention_mask: Any,
        **kwargs: Any,
    ) -> Any:
        is_watched = recorder.prepare(module, query, key)
        attended = base(module, query, key, value, attention_mask, **kwargs)
        if is_watched:
            recorder.see(module, query, key, attention_mask, kwargs)
        return attended

    with wrap_attention(decoder, attend):
        yield


@contextmanager
def wrap_attention(decoder: PreTrainedModel, attend: AttentionFunction) -> Iterator[None]:
    """Let a function stand around a model's attention implementation, until the block ends.

    Args:
        decoder: The part of a model that holds the layers.
        attend: Called in place of the attention function, with that function as its first
            argument.
    """
    base = str(decoder.config._attn_implementation)
    # The base's name stays in front: transformers looks for "flash" or "sdpa" in it.
    name = f"{base}_memdecay_{id(attend)}"

    def wrapped(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
        return attend(_attention_function(module, base), module, *args, **kwargs)

    AttentionInterface.register(name, wrapped)
    if base in (masks := AttentionMaskInterface()):
        # Without a mask function of that name, transformers would ignore padding.
        AttentionMaskInterface.register(name, masks[base])
    try:
        _set_attention(decoder, name)
        yield
    finally:
        _set_attention(decoder, base)
        AttentionInterface._global_mapping.pop(name, None)
        AttentionMaskInterface._global_mapping.pop(name, None)


def _set_attention(decoder: PreTrainedModel, name: str) -> None:
    if _FLASH in name:
        # transformers would look for a kernel of that name on its hub.
        decoder.config._attn_implementation = name
    else:
        decoder.set_attn_implementation(name)


def _attention_function(module: nn.Module, base: str) -> AttentionFunction:
    """Look the wrapped function up; eager attention lives beside each model's own module."""
    own = getattr(sys.modules[type(module).__module__], "eager_attention_forward", None)
    function: AttentionFunction = AttentionInterface().get_interface(base, own)
    return partial(_call_flash, function, base) if _FLASH in base else function


def _call_flash(
    function: AttentionFunction, base: str, module: nn.Module, *args: Any, **kwargs: Any
) -> Any:
    """Call a function that loads its kernel by the name which the configuration gives."""
    config: Any = module.config
    name = config._attn_implementation_internal
    config._attn_implementation_internal = base
    try:
        return function(module, *args, **kwargs)
    finally:
        config._attn_implementation_internal = name


class AttentionRecorder:
    """Decide which attention calls to observe and blend them into the cache's average.

    Args:
        cache: Receives the attention mass; how often is in its ``config.feedback``.
        last_seen: How many tokens the cache had seen at the last observation.

    Raises:
        ValueError: ``config.feedback.layers`` names a layer that isn't full attention.
    """

    def __init__(self, cache: DecayCache, last_seen: int = 0) -> None:
        self._cache = cache
        self._feedback = cache.config.feedback
        self._observation = cache.policy.observation
        self._layers = _watched_layers(cache)
        self.last_seen = last_seen
        self._masses: list[Tensor] = []

    def prepare(self, module: nn.Module, query: Tensor, key: Tensor) -> bool:
        """Tell whether the attention call that comes is to be observed, by `see` behind it.

        Keys that are attended to packed are told to keep the logits, which would have to be
        computed a second time otherwise, from keys unpacked for that.
        """
        layer_idx = getattr(module, "layer_idx", None)
        if layer_idx not in self._layers or not self._cache.holds(key, layer_idx):
            return False
        if query.shape[2] == 1 and not self._is_due(self._tokens_since):
            return False
        if isinstance(key, PackedStates):
            key.is_watched = True
        return True

    def see(
        self,
        module: nn.Module,
        query: Tensor,
        key: Tensor,
        attention_mask: Any,
        kwargs: dict[str, Any],
    ) -> None:
        """Observe an attention call that was prepared for and is done."""
        window = self._newest(query)
        with bookkeeping():
            mass = attention_mass(
                window,
                key,
                attention_mask,
                kwargs.get("scaling"),
                kwargs.get("softcap"),
                is_sum=self._observation.blend is Blend.SUM,
                logits=key.logits if isinstance(key, PackedStates) else None,
            )
        self._masses.append(mass)
        if module.layer_idx == self._layers[-1]:
            self._flush(self._tokens_since, window.shape[2])

    @property
    def _tokens_since(self) -> int:
        """Tokens seen since the last observation."""
        return self._cache.tokens_seen - self.last_seen

    def _is_due(self, tokens_since: int) -> bool:
        """Tell whether to watch a single token, decoded this many tokens after the last look."""
        is_between = 0 <= tokens_since < self._feedback.observe_every_tokens
        return self._observation.watches_all_steps or not is_between

    def _newest(self, query: Tensor) -> Tensor:
        """Return the queries whose attention counts."""
        wanted = self._observation.window_queries
        num_queries = self._feedback.window_queries if wanted is None else wanted
        return query[:, :, -num_queries:]  # 0 takes them all.

    def _flush(self, tokens_since: int, num_queries: int) -> None:
        """Average over the watched layers and hand the result to the cache."""
        mass = torch.stack([mass.to(self._masses[0].device) for mass in self._masses]).mean(dim=0)
        if self._observation.blend is Blend.SUM:
            mass = mass + self._cache.slots.attention.nan_to_num(nan=0.0).to(mass)
        new_weight = self._new_weight(tokens_since, num_queries)
        self._cache.observe_attention(mass, new_weight=new_weight)
        self._masses.clear()
        self.last_seen = self._cache.tokens_seen

    def _new_weight(self, tokens_since: int, num_queries: int) -> float:
        """Return what an observation weighs against the average of the earlier ones."""
        match self._observation.blend:
            case Blend.FADE:
                return float(1 - 0.5 ** (max(tokens_since, 1) / self._feedback.half_life_tokens))
            case Blend.WINDOW:
                return num_queries / max(self._observation.window_queries or 1, num_queries)
            case Blend.LATEST | Blend.SUM:
                return 1.0


def _watched_layers(cache: DecayCache) -> tuple[int, ...]:
    full = [idx for idx, layer in enumerate(cache.layers) if isinstance(layer, EvictingLayer)]
    if cache.policy.observation.watches_all_layers:
        return tuple(full)
    wanted = cache.config.feedback.layers
    if not wanted:
        return tuple(sorted({full[len(full) // 2], full[3 * len(full) // 4]}))
    if unknown := set(wanted) - set(full):
        raise ValueError(
            f"layer {min(unknown)} of feedback.layers is not a full-attention layer of this model"
        )
    return tuple(sorted(set(wanted)))
