from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel

from memdecay.runtime.attach import attach
from memdecay.runtime.cache import DecayCache
from memdecay.runtime.policies import POLICIES
from tests.runtime.reference import (
    KeptRecorder,
    left_padded_mask,
    make_cache,
    random_ids,
    tiny_llama,
)

IMPLEMENTATIONS = ("sdpa", "eager")
ROWS: tuple[list[int], ...] = ([0], [0, 7, 12])
EVICTING = tuple(name for name in POLICIES if name != "full")


def generate(model: PreTrainedModel, ids: Tensor, cache: Any, mask: Tensor, **options: Any) -> Any:
    return model.generate(
        ids,
        attention_mask=mask,
        cache=cache,
        return_dict_in_generate=True,
        output_logits=True,
        **{"do_sample": False, **options},
    )


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("pad_lengths", ROWS)
@pytest.mark.parametrize("policy", POLICIES)
def test_nothing_evicted_generates_what_dynamic_cache_generates(
    implementation: str, pad_lengths: list[int], policy: str
) -> None:
    model = tiny_llama(implementation)
    ids, mask = random_ids(len(pad_lengths), 20), left_padded_mask(pad_lengths, 20)
    cache = make_cache(model, 64, policy=policy)

    with attach(model, cache):
        ours = generate(model, ids, cache, mask, max_new_tokens=12)
    stock = generate(model, ids, DynamicCache(config=model.config), mask, max_new_tokens=12)

    assert torch.equal(ours.sequences, stock.sequences)
    torch.testing.assert_close(ours.logits, stock.logits, rtol=0, atol=1e-5)
    assert cache.tokens_kept == cache.tokens_seen == 31


def three_turns(
    model: PreTrainedModel, cache: DecayCache, pad_lengths: list[int], **options: Any
) -> tuple[list[Tensor], list[Tensor]]:
    """Chat for three turns; return the last logits of every forward, ours and the reference's.

    With chunked prefill ``generate`` gives only the last chunk's logits: the others are not
    compared here.
    """
    history = random_ids(len(pad_lengths), 18)
    logits: list[Tensor] = []
    num_forwards: list[int] = []
    with attach(model, cache):
        recorder = KeptRecorder(model, cache)
        for turn in range(3):
            mask = left_padded_mask(pad_lengths, history.shape[1])
            result = generate(model, history, cache, mask, max_new_tokens=9, **options)
            logits.extend(result.logits)
            num_forwards.append(len(recorder.forwards))
            message = random_ids(len(pad_lengths), 6, seed=turn)
            history = torch.cat([result.sequences, message], dim=1)
    replayed = recorder.replay(model, history, pad_lengths)
    return logits, [
        step for end in num_forwards for step in replayed[end - len(result.logits) : end]
    ]


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("pad_lengths", ROWS)
@pytest.mark.parametrize("policy", EVICTING)
def test_turns_with_evictions_equal_a_full_cache_that_hides_the_same_tokens(
    implementation: str, pad_lengths: list[int], policy: str
) -> None:
    model = tiny_llama(implementation)
    cache = make_cache(model, 20, policy=policy, low_watermark=0.7)

    ours, expected = three_turns(model, cache, pad_lengths)

    assert cache.tokens_kept <= 20 < cache.tokens_seen
    torch.testing.assert_close(ours, expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize("pad_lengths", ROWS)
def test_chunked_prefill_of_generate_stays_within_the_budget(pad_lengths: list[int]) -> None:
    model = tiny_llama()
    cache = make_cache(model, 16, low_watermark=0.7)

    ours, expected = three_turns(model, cache, pad_lengths, prefill_chunk_size=5)

    torch.testing.assert_close(ours, expected, rtol=0, atol=1e-4)
    assert cache.peak_bytes == cache.allocated_bytes == 16 * cache.bytes_per_token


def test_hidden_tokens_would_move_the_logits() -> None:
    """The comparisons above could fail: without the hiding mask the logits are far off."""
    model = tiny_llama()
    cache = make_cache(model, 20, policy="streaming")
    ids, mask = random_ids(1, 18), left_padded_mask([0], 18)

    with attach(model, cache):
        ours = generate(model, ids, cache, mask, max_new_tokens=12)
    with torch.no_grad():
        full = model(ours.sequences).logits[0, -2]

    assert (ours.logits[-1][0] - full).abs().max() > 0.1


def test_long_prompt_in_one_forward_grows_once_shrinks_and_warns(
    caplog: pytest.LogCaptureFixture,
) -> None:
    model = tiny_llama()
    cache = make_cache(model, 16)

    with attach(model, cache):
        for turn in (1, 2):
            ids = random_ids(1, 40 * turn)
            mask = torch.ones_like(ids)
            model(input_ids=ids[:, -40:], attention_mask=mask, cache=cache)

    assert cache.allocated_bytes == 16 * cache.bytes_per_token
    assert cache.peak_bytes >= 40 * cache.bytes_per_token
    assert cache.layers[0].keys.untyped_storage().nbytes() * 6 == cache.allocated_bytes
    warnings = [record for record in caplog.records if "prefill_chunk_size" in record.message]
    assert len(warnings) == 1


def test_beams_equal_dynamic_cache_when_nothing_is_evicted() -> None:
    model = tiny_llama()
    ids, mask = random_ids(2, 12), left_padded_mask([0, 5], 12)
    cache = make_cache(model, 64, policy="memdecay")

    with attach(model, cache):
        ours = generate(model, ids, cache, mask, max_new_tokens=10, num_beams=3)
    stock = generate(
        model, ids, DynamicCache(config=model.config), mask, max_new_tokens=10, num_beams=3
    )

    assert torch.equal(ours.sequences, stock.sequences)


@pytest.mark.parametrize("policy", ["streaming", "memdecay"])
def test_beams_with_evictions_score_what_their_tokens_score_alone(policy: str) -> None:
    """Rows change places with all that is known of them: each beam's score is that of its text."""
    model = tiny_llama()
    ids, num_new = random_ids(2, 16), 14
    options: dict[str, Any] = {"policy": policy, "low_watermark": 0.7}
    cache = make_cache(model, 18, **options)

    with attach(model, cache):
        beams = generate(
            model,
            ids,
            cache,
            torch.ones_like(ids),
            max_new_tokens=num_new,
            num_beams=3,
            length_penalty=0.0,
            output_scores=True,
        )

    assert cache.tokens_kept < cache.tokens_seen
    for text, score in zip(beams.sequences, beams.sequences_scores, strict=True):
        alone = make_cache(model, 18, **options)
        chunks = text[None, :-1].split([16, *[1] * (num_new - 1)], dim=1)
        with attach(model, alone), torch.no_grad():
            logits = torch.cat([model(chunk, cache=alone).logits[:, -1] for chunk in chunks])
        expected = logits.log_softmax(dim=-1).gather(1, text[16:, None]).sum()
        torch.testing.assert_close(score, expected, rtol=0, atol=1e-3)


@pytest.mark.parametrize("pad_lengths", ROWS)
def test_sampling_draws_what_it_draws_from_dynamic_cache(pad_lengths: list[int]) -> None:
    model = tiny_llama()
    ids, mask = random_ids(len(pad_lengths), 20), left_padded_mask(pad_lengths, 20)
    options = {"max_new_tokens": 12, "do_sample": True, "temperature": 1.3, "top_p": 0.9}
    cache = make_cache(model, 64, policy="memdecay")

    with attach(model, cache), torch.random.fork_rng():
        torch.manual_seed(7)
        ours = generate(model, ids, cache, mask, **options)
    with torch.random.fork_rng():
        torch.manual_seed(7)
        stock = generate(model, ids, DynamicCache(config=model.config), mask, **options)
    greedy = generate(model, ids, make_cache(model, 64), mask, max_new_tokens=12)

    assert torch.equal(ours.sequences, stock.sequences)
    assert not torch.equal(ours.sequences, greedy.sequences)


@pytest.mark.parametrize("policy", EVICTING)
def test_sampled_turns_equal_a_full_cache_that_hides_the_same_tokens(policy: str) -> None:
    model = tiny_llama()
    cache = make_cache(model, 20, policy=policy, low_watermark=0.7)

    ours, expected = three_turns(model, cache, [0, 7], do_sample=True)

    assert cache.tokens_kept <= 20 < cache.tokens_seen
    torch.testing.assert_close(ours, expected, rtol=0, atol=1e-4)


def test_prompt_lookup_equals_dynamic_cache_when_nothing_is_evicted() -> None:
    model = tiny_llama()
    ids = random_ids(1, 6).repeat(1, 3)
    mask = torch.ones_like(ids)
    options = {"max_new_tokens": 12, "prompt_lookup_num_tokens": 3}
    cache = make_cache(model, 64)

    with attach(model, cache):
        ours = generate(model, ids, cache, mask, **options)
    stock = generate(model, ids, DynamicCache(config=model.config), mask, **options)

    assert torch.equal(ours.sequences, stock.sequences)


def test_prompt_lookup_with_evictions_finishes_within_the_budget() -> None:
    model = tiny_llama()
    ids = random_ids(1, 6).repeat(1, 3)
    cache = make_cache(model, 24, num_recent=8, low_watermark=0.6)

    with attach(model, cache):
        result = generate(
            model,
            ids,
            cache,
            torch.ones_like(ids),
            max_new_tokens=40,
            prompt_lookup_num_tokens=3,
        )

    assert result.sequences.shape == (1, 58)
    assert cache.tokens_kept <= 24


def test_turns_in_inference_mode_and_out_of_it_share_a_cache() -> None:
    model = tiny_llama()
    cache = make_cache(model, 20, policy="memdecay")
    ids = random_ids(1, 36)

    with attach(model, cache):
        with torch.inference_mode():
            model(input_ids=ids[:, :12], cache=cache)
        with torch.no_grad():
            model(input_ids=ids[:, 12:24], cache=cache)
        logits = model(input_ids=ids[:, 24:], cache=cache).logits

    assert logits.requires_grad
    assert not cache.layers[0].keys.requires_grad
