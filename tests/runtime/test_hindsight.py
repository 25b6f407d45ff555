"""Attention in hindsight against the full matrix of eager attention."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from memdecay.classifier.hindsight import AgeBuckets, count_queries
from memdecay.classifier.llm import LanguageModel
from memdecay.runtime import hindsight
from memdecay.runtime.hindsight import HindsightConfig, received_attention
from tests.tiny import tiny_language_model

NUM_TOKENS = 37
BUCKETS = AgeBuckets((2, 3, 6, 11, 20))


@pytest.fixture(scope="module")
def llm() -> LanguageModel:
    return tiny_language_model(initializer_range=0.3)


def token_ids(num_tokens: int = NUM_TOKENS) -> NDArray[np.int64]:
    return np.random.default_rng(3).integers(3, 384, num_tokens)


def reference(
    llm: LanguageModel, ids: NDArray[np.int64], layers: tuple[int, ...], groups: NDArray[np.int8]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Sum up the whole matrix, one query and one key at a time."""
    llm.model.set_attn_implementation("eager")
    try:
        with torch.no_grad():
            output = llm.model(torch.from_numpy(ids[None]), output_attentions=True)
    finally:
        llm.model.set_attn_implementation("sdpa")
    stacked = torch.stack([output.attentions[layer][0] for layer in layers])
    shares = stacked.double().mean(dim=(0, 1)).numpy()
    lifts = np.zeros((groups.max() + 1, ids.size, len(BUCKETS)))
    counts = np.zeros(lifts.shape, np.int64)
    for query in range(ids.size):
        for key in range(query):
            for bucket, (low, high) in enumerate(
                zip(BUCKETS.edges, BUCKETS.edges[1:], strict=False)
            ):
                if low <= query - key < high:
                    lifts[groups[query], key, bucket] += shares[query, key] * (query + 1)
                    counts[groups[query], key, bucket] += 1
    return lifts, counts


@pytest.mark.parametrize("layers", [(0,), (1, 3)])
@pytest.mark.parametrize("chunk_tokens", [5, 256])
@pytest.mark.parametrize("max_elements", [1, 1 << 23])
def test_it_is_what_the_whole_matrix_gives(
    llm: LanguageModel,
    layers: tuple[int, ...],
    chunk_tokens: int,
    max_elements: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hindsight, "_MAX_ELEMENTS", max_elements)
    ids = token_ids()
    groups = (np.arange(ids.size) % 3 == 0).astype(np.int8)
    config = HindsightConfig(layers, chunk_tokens)
    received = received_attention(llm, ids, BUCKETS, groups, config)

    lifts, counts = reference(llm, ids, layers, groups)
    np.testing.assert_array_equal(received.num_queries, counts)
    np.testing.assert_allclose(received.lifts, lifts, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(received.total()[0], lifts.sum(axis=0), rtol=1e-4, atol=1e-6)


def test_looking_everywhere_alike_is_a_lift_of_one() -> None:
    llm = tiny_language_model()
    for layer in llm.model.model.layers:
        layer.self_attn.q_proj.weight.data.zero_()
    received = received_attention(llm, token_ids(), BUCKETS)
    lifts, counts = received.total()
    np.testing.assert_allclose(lifts, counts, rtol=1e-5)


def test_the_model_is_as_before_and_progress_is_told(llm: LanguageModel) -> None:
    told: list[tuple[int, int]] = []
    received_attention(
        llm,
        token_ids(),
        BUCKETS,
        config=HindsightConfig(chunk_tokens=20),
        on_progress=lambda done, total: told.append((done, total)),
    )
    assert told == [(20, NUM_TOKENS), (NUM_TOKENS, NUM_TOKENS)]
    assert llm.model.config._attn_implementation == "sdpa"


@given(
    groups=st.lists(st.integers(0, 2), max_size=30),
    edges=st.sets(st.integers(1, 40), min_size=2, max_size=6),
)
def test_queries_are_counted_as_one_by_one(groups: list[int], edges: set[int]) -> None:
    buckets = AgeBuckets(tuple(sorted(edges)))
    array = np.array(groups, np.int8)
    counts = count_queries(array, buckets)
    expected = np.zeros_like(counts)
    for query, group in enumerate(groups):
        for key in range(query + 1):
            bucket = int(buckets.of(np.array([query - key]))[0])
            if 0 <= bucket < len(buckets):
                expected[group, key, bucket] += 1
    np.testing.assert_array_equal(counts, expected)


@pytest.mark.parametrize("edges", [(), (1,), (0, 2), (3, 3), (5, 2)])
def test_edges_that_make_no_buckets_are_refused(edges: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="two or more rising numbers"):
        AgeBuckets(edges)


@given(max_age=st.integers(1, 10_000), per_octave=st.integers(1, 5))
def test_log_spaced_buckets_hold_every_age_once(max_age: int, per_octave: int) -> None:
    buckets = AgeBuckets.log_spaced(max_age, per_octave)
    assert buckets.edges[0] == 1
    assert buckets.edges[-1] == max_age + 1
    assert (np.diff(buckets.centres) > 0).all()
    assert buckets.of(np.array([0, 1, max_age, max_age + 1])).tolist() == [
        -1,
        0,
        len(buckets) - 1,
        len(buckets),
    ]


def test_the_first_bucket_from_an_age_holds_nothing_younger() -> None:
    assert [BUCKETS.first_from(age) for age in (1, 2, 3, 4, 11, 20, 99)] == [0, 0, 1, 2, 3, 4, 4]


@pytest.mark.parametrize("numbers", [(0, 1), (8, 0)])
def test_senseless_log_spacing_is_refused(numbers: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="max_age and per_octave must be 1 or more"):
        AgeBuckets.log_spaced(*numbers)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"layers": (-1,)}, "layers must be 0 or above"),
        ({"chunk_tokens": 0}, "chunk_tokens must be 1 or more"),
    ],
)
def test_senseless_settings_are_refused(options: dict[str, Any], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        HindsightConfig(**options)


def test_a_layer_that_is_not_there_is_refused(llm: LanguageModel) -> None:
    with pytest.raises(ValueError, match="layer 9 is none of the model's 4 full-attention layers"):
        received_attention(llm, token_ids(), BUCKETS, config=HindsightConfig((1, 9)))


def test_groups_of_another_length_are_refused(llm: LanguageModel) -> None:
    with pytest.raises(ValueError, match=r"query_groups must have the shape \(37,\)"):
        received_attention(llm, token_ids(), BUCKETS, np.zeros(3, np.int8))


def test_the_layers_watched_by_default_spread_over_the_depth(llm: LanguageModel) -> None:
    assert hindsight._watched_layers(llm.model.model, ()) == (0, 1, 2, 3)
