"""The cache and the tagger with thin timers around what a step spends beside the model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

from torch import Tensor, nn
from transformers import PreTrainedModel

from memdecay.runtime.bench.speed.timing import PartTimers
from memdecay.runtime.cache import DecayCache
from memdecay.runtime.observer import AttentionFunction, wrap_attention
from memdecay.runtime.precision.layout import Move
from memdecay.runtime.precision.rotary import Rotation
from memdecay.runtime.streaming import StreamingTagger, TagUpdate
from memdecay.runtime.tagger import RegionTagger

TAGGING = "tagging"
OBSERVING = "observing"
PLANNING = "planning"
MOVING = "moving"
STORING = "storing"
ATTENTION = "attention"

PARTS: Mapping[str, str] = MappingProxyType(
    {
        TAGGING: "the classifier and setting the tags",
        OBSERVING: "watching attention beside the model's own",
        PLANNING: "scoring tokens and choosing what goes or fades",
        MOVING: "moving, packing and dropping keys and values",
        STORING: "appending keys and values, unpacking packed ones",
        ATTENTION: "the model's attention itself",
    }
)
"""The parts of a step and what they are."""


class TimedCache(DecayCache):
    """A cache that tells what it spends on what; set `timers` before it is used."""

    timers: PartTimers

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Append one layer's keys and values, see `BudgetedLayers.update`."""
        with self.timers.part(STORING):
            return super().update(key_states, value_states, layer_idx, *args, **kwargs)

    def attend(self, *args: Any, **kwargs: Any) -> Tensor:
        """Attend to tokens as they are stored, see `BudgetedLayers.attend`."""
        with self.timers.part(ATTENTION):
            return super().attend(*args, **kwargs)

    def set_tags(self, start: int, importance: Tensor, region_probs: Tensor) -> None:
        """Set tags, see `DecayCache.set_tags`."""
        with self.timers.part(TAGGING):
            super().set_tags(start, importance, region_probs)

    def evict(self) -> int:
        """Evict, see `DecayCache.evict`."""
        with self.timers.part(PLANNING):
            return super().evict()

    def make_room(self, num_new: int) -> int:
        """Make room, see `DecayCache.make_room`."""
        with self.timers.part(PLANNING):
            return super().make_room(num_new)

    def _keep_in_layers(self, indices: Tensor) -> None:
        with self.timers.part(MOVING):
            super()._keep_in_layers(indices)

    def _move_in_layers(self, move: Move, rotation: Rotation, room: int) -> None:
        with self.timers.part(MOVING):
            super()._move_in_layers(move, rotation, room)


class TimedTagger(StreamingTagger):
    """A streaming tagger that tells what it spends.

    Args:
        tagger: The classifier.
        timers: Get the time.
    """

    def __init__(self, tagger: RegionTagger, timers: PartTimers) -> None:
        super().__init__(tagger)
        self._timers = timers

    def push(
        self, hidden_states: Tensor, position_features: Tensor, token_mask: Tensor | None = None
    ) -> TagUpdate:
        """Tag the next tokens, see `StreamingTagger.push`."""
        with self._timers.part(TAGGING):
            return super().push(hidden_states, position_features, token_mask)


@contextmanager
def timed_attention(decoder: PreTrainedModel, name: str, timers: PartTimers) -> Iterator[None]:
    """Give what the model calls for attention to a part, until the block ends.

    One such block outside another that watches attention, and one inside, tell the watching from
    the attention.
    """
    if not timers.is_on:
        yield
        return
    with wrap_attention(decoder, _timing(name, timers)):
        yield


def _timing(name: str, timers: PartTimers) -> Callable[..., Any]:
    def attend(base: AttentionFunction, module: nn.Module, *args: Any, **kwargs: Any) -> Any:
        with timers.part(name):
            return base(module, *args, **kwargs)

    return attend
