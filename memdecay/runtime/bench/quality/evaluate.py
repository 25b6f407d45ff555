"""Measure one cache on one trace against the full cache."""

from __future__ import annotations

import time

import torch
from torch import Tensor

from memdecay.runtime.bench.caches.budget import full_cache_bytes
from memdecay.runtime.bench.caches.make import Contestants
from memdecay.runtime.bench.caches.variants import Variant
from memdecay.runtime.bench.quality.case import QualityCase
from memdecay.runtime.bench.quality.measures import (
    TokenScores,
    mean_scores,
    num_equal,
    token_scores,
)
from memdecay.runtime.bench.quality.reference import Reference
from memdecay.runtime.bench.quality.replay import Answers, OnTokens, replay
from memdecay.runtime.bench.quality.row import QualityRow, RecalledSpan
from memdecay.runtime.preparation import stop_ids


def evaluate(
    variant: Variant,
    budget: float,
    case: QualityCase,
    reference: Reference,
    contestants: Contestants,
    on_tokens: OnTokens | None = None,
) -> QualityRow:
    """Replay a trace with a variant's cache and compare it with the full cache.

    Args:
        variant: The policy with its tags.
        budget: Share of the full cache's bytes, above 0, at most 1.
        case: The trace.
        reference: What the full cache says about it.
        contestants: Makes the cache.
        on_tokens: Called with the number of tokens after each chunk.

    Raises:
        BudgetError: The budget can't hold the protected tokens and a chunk.
    """
    llm = contestants.llm
    runner = contestants.make(variant, budget, case)
    targets = torch.from_numpy(case.targets)
    parts: list[TokenScores] = []

    def compare(first: int, last: int, log_probs: Tensor) -> None:
        expected = reference.log_probs[first:last].to(log_probs.device)
        parts.append(token_scores(expected, log_probs, targets[first:last].to(log_probs.device)))

    start = time.perf_counter()
    answers = replay(runner, case, contestants.config, stop_ids(llm), compare, on_tokens)
    seconds = time.perf_counter() - start
    scores = TokenScores.join(parts)
    all_, tool, copied = (
        mean_scores(scores, chosen) for chosen in (None, case.is_argument, case.is_copied)
    )
    wanted = reference.answers.continuation
    stored = contestants.config.stored_dtype(llm.dtype)
    return QualityRow(
        trace=case.trace.id,
        source=case.trace.source,
        policy=variant.name,
        budget=budget,
        kv_bytes=runner.peak_bytes,
        full_bytes=full_cache_bytes(llm.model.config, case.num_tokens, stored),
        num_tokens=case.num_tokens,
        tokens_kept=runner.tokens_kept,
        kl=all_.kl,
        kl_tool=tool.kl,
        kl_copied=copied.kl,
        delta_nll=all_.delta_nll,
        delta_nll_tool=tool.delta_nll,
        delta_nll_copied=copied.delta_nll,
        top1=all_.top1,
        top1_tool=tool.top1,
        top1_copied=copied.top1,
        num_scored=all_.count,
        num_tool=tool.count,
        num_copied=copied.count,
        continuation_tokens=len(wanted),
        continuation_equal=num_equal(answers.continuation, wanted),
        is_continuation_equal=answers.continuation == wanted,
        seconds=seconds,
        recall=_recalled(case, answers, reference),
    )


def _recalled(
    case: QualityCase, answers: Answers, reference: Reference
) -> tuple[RecalledSpan, ...]:
    return tuple(
        RecalledSpan(probe.region.label, probe.age, probe.num_recall, nll, full, bare)
        for probe, nll, full, bare in zip(
            case.probes,
            answers.recall_nll,
            reference.answers.recall_nll,
            reference.bare_nll,
            strict=True,
        )
    )
