"""Let a cache make room around every forward of a model, for example inside ``generate``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

from torch import Tensor, nn
from transformers import PreTrainedModel

from memdecay.classifier.decoder import find_decoder
from memdecay.classifier.errors import BudgetError
from memdecay.runtime.cache import DecayCache
from memdecay.runtime.observer import observe_attention
from memdecay.runtime.packed_attention import attend_to_packed
from memdecay.runtime.rehearsal import rehearse_fading
from memdecay.runtime.sound_attention import sound_attention


@contextmanager
def attach(model: PreTrainedModel, cache: DecayCache) -> Iterator[DecayCache]:
    """Evict around each forward that uses this cache, until the block ends.

    Before a forward the cache learns the padding from the attention mask and makes room for the
    new tokens; after it, it goes back below the high watermark. Forwards with another cache are
    left alone. If the policy uses attention and the configuration allows it, attention is observed
    as well. A model on a CPU does without flex attention meanwhile, see `sound_attention`. Kernels
    that fading needs are loaded before a process's first such block begins.

    Args:
        model: A causal language model or its decoder.
        cache: The cache passed to the model's forwards, or to ``generate``.

    Yields:
        The cache.
    """
    decoder = find_decoder(model)
    rehearse_fading(decoder, cache)
    with ExitStack() as stack:
        stack.enter_context(sound_attention(decoder))
        if cache.fades:
            # Before the observer, so that attention is watched whoever computes it.
            stack.enter_context(attend_to_packed(decoder, cache))
        if cache.config.attention_feedback and cache.policy.uses_attention:
            stack.enter_context(observe_attention(decoder, cache))

        def before(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            if _uses(cache, args, kwargs):
                _prepare(cache, args, kwargs)

        def after(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], _out: Any) -> None:
            if _uses(cache, args, kwargs):
                input_ids = kwargs.get("input_ids", args[0] if args else None)
                if isinstance(input_ids, Tensor) and not input_ids.is_floating_point():
                    cache.mark_template(input_ids)
                cache.evict()

        stack.callback(decoder.register_forward_pre_hook(before, with_kwargs=True).remove)
        stack.callback(decoder.register_forward_hook(after, with_kwargs=True).remove)
        yield cache


def _uses(cache: DecayCache, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    return any(value is cache for value in (*args, *kwargs.values()))


def _prepare(cache: DecayCache, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    mask = kwargs.get("attention_mask")
    if isinstance(mask, Tensor) and mask.ndim == 2:
        cache.set_padding(mask)
    try:
        cache.make_room(_num_new_tokens(args, kwargs))
    except BudgetError:
        # Too much for one forward: the buffers grow for it, and the cache says so.
        return


def _num_new_tokens(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> int:
    inputs = kwargs.get("input_ids")
    if inputs is None:
        inputs = kwargs.get("inputs_embeds")
    if inputs is None:
        inputs = args[0]
    return int(inputs.shape[1])
