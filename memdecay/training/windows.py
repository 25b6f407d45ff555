"""A store of hidden states as the windows that training reads."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np

from memdecay.classifier.features import POSITION_FEATURE_NAMES
from memdecay.data.store import ExtractedStore
from memdecay.training.chunks import UNLABELLED, Window, WindowSource
from memdecay.training.splits import Split

_OPEN_WINDOWS = 4096
_RESULT_COLUMN = POSITION_FEATURE_NAMES.index("speaker_result")


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


class SupplementWindows:
    """Windows of generated traces that supplement recorded ones; what tools return is unlabelled.

    Generated results are labelled more evenly than recorded ones: which of their lines are decisive
    is not learned from them.

    Args:
        source: The generated traces' windows.
    """

    def __init__(self, source: WindowSource) -> None:
        self._source = source
        self._read = lru_cache(maxsize=_OPEN_WINDOWS)(self._read_window)

    def __len__(self) -> int:
        return len(self._source)

    def num_tokens(self, index: int) -> int:
        """Return the length of a window without reading it."""
        return self._source.num_tokens(index)

    def window(self, index: int) -> Window:
        """Return a window."""
        return self._read(index)

    def _read_window(self, index: int) -> Window:
        window = self._source.window(index)
        is_result = window.position_features[:, _RESULT_COLUMN] > 0
        labels = np.where(is_result, UNLABELLED, window.labels).astype(np.int8)
        return dataclasses.replace(window, labels=labels)


class JoinedWindows:
    """The windows of one source and, behind them, those of another."""

    def __init__(self, first: WindowSource, second: WindowSource) -> None:
        self._first = first
        self._second = second

    def __len__(self) -> int:
        return len(self._first) + len(self._second)

    def num_tokens(self, index: int) -> int:
        """Return the length of a window without reading it."""
        source, place = self._find(index)
        return source.num_tokens(place)

    def window(self, index: int) -> Window:
        """Return a window."""
        source, place = self._find(index)
        return source.window(place)

    def _find(self, index: int) -> tuple[WindowSource, int]:
        if index < len(self._first):
            return self._first, index
        return self._second, index - len(self._first)


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
