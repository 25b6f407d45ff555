"""The settings of the quality benchmark."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from memdecay.classifier.llm import DTYPES


@dataclass(frozen=True, slots=True)
class QualityConfig:
    """What is measured and how; every policy and budget is measured alike.

    Attributes:
        chunk_tokens: Tokens of one forward. Tokens are evicted between forwards, so a smaller
            chunk uses the budget better and takes longer.
        max_scored: Most assistant tokens whose predictions are compared in a trace.
        first_share: Share of a trace's tokens at its beginning that is not scored: no budget that
            matters has evicted anything there.
        copy_tokens: Tokens that must recur in a row to count as a copied span.
        copy_distance: Tokens back from which on they count as copied from far.
        cue_tokens: Tokens of a remembered span that are given.
        recall_tokens: Most tokens after the cue that are to be recalled.
        probes_per_cell: Most spans to recall for each region and age.
        continuation_tokens: Most tokens of the greedy continuation of the last turn.
        num_sinks: First tokens that every policy with sinks protects.
        num_recent: Newest tokens that every policy protects.
        kv_dtype: What keys and values are stored in, and the full cache's bytes counted in:
            ``float32``, ``bfloat16`` or ``float16``; None for the model's own. The full cache that
            predictions are compared with keeps the model's own in any case.
    """

    chunk_tokens: int = 64
    max_scored: int = 512
    first_share: float = 0.125
    copy_tokens: int = 8
    copy_distance: int = 512
    cue_tokens: int = 8
    recall_tokens: int = 24
    probes_per_cell: int = 2
    continuation_tokens: int = 32
    num_sinks: int = 4
    num_recent: int = 128
    kv_dtype: str | None = None

    def __post_init__(self) -> None:
        """Check the ranges.

        Raises:
            ValueError: A value is out of its range.
        """
        for name in ("chunk_tokens", "max_scored", "copy_tokens", "cue_tokens", "recall_tokens"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be 1 or more, got {getattr(self, name)}")
        for name in ("copy_distance", "probes_per_cell", "continuation_tokens"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must be 0 or more, got {getattr(self, name)}")
        if self.kv_dtype not in (None, *DTYPES):
            raise ValueError(f"kv_dtype must be one of {', '.join(DTYPES)}, got {self.kv_dtype!r}")
        if not 0 <= self.first_share < 1:
            raise ValueError(f"first_share must be from 0 to below 1, got {self.first_share}")

    def stored_dtype(self, model_dtype: torch.dtype) -> torch.dtype:
        """Return what keys and values are stored in by a model of this dtype."""
        return model_dtype if self.kv_dtype is None else DTYPES[self.kv_dtype]
