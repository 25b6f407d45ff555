"""A cache in which each layer and head keeps its own tokens, for comparison only."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from transformers.cache_utils import Cache, CacheLayerMixin

from memdecay.classifier.decoder import find_decoder
from memdecay.classifier.llm import DTYPES, LanguageModel
from memdecay.runtime.attention_mass import attention_probs
from memdecay.runtime.bench.caches.headwise_methods import HeadwiseMethod
from memdecay.runtime.config import CacheConfig
from memdecay.runtime.forward_call import ForwardCall
from memdecay.runtime.observer import AttentionFunction, wrap_attention
from memdecay.runtime.transcript import TokenTable


class HeadwiseLayer(CacheLayerMixin):  # type: ignore[misc]
    """Keys and values of one layer; every head holds as many tokens, but not the same ones.

    Args:
        method: Ranks the tokens.
        dtype: What keys and values are rounded to, and their bytes counted in; None for the
            model's own.

    Attributes:
        positions_in_forward: Positions of the tokens that the newest forward saw, shape
            ``(batch, num_key_value_heads, kept)``, int64.
    """

    keys: Any
    values: Any
    is_sliding = False
    is_compileable = False

    def __init__(self, method: HeadwiseMethod, dtype: torch.dtype | None = None) -> None:
        super().__init__()
        self._dtype = dtype
        self.num_seen = 0
        self._method = method
        self.positions_in_forward = torch.empty(0)
        self._positions = torch.empty(0)
        self._attention = torch.empty(0)

    @property
    def num_kept(self) -> int:
        """Tokens that every head holds."""
        return int(self.keys.shape[2]) if self.is_initialized else 0

    @property
    def held_bytes(self) -> int:
        """Bytes of the keys and values that are held."""
        itemsize = (self._dtype or self.keys.dtype).itemsize
        return int(self.keys.numel() + self.values.numel()) * itemsize

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """Start empty, for tensors of this shape, dtype and device."""
        self.keys, self.values = key_states[:, :, :0], value_states[:, :, :0]
        self._positions = key_states.new_empty(self.keys.shape[:3], dtype=torch.int64)
        self._attention = key_states.new_empty(self.keys.shape[:3], dtype=torch.float32)
        self.is_initialized = True

    def update(
        self, key_states: Tensor, value_states: Tensor, *_args: Any, **_kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Append a forward's keys and values, each ``(batch, heads, q, head_dim)``."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        if self._dtype is not None:
            key_states, value_states = (
                states.to(self._dtype).to(states.dtype) for states in (key_states, value_states)
            )
        num_new = key_states.shape[2]
        new = torch.arange(self.num_seen, self.num_seen + num_new, device=key_states.device)
        self.keys = torch.cat([self.keys, key_states], dim=2)
        self.values = torch.cat([self.values, value_states], dim=2)
        self._positions = torch.cat([self._positions, new.expand(*key_states.shape[:3])], dim=2)
        self.positions_in_forward = self._positions
        self._attention = nn.functional.pad(self._attention, (0, num_new))
        self.num_seen += num_new
        return self.keys, self.values

    def observe(self, probs: Tensor) -> None:
        """Note the attention ``(batch, num_attention_heads, q, kept)`` of the newest queries."""
        self._attention = self._method.observe(self._attention, probs)

    def keep(self, num_keep: int, num_sinks: int, num_recent: int) -> None:
        """Keep the best tokens of every head, among them the first and the newest."""
        num_recent = max(num_recent, int(self._method.recent_share * num_keep))
        scores = self._method.score(self._attention, self.keys, num_recent)
        is_protected = (self._positions < num_sinks) | (
            self._positions >= self.num_seen - num_recent
        )
        scores = scores.masked_fill(is_protected, math.inf)
        index = scores.topk(num_keep, dim=2).indices.sort(dim=2).values
        wide = index.unsqueeze(3).expand(*index.shape, self.keys.shape[3])
        self.keys, self.values = self.keys.gather(2, wide), self.values.gather(2, wide)
        self._positions = self._positions.gather(2, index)
        self._attention = self._attention.gather(2, index)

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Return the keys that attention will see and the logical position the mask gives them."""
        return self.num_kept + query_length, self.num_seen - self.num_kept

    def get_seq_length(self) -> int:
        """Return the tokens seen."""
        return self.num_seen

    def get_max_length(self) -> int:
        """Return -1: any number of tokens may be seen."""
        return -1


class HeadwiseRunner:
    """A full-attention language model with such a cache.

    Args:
        llm: The language model; all of its layers are full attention.
        method: Ranks the tokens.
        config: Budget and protected tokens.
    """

    def __init__(self, llm: LanguageModel, method: HeadwiseMethod, config: CacheConfig) -> None:
        self._llm = llm
        self._method = method
        self._config = config
        dtype = None if config.storage_dtype is None else DTYPES[config.storage_dtype]
        self._layers = [HeadwiseLayer(method, dtype) for _ in range(llm.num_layers)]
        self._cache = Cache(layers=self._layers)
        self._call = ForwardCall.of(llm.model)
        self.peak_bytes = 0

    @property
    def tokens_kept(self) -> int:
        """Tokens that every head holds now."""
        return self._layers[0].num_kept

    @contextmanager
    def attached(self) -> Iterator[None]:
        """Watch the attention until the block ends."""
        if self._method.blend is None:
            yield
            return
        with wrap_attention(find_decoder(self._llm.model), self._attend):
            yield

    def run(self, tokens: TokenTable, *, keeps_all_logits: bool = True) -> Tensor:
        """Run the tokens that come next; return logits ``(n or 1, vocab_size)``."""
        num_new = len(tokens)
        if self.tokens_kept + num_new > self._config.budget_tokens:
            self._keep(min(self._config.budget_tokens - num_new, self._config.low_tokens))
        input_ids = torch.from_numpy(tokens.input_ids).to(self._llm.device).unsqueeze(0)
        options = self._call.options(self._cache, 0 if keeps_all_logits else 1)
        with torch.inference_mode():
            logits: Tensor = self._llm.model(input_ids=input_ids, **options).logits[0]
        logits = logits if keeps_all_logits else logits[-1:]
        held = sum(layer.held_bytes for layer in self._layers)
        self.peak_bytes = max(self.peak_bytes, held)
        if self.tokens_kept + 1 > self._config.high_tokens:
            self._keep(self._config.low_tokens)
        return logits

    def fork(self) -> HeadwiseRunner:
        """Return a runner with a copy of the cache."""
        other = HeadwiseRunner(self._llm, self._method, self._config)
        other._layers = [copy.copy(layer) for layer in self._layers]
        other._cache = Cache(layers=other._layers)
        return other

    def _keep(self, num_keep: int) -> None:
        with torch.inference_mode():
            for layer in self._layers:
                layer.keep(num_keep, self._config.num_sinks, self._config.num_recent)

    def _attend(
        self,
        base: AttentionFunction,
        module: nn.Module,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attention_mask: Any,
        **kwargs: Any,
    ) -> Any:
        layer = self._layers[int(getattr(module, "layer_idx", 0))]
        if layer.keys is key:
            num_queries = self._method.window_queries
            probs, _ = attention_probs(
                query[:, :, -num_queries:],
                key,
                attention_mask,
                kwargs.get("scaling"),
                kwargs.get("softcap"),
            )
            layer.observe(probs)
        return base(module, query, key, value, attention_mask, **kwargs)
