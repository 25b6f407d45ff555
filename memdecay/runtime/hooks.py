"""Tag tokens with the hidden states that a model's own forwards compute anyway."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from memdecay.classifier.decoder import decoder_layers, find_decoder
from memdecay.classifier.errors import ModelError
from memdecay.classifier.features import UNKNOWN_ROLE, position_features
from memdecay.runtime.attach import attach
from memdecay.runtime.cache import DecayCache
from memdecay.runtime.layer import bookkeeping
from memdecay.runtime.streaming import StreamingTagger
from memdecay.runtime.tagger import RegionTagger


@dataclass(frozen=True, slots=True)
class ForwardStates:
    """What a forward computed for its tokens on the watched layer.

    Attributes:
        start: Tokens (padding included) that the cache had seen before.
        hidden_states: The layer's output, ``(batch, n, hidden_size)``, in the model's dtype.
        position_ids: ``(batch, n)``, int64, as the model numbered the tokens.
        token_mask: ``(batch, n)``, bool, False for padding; None where nothing is padding.
    """

    start: int
    hidden_states: Tensor
    position_ids: Tensor
    token_mask: Tensor | None


Describe = Callable[[ForwardStates], Tensor]
"""Gives position features ``(batch, n, num_position_features)`` for a forward's tokens."""


@contextmanager
def attach_memory(
    model: PreTrainedModel,
    cache: DecayCache,
    tagger: RegionTagger | StreamingTagger | None = None,
    describe: Describe | None = None,
) -> Iterator[DecayCache]:
    """Tag, watch attention and evict around each forward that uses this cache.

    Give the cache to ``model.generate`` inside the block. Everything is taken off the model when
    the block ends. A `StreamingTagger` carries its state from one block to the next, a
    `RegionTagger` starts anew in each. Where rows change places in the cache, as in beam search,
    the tagger's do too.

    Args:
        model: A causal language model.
        cache: The cache passed to the model's forwards.
        tagger: The classifier; None leaves every token ordinary context.
        describe: What is known about the tokens' place in the conversation; by default only
            their position.

    Yields:
        The cache.

    Raises:
        ModelError: The model has no layer that the tagger reads.
    """
    with ExitStack() as stack:
        if tagger is not None:
            streaming = StreamingTagger(tagger) if isinstance(tagger, RegionTagger) else tagger
            # First in, so that tokens have their tags when the eviction hook runs.
            stack.enter_context(tag_tokens(model, cache, streaming, describe))
        yield stack.enter_context(attach(model, cache))


@contextmanager
def tag_tokens(
    model: PreTrainedModel,
    cache: DecayCache,
    tagger: StreamingTagger,
    describe: Describe | None = None,
) -> Iterator[None]:
    """Give each forward's tokens their tags in the cache, and refine those before them.

    Args:
        model: A causal language model.
        cache: Gets the tags; forwards with another cache are left alone.
        tagger: The classifier. It follows the cache: where the cache took tokens back or moved
            rows it does so too, where the cache saw tokens or rows that it did not, it starts anew.
        describe: As in `attach_memory`.

    Raises:
        ModelError: The model has no layer that the tagger reads.
    """
    describe = describe or describe_by_position

    def tag(states: ForwardStates) -> None:
        rows = cache.take_moved_rows()
        if rows is not None:
            tagger.select_rows(rows)
        _follow(tagger, states)
        update = tagger.push(states.hidden_states, describe(states), states.token_mask)
        cache.set_tags(update.start, update.tags.importance, update.tags.region_probs)

    with watch_hidden_states(model, cache, tagger.tagger.layer, tag):
        yield


def describe_by_position(states: ForwardStates) -> Tensor:
    """Return position features of tokens of which only the position is known.

    They count as one message without a role.
    """
    positions = states.position_ids.cpu().numpy()
    flat = positions.reshape(-1)
    unknown = np.full_like(flat, UNKNOWN_ROLE)
    features = position_features(flat, flat, np.zeros_like(flat), unknown)
    return torch.from_numpy(features.reshape(*positions.shape, -1))


@contextmanager
def watch_hidden_states(
    model: PreTrainedModel,
    cache: DecayCache,
    layer: int,
    on_forward: Callable[[ForwardStates], None],
) -> Iterator[None]:
    """Call a function after each forward with a layer's output, until the block ends.

    Args:
        model: A causal language model or its decoder.
        cache: Only forwards with this cache are watched.
        layer: Index of the decoder layer; its output is ``hidden_states[layer + 1]``.
        on_forward: Called when all layers have run, so the cache knows the new tokens.

    Raises:
        ModelError: The model has no such layer.
    """
    decoder = find_decoder(model)
    watched = decoder_layers(decoder)
    if not 0 <= layer < len(watched):
        raise ModelError(
            f"layer {layer} is to be watched, but the model has the layers 0 to "
            f"{len(watched) - 1}; use the model that the classifier was trained on"
        )
    watch = _Watch(cache, on_forward)
    with ExitStack() as stack:
        for handle in (
            decoder.register_forward_pre_hook(watch.before, with_kwargs=True),
            watched[layer].register_forward_hook(watch.capture, with_kwargs=True),
            decoder.register_forward_hook(watch.after),
        ):
            stack.callback(handle.remove)
        yield


class _Watch:
    """The three hooks of one watched model and what they know of the forward that is running."""

    def __init__(self, cache: DecayCache, on_forward: Callable[[ForwardStates], None]) -> None:
        self._cache = cache
        self._on_forward = on_forward
        self._is_ours = False
        self._start = 0
        self._attention_mask: Any = None
        self._states: ForwardStates | None = None

    def before(self, _: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._is_ours = any(value is self._cache for value in (*args, *kwargs.values()))
        self._start = self._cache.tokens_seen
        self._attention_mask = kwargs.get("attention_mask")
        self._states = None

    def capture(
        self, _: nn.Module, _args: tuple[Any, ...], kwargs: dict[str, Any], output: Any
    ) -> None:
        if not self._is_ours:
            return
        hidden_states = output[0] if isinstance(output, tuple) else output
        self._states = ForwardStates(
            self._start,
            hidden_states.detach(),
            self._position_ids(kwargs.get("position_ids"), hidden_states),
            self._token_mask(hidden_states),
        )

    def after(self, _: nn.Module, _args: tuple[Any, ...], _output: Any) -> None:
        states, self._states = self._states, None
        if states is not None:
            with bookkeeping():
                self._on_forward(states)

    def _position_ids(self, given: Any, hidden_states: Tensor) -> Tensor:
        batch_size, num_new = hidden_states.shape[:2]
        if isinstance(given, Tensor) and given.ndim == 2:
            return given.expand(batch_size, num_new)
        numbered = torch.arange(self._start, self._start + num_new, device=hidden_states.device)
        return numbered.expand(batch_size, num_new)

    def _token_mask(self, hidden_states: Tensor) -> Tensor | None:
        mask = self._attention_mask
        if isinstance(mask, Tensor) and mask.ndim == 2:
            return mask[:, -hidden_states.shape[1] :].bool()
        return None


def _follow(tagger: StreamingTagger, states: ForwardStates) -> None:
    """Bring the tagger to where the cache stood before the forward."""
    is_other_batch = tagger.batch_size not in (None, states.hidden_states.shape[0])
    if is_other_batch or states.start > tagger.num_tokens:
        tagger.reset(states.start)
    elif states.start < tagger.num_tokens:
        tagger.crop(states.start)
