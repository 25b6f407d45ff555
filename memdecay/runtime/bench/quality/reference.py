"""What a full cache says about a trace: computed once, kept on disk, compared with many times."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from memdecay.classifier.llm import LanguageModel
from memdecay.classifier.storage import storage_errors, write_atomically, write_text_atomically
from memdecay.runtime.bench.caches.runner import CacheRunner
from memdecay.runtime.bench.quality.case import QualityCase
from memdecay.runtime.bench.quality.config import QualityConfig
from memdecay.runtime.bench.quality.replay import Answers, OnTokens, recall, replay
from memdecay.runtime.cache import DecayCache
from memdecay.runtime.config import CacheConfig
from memdecay.runtime.preparation import stop_ids

_LOG_PROBS = "log_probs.npy"
_ANSWERS = "answers.json"


@dataclass(frozen=True, slots=True)
class Reference:
    """A full cache's predictions and answers.

    Attributes:
        log_probs: ``(m, vocab_size)``, float32, in a file until it is read.
        answers: Its continuation, and how well it recalls.
        bare_nll: How surprising each probe is without any of the trace, nats a token.
    """

    log_probs: Tensor
    answers: Answers
    bare_nll: tuple[float, ...]


def load_reference(folder: Path) -> Reference | None:
    """Return the reference that a folder holds, None if there is none or it is not whole."""
    try:
        data: dict[str, Any] = json.loads((folder / _ANSWERS).read_text(encoding="utf-8"))
        # Copy on write: torch wants memory that it may write to, the file must stay.
        log_probs = np.load(folder / _LOG_PROBS, mmap_mode="c")
        answers = Answers(tuple(data["continuation"]), tuple(data["recall_nll"]))
        return Reference(torch.from_numpy(log_probs), answers, tuple(data["bare_nll"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def make_reference(
    folder: Path,
    case: QualityCase,
    llm: LanguageModel,
    config: QualityConfig,
    on_tokens: OnTokens | None = None,
) -> Reference:
    """Run a trace through a full cache and keep what it says in a folder.

    Raises:
        StorageError: The folder could not be written.
    """
    write_atomically(
        folder / _LOG_PROBS, lambda path: _run(path, folder, case, llm, config, on_tokens)
    )
    made = load_reference(folder)
    assert made is not None, "what was just written can be read"
    return made


def _run(
    path: Path,
    folder: Path,
    case: QualityCase,
    llm: LanguageModel,
    config: QualityConfig,
    on_tokens: OnTokens | None,
) -> None:
    shape = (len(case.positions), int(llm.model.config.get_text_config().vocab_size))
    with storage_errors(path), path.open("wb") as stream:
        header = np.lib.format.header_data_from_array_1_0(np.empty((0, 0), np.float32))
        np.lib.format.write_array_header_1_0(stream, header | {"shape": shape})

        def keep(_first: int, _last: int, log_probs: Tensor) -> None:
            stream.write(log_probs.cpu().contiguous().numpy().tobytes())

        answers = replay(
            full_runner(llm, case.num_tokens), case, config, stop_ids(llm), keep, on_tokens
        )
    bare_nll = tuple(
        recall(full_runner(llm, probe.end), case, probe, config.chunk_tokens)
        for probe in case.probes
    )
    write_text_atomically(
        folder / _ANSWERS, json.dumps({**asdict(answers), "bare_nll": bare_nll}) + "\n"
    )


def full_runner(llm: LanguageModel, num_tokens: int) -> CacheRunner:
    """Return a runner with an empty cache that never evicts."""
    config = CacheConfig(max(num_tokens, 2), num_recent=0, num_sinks=0, policy="full")
    return CacheRunner(llm, DecayCache(llm.model.config, config))
