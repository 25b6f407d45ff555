"""What the tokens of one moment are, and how much more attention came than was foreseen."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file
from torch import Tensor
from transformers import DynamicCache

from memdecay.classifier.decoder import find_decoder
from memdecay.classifier.llm import LanguageModel
from memdecay.classifier.storage import storage_errors, write_atomically
from memdecay.classifier.tokenization import special_ids
from memdecay.runtime.config import CacheConfig, FeedbackConfig
from memdecay.runtime.foresight.future import FutureAttention
from memdecay.runtime.foresight.head import ForesightHead
from memdecay.runtime.foresight.norms import log_norms
from memdecay.runtime.forward_call import ForwardCall
from memdecay.runtime.policies.attention import pool
from memdecay.runtime.tuning.snapshot import Snapshot

_COLUMNS = ("region_probs", "is_template", "ages", "unexplained")
_LEAST_SHARE = 1e-7


@dataclass(frozen=True, slots=True)
class Evidence:
    """The tokens of a moment that a cache has to choose from: no sinks, not the newest.

    Attributes:
        region_probs: ``(n, NUM_REGIONS)``, float32.
        is_template: Whether the token is the chat template's own, ``(n,)``, bool.
        ages: Tokens read since, ``(n,)``, float32.
        unexplained: Logarithm of the root of the mean squared attention that came, less what
            attention so far and foresight say of it, from its mean, ``(n,)``, float32.
    """

    region_probs: NDArray[np.float32]
    is_template: NDArray[np.bool_]
    ages: NDArray[np.float32]
    unexplained: NDArray[np.float32]

    def __len__(self) -> int:
        """Return the number of tokens."""
        return self.ages.size


def read_evidence(llm: LanguageModel, snapshot: Snapshot, head: ForesightHead | None) -> Evidence:
    """Let the model read on with nothing forgotten and see what it attends to.

    Args:
        llm: The language model.
        snapshot: The moment.
        head: What the cache foresees with; None where it goes by attention alone.
    """
    past = snapshot.num_past
    guards = CacheConfig(past)
    chosen = slice(guards.num_sinks, max(guards.num_sinks, past - guards.num_recent))
    unexplained = (_log_use(llm, snapshot) - _expected(snapshot, head)).numpy()[chosen]
    template = torch.tensor(special_ids(llm.tokenizer), dtype=torch.int64)
    return Evidence(
        region_probs=snapshot.region_probs.numpy()[chosen].astype(np.float32),
        is_template=torch.isin(snapshot.input_ids[:past], template).numpy()[chosen],
        ages=np.arange(past - 1, -1, -1, dtype=np.float32)[chosen],
        unexplained=(unexplained - unexplained.mean()).astype(np.float32),
    )


def save_evidence(path: Path, evidence: Evidence) -> None:
    """Write evidence whole or not at all.

    Raises:
        StorageError: The file could not be written.
    """
    arrays = {name: np.ascontiguousarray(getattr(evidence, name)) for name in _COLUMNS}

    def write(temporary: Path) -> None:
        with storage_errors(path):
            save_file(arrays, temporary)

    write_atomically(path, write)


def load_evidence(path: Path) -> Evidence | None:
    """Read evidence; None if there is none or the file is damaged."""
    try:
        arrays = load_file(path)
        return Evidence(**{name: arrays[name] for name in _COLUMNS})
    except (OSError, SafetensorError, KeyError):
        return None


def _expected(snapshot: Snapshot, head: ForesightHead | None) -> Tensor:
    """Return what the cache makes of each token without regions, ``(past,)``, float64."""
    feedback = FeedbackConfig()
    attention = snapshot.attention[None]
    relative = (attention / attention.nanmean()).nan_to_num(nan=1.0)
    known = torch.log(feedback.attention_floor + pool(relative, feedback.pool_width))[0]
    if head is None:
        return known.double()
    layers = [
        (keys[None].float(), values[None].float())
        for keys, values in zip(snapshot.keys, snapshot.values, strict=True)
    ]
    return (head.attention_weight * known + head.foresee(log_norms(layers)[0])).double()


def _log_use(llm: LanguageModel, snapshot: Snapshot) -> Tensor:
    """Return the log root mean squared attention that each token gets, ``(past,)``, float64."""
    decoder = find_decoder(llm.model)
    num_layers = snapshot.keys.shape[0]
    cache = DynamicCache()
    for index, parts in enumerate(zip(snapshot.keys, snapshot.values, strict=True)):
        keys, values = (part[None].to(llm.device, llm.dtype) for part in parts)
        cache.update(keys, values, index)
    future = FutureAttention(snapshot.input_ids.numel(), tuple(range(num_layers)))
    next_ids = snapshot.input_ids[None, snapshot.num_past :].to(llm.device)
    with future.attached(decoder), torch.inference_mode():
        decoder(input_ids=next_ids, **ForwardCall.of(decoder).options(cache))
    squares = future.take()[: snapshot.num_past] / next_ids.shape[1]
    return squares.sqrt().clamp_min(_LEAST_SHARE).log()
