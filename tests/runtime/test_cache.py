from __future__ import annotations

import pytest
import torch
from torch import Tensor
from transformers import DynamicCache

from memdecay.classifier.errors import BudgetError, ConfigError
from memdecay.classifier.regions import NUM_REGIONS, UNTAGGED_TABLE, Region
from memdecay.runtime.cache import DecayCache
from tests.runtime.reference import Twin, left_padded_mask, make_cache, random_ids, tiny_llama


def fill(cache: DecayCache, num_tokens: int, batch_size: int = 1) -> None:
    """Append tokens whose keys and values are their logical position, row by row."""
    start = cache.tokens_seen
    positions = torch.arange(start, start + num_tokens, dtype=torch.float32)
    rows = 1000.0 * torch.arange(batch_size).view(-1, 1, 1, 1)
    states = (rows + positions.view(1, 1, -1, 1)).expand(batch_size, 2, num_tokens, 8)
    for layer_idx in range(len(cache.layers)):
        cache.update(states, -states, layer_idx)


def one_hot(*regions: Region) -> Tensor:
    return torch.nn.functional.one_hot(torch.tensor([regions]), NUM_REGIONS).float()


def assert_buffers_match_slots(cache: DecayCache, rows: list[int]) -> None:
    expected = 1000.0 * torch.tensor(rows).unsqueeze(1) + cache.slots.positions
    for layer in cache.layers:
        assert torch.equal(layer.keys[:, 1, :, 3], expected)
        assert torch.equal(layer.values[:, 0, :, 5], -expected)


def test_update_returns_a_view_of_the_one_buffer() -> None:
    cache = make_cache(tiny_llama(), 32)
    fill(cache, 5)
    first = cache.layers[0].keys
    fill(cache, 4)
    second = cache.layers[0].keys

    assert first.untyped_storage().data_ptr() == second.untyped_storage().data_ptr()
    assert (first.shape[2], second.shape[2]) == (5, 9)
    assert cache.allocated_bytes == 32 * cache.bytes_per_token == 32 * 3 * 2 * 2 * 8 * 4


def test_lengths_count_seen_tokens_and_masks_cover_kept_ones() -> None:
    cache = make_cache(tiny_llama(), 16, low_watermark=0.5)
    fill(cache, 16)

    assert cache.evict() == 8

    assert cache.get_seq_length() == cache.tokens_seen == 16
    assert cache.tokens_kept == 8
    assert cache.get_mask_sizes(3, 0) == (11, 8)
    assert cache.get_max_length() == -1
    assert cache.is_croppable
    assert not cache.is_compileable


@pytest.mark.parametrize(("num_tokens", "evicted"), [(11, 0), (12, 4), (16, 8)])
def test_eviction_starts_when_one_more_token_would_exceed_the_high_watermark(
    num_tokens: int, evicted: int
) -> None:
    cache = make_cache(tiny_llama(), 16, high_watermark=0.75, low_watermark=0.5)
    fill(cache, num_tokens)

    assert cache.evict() == evicted


@pytest.mark.parametrize("policy", ["window", "streaming", "region", "memdecay"])
def test_sinks_and_recent_tokens_stay_and_window_needs_no_sinks(policy: str) -> None:
    cache = make_cache(tiny_llama(), 16, low_watermark=0.5, policy=policy)
    for _ in range(8):
        cache.make_room(8)
        fill(cache, 8)
        cache.evict()

    kept = cache.slots.positions[0].tolist()
    assert kept[-4:] == [60, 61, 62, 63]
    assert (kept[:2] == [0, 1]) == (policy != "window")


def test_window_keeps_exactly_the_newest() -> None:
    cache = make_cache(tiny_llama(), 16, low_watermark=0.5, policy="window")
    fill(cache, 16)
    cache.evict()

    assert cache.slots.positions.tolist() == [list(range(8, 16))]


def test_full_never_evicts_and_grows_ahead() -> None:
    cache = make_cache(tiny_llama(), 16, policy="full")
    for _ in range(10):
        assert cache.make_room(8) == 0
        fill(cache, 8)
        assert cache.evict() == 0

    assert cache.tokens_kept == 80
    assert 80 <= cache.allocated_bytes // cache.bytes_per_token <= 120
    assert_buffers_match_slots(cache, [0])


def test_padding_goes_before_any_real_token() -> None:
    cache = make_cache(tiny_llama(), 16, low_watermark=0.5)
    cache.set_padding(left_padded_mask([0, 6, 10], 16))
    fill(cache, 16, batch_size=3)

    cache.evict()

    positions = cache.slots.positions
    assert positions[0, :2].tolist() == [0, 1]
    assert positions[1, :2].tolist() == [6, 7]
    assert positions[2].tolist() == list(range(8, 16))
    assert cache.slots.is_pad[2].tolist() == [True, True, *[False] * 6]
    assert_buffers_match_slots(cache, [0, 1, 2])


def test_room_is_made_down_to_the_low_watermark_or_further() -> None:
    cache = make_cache(tiny_llama(), 16, low_watermark=0.75)
    fill(cache, 15)

    assert cache.make_room(1) == 0
    assert cache.make_room(2) == 3
    assert cache.make_room(10) == 6
    assert cache.tokens_kept == 6


def test_chunk_beyond_the_protected_tokens_is_refused() -> None:
    cache = make_cache(tiny_llama(), 16)
    fill(cache, 16)

    with pytest.raises(BudgetError, match="use chunks of at most 10 tokens"):
        cache.make_room(11)
    assert cache.tokens_kept == 16


def test_unknown_policy_is_refused() -> None:
    with pytest.raises(ConfigError, match="unknown policy 'random'; expected one of full, window"):
        make_cache(tiny_llama(), 16, policy="random")


def test_region_cap_holds_while_others_want_the_room() -> None:
    cache = make_cache(tiny_llama(), 20, low_watermark=0.5, num_sinks=0, num_recent=0)
    fill(cache, 20)
    regions = [Region.SYSTEM_INSTRUCTION] * 10 + [Region.ORDINARY_CONTEXT] * 10
    cache.set_tags(0, torch.tensor([[100.0] * 10 + [1.0] * 10]), one_hot(*regions))

    cache.evict()

    kept, evicted = cache.kept_per_region(), cache.evicted_per_region()
    assert kept[Region.SYSTEM_INSTRUCTION] == kept[Region.ORDINARY_CONTEXT] == 5
    assert evicted[Region.SYSTEM_INSTRUCTION] == evicted[Region.ORDINARY_CONTEXT] == 5


@pytest.mark.parametrize("policy", ["region", "memdecay"])
def test_important_regions_outlive_ordinary_context(policy: str) -> None:
    cache = make_cache(tiny_llama(), 40, low_watermark=0.5, policy=policy)
    fill(cache, 10)
    regions = [Region.KEY_DECISION] * 5 + [Region.ORDINARY_CONTEXT] * 5
    cache.set_tags(0, torch.tensor([[10.0] * 5 + [1.0] * 5]), one_hot(*regions))
    fill(cache, 30)

    cache.evict()

    assert cache.kept_per_region()[Region.KEY_DECISION] == 5
    assert cache.slots.positions[0, :6].tolist() != list(range(6))


def test_tags_reach_kept_tokens_by_logical_position_and_may_be_revised() -> None:
    cache = make_cache(tiny_llama(), 16, low_watermark=0.5, policy="streaming")
    fill(cache, 16)
    cache.evict()  # 0, 1 and 10 to 15 stay
    probs = torch.zeros(1, 4, NUM_REGIONS)
    probs[..., Region.KEY_DECISION] = 0.75
    probs[..., Region.TOOL_SUMMARY] = 0.25

    cache.set_tags(8, torch.tensor([[1.0, 2.0, 3.0, 4.0]]), probs)
    cache.set_tags(11, torch.tensor([[9.0]]), one_hot(Region.TOOL_SUMMARY))

    slots, table = cache.slots, UNTAGGED_TABLE
    ordinary = table.ordinary_context
    assert slots.importance[0].tolist() == [1.0, 1.0, 3.0, 9.0, 1.0, 1.0, 1.0, 1.0]
    assert slots.regions[0, 2:5].tolist() == [1, 2, 4]
    expected = 0.75 * table.key_decision.decay + 0.25 * table.tool_summary.decay
    assert slots.decay[0, 2].item() == pytest.approx(expected)
    assert slots.decay[0, 3].item() == pytest.approx(table.tool_summary.decay)
    assert slots.decay[0, 4].item() == pytest.approx(ordinary.decay)


@pytest.mark.parametrize(
    ("start", "importance", "probs", "message"),
    [
        (0, torch.ones(2, 3), torch.ones(2, 3, 5), r"importance must have the shape \(1, n\)"),
        (0, torch.ones(1, 3), torch.ones(1, 3, 4), "region_probs must have the shape"),
        (0, torch.ones(1, 3), torch.ones(1, 2, 5), "region_probs must have the shape"),
        (6, torch.ones(1, 3), torch.ones(1, 3, 5), "tokens from 0 to 8, got 6 to 9"),
        (-1, torch.ones(1, 3), torch.ones(1, 3, 5), "tokens from 0 to 8"),
    ],
)
def test_tags_that_do_not_fit_are_refused(
    start: int, importance: Tensor, probs: Tensor, message: str
) -> None:
    cache = make_cache(tiny_llama(), 16)
    fill(cache, 8)

    with pytest.raises(ValueError, match=message):
        cache.set_tags(start, importance, probs)


def test_no_tags_change_nothing() -> None:
    cache = make_cache(tiny_llama(), 16)
    fill(cache, 8)
    before = cache.slots

    cache.set_tags(8, torch.ones(1, 0), torch.ones(1, 0, 5))

    assert torch.equal(cache.slots.importance, before.importance)


def test_padding_on_the_right_is_refused() -> None:
    cache = make_cache(tiny_llama(), 16)

    with pytest.raises(ValueError, match="pad on the left"):
        cache.set_padding(torch.tensor([[1, 1, 0]]))


def test_other_padding_after_an_eviction_is_refused() -> None:
    cache = make_cache(tiny_llama(), 16)
    fill(cache, 16, batch_size=2)
    cache.evict()

    with pytest.raises(ValueError, match="other padding than before"):
        cache.set_padding(left_padded_mask([0, 3], 17))


def test_padding_of_another_number_of_rows_is_refused() -> None:
    cache = make_cache(tiny_llama(), 16)
    fill(cache, 8, batch_size=2)

    with pytest.raises(ValueError, match="attention_mask has 3 rows, the cache has 2"):
        cache.set_padding(left_padded_mask([0, 0, 0], 9))


def test_attention_of_another_length_is_refused() -> None:
    cache = make_cache(tiny_llama(), 16)
    fill(cache, 8)

    with pytest.raises(ValueError, match="mass must have the shape"):
        cache.observe_attention(torch.ones(1, 7), 0.5)


def test_attention_is_averaged_and_the_first_observation_counts_in_full() -> None:
    cache = make_cache(tiny_llama(), 16)
    fill(cache, 2)
    cache.observe_attention(torch.tensor([[0.2, 0.8]]), 0.25)
    fill(cache, 1)
    cache.observe_attention(torch.tensor([[0.6, 0.0, 0.4]]), 0.25)

    torch.testing.assert_close(cache.slots.attention, torch.tensor([[0.3, 0.6, 0.4]]))


def test_columns_follow_rows() -> None:
    cache = make_cache(tiny_llama(), 16, low_watermark=0.5)
    cache.set_padding(left_padded_mask([0, 6, 10], 16))
    fill(cache, 16, batch_size=3)
    cache.set_tags(0, torch.arange(48.0).view(3, 16) + 1, torch.ones(3, 16, 5))
    cache.evict()

    cache.reorder_cache(torch.tensor([2, 0, 1]))
    assert_buffers_match_slots(cache, [2, 0, 1])
    cache.batch_repeat_interleave(2)
    assert_buffers_match_slots(cache, [2, 2, 0, 0, 1, 1])
    cache.batch_select_indices(torch.tensor([5, 1]))
    assert_buffers_match_slots(cache, [1, 2])
    cache.batch_select_indices(torch.tensor([False, True]))
    assert_buffers_match_slots(cache, [2])

    assert cache.slots.pad_lengths.tolist() == [10]
    assert torch.equal(cache.slots.importance, cache.slots.positions + 33.0)
    assert cache.allocated_bytes == 16 * cache.bytes_per_token


def test_rows_of_an_empty_cache_can_be_reordered() -> None:
    cache = make_cache(tiny_llama(), 16)

    cache.batch_repeat_interleave(3)
    cache.reorder_cache(torch.tensor([0]))

    assert cache.tokens_seen == 0


def test_crop_takes_back_the_newest_tokens() -> None:
    cache = make_cache(tiny_llama(), 16, low_watermark=0.5)
    fill(cache, 16)
    cache.evict()
    before = cache.slots

    cache.crop(-3)

    assert (cache.tokens_seen, cache.tokens_kept) == (13, 5)
    assert torch.equal(cache.slots.positions, before.positions[:, :5])
    fill(cache, 3)
    assert torch.equal(cache.slots.positions, before.positions)
    assert_buffers_match_slots(cache, [0])


def test_crop_of_nothing_changes_nothing() -> None:
    cache = make_cache(tiny_llama(), 16)
    cache.crop(0)
    fill(cache, 4)
    cache.crop(0)

    assert cache.tokens_kept == 4


def test_crop_of_evicted_tokens_is_refused_and_changes_nothing() -> None:
    cache = make_cache(tiny_llama(), 16, low_watermark=0.5)
    fill(cache, 16)
    cache.set_tags(12, torch.full((1, 4), 0.01), one_hot(*[Region.ORDINARY_CONTEXT] * 4))
    cache.evict()

    with pytest.raises(ValueError, match="some of them were evicted"):
        cache.crop(-9)
    assert (cache.tokens_seen, cache.tokens_kept) == (16, 8)
    assert_buffers_match_slots(cache, [0])


def test_crop_takes_no_positive_number() -> None:
    cache = make_cache(tiny_llama(), 16)
    fill(cache, 8)

    with pytest.raises(ValueError, match="as a negative, got 3"):
        cache.crop(3)
    with pytest.raises(ValueError, match="as a negative, got 3"):
        cache.layers[0].crop(3)


def test_reset_forgets_everything_and_frees_the_buffers() -> None:
    cache = make_cache(tiny_llama(), 16)
    cache.set_padding(left_padded_mask([0, 3], 16))
    fill(cache, 16, batch_size=2)
    cache.evict()

    cache.reset()

    assert (cache.tokens_seen, cache.tokens_kept, cache.allocated_bytes) == (0, 0, 0)
    assert (cache.peak_bytes, cache.bytes_per_token) == (0, 0)
    assert sum(cache.evicted_per_region().values()) == 0
    assert sum(cache.kept_per_region().values()) == 0
    fill(cache, 5, batch_size=3)
    assert cache.slots.pad_lengths.tolist() == [0, 0, 0]
    assert_buffers_match_slots(cache, [0, 1, 2])


def test_counts_add_up_to_the_real_tokens_seen() -> None:
    cache = make_cache(tiny_llama(), 16, low_watermark=0.5)
    cache.set_padding(left_padded_mask([0, 5], 16))
    fill(cache, 16, batch_size=2)
    cache.evict()
    fill(cache, 8, batch_size=2)
    cache.evict()

    kept, evicted = cache.kept_per_region(), cache.evicted_per_region()

    assert sum(kept.values()) + sum(evicted.values()) == 2 * 24 - 5


def test_eviction_leaves_earlier_copies_of_the_views_alone() -> None:
    cache = make_cache(tiny_llama(), 16, low_watermark=0.5)
    fill(cache, 16)
    view = cache.layers[2].keys

    cache.evict()

    assert_buffers_match_slots(cache, [0])
    assert view.shape[2] == 16


def test_bfloat16_states_are_kept_as_they_came() -> None:
    cache = make_cache(tiny_llama(), 16)
    states = torch.randn(1, 2, 4, 8, dtype=torch.bfloat16)

    keys, values = cache.update(states, -states, 0)

    assert keys.dtype == values.dtype == torch.bfloat16
    assert torch.equal(keys, states)


def test_chunked_prefill_by_hand_equals_the_hiding_reference() -> None:
    model = tiny_llama("eager")
    cache = make_cache(model, 24, low_watermark=0.8)
    twin = Twin(model, cache, random_ids(2, 80), [0, 11])

    for chunk in (9, 9, 9, 9, 1, 1, 1, 12, 1):
        cache.make_room(chunk)
        ours, expected = twin.feed(chunk)
        torch.testing.assert_close(ours, expected, rtol=0, atol=1e-4)
        cache.evict()

    assert cache.peak_bytes == 24 * cache.bytes_per_token


def test_cache_without_hooks_works_in_a_plain_forward() -> None:
    model, ids = tiny_llama(), random_ids(1, 12)
    cache, stock = make_cache(model, 32), DynamicCache(config=model.config)

    with torch.no_grad():
        ours = model(ids, cache=cache).logits
        expected = model(ids, cache=stock).logits

    torch.testing.assert_close(ours, expected, rtol=0, atol=1e-5)
