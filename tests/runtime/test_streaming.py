"""Streaming tags against tagging the whole sequence at once."""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from memdecay.classifier.artifact import ClassifierArtifact
from memdecay.classifier.export import TaggingInputs
from memdecay.runtime.streaming import MAX_CROP_TOKENS, StreamingTagger, TagUpdate
from memdecay.runtime.tagger import RegionTagger, Tags
from tests.runtime.artifacts import random_graph, random_inputs


class TorchTagger(RegionTagger):
    """The same graph in torch, which needs no export for each receptive field."""

    def __init__(self, context_tokens: int, radius: int) -> None:
        self.graph = random_graph(context_tokens=context_tokens, radius=radius).eval()

    @property
    def receptive_field(self) -> int:
        return self.graph.network.config.context_tokens + self.graph.propagation.radius

    @torch.no_grad()
    def tag(
        self, hidden_states: Tensor, position_features: Tensor, token_mask: Tensor | None = None
    ) -> Tags:
        if token_mask is None:
            token_mask = torch.ones(hidden_states.shape[:2], dtype=torch.bool)
        return Tags(*self.graph(hidden_states, position_features, token_mask))


@cache
def region_tagger(context_tokens: int = 3, radius: int = 2) -> RegionTagger:
    return TorchTagger(context_tokens, radius)


class Merged:
    """The tags that a cache would end up with."""

    def __init__(self, batch: int, seq_len: int) -> None:
        self.region_probs = torch.full((batch, seq_len, 5), torch.nan)
        self.importance = torch.full((batch, seq_len), torch.nan)

    def take(self, update: TagUpdate) -> None:
        stop = update.start + update.tags.importance.shape[1]
        self.region_probs[:, update.start : stop] = update.tags.region_probs
        self.importance[:, update.start : stop] = update.tags.importance

    def assert_equal(self, tags: Tags) -> None:
        assert_close(self.region_probs, tags.region_probs, atol=1e-5, rtol=1e-5)
        assert_close(self.importance, tags.importance, atol=1e-5, rtol=1e-5)


def push_range(
    streaming: StreamingTagger, inputs: TaggingInputs, start: int, stop: int
) -> TagUpdate:
    hidden_states, features, token_mask = (value[:, start:stop] for value in inputs)
    return streaming.push(hidden_states, features, token_mask)


@st.composite
def chunked_sequences(draw: st.DrawFn) -> tuple[TaggingInputs, list[int]]:
    seq_len = draw(st.integers(1, 60))
    batch = draw(st.integers(1, 3))
    hidden_states, features, _ = random_inputs(3, 60)
    paddings = draw(st.lists(st.integers(0, seq_len), min_size=batch, max_size=batch))
    token_mask = torch.arange(seq_len) >= torch.tensor(paddings)[:, None]
    inputs = (hidden_states[:batch, :seq_len], features[:batch, :seq_len], token_mask)
    cuts = draw(st.lists(st.integers(0, seq_len), max_size=12))
    return inputs, [0, *sorted(cuts), seq_len]


@settings(deadline=None, max_examples=30)
@given(chunked_sequences(), st.sampled_from([(3, 2), (0, 0), (0, 2), (4, 0)]))
def test_any_chunking_ends_with_the_tags_of_one_shot(
    sequence: tuple[TaggingInputs, list[int]], fields: tuple[int, int]
) -> None:
    inputs, cuts = sequence
    tagger = region_tagger(*fields)
    streaming, merged = StreamingTagger(tagger), Merged(*inputs[2].shape)
    for start, stop in pairwise(cuts):
        merged.take(push_range(streaming, inputs, start, stop))
        # What is known so far is already the one-shot answer for the tokens so far.
        known = tagger.tag(*(value[:, :stop] for value in inputs))
        assert_close(merged.importance[:, :stop], known.importance, atol=1e-5, rtol=1e-5)
    merged.assert_equal(tagger.tag(*inputs))


def test_the_exported_classifier_streams_too(artifact: ClassifierArtifact) -> None:
    tagger, inputs = RegionTagger(artifact, "cpu"), random_inputs(2, 50)
    streaming, merged = StreamingTagger(tagger), Merged(2, 50)
    for start, stop in [(0, 20), (20, 21), (21, 22), (22, 23), (23, 50)]:
        merged.take(push_range(streaming, inputs, start, stop))
    merged.assert_equal(tagger.tag(*inputs))


def test_a_late_neighbour_raises_the_last_tokens() -> None:
    tagger, inputs = TorchTagger(0, 3), random_inputs(1, 40)
    tagger.graph.initial_scores.copy_(torch.tensor([1.0, 10.0, 10.0, 1.0, 1.0]))
    streaming, raised = StreamingTagger(tagger), 0
    last = push_range(streaming, inputs, 0, 1).tags.importance
    for stop in range(2, 41):
        update = push_range(streaming, inputs, stop - 1, stop)
        raised += int((update.tags.importance[:, :-1][:, -1:] > last[:, -1:] + 1e-3).sum())
        last = update.tags.importance
    assert raised > 0


def test_an_update_reaches_back_by_the_receptive_field() -> None:
    streaming, inputs = StreamingTagger(region_tagger()), random_inputs(1, 40)
    assert push_range(streaming, inputs, 0, 30).start == 0
    update = push_range(streaming, inputs, 30, 31)
    assert update.start == 30 - 5
    assert update.tags.importance.shape == (1, 6)
    assert streaming.num_tokens == 31


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 50), st.integers(0, MAX_CROP_TOKENS), st.integers(1, 10))
def test_cropping_and_going_on_differently_equals_one_shot(
    num_first: int, num_cropped: int, num_more: int
) -> None:
    tagger, inputs, other = region_tagger(), random_inputs(2, 70), random_inputs(2, 70, seed=1)
    num_left = max(0, num_first - num_cropped)
    streaming, merged = StreamingTagger(tagger), Merged(2, num_left + num_more)
    first = Merged(2, num_first)
    first.take(push_range(streaming, inputs, 0, num_first))
    merged.region_probs[:, :num_left] = first.region_probs[:, :num_left]
    merged.importance[:, :num_left] = first.importance[:, :num_left]
    streaming.crop(num_left)
    merged.take(push_range(streaming, other, 0, num_more))
    spliced = tuple(
        torch.cat([old[:, :num_left], new[:, :num_more]], dim=1)
        for old, new in zip(inputs, other, strict=True)
    )
    merged.assert_equal(tagger.tag(*spliced))


def test_a_deep_crop_leaves_older_tags_alone() -> None:
    tagger, inputs = region_tagger(), random_inputs(1, 60)
    streaming = StreamingTagger(tagger, max_crop_tokens=0)
    push_range(streaming, inputs, 0, 60)
    streaming.crop(40)
    update = push_range(streaming, inputs, 40, 60)
    assert update.start == 40
    # From the receptive field on, the left side is whole again.
    expected = tagger.tag(*inputs)
    assert_close(update.tags.importance[:, 5:], expected.importance[:, 45:], atol=1e-5, rtol=1e-5)


def test_reset_starts_a_new_sequence_at_a_position() -> None:
    tagger, inputs = region_tagger(), random_inputs(2, 40)
    streaming = StreamingTagger(tagger)
    push_range(streaming, inputs, 0, 40)
    streaming.reset(7)
    assert streaming.batch_size is None
    update = push_range(streaming, (inputs[0][:1], inputs[1][:1], inputs[2][:1]), 0, 20)
    assert (update.start, streaming.num_tokens, streaming.batch_size) == (7, 27, 1)
    expected = tagger.tag(*(value[:1, :20] for value in inputs))
    assert_close(update.tags.importance, expected.importance, atol=1e-5, rtol=1e-5)


def test_only_a_short_tail_is_kept() -> None:
    streaming, inputs = StreamingTagger(region_tagger(), max_crop_tokens=4), random_inputs(1, 300)
    push_range(streaming, inputs, 0, 300)
    assert streaming._history is not None
    assert streaming._history.hidden_states.untyped_storage().nbytes() == (2 * 5 + 4) * 32 * 4


def test_other_rows_than_before_are_refused() -> None:
    streaming, inputs = StreamingTagger(region_tagger()), random_inputs(2, 40)
    push_range(streaming, inputs, 0, 10)
    with pytest.raises(ValueError, match="expected 2 rows as in the pushes before, got 1"):
        streaming.push(inputs[0][:1], inputs[1][:1])


@pytest.mark.parametrize("num_tokens", [-1, 11])
def test_cropping_to_what_was_not_seen_is_refused(num_tokens: int) -> None:
    streaming = StreamingTagger(region_tagger())
    push_range(streaming, random_inputs(1, 40), 0, 10)
    with pytest.raises(ValueError, match="from 0 to the 10 tokens so far"):
        streaming.crop(num_tokens)


def test_a_negative_crop_margin_is_refused() -> None:
    with pytest.raises(ValueError, match="max_crop_tokens must be 0 or above"):
        StreamingTagger(region_tagger(), max_crop_tokens=-1)
