"""The state of a session at one moment and what a full cache says from there on, in a file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from memdecay.classifier.storage import storage_errors, write_atomically

_COLUMNS = (
    "keys",
    "values",
    "region_probs",
    "attention",
    "input_ids",
    "scored",
    "log_probs",
)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All tokens of a session's past with what the cache knows of them, and the next tokens.

    Attributes:
        trace: The trace's id.
        keys: Of all layers, ``(layers, heads, past, head_dim)``, float16.
        values: The same of the values.
        region_probs: ``(past, regions)``, float32; what they are worth is the judged table's say.
        attention: Running average of the attention received, ``(past,)``, float32; NaN where it
            was never observed.
        input_ids: Tokens of the past and the next ones, ``(past + next,)``, int64.
        scored: Next tokens, counted from the first, whose predictions are compared, ``(m,)``,
            int64.
        log_probs: The full cache's predictions there, ``(m, vocab_size)``, float32.
    """

    trace: str
    keys: Tensor
    values: Tensor
    region_probs: Tensor
    attention: Tensor
    input_ids: Tensor
    scored: Tensor
    log_probs: Tensor

    @property
    def num_past(self) -> int:
        """Tokens of the past."""
        return self.keys.shape[2]


def save_snapshot(path: Path, snapshot: Snapshot) -> None:
    """Write a snapshot whole or not at all.

    Raises:
        StorageError: The file could not be written.
    """
    tensors = {name: getattr(snapshot, name).contiguous() for name in _COLUMNS}

    def write(temporary: Path) -> None:
        with storage_errors(path):
            save_file(tensors, temporary, metadata={"trace": snapshot.trace})

    write_atomically(path, write)


def load_snapshot(path: Path) -> Snapshot | None:
    """Read a snapshot; None if there is none or the file is damaged."""
    try:
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in _COLUMNS}
            trace = (file.metadata() or {})["trace"]
    except (OSError, SafetensorError, KeyError):
        return None
    return Snapshot(trace=trace, **tensors)


def read_num_past(path: Path) -> int | None:
    """Return the tokens of a file's past; None if there is no file or it is damaged."""
    try:
        with safe_open(path, framework="pt") as file:
            return int(file.get_slice("keys").get_shape()[2])
    except (OSError, SafetensorError):
        return None


def mean_divergence(snapshot: Snapshot, logits: Tensor) -> float:
    """Return the mean divergence of predictions from the full cache's, nats a token.

    Args:
        snapshot: What the full cache says.
        logits: Of all next tokens, ``(next, vocab_size)``, any float type.
    """
    log_probs = logits[snapshot.scored.to(logits.device)].float().log_softmax(dim=-1)
    expected = snapshot.log_probs.to(log_probs.device)
    divergence = (expected.exp() * (expected - log_probs)).sum(dim=-1, dtype=torch.float64)
    return float(divergence.mean())
