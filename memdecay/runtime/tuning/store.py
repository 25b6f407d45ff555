"""What a fit has computed, on disk, so that a killed one goes on where it was."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from memdecay.classifier.storage import write_text_atomically
from memdecay.runtime.tuning.evidence import Evidence, load_evidence, save_evidence
from memdecay.runtime.tuning.snapshot import (
    Snapshot,
    load_snapshot,
    read_num_past,
    save_snapshot,
)

_JUDGEMENTS = "judgements.json"


class TuningStore:
    """A folder of snapshots, of what they say of their tokens, and of divergences.

    Args:
        folder: Made where it is missing.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[str, float] = _load(folder / _JUDGEMENTS)

    def has_snapshot(self, key: str) -> bool:
        """Tell whether there is a snapshot of this key."""
        return self._path(key).exists()

    def snapshot(self, key: str) -> Snapshot | None:
        """Return the snapshot of this key; None if there is none or it is damaged."""
        return load_snapshot(self._path(key))

    def save_snapshot(self, key: str, snapshot: Snapshot) -> None:
        """Keep a snapshot.

        Raises:
            StorageError: It could not be written.
        """
        save_snapshot(self._path(key), snapshot)

    def num_past(self, key: str) -> int | None:
        """Return the tokens before a snapshot's moment, without reading all of it."""
        return read_num_past(self._path(key))

    def evidence(self, key: str) -> Evidence | None:
        """Return the evidence of this key; None if there is none or it is damaged."""
        return load_evidence(self._path(key))

    def save_evidence(self, key: str, evidence: Evidence) -> None:
        """Keep evidence.

        Raises:
            StorageError: It could not be written.
        """
        save_evidence(self._path(key), evidence)

    def judgement(self, question: str) -> float | None:
        """Return what is known of a question; None if it was never answered."""
        return self._known.get(_digest(question))

    def save_judgement(self, question: str, kl: float) -> None:
        """Keep an answer.

        Raises:
            StorageError: It could not be written.
        """
        self._known[_digest(question)] = kl
        write_text_atomically(self._folder / _JUDGEMENTS, json.dumps(self._known, indent=0) + "\n")

    def _path(self, key: str) -> Path:
        return self._folder / f"{key}.safetensors"


def _digest(question: str) -> str:
    return hashlib.sha256(question.encode()).hexdigest()[:20]


def _load(path: Path) -> dict[str, float]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        return {str(key): float(value) for key, value in data.items()}
    except (OSError, ValueError, AttributeError, TypeError):
        return {}
