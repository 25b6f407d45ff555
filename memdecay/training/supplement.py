"""Generated traces that are trained on beside recorded ones, and never measured on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from memdecay.classifier.llm import LanguageModel
from memdecay.data.extraction import ExtractionConfig, Progress, extract
from memdecay.data.trace import Trace
from memdecay.training.windows import StoreWindows, SupplementWindows

DEFAULT_NUM_TRACES = 30
"""How many generated traces `memdecay train` adds to recorded ones."""


@dataclass(frozen=True, slots=True, eq=False)
class Supplement:
    """Traces and their windows.

    They have a store of their own, so that other recorded traces find it again.

    Attributes:
        traces: The traces.
        windows: Their windows, unlabelled where tools speak.
        store_name: Name of their store.
    """

    traces: tuple[Trace, ...]
    windows: SupplementWindows
    store_name: str

    def __len__(self) -> int:
        """Return the number of windows."""
        return len(self.windows)

    @classmethod
    def extract(
        cls,
        traces: Sequence[Trace],
        llm: LanguageModel,
        layer: int,
        store_dir: Path,
        config: ExtractionConfig | None = None,
        *,
        progress: Progress | None = None,
    ) -> Self | None:
        """Extract the traces' hidden states; None if there are no traces.

        See `memdecay.data.extraction.extract` for the arguments and errors.
        """
        if not traces:
            return None
        store = extract(traces, llm, layer, store_dir, config, progress=progress)
        return cls(tuple(traces), SupplementWindows(StoreWindows(store)), store.folder.name)
