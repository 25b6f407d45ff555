"""A store of hidden states as the windows that training reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from memdecay.data.store import ExtractedStore
from memdecay.training.chunks import Window
from memdecay.training.splits import Split

_OPEN_WINDOWS = 4096


class StoreWindows:
    """Windows of an extracted store.

    Hidden states stay in the memory-mapped file. The position features and labels of windows read
    lately are kept: chunks are drawn one by one, and a window's would be computed anew for each.

    Args:
        store: The store.
    """

    def __init__(self, store: ExtractedStore) -> None:
        self._store = store
        self._read = lru_cache(maxsize=_OPEN_WINDOWS)(self._read_window)

    def __len__(self) -> int:
        return len(self._store)

    def num_tokens(self, index: int) -> int:
        """Return the length of a window without reading it."""
        return self._store.num_tokens(index)

    def window(self, index: int) -> Window:
        """Return a window."""
        return self._read(index)

    def _read_window(self, index: int) -> Window:
        extracted = self._store.window(index)
        return Window(extracted.hidden_states, extracted.position_features, extracted.labels)


def windows_by_part(store: ExtractedStore, split: Split) -> Mapping[str, Sequence[int]]:
    """Return the window indices of each part of a split of traces."""
    part_of = {
        index: part
        for part, indices in (
            ("train", split.train),
            ("validation", split.validation),
            ("test", split.test),
        )
        for index in indices
    }
    parts: dict[str, list[int]] = {"train": [], "validation": [], "test": []}
    for window in range(len(store)):
        parts[part_of[store.record(window).trace]].append(window)
    return parts
