"""Figures of the benchmark against an independent computation: a full cache and masks."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from transformers import DynamicCache

from memdecay.runtime.bench.caches.budget import full_cache_bytes, tokens_for_budget
from memdecay.runtime.bench.caches.make import Contestants
from memdecay.runtime.bench.caches.variants import parse_variant
from memdecay.runtime.bench.quality.evaluate import evaluate
from memdecay.runtime.bench.quality.reference import make_reference
from tests.runtime.bench.traces import SMALL, case, language_model


@torch.no_grad()
def forced_logits(visible: torch.Tensor) -> torch.Tensor:
    """Run the trace in one forward of the plain model with this mask, ``(n, n)`` bool."""
    ids = torch.from_numpy(case().tokens.input_ids)
    mask = torch.where(visible, 0.0, torch.finfo(torch.float32).min)[None, None]
    logits: torch.Tensor = language_model().model(ids[None], attention_mask=mask).logits[0]
    return logits


def window_mask(num_tokens: int, budget_tokens: int) -> torch.Tensor:
    """Return what each token of a window cache sees, from the rules of eviction alone."""
    visible = torch.zeros(num_tokens, num_tokens, dtype=torch.bool)
    bounds = [*range(0, case().last_turn, SMALL.chunk_tokens)]
    bounds += [*range(case().last_turn, num_tokens, SMALL.chunk_tokens), num_tokens]
    first = 0
    low = budget_tokens - SMALL.chunk_tokens
    for start, end in pairwise(bounds):
        if end - first > budget_tokens:
            first = start - min(low, budget_tokens - (end - start))
        visible[start:end, first:end] = True
        if end - first + 1 > budget_tokens:
            first = end - low
    return visible.tril()


def test_window_diverges_as_a_mask_says(tmp_path: Path) -> None:
    llm, prepared = language_model(), case()
    reference = make_reference(tmp_path, prepared, llm, SMALL)
    row = evaluate(parse_variant("window"), 0.2, prepared, reference, Contestants(llm, SMALL))

    budget_tokens = tokens_for_budget(0.2, prepared.num_tokens)
    num_tokens = prepared.num_tokens
    full = forced_logits(torch.ones(num_tokens, num_tokens, dtype=torch.bool).tril())
    seen = forced_logits(window_mask(num_tokens, budget_tokens))
    left, right = (
        logits[torch.from_numpy(prepared.positions)].log_softmax(dim=-1) for logits in (full, seen)
    )
    kl = torch.nn.functional.kl_div(right, left, reduction="none", log_target=True).sum(-1)
    targets = torch.from_numpy(prepared.targets)
    rows = torch.arange(len(targets))
    delta = left[rows, targets] - right[rows, targets]
    chosen = torch.from_numpy(prepared.is_copied)
    np.testing.assert_allclose(row.kl, float(kl.mean()), rtol=1e-3)
    np.testing.assert_allclose(row.kl_copied, float(kl[chosen].mean()), rtol=1e-3)
    np.testing.assert_allclose(row.delta_nll, float(delta.mean()), rtol=1e-3, atol=1e-5)
    same = (left.argmax(-1) == right.argmax(-1)).float().mean()
    np.testing.assert_allclose(row.top1, float(same), atol=0.02)
    assert row.kv_bytes == full_cache_bytes(llm.model.config, budget_tokens, llm.dtype)


@torch.no_grad()
def test_reference_recalls_and_continues_as_the_plain_model_does(tmp_path: Path) -> None:
    llm, prepared = language_model(), case()
    reference = make_reference(tmp_path, prepared, llm, SMALL)

    ids = torch.from_numpy(prepared.tokens.input_ids)
    cache = DynamicCache(config=llm.model.config)
    logits = llm.model(ids[None, : prepared.last_turn], cache=cache).logits[0, -1]
    written = []
    for _ in range(SMALL.continuation_tokens):
        written.append(int(logits.argmax()))
        logits = llm.model(torch.tensor([written[-1:]]), cache=cache).logits[0, -1]
    assert reference.answers.continuation == tuple(written)

    prompt = torch.from_numpy(prepared.prompt_ids)
    for probe, nll, bare in zip(
        prepared.probes, reference.answers.recall_nll, reference.bare_nll, strict=True
    ):
        span = ids[probe.start : probe.end]
        for before, found in ((ids, nll), (ids[:0], bare)):
            whole = torch.cat([before, prompt, span])
            losses = torch.nn.functional.cross_entropy(
                llm.model(whole[None]).logits[0, :-1], whole[1:], reduction="none"
            )
            torch.testing.assert_close(
                found, float(losses[-probe.num_recall :].mean()), rtol=1e-3, atol=1e-4
            )
