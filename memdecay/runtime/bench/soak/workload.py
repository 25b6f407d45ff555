"""Turns of an agent with random lengths: messages, a tool's dumps, answers, tokens taken back."""

from __future__ import annotations

import random
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import PreTrainedModel

from memdecay.classifier.regions import NUM_REGIONS
from memdecay.runtime.attach import attach
from memdecay.runtime.cache import DecayCache
from memdecay.runtime.forward_call import ForwardCall

_NUM_IDS = 4096
_FIRST_ID = 3


@dataclass(frozen=True, slots=True)
class TurnConfig:
    """What a turn is made of.

    Attributes:
        most_message_tokens: Longest message, read in one forward.
        dump_share: Share of turns with a tool's dump.
        most_dump_chunks: Most chunks of a dump.
        most_chunk_tokens: Longest chunk; a dump's have at least half of it.
        most_answer_tokens: Longest answer, one forward a token.
        crop_share: Share of turns that end with tokens taken back.
        most_cropped_tokens: Most of these.
    """

    most_message_tokens: int = 12
    dump_share: float = 0.1
    most_dump_chunks: int = 3
    most_chunk_tokens: int = 32
    most_answer_tokens: int = 2
    crop_share: float = 0.2
    most_cropped_tokens: int = 3


class Agent:
    """Runs turns through a model whose cache forgets; every draw follows from the seed.

    Args:
        model: A causal language model, best a tiny one with random weights.
        cache: An empty cache of it.
        config: What a turn is made of.
        seed: Seed of the turns' lengths, the tokens and their tags.
    """

    def __init__(
        self, model: PreTrainedModel, cache: DecayCache, config: TurnConfig, seed: int
    ) -> None:
        self.cache = cache
        self.last_logits = torch.empty(0)
        self._model = model
        self._config = config
        self._random = random.Random(seed)
        generator = torch.Generator().manual_seed(seed)
        vocab_size = model.config.get_text_config(decoder=True).vocab_size
        self._ids = torch.randint(_FIRST_ID, vocab_size, (1, _NUM_IDS), generator=generator)
        self._num_run = 0
        self._call = ForwardCall.of(model)

    def turn(self) -> None:
        """Read a message, now and then a dump, answer, and now and then take tokens back."""
        with torch.inference_mode(), attach(self._model, self.cache):
            self._run(self._random.randint(1, self._config.most_message_tokens))
            if self._random.random() < self._config.dump_share:
                self._dump()
            for _ in range(self._random.randint(0, self._config.most_answer_tokens)):
                self._run(1)
        if self._random.random() < self._config.crop_share:
            self._crop(self._random.randint(1, self._config.most_cropped_tokens))

    def _dump(self) -> None:
        most = self._config.most_chunk_tokens
        for _ in range(self._random.randint(1, self._config.most_dump_chunks)):
            self._run(self._random.randint(max(1, most // 2), most))

    def _run(self, num_tokens: int) -> None:
        start = self._num_run % (_NUM_IDS - num_tokens)
        self._num_run += num_tokens
        ids = self._ids[:, start : start + num_tokens].to(self._model.device)
        output = self._model(input_ids=ids, **self._call.options(self.cache, logits_to_keep=1))
        self.last_logits = output.logits
        self._tag(num_tokens)

    def _tag(self, num_tokens: int) -> None:
        """Give each token an importance and a region of its own, as a classifier would."""
        draws = [self._random.random() for _ in range(num_tokens)]
        importance = torch.tensor([[10.0 ** (3 * draw - 1) for draw in draws]])
        regions = torch.tensor([[int(NUM_REGIONS * draw) for draw in draws]])
        probs = torch.nn.functional.one_hot(regions, NUM_REGIONS).float()
        self.cache.set_tags(self.cache.tokens_seen - num_tokens, importance, probs)

    def _crop(self, num_tokens: int) -> None:
        seen = self.cache.tokens_seen
        # One more than is taken back, so that the newest that stays is there too.
        newest = self.cache.slots.positions[0, -num_tokens - 1 :]
        if newest.tolist() == list(range(seen - num_tokens - 1, seen)):
            self.cache.crop(-num_tokens)


def state_of(agent: Agent) -> list[Tensor]:
    """Return what two runs must agree in: metadata, unpacked keys and values, the last logits."""
    slots = agent.cache.slots
    columns = [slots.positions, slots.importance, slots.regions, slots.attention]
    held = [states for layer in agent.cache.layers for states in (layer.dense(torch.float32))]
    return [*columns, *held, agent.last_logits]
