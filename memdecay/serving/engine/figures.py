"""The engine in numbers."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from memdecay.classifier.regions import REGION_LABELS
from memdecay.serving.engine.core import EngineCore
from memdecay.serving.engine.views import EngineStats


def engine_stats(core: EngineCore, refused: Counter[str]) -> EngineStats:
    """Return the engine's figures as they are now.

    Args:
        core: The engine.
        refused: Requests that it did not take in, by `ErrorKind`.
    """
    parts, counters = core.parts, core.counters
    on_device = [session for session in parts.store if session.memory is not None]
    facts = [session.look() for session in on_device]
    regions: Counter[str] = Counter(dict.fromkeys(REGION_LABELS, 0))
    for fact in facts:
        regions.update(fact.kept_per_region)
    evicted = dict.fromkeys(REGION_LABELS, 0) | dict(counters.evicted)
    tiers = parts.tiers.use()
    # Without a limit in bytes the number of sessions is one.
    tiers["device"] = replace(tiers["device"], limit_bytes=parts.most_kv_bytes)
    return EngineStats(
        num_running=len(core.running),
        num_waiting=len(core.waiting),
        tiers=tiers,
        reserved_bytes=sum(session.reserved_bytes for session in on_device),
        occupied_bytes=sum(fact.occupied_bytes for fact in facts),
        region_tokens=dict(regions),
        prefix_cache=parts.prefixes.use(),
        evicted_tokens_total=evicted,
        prompt_tokens_total=counters.prompt_tokens,
        cached_tokens_total=counters.cached_tokens,
        prefix_queries_total=parts.prefixes.num_queried_tokens,
        prefix_hits_total=parts.prefixes.num_hit_tokens,
        generated_tokens_total=counters.generated_tokens,
        finished_total=dict(counters.finished),
        failed_total={str(kind): count for kind, count in (counters.failed + refused).items()},
        offloaded_total=dict(parts.tiers.num_offloaded),
        restored_total=dict(parts.tiers.num_restored),
        recomputed_total=counters.recomputed,
    )
