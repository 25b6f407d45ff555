"""A transformers cache that keeps within a token budget by forgetting between forwards."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor
from transformers import PretrainedConfig

from memdecay.classifier.regions import NUM_REGIONS, UNTAGGED_TABLE, Region, RegionTable
from memdecay.runtime.config import CacheConfig
from memdecay.runtime.early_looks import EarlyLooks
from memdecay.runtime.eviction import choose_kept, choose_kept_early
from memdecay.runtime.fading_cache import FadingCache
from memdecay.runtime.fading_layer import FadingLayer
from memdecay.runtime.fates import Fate, Fates, bits_after
from memdecay.runtime.foresight.norms import log_norms
from memdecay.runtime.guards import check_pins, chunk_error, num_safe
from memdecay.runtime.late_tagging import LateTag, late_tags, promote
from memdecay.runtime.layer import EvictingLayer, bookkeeping
from memdecay.runtime.layer_plan import make_layers
from memdecay.runtime.metadata import Slots
from memdecay.runtime.padding import left_pad_lengths
from memdecay.runtime.policies import make_policy
from memdecay.runtime.precision.layout import FULL_BITS, Layout
from memdecay.runtime.precision.positions import FadedPositions
from memdecay.runtime.precision.rotary import RotaryFrequencies

logger = logging.getLogger(__name__)


class DecayCache(FadingCache):
    """Keys and values of at most ``budget_tokens`` tokens a row, with original positions.

    The cache never evicts inside a forward. Between forwards call `make_room` before a chunk and
    `evict` after it, or let `memdecay.runtime.attach.attach` do both. Rows of a batch keep the
    same number of tokens; padding must be on the left and is forgotten first. Training through
    the cache isn't supported: it stores detached tensors.

    Layers with sliding windows keep transformers' own layer class; only full attention is
    evicted, and only its bytes are counted.

    Args:
        model_config: Configuration of the model, as in ``model.config``.
        config: Budget, guards and policy.
        region_table: Decay factor of every region, and the tags of untagged tokens.
        frequencies: How the model turns its keys, see `RotaryFrequencies.of`. Tokens that lose
            precision keep more of it with them.
        template_ids: Ids of the chat template's own tokens, such as ``<|im_start|>``.

    Raises:
        ModelError: The model has no full-attention layers, or layers of another kind.
        ConfigError: The policy is unknown, or needs a foresight head that is not there.
    """

    _fates: Fates | None
    _pins: tuple[tuple[int, int], ...]
    _first_pad_lengths: Tensor | None
    _evicted: Tensor
    _num_evicted: int
    _moved_rows: Tensor | None
    _looks: EarlyLooks

    def __init__(
        self,
        model_config: PretrainedConfig,
        config: CacheConfig,
        region_table: RegionTable | None = None,
        frequencies: RotaryFrequencies | None = None,
        template_ids: Sequence[int] = (),
    ) -> None:
        self.config = config
        self._template_ids = torch.tensor(tuple(template_ids), dtype=torch.int64)
        self.policy = make_policy(config)
        self.region_table = region_table or UNTAGGED_TABLE
        faded = FadedPositions(frequencies or RotaryFrequencies.none()) if self.fades else None
        layers = make_layers(model_config, self._layer_maker(faded))
        super().__init__(layers, config.budget_tokens if self.policy.evicts else None, faded)
        self._forget()

    @property
    def fades(self) -> bool:
        """Whether tokens lose precision before they are forgotten."""
        return self.policy.fades and bool(self.config.fading.steps)

    # What is inside

    @property
    def tokens_seen(self) -> int:
        """Tokens seen by the model, padding included, the same in every row."""
        return int(self.get_seq_length())

    @property
    def tokens_kept(self) -> int:
        """Tokens each row still holds, padding included."""
        return self.tokens_seen - self._num_evicted

    @property
    def layout(self) -> Layout:
        """How many of the kept tokens of each row stand at each step of precision."""
        if self.fades:
            return self._fading_layers[0].layout
        return Layout.all_full((FULL_BITS,), self.tokens_kept)

    @property
    def slots(self) -> Slots:
        """What is known about the kept tokens, up to date even within a forward."""
        keys = self.layers[0].keys
        if keys is None:
            return Slots.empty(0, torch.device("cpu"))
        with bookkeeping():
            slots = self._slots
            if slots is None:
                slots = Slots.empty(keys.shape[0], keys.device)
                if self._first_pad_lengths is not None:
                    slots = slots.with_padding(self._first_pad_lengths)
            slots = slots.append(self.tokens_seen - slots.num_seen, self.region_table, self._pins)
        self._slots = slots
        return slots

    def kept_per_region(self) -> dict[Region, int]:
        """Count the kept real tokens of every region, summed over the rows."""
        return _by_region(self.slots.count_per_region())

    def evicted_per_region(self) -> dict[Region, int]:
        """Count the evicted real tokens by the region they had then, summed over the rows."""
        return _by_region(self._evicted)

    def fates(self, row: int = 0) -> list[Fate]:
        """Tell which tokens of a row faded or were forgotten, when, and why."""
        return self._fates.spans(row) if self._fates is not None else []

    def late_tags(self, row: int = 0) -> list[LateTag]:
        """Tell which kept tokens of a row attention made key decisions, and when."""
        with bookkeeping():
            return late_tags(self.slots, row)

    # What the tagger, the observer and the user tell

    def pin(self, start: int, stop: int, room_tokens: int = 1) -> None:
        """Keep the tokens at positions ``start`` to before ``stop`` as they are, whatever comes.

        Args:
            start: Position of the first.
            stop: Position behind the last; they need not have been seen yet.
            room_tokens: Room that new tokens shall find beside all that may not go.

        Raises:
            ValueError: One of them was evicted already.
            BudgetError: There is not that much room.
        """
        with bookkeeping():
            slots = self.slots
            if start < slots.num_seen:
                slots = slots.with_pins(start, min(stop, slots.num_seen))
        pins = (*self._pins, (start, stop))
        to_come = {place for pin in pins for place in range(max(pin[0], slots.num_seen), pin[1])}
        check_pins(slots if slots.num_seen else None, len(to_come), room_tokens, self.config)
        self._pins = pins
        self._drop_staged()
        if slots.num_seen:
            self._slots = slots

    def unpin(self) -> None:
        """Let what was pinned go like all else from now on."""
        slots = self.slots
        with bookkeeping():
            free = torch.zeros_like(slots.is_pinned)
        self._pins = ()
        if slots.num_seen:
            self._slots = replace(slots, is_pinned=free)

    def set_padding(self, attention_mask: Tensor) -> None:
        """Tell which tokens are left padding; call it before the forward that brings them.

        Args:
            attention_mask: 1 for real tokens and 0 for padding, over all tokens seen and to come,
                shape ``(batch, seen + q)``.

        Raises:
            ValueError: A row has padding after a real token, other padding than before the first
                eviction, or the number of rows is not that of the cache.
        """
        with bookkeeping():
            pad_lengths = left_pad_lengths(attention_mask)
            if self.tokens_seen == 0:
                self._first_pad_lengths = pad_lengths
            else:
                self._slots = self.slots.with_padding(pad_lengths)

    def set_tags(self, start: int, importance: Tensor, region_probs: Tensor) -> None:
        """Set the tags of tokens that are still kept; later calls replace earlier ones.

        Args:
            start: Logical position of the first tagged token: tokens (padding included) before it.
            importance: Score of each token when fresh, shape ``(batch, n)``, float, above zero.
            region_probs: Region probabilities, shape ``(batch, n, regions)``, float.

        Raises:
            ValueError: A shape does not fit, or a position has not been seen yet.
        """
        with bookkeeping():
            self._slots = self.slots.with_tags(
                start, importance, region_probs, self.region_table, self.config.regions.weights
            )

    def mark_template(self, input_ids: Tensor) -> None:
        """Find the chat template's own tokens among the newest ones, where they have a weight.

        Args:
            input_ids: Ids of the newest tokens, shape ``(batch, n)``, int64.
        """
        if not len(self._template_ids) or not self.config.regions.template_weight:
            return
        with bookkeeping():
            is_template = torch.isin(input_ids, self._template_ids.to(input_ids.device))
            start = self.tokens_seen - input_ids.shape[1]
            self._slots = self.slots.with_template(start, is_template)

    def observe_attention(self, mass: Tensor, new_weight: float) -> None:
        """Blend an observation into the running average of the attention each token gets.

        Args:
            mass: Attention mass of each kept token, shape ``(batch, kept)``, float.
            new_weight: Weight of the observation against the average, 0 to 1.

        Raises:
            ValueError: The shape is not that of the kept tokens.
        """
        with bookkeeping():
            self._slots = self.slots.with_attention(mass, new_weight)

    # Making room, between forwards only

    def evict(self) -> int:
        """Go down to the low watermark if one more token would exceed the high one.

        Above the early watermark tokens far below the threshold go. Where tokens fade, `make_room`
        does the rest: it knows how much room the next ones need.

        Returns:
            How many tokens each row gave up.
        """
        if self.fades:
            if self._room() < 0:
                return self._fade(self.config.fading_room_tokens)
            self._pack_ahead()
            return self._fade_early() if self._is_early_due() else 0
        if not self.policy.evicts:
            return 0
        if self.tokens_kept + 1 > self.config.high_tokens:
            return self._evict_to(self._low_tokens())
        return self._evict_early() if self._is_early_due() else 0

    def make_room(self, num_new: int) -> int:
        """Evict, if needed, so that ``num_new`` more tokens fit the buffers without growth.

        Returns:
            How many tokens each row gave up.

        Raises:
            BudgetError: The protected tokens leave less room than that.
        """
        if self.fades:
            return self._make_room_by_fading(num_new)
        kept = self.tokens_kept
        room = self.config.budget_tokens - num_new
        if not self.policy.evicts or kept <= room:
            return 0
        if room < min(kept, self._num_safe()):
            raise chunk_error(num_new, self._slots, self.config)
        return self._evict_to(min(room, self._low_tokens()))

    def _foreseen(self) -> Slots:
        """Look at the tokens that have come since the last time, all still at full precision."""
        slots, head = self.slots, self.config.foresight_head
        if head is None or not self.policy.uses_foresight:
            return slots
        with bookkeeping():
            num_new = slots.num_unforeseen
            if not num_new:
                return slots
            newest = slice(-num_new, None)
            norms = log_norms(
                [(layer.keys[:, :, newest], layer.values[:, :, newest]) for layer in self._evicting]
            )
            return slots.with_foresight(head.foresee(norms))

    def _num_safe(self) -> int:
        return num_safe(self._slots, self.config)

    def _low_tokens(self) -> int:
        return max(self.config.low_tokens, min(self.tokens_kept, self._num_safe()))

    def _is_early_due(self) -> bool:
        if not self.policy.scores_logarithms or not self.bytes_per_token:
            return False
        used = self.tokens_kept
        if self.fades:
            used = self.allocated_bytes // self.bytes_per_token - self._room()
        return self._looks.is_due(self.tokens_seen, used)

    def _evict_early(self) -> int:
        slots = self._foreseen()
        with bookkeeping():
            keys = tuple(layer.keys for layer in self._evicting)
            indices, scores = choose_kept_early(slots, keys, self.policy, self.config)
        return self._keep_only(slots, indices, scores) if indices.shape[1] < slots.num_kept else 0

    def _evict_to(self, num_keep: int) -> int:
        slots = self._foreseen()
        with bookkeeping():
            if self.policy.uses_attention and self.policy.caps_regions:
                slots = promote(slots, self.config, self.region_table)
            keys = tuple(layer.keys for layer in self._evicting)
            indices, scores = choose_kept(slots, keys, self.policy, self.config, num_keep)
        return self._keep_only(slots, indices, scores)

    def _keep_only(self, slots: Slots, indices: Tensor, scores: Tensor) -> int:
        with bookkeeping():
            self._keep_in_layers(indices)
        bits = torch.full_like(indices[0], FULL_BITS)
        return self._keep_slots(slots, indices, bits, scores)

    def _keep_slots(self, slots: Slots, indices: Tensor, bits: Tensor, scores: Tensor) -> int:
        """Note that these slots stay, in this order; return how many tokens each row lost."""
        with bookkeeping():
            if self._fates is None:
                self._fates = Fates.empty(slots.positions.shape[0], slots.positions.device)
            self._fates = self._fates.after(slots, bits_after(slots, indices, bits), scores)
            kept = slots.keep(indices)
            lost = slots.count_per_region() - kept.count_per_region()
            self._evicted = self._evicted.to(lost.device) + lost
        self._slots = kept
        self._looks.last_seen = slots.num_seen
        num_lost = slots.num_kept - kept.num_kept
        self._num_evicted += num_lost
        logger.debug("evicted %d of %d tokens a row", num_lost, slots.num_kept)
        return num_lost

    # What transformers calls

    def crop(self, tokens_to_remove: int) -> None:
        """Take back the newest ``-tokens_to_remove`` tokens, as assisted decoding does.

        Raises:
            ValueError: The number is positive, or some of the tokens were evicted.
        """
        if tokens_to_remove > 0:
            raise ValueError(
                f"crop takes the number of tokens to remove as a negative, got {tokens_to_remove}"
            )
        with bookkeeping():
            slots = self.slots.drop_newest(-tokens_to_remove)
            self._crop_layers(tokens_to_remove)
            self._drop_staged()
        if self._slots is not None:
            self._slots = slots
        self._looks.take_back(slots.num_seen)
        if self._fates is not None:
            self._fates = self._fates.first(slots.num_seen)

    def reset(self) -> None:
        """Forget every token and count, and free the buffers."""
        super().reset()
        if self._faded is not None:
            self._faded.set(torch.zeros((1, 0), dtype=torch.int64))
        self._forget()

    def reorder_cache(self, beam_idx: Tensor) -> None:
        """Reorder the rows for beam search, ``beam_idx`` of shape ``(batch,)``, int64."""
        self._select_rows(beam_idx)

    def batch_repeat_interleave(self, repeats: int) -> None:
        """Repeat every row ``repeats`` times, one copy after the other."""
        num_rows = self.slots.positions.shape[0]
        self._select_rows(torch.arange(num_rows).repeat_interleave(repeats))

    def batch_select_indices(self, indices: Tensor) -> None:
        """Keep only these rows: row numbers, or a bool for every row."""
        self._select_rows(indices.nonzero().squeeze(1) if indices.dtype == torch.bool else indices)

    def _select_rows(self, rows: Tensor) -> None:
        if self.tokens_seen == 0:
            return
        self._drop_staged()
        with bookkeeping():
            slots = self.slots.select_rows(rows)
            self._select_layer_rows(rows)
            if self._fates is not None:
                self._fates = self._fates.select_rows(rows)
        self._slots = slots
        rows = rows.cpu()
        self._moved_rows = rows if self._moved_rows is None else self._moved_rows[rows]

    def take_moved_rows(self) -> Tensor | None:
        """Tell which row each one was when this was asked last, for whoever follows the rows.

        Returns:
            ``(batch,)``, int64; None where all are as they were.
        """
        moved, self._moved_rows = self._moved_rows, None
        return moved

    # Bookkeeping

    def _layer_maker(self, faded: FadedPositions | None) -> Callable[[], EvictingLayer]:
        config = self.config
        dtype = getattr(torch, config.storage_dtype) if config.storage_dtype else None

        def make_layer() -> EvictingLayer:
            if faded is not None:
                return FadingLayer(config.high_tokens, config.fading.steps, faded, dtype)
            return EvictingLayer(
                config.budget_tokens, grows_ahead=not self.policy.evicts, storage_dtype=dtype
            )

        return make_layer

    def _forget(self) -> None:
        self._slots = None
        self._staged = None
        self._looks = EarlyLooks(self.config.early, self.config.budget_tokens)
        self._fates = None
        self._pins = ()
        self._first_pad_lengths = None
        self._evicted = torch.zeros(NUM_REGIONS, dtype=torch.int64)
        self._num_evicted = 0
        self._moved_rows = None


def _by_region(counts: Tensor) -> dict[Region, int]:
    return dict(zip(Region, counts.tolist(), strict=True))
