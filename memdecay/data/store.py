"""Hidden states on disk: Arrow shards with a row for each window, read through a memory map."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from datasets import Dataset, Features, LargeList, List, Value
from datasets.arrow_writer import ArrowWriter
from numpy.typing import NDArray

from memdecay.classifier.errors import TraceError
from memdecay.classifier.features import FeatureLayout, position_features
from memdecay.classifier.storage import write_atomically
from memdecay.data.manifest import StoreManifest, TraceRecord, WindowRecord
from memdecay.data.text_rows import TextRows, load_text_rows

FEATURES = Features(
    {
        "hidden_states": LargeList(Value("float16")),
        "input_ids": List(Value("int32")),
        "labels": List(Value("int8")),
        "message_index": List(Value("int32")),
        "position": List(Value("int32")),
        "position_in_message": List(Value("int32")),
        "role": List(Value("int8")),
    }
)
"""Columns of a shard; ``hidden_states`` holds ``num_tokens * hidden_size`` values row by row."""


@dataclass(frozen=True, slots=True)
class ExtractedWindow:
    """The tokens of one window; arrays read from a store are read-only.

    Attributes:
        hidden_states: ``(n, hidden_size)``, float16.
        input_ids: ``(n,)``, int32.
        labels: ``(n,)``, int8; the region's index, -1 where unlabelled.
        message_index: ``(n,)``, int32; the message in the trace, -1 before the first.
        position: ``(n,)``, int32; tokens before this one in the trace (not in the window).
        position_in_message: ``(n,)``, int32.
        role: ``(n,)``, int8; see `memdecay.classifier.features.role_code`.
        text: ``(n, NUM_TEXT_FEATURES)``, float16; see `memdecay.classifier.text`. It stands in a
            file of its own, not in the shards.
    """

    hidden_states: NDArray[np.float16]
    input_ids: NDArray[np.int32]
    labels: NDArray[np.int8]
    message_index: NDArray[np.int32]
    position: NDArray[np.int32]
    position_in_message: NDArray[np.int32]
    role: NDArray[np.int8]
    text: NDArray[np.float16] | None = None

    @property
    def num_tokens(self) -> int:
        """Number of tokens."""
        return int(self.labels.size)

    @property
    def position_features(self) -> NDArray[np.float32]:
        """Position features, ``(n, NUM_POSITION_FEATURES)`` float32."""
        return position_features(
            self.position,
            self.position_in_message,
            self.message_index,
            self.role,
            self.text,
        )


class ExtractedStore:
    """A complete store of hidden states, a sequence of windows; open it with `load_store`."""

    def __init__(self, folder: Path, manifest: StoreManifest) -> None:
        self.folder = folder
        self.manifest = manifest
        self._windows = tuple(manifest.windows)
        self._first_rows = (0, *accumulate(len(shard) for shard in manifest.shards))
        self._first_tokens = (0, *accumulate(window.num_tokens for window in self._windows))

    def __len__(self) -> int:
        """Return the number of windows."""
        return len(self._windows)

    @property
    def total_tokens(self) -> int:
        """Tokens of all windows."""
        return self.manifest.num_tokens

    @property
    def feature_layout(self) -> FeatureLayout:
        """What a classifier trained on this store reads."""
        return FeatureLayout(self.manifest.layer, self.manifest.hidden_size)

    def num_tokens(self, index: int) -> int:
        """Return the length of a window without reading it."""
        return self._windows[index].num_tokens

    def record(self, index: int) -> WindowRecord:
        """Return where a window lies in its trace."""
        return self._windows[index]

    def trace(self, index: int) -> TraceRecord:
        """Return the trace that a window belongs to."""
        return self.manifest.traces[self._windows[index].trace]

    def window(self, index: int) -> ExtractedWindow:
        """Return a window; its arrays are views into the memory-mapped file.

        Raises:
            IndexError: There is no such window.
            TraceError: The text features are missing or damaged.
        """
        if not 0 <= index < len(self):
            raise IndexError(f"window must lie in 0 to {len(self) - 1}, got {index}")
        shard = int(np.searchsorted(self._first_rows, index, side="right")) - 1
        row = index - self._first_rows[shard]
        table = self._shards[shard].data
        columns = {name: _values(table.column(name)[row]) for name in FEATURES}
        hidden_states = columns.pop("hidden_states").reshape(-1, self.manifest.hidden_size)
        text = self._text.tokens(self._first_tokens[index], self._first_tokens[index + 1])
        return ExtractedWindow(hidden_states=hidden_states, text=text, **columns)

    @cached_property
    def _text(self) -> TextRows:
        return load_text_rows(self.folder, self.total_tokens)

    @cached_property
    def _shards(self) -> list[Any]:
        paths = [shard_path(self.folder, index) for index in range(len(self.manifest.shards))]
        return [_open_shard(path) for path in paths]


def load_store(folder: str | Path) -> ExtractedStore:
    """Open the store of hidden states in a folder.

    Raises:
        TraceError: The folder holds no complete store.
    """
    folder = Path(folder)
    manifest = StoreManifest.read(folder)
    for index in range(len(manifest.shards)):
        path = shard_path(folder, index)
        if not path.is_file():
            raise TraceError(f"{path} is missing; delete {folder} and extract again")
    return ExtractedStore(folder, manifest)


def shard_path(folder: Path, index: int) -> Path:
    """Return the path of a shard."""
    return folder / f"shard-{index:05d}.arrow"


def write_shard(path: Path, windows: Iterable[ExtractedWindow]) -> None:
    """Write a shard whole or not at all, holding one window in memory at a time.

    Raises:
        StorageError: It could not be written.
    """

    def write(temporary: Path) -> None:
        with ArrowWriter(features=FEATURES, path=str(temporary)) as writer:
            for window in windows:
                writer.write_table(_row(window))
            writer.finalize()

    write_atomically(path, write)


def _row(window: ExtractedWindow) -> pa.Table:
    schema = FEATURES.arrow_schema
    columns = {
        name: _list_array(getattr(window, name), schema.field(name).type) for name in FEATURES
    }
    return pa.table(columns, schema=schema)


def _list_array(array: NDArray[Any], list_type: pa.DataType) -> pa.Array:
    values = pa.array(array.reshape(-1), list_type.value_type)
    make = pa.LargeListArray if pa.types.is_large_list(list_type) else pa.ListArray
    return make.from_arrays([0, len(values)], values)


def _values(row: pa.Scalar) -> NDArray[Any]:
    array: NDArray[Any] = row.values.to_numpy(zero_copy_only=True)
    return array


def _open_shard(path: Path) -> Any:
    try:
        return Dataset.from_file(str(path))
    except (OSError, ValueError) as error:
        raise TraceError(
            f"{path} is damaged ({error}); delete {path.parent} and extract again"
        ) from error
