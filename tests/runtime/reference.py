"""Tiny models and the independent reference: a full cache whose mask hides what was evicted."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM, PreTrainedModel

from memdecay.classifier.decoder import find_decoder
from memdecay.runtime.cache import DecayCache
from memdecay.runtime.config import CacheConfig, FadingConfig
from memdecay.runtime.foresight.head import ForesightHead
from memdecay.runtime.precision.rotary import RotaryFrequencies
from tests.tiny import tiny_head

VOCAB_SIZE = 64
TINY: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": VOCAB_SIZE,
    "max_position_embeddings": 1024,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": None,
    # Large weights, so that hiding one token moves the logits far more than rounding does.
    "initializer_range": 0.3,
}


@cache
def tiny_llama(attn_implementation: str = "sdpa") -> PreTrainedModel:
    """Return a random Llama in float32."""
    torch.manual_seed(0)
    return LlamaForCausalLM._from_config(
        LlamaConfig(**TINY), attn_implementation=attn_implementation
    ).eval()


def random_ids(*shape: int, seed: int = 0) -> Tensor:
    """Return random token ids without padding."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(3, VOCAB_SIZE, shape, generator=generator)


def left_padded_mask(pad_lengths: list[int], length: int) -> Tensor:
    """Return an attention mask with this padding in front of each row."""
    return (torch.arange(length) >= torch.tensor(pad_lengths).unsqueeze(1)).long()


def make_cache(model: PreTrainedModel, budget_tokens: int, **options: Any) -> DecayCache:
    """Return a cache with small guards, so that small budgets have room.

    Without ``fading`` among the options it forgets at once, as the hiding mask does. The policy
    ``learned`` gets a foresight head where none is among them.
    """
    if options.get("policy") == "learned" and "foresight" not in options:
        options["foresight"] = head_for(model)
    options = {
        "num_sinks": 2,
        "num_recent": 4,
        "policy": "region",
        "fading": FadingConfig(steps=()),
        **options,
    }
    if options["policy"] == "learned":
        # A norm of keys and one of values for each head.
        num_heads = model.config.num_hidden_layers * model.config.num_key_value_heads
        head = tiny_head(2 * num_heads)
        options = {"foresight": head, **options}
    frequencies = RotaryFrequencies.of(find_decoder(model))
    return DecayCache(model.config, CacheConfig(budget_tokens, **options), frequencies=frequencies)


def head_for(model: PreTrainedModel) -> ForesightHead:
    """Return a foresight head for the full-attention layers of a model."""
    config = model.config.get_text_config(decoder=True)
    types = getattr(config, "layer_types", None) or ["full_attention"] * config.num_hidden_layers
    return tiny_head(2 * config.num_key_value_heads * types.count("full_attention"))


def hiding_mask(kept: Tensor, start: int, mask: Tensor) -> Tensor:
    """Build the additive 4-D mask that shows each new token the kept and the earlier new ones.

    Args:
        kept: Logical positions still kept before the forward, shape ``(batch, kept)``.
        start: Position of the first new token.
        mask: Padding mask up to the last new token, shape ``(batch, start + q)``.
    """
    batch_size, end = mask.shape
    is_shown = torch.zeros(batch_size, end, dtype=torch.bool)
    is_shown.scatter_(1, kept, value=True)
    is_shown[:, start:] = True
    is_shown &= mask.bool()
    causal = torch.arange(end) <= torch.arange(start, end).unsqueeze(1)
    visible = (is_shown[:, None, :] & causal).unsqueeze(1)
    return torch.where(visible, 0.0, torch.finfo(torch.float32).min)


@dataclass
class Twin:
    """Feeds the same tokens to a decaying cache and to a full cache with a hiding mask."""

    model: PreTrainedModel
    cache: DecayCache
    ids: Tensor
    pad_lengths: list[int] = field(default_factory=lambda: [0])
    seen: int = 0

    def __post_init__(self) -> None:
        self.full = DynamicCache(config=self.model.config)
        self.mask = left_padded_mask(self.pad_lengths, self.ids.shape[1])
        self.position_ids = (self.mask.cumsum(1) - 1).clamp_min(0)

    @torch.no_grad()
    def feed(self, num_tokens: int) -> tuple[Tensor, Tensor]:
        """Run one forward with each cache; return both logits of the real tokens."""
        start, end = self.seen, self.seen + num_tokens
        mask = self.mask[:, :end]
        self.cache.set_padding(mask)
        kept = self.cache.slots.positions
        if start == 0:
            kept = torch.zeros(len(self.ids), 0, dtype=torch.int64)
        inputs = {
            "input_ids": self.ids[:, start:end],
            "position_ids": self.position_ids[:, start:end],
        }
        ours = self.model(**inputs, attention_mask=mask, cache=self.cache).logits
        full = self.model(
            **inputs, attention_mask=hiding_mask(kept, start, mask), cache=self.full
        ).logits
        self.seen = end
        is_real = self.mask[:, start:end].bool()
        return ours[is_real], full[is_real]

    def crop(self, num_tokens: int) -> None:
        """Take the newest tokens back from both caches."""
        self.cache.crop(-num_tokens)
        self.full.crop(-num_tokens)
        self.seen -= num_tokens


class KeptRecorder:
    """Records what a cache held before each forward of a model."""

    def __init__(self, model: PreTrainedModel, cache: DecayCache) -> None:
        self.forwards: list[tuple[int, Tensor]] = []
        self._cache = cache
        self.handle = find_decoder(model).register_forward_pre_hook(self._record, with_kwargs=True)

    def _record(self, _module: Any, _args: Any, kwargs: dict[str, Any]) -> None:
        positions = self._cache.slots.positions.clone()
        if self._cache.tokens_seen == 0:
            positions = torch.zeros(len(kwargs["input_ids"]), 0, dtype=torch.int64)
        self.forwards.append((kwargs["input_ids"].shape[1], positions))

    @torch.no_grad()
    def replay(self, model: PreTrainedModel, ids: Tensor, pad_lengths: list[int]) -> list[Tensor]:
        """Run the recorded forwards on a full cache; return the last logits of each."""
        self.handle.remove()
        full = DynamicCache(config=model.config)
        mask = left_padded_mask(pad_lengths, ids.shape[1])
        position_ids = (mask.cumsum(1) - 1).clamp_min(0)
        last_logits, start = [], 0
        for num_tokens, kept in self.forwards:
            end = start + num_tokens
            logits = model(
                input_ids=ids[:, start:end],
                position_ids=position_ids[:, start:end],
                attention_mask=hiding_mask(kept, start, mask[:, :end]),
                cache=full,
            ).logits
            last_logits.append(logits[:, -1])
            start = end
        return last_logits
