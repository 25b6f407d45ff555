"""The files that a training run leaves behind, from which it goes on or is read again."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch.plugins.io import TorchCheckpointIO

from memdecay.classifier.errors import ArtifactError
from memdecay.classifier.storage import write_atomically


def load_checkpoint(path: Path) -> dict[str, Any]:
    """Read a checkpoint onto the CPU.

    Raises:
        ArtifactError: It is missing or damaged.
    """
    try:
        checkpoint: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # A torn pickle raises nearly anything.
        raise _damaged(path) from error
    return checkpoint


def read_num_epochs(path: Path) -> int:
    """Read the number of epochs that a finished run left in a file.

    Raises:
        ArtifactError: The file is missing or damaged.
    """
    try:
        return int(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise _damaged(path) from error


def _damaged(path: Path) -> ArtifactError:
    return ArtifactError(
        f"{path}, which an earlier run wrote, is missing or damaged; delete {path.parent} and "
        "train again"
    )


class AtomicCheckpoints(TorchCheckpointIO):  # type: ignore[misc]
    """Checkpoints that are there whole or not at all, like every other file.

    Lightning's own way goes through the folder for temporary files, where a full disk leaves the
    torn half.
    """

    def save_checkpoint(
        self,
        checkpoint: dict[str, Any],
        path: str | os.PathLike[str],
        storage_options: Any = None,  # noqa: ARG002  Part of the interface.
    ) -> None:
        """Write a checkpoint.

        Raises:
            StorageError: It could not be written.
        """
        # torch.save to a file reports a full disk as a RuntimeError.
        content = io.BytesIO()
        torch.save(checkpoint, content)
        write_atomically(Path(path), lambda temporary: _write_bytes(temporary, content))


def _write_bytes(path: Path, content: io.BytesIO) -> None:
    path.write_bytes(content.getbuffer())
