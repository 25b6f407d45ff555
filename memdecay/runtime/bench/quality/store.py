"""The rows of a benchmark on disk, one file each, so that a killed run goes on where it was."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

from memdecay.classifier.storage import write_text_atomically
from memdecay.runtime.bench.quality.row import QualityRow

RESULTS_FILE = "results.json"
_ROWS_FOLDER = "rows"


class RowStore:
    """The rows in a folder, each under a name made of all that it depends on.

    Args:
        folder: The benchmark's folder.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def load(self, key: str) -> QualityRow | None:
        """Return the row that was saved under a key, None if there is none or it is damaged."""
        try:
            text = self._path(key).read_text(encoding="utf-8")
            return QualityRow.from_dict(json.loads(text))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def save(self, key: str, row: QualityRow) -> None:
        """Save a row.

        Raises:
            StorageError: It could not be written.
        """
        write_text_atomically(self._path(key), json.dumps(row.to_dict()) + "\n")

    def write_results(self, rows: Iterable[QualityRow]) -> None:
        """Write all rows of a benchmark to its results file.

        Raises:
            StorageError: It could not be written.
        """
        data = [row.to_dict() for row in rows]
        write_text_atomically(self._folder / RESULTS_FILE, json.dumps(data, indent=1) + "\n")

    def _path(self, key: str) -> Path:
        name = hashlib.sha256(key.encode()).hexdigest()[:24]
        return self._folder / _ROWS_FOLDER / f"{name}.json"
