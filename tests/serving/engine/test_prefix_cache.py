"""Beginnings that are read once and begin many sessions."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from memdecay.classifier.llm import LanguageModel
from memdecay.runtime.tagger import RegionTagger
from memdecay.serving.engine.config import SharedPrompt
from memdecay.serving.engine.sessions.digests import block_digests, root_digest
from memdecay.serving.engine.sessions.prefix_cache import Prefix, PrefixCache
from tests.serving.engine.rig import cache_config, rig, user

RULES = {"role": "system", "content": "Read the files and run the tests. " * 4}
ROOT, OTHER = root_digest("ann"), root_digest("ben")


def tokens(num: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 300, num)


def prefix(num: int, seed: int = 0, weight: float = 1.0, size: int = 100) -> Prefix:
    state = {"x": torch.zeros(size, dtype=torch.uint8)}
    return Prefix(tokens(num, seed), state, weight)


def test_the_longest_prefix_of_the_own_roots_is_found() -> None:
    cache = PrefixCache(1000)
    short, long, strange = prefix(32), prefix(64), prefix(96)
    cache.add(ROOT, short)
    cache.add(ROOT, long)
    cache.add(OTHER, strange)
    assert cache.find((ROOT,), tokens(100), 99) is long
    assert cache.find((ROOT,), tokens(100), 63) is short
    assert cache.find((ROOT, OTHER), tokens(100), 99) is strange
    assert cache.find((ROOT,), tokens(31), 31) is None
    assert cache.find((ROOT,), tokens(100, seed=1), 99) is None
    assert cache.num_hit_tokens == 64 + 32 + 96
    assert cache.num_queried_tokens == 100 * 4 + 31


def test_a_digest_alone_proves_nothing() -> None:
    cache = PrefixCache(1000)
    forged = prefix(32, seed=1)
    cache._prefixes[block_digests(ROOT, tokens(32))[-1]] = forged
    assert cache.find((ROOT,), tokens(40), 39) is None


def test_chains_depend_on_everything_before() -> None:
    ids = tokens(64)
    changed = ids.copy()
    changed[0] += 1
    pairs = list(zip(block_digests(ROOT, ids), block_digests(ROOT, changed), strict=True))
    assert len(pairs) == 4
    assert all(one != other for one, other in pairs)
    assert root_digest("a", "b") != root_digest("ab") != root_digest("ab", "")


def test_what_was_never_used_again_goes_first_then_the_lightest() -> None:
    cache = PrefixCache(300)
    used, light, heavy = prefix(32, 1, 0.1), prefix(32, 2, 1.0), prefix(32, 3, 5.0)
    for one in (used, light, heavy):
        cache.add(ROOT, one)
    cache.find((ROOT,), used.token_ids, 32)
    cache.add(ROOT, prefix(32, 4))
    assert not cache.holds(ROOT, light.token_ids)
    assert cache.holds(ROOT, used.token_ids)
    assert cache.holds(ROOT, heavy.token_ids)
    assert cache.use().used_bytes == 300


def test_what_the_operator_asked_for_stays() -> None:
    cache = PrefixCache(150)
    asked = prefix(32)
    asked.is_kept = True
    assert cache.add(ROOT, asked)
    assert not cache.add(ROOT, prefix(32, 1))
    assert not cache.add(ROOT, prefix(32, 2, size=200))
    assert cache.holds(ROOT, asked.token_ids)


@pytest.mark.parametrize("policy", ["full", "memdecay"])
def test_a_session_from_a_prefix_equals_one_that_read_it(
    llm: LanguageModel, tagger: RegionTagger, policy: str
) -> None:
    cache = cache_config(128, policy=policy)
    question = (RULES, user("Where is the file? " * 3))
    with rig(llm, tagger, cache=cache, prefix_cache_bytes=10**8) as engine:
        engine.ask((RULES, user("Something else")))
        hit = engine.ask(question, request_id="r", max_tokens=60)
        assert hit.started.origin == "prefix"
        logits = engine.logits["r"]
        state = next(iter(engine.core.parts.prefixes._prefixes.values())).state
        before = {name: value.clone() for name, value in state.items()}
        engine.ask(question, max_tokens=60)
        # Attention that was never observed is NaN.
        torch.testing.assert_close(dict(state), before, rtol=0.0, atol=0.0, equal_nan=True)
    with rig(llm, tagger, cache=cache, prefix_cache_bytes=10**8) as engine:
        miss = engine.ask(question, request_id="r", max_tokens=60)
        assert miss.started.origin == "new"
        assert torch.equal(torch.stack(logits), torch.stack(engine.logits["r"]))
        assert hit.finished.token_ids == miss.finished.token_ids
        assert hit.finished.memory.evicted_per_region == miss.finished.memory.evicted_per_region


def test_a_prefix_longer_than_the_budget_is_not_kept(
    llm: LanguageModel, caplog: pytest.LogCaptureFixture
) -> None:
    shared = (SharedPrompt(({"role": "system", "content": "words " * 200},)),)
    with rig(llm, prefix_cache_bytes=10**8, shared_prompts=shared) as engine:
        engine.core.warm_up()
        assert engine.core.parts.prefixes.use().num_sessions == 0
    assert "is not kept" in caplog.text
