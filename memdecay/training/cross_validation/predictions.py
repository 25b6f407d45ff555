"""What a fold's model said about the sources that it never saw, on disk."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memdecay.classifier.storage import write_atomically


@dataclass(frozen=True, slots=True, eq=False)
class FoldPredictions:
    """A fold's held-out tokens; every array has one row a labelled token, in the store's order.

    Attributes:
        logits: ``(n, num_regions)``, float32, before any temperature.
        logits_alone: ``(n, num_regions)``, float32; the same without the rules' scores.
        position_probs: ``(n, num_regions)``, float32; what position and role alone give.
        labels: ``(n,)``, int64.
        trace: ``(n,)``, int64; the index of the token's trace.
        temperature: Fitted to the fold's validation traces.
        num_epochs: Epochs trained.
        fingerprint: Names the data and settings that it came from.
    """

    logits: NDArray[np.float32]
    logits_alone: NDArray[np.float32]
    position_probs: NDArray[np.float32]
    labels: NDArray[np.int64]
    trace: NDArray[np.int64]
    temperature: float
    num_epochs: int
    fingerprint: str

    def write(self, path: Path) -> None:
        """Write them, whole or not at all.

        Raises:
            StorageError: The file could not be written.
        """
        content: Mapping[str, Any] = {item.name: getattr(self, item.name) for item in fields(self)}

        def save(temporary: Path) -> None:
            with temporary.open("wb") as stream:  # By its name alone numpy would add a suffix.
                np.savez(stream, **content)

        write_atomically(path, save)


def read_predictions(path: Path, fingerprint: str) -> FoldPredictions | None:
    """Read a fold's predictions; None if there are none, or they are damaged or of another run."""
    try:
        # Opened here: numpy leaves a damaged file open.
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as stored:
            found = FoldPredictions(
                **{item.name: _plain(stored[item.name]) for item in fields(FoldPredictions)}
            )
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None
    return found if found.fingerprint == fingerprint else None


def _plain(array: NDArray[Any]) -> Any:
    return array if array.ndim else array.item()
