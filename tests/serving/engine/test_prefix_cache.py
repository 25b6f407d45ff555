"""Beginnings that are read once and begin many sessions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from memdecay.classifier.llm import LanguageModel
from memdecay.runtime.tagger import RegionTagger
from memdecay.serving.engine.config import SharedPrompt
from memdecay.serving.engine.sessions.digests import block_digests, root_digest
from memdecay.serving.engine.sessions.prefix_cache import Prefix, PrefixCache
from tests.serving.engine.rig import Rig, cache_config, rig, user

RULES = {"role": "system", "content": "Read the files and run the tests. " * 4}
WIDE = cache_config(512)
ROOT, OTHER = root_digest("ann"), root_digest("ben")


def tokens(num: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 300, num)


def small_state(size: int = 100) -> dict[str, Tensor]:
    return {"x": torch.zeros(size, dtype=torch.uint8)}


def layer_state(num: int, seed: int = 0) -> dict[str, Tensor]:
    """Return keys and values of 16 bytes a token, and 8 bytes of something else."""
    values = torch.from_numpy(np.random.default_rng(seed).random((2, 1, 1, num, 2), np.float32))
    keys, values = values.unbind()
    return {
        "cache.layers.0.keys": keys,
        "cache.layers.0.values": values,
        "cache.num_evicted": torch.tensor(num),
    }


def add(cache: PrefixCache, num: int, seed: int = 0, root: bytes = ROOT, **options: Any) -> bool:
    given = {"state": small_state(), "weight": 1.0} | options
    return cache.add(root, tokens(num, seed), **given)


def find(cache: PrefixCache, token_ids: np.ndarray, *roots: bytes) -> Prefix | None:
    return cache.find(roots or (ROOT,), token_ids, lambda _: True)


def length(prefix: Prefix | None) -> int:
    return 0 if prefix is None else len(prefix.token_ids)


def test_the_longest_prefix_of_the_own_roots_is_found() -> None:
    cache = PrefixCache(1000)
    add(cache, 32)
    add(cache, 64)
    add(cache, 96, root=OTHER)
    assert length(find(cache, tokens(100))) == 64
    assert length(find(cache, tokens(63))) == 32
    assert length(find(cache, tokens(100), ROOT, OTHER)) == 96
    assert find(cache, tokens(31)) is None
    assert find(cache, tokens(100, seed=1)) is None
    assert cache.num_hit_tokens == 64 + 32 + 96
    assert cache.num_queried_tokens == 100 * 3 + 63 + 31


def test_a_prefix_that_is_of_no_use_is_passed_over() -> None:
    cache = PrefixCache(1000)
    add(cache, 32)
    add(cache, 64)
    found = cache.find((ROOT,), tokens(100), lambda prefix: len(prefix.token_ids) < 64)
    assert length(found) == 32


def test_a_digest_alone_proves_nothing() -> None:
    cache = PrefixCache(1000)
    add(cache, 32, seed=1)
    (forged,) = cache._prefixes.popitem()[1]
    cache._prefixes[block_digests(ROOT, tokens(32))[-1]] = [forged]
    assert find(cache, tokens(40)) is None


def test_chains_depend_on_everything_before() -> None:
    ids = tokens(64)
    changed = ids.copy()
    changed[0] += 1
    pairs = list(zip(block_digests(ROOT, ids), block_digests(ROOT, changed), strict=True))
    assert len(pairs) == 4
    assert all(one != other for one, other in pairs)
    assert root_digest("a", "b") != root_digest("ab") != root_digest("ab", "")


def test_common_blocks_are_there_once_and_stay_for_the_last_holder() -> None:
    cache = PrefixCache(10_000)
    long = layer_state(64)
    short = {name: part[:, :, :32] if part.ndim == 4 else part for name, part in long.items()}
    add(cache, 64, state=long)
    assert cache.use().used_bytes == 64 * 16 + 8
    add(cache, 32, state=short)
    assert cache.use().used_bytes == 64 * 16 + 2 * 8
    first, second = find(cache, tokens(40)), find(cache, tokens(70))
    assert first is not None
    assert second is not None
    assert second.blocks[:2] == first.blocks
    assert [block.num_holders for block in second.blocks] == [2, 2, 1, 1]
    cache._remove(second)
    assert cache.use().used_bytes == 32 * 16 + 8
    torch.testing.assert_close(first.state(), short, rtol=0.0, atol=0.0)


@pytest.mark.parametrize("root", [ROOT, OTHER])
def test_blocks_of_others_or_with_other_bits_are_not_shared(root: bytes) -> None:
    cache = PrefixCache(10_000)
    add(cache, 32, state=layer_state(32))
    other = layer_state(32)
    if root == ROOT:
        other["cache.layers.0.keys"][0, 0, 0, 0] += 1e-6
        cache.add(root, np.concatenate([tokens(32), tokens(16, 5)]), layer_state(48, 3), 1.0)
        assert cache.use().used_bytes == (32 + 48) * 16 + 2 * 8
    else:
        add(cache, 32, root=root, state=layer_state(32))
        assert cache.use().used_bytes == 2 * (32 * 16 + 8)


def test_what_was_never_used_again_goes_first_then_the_lightest() -> None:
    cache = PrefixCache(300)
    for seed, weight in ((1, 0.1), (2, 1.0), (3, 5.0)):
        add(cache, 32, seed, weight=weight)
    find(cache, tokens(32, 1))
    add(cache, 32, 4)
    assert cache.holds(ROOT, tokens(32, 1))
    assert not cache.holds(ROOT, tokens(32, 2))
    assert cache.holds(ROOT, tokens(32, 3))
    assert cache.use().used_bytes == 300


def test_what_was_used_long_ago_gives_way_in_the_end() -> None:
    cache = PrefixCache(500)
    for seed in range(1, 6):
        add(cache, 32, seed)
        find(cache, tokens(32, seed))
    # Four fifths of the room are for what was used again; the first has lost its place there.
    add(cache, 32, 6)
    assert [cache.holds(ROOT, tokens(32, seed)) for seed in range(1, 7)] == [False, *[True] * 5]


def test_what_the_operator_asked_for_stays() -> None:
    cache = PrefixCache(150)
    assert add(cache, 32, is_kept=True)
    assert not add(cache, 32, 1)
    assert not add(cache, 32, 2, state=small_state(200))
    assert cache.holds(ROOT, tokens(32))


def begin_with(engine: Rig, *words: str) -> list[Any]:
    """Ask once for each word, behind system messages that begin alike and end with the word."""
    common = "Read the files, then the tests, then what they print, and then go on. "
    return [
        engine.ask(({"role": "system", "content": common + word}, user("Go.")), request_id=word)
        for word in words
    ]


@pytest.mark.parametrize("policy", ["full", "memdecay"])
def test_a_session_from_a_prefix_equals_one_that_read_it(
    llm: LanguageModel, tagger: RegionTagger, policy: str
) -> None:
    cache = cache_config(128, policy=policy)
    question = (RULES, user("Where is the file? " * 3))
    with rig(llm, tagger, cache=cache, prefix_cache_bytes=10**8) as engine:
        engine.ask((RULES, user("Something else")))
        before = [prefix.state() for prefix in engine.core.parts.prefixes._all()]
        hit = engine.ask(question, request_id="r", max_tokens=60)
        assert hit.started.origin == "prefix"
        logits = engine.logits["r"]
        after = [prefix.state() for prefix in engine.core.parts.prefixes._all()]
        # Attention that was never observed is NaN.
        torch.testing.assert_close(after, before, rtol=0.0, atol=0.0, equal_nan=True)
    with rig(llm, tagger, cache=cache, prefix_cache_bytes=10**8) as engine:
        miss = engine.ask(question, request_id="r", max_tokens=60)
        assert miss.started.origin == "new"
        assert torch.equal(torch.stack(logits), torch.stack(engine.logits["r"]))
        assert hit.finished.token_ids == miss.finished.token_ids
        assert hit.finished.memory.evicted_per_region == miss.finished.memory.evicted_per_region


def test_system_messages_that_begin_alike_share_the_blocks_of_their_beginning(
    llm: LanguageModel, tagger: RegionTagger
) -> None:
    words = "Be brief and kind. " * 2, "Answer in one long sentence. "
    with rig(llm, tagger, cache=WIDE, prefix_cache_bytes=10**8) as engine:
        first, second = begin_with(engine, *words)
        assert (first.started.num_cached_tokens, second.started.num_cached_tokens) == (0, 32)
        assert engine.core.counters.cached_tokens == 32
        pool = engine.core.parts.prefixes._pool
        assert max(block.num_holders for block in pool) >= 3
        logits = engine.logits[words[1]]
    with rig(llm, tagger, cache=WIDE, prefix_cache_bytes=10**8) as engine:
        begin_with(engine, words[1])
        assert torch.equal(torch.stack(logits), torch.stack(engine.logits[words[1]]))


def test_a_prefix_that_ends_where_a_reading_would_not_stop_is_not_used(llm: LanguageModel) -> None:
    with rig(llm, cache=WIDE, prefix_cache_bytes=10**8, chunk_tokens=256) as engine:
        first, second = begin_with(engine, "", "And then answer at great length. " * 3)
        assert first.started.origin == second.started.origin == "new"


def test_a_prefix_longer_than_the_budget_is_not_kept(
    llm: LanguageModel, caplog: pytest.LogCaptureFixture
) -> None:
    shared = (SharedPrompt(({"role": "system", "content": "words " * 200},)),)
    with rig(llm, prefix_cache_bytes=10**8, shared_prompts=shared) as engine:
        engine.core.warm_up()
        kept = engine.core.parts.prefixes._all()
        # Only beginnings of which nothing has faded: the longer ones share their blocks.
        assert all(len(prefix.token_ids) <= cache_config().budget_tokens for prefix in kept)
        assert all(prefix.blocks for prefix in kept)
    assert "is not kept" in caplog.text
