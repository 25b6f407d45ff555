"""Small conversations and settings for the benchmark's tests."""

from __future__ import annotations

import random
from functools import cache
from typing import Any

import numpy as np

from memdecay.classifier.llm import LanguageModel
from memdecay.classifier.regions import Region
from memdecay.runtime.bench.quality.case import QualityCase, QualityTrace, prepare_case
from memdecay.runtime.bench.quality.config import QualityConfig
from tests.tiny import tiny_language_model

SMALL = QualityConfig(
    chunk_tokens=32,
    max_scored=256,
    copy_distance=40,
    cue_tokens=4,
    recall_tokens=8,
    probes_per_cell=1,
    continuation_tokens=5,
    num_sinks=2,
    num_recent=8,
)


@cache
def language_model() -> LanguageModel:
    """Return a tiny model whose predictions depend much on what it attends to."""
    return tiny_language_model(num_layers=2, max_position_embeddings=4096, initializer_range=0.2)


def _letters(seed: int) -> str:
    """Return letters that stand nowhere else."""
    return "".join(random.Random(seed).choices("bdfghjklmnpqrstvwxz", k=30))


def messages(num_rounds: int) -> tuple[dict[str, Any], ...]:
    """Return a session with structured calls, calls as text, and a code that is copied."""
    said: list[dict[str, Any]] = [
        {"role": "system", "content": "You run the tests; the code word is zebra-41-quartz-77."}
    ]
    for i in range(num_rounds):
        call = {"function": {"name": "read", "arguments": {"path": f"src/part_{i}.py"}}}
        said += [
            {"role": "user", "content": f"Look at part {i} and say what the file holds."},
            {"role": "assistant", "content": f"I read part {i}.", "tool_calls": [call]},
            {"role": "tool", "content": f"def part_{i}(path): {_letters(i)}"},
        ]
    said.append({"role": "assistant", "content": "Done: the code word is zebra-41-quartz-77."})
    return tuple(said)


@cache
def trace(num_rounds: int = 8, *, is_labelled: bool = False) -> QualityTrace:
    """Return such a session, its first message labelled as instruction and the rest as ordinary."""
    said = messages(num_rounds)
    regions = None
    if is_labelled:
        regions = tuple(
            np.full(
                len(message["content"]),
                Region.ORDINARY_CONTEXT if i else Region.SYSTEM_INSTRUCTION,
                np.int8,
            )
            for i, message in enumerate(said)
        )
    return QualityTrace(f"trace-{num_rounds}-{is_labelled}", "tests", said, regions)


@cache
def case(num_rounds: int = 8, *, is_labelled: bool = False) -> QualityCase:
    """Return the prepared session."""
    return prepare_case(
        trace(num_rounds, is_labelled=is_labelled), language_model().tokenizer, SMALL
    )
