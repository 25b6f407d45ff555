"""What a store of hidden states holds: a small JSON file beside the shards, written last."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from memdecay.classifier.errors import TraceError
from memdecay.classifier.storage import write_text_atomically

STORE_FORMAT = 1
MANIFEST_NAME = "manifest.json"


@dataclass(frozen=True, slots=True)
class TraceRecord:
    """One trace of a store.

    Attributes:
        id: The trace's id.
        source: Where it comes from.
        task_id: The key by which traces are split.
        digest: Digest of its messages; see `memdecay.data.digests.trace_digest`.
        num_tokens: Its tokens.
        num_windows: Windows it was split into.
        cut_messages: Messages longer than a window, cut into pieces.
        is_neutral: Whether the chat template refused it.
    """

    id: str
    source: str
    task_id: str
    digest: str
    num_tokens: int
    num_windows: int
    cut_messages: tuple[int, ...]
    is_neutral: bool


@dataclass(frozen=True, slots=True)
class WindowRecord:
    """One window of a store: where it lies in its trace."""

    trace: int
    start: int
    num_tokens: int


@dataclass(frozen=True, slots=True)
class StoreManifest:
    """What a store holds.

    Attributes:
        llm_name: Name of the LLM that made the hidden states.
        llm_fingerprint: Its fingerprint.
        layer: The layer they are the output of.
        hidden_size: Their width.
        traces: The traces, in the order given.
        shards: The windows of each shard, in the order of its rows.
    """

    llm_name: str
    llm_fingerprint: str
    layer: int
    hidden_size: int
    traces: tuple[TraceRecord, ...]
    shards: tuple[tuple[WindowRecord, ...], ...]

    @property
    def windows(self) -> Iterator[WindowRecord]:
        """All windows in order."""
        return (window for shard in self.shards for window in shard)

    @property
    def num_tokens(self) -> int:
        """Tokens of all windows."""
        return sum(window.num_tokens for window in self.windows)

    @property
    def num_split_traces(self) -> int:
        """Traces that did not fit into one window."""
        return sum(trace.num_windows > 1 for trace in self.traces)

    @property
    def num_cut_messages(self) -> int:
        """Messages that were longer than a window."""
        return sum(len(trace.cut_messages) for trace in self.traces)

    @property
    def num_neutral_traces(self) -> int:
        """Traces that the chat template refused."""
        return sum(trace.is_neutral for trace in self.traces)

    def write(self, folder: Path) -> None:
        """Write the manifest into a store's folder, which is complete from then on.

        Raises:
            StorageError: It could not be written.
        """
        data = {"format": STORE_FORMAT} | asdict(self)
        write_text_atomically(folder / MANIFEST_NAME, json.dumps(data) + "\n")

    @classmethod
    def read(cls, folder: Path) -> StoreManifest:
        """Read the manifest of a complete store.

        Raises:
            TraceError: The folder holds no complete store, or one of another format.
        """
        path = folder / MANIFEST_NAME
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
            if data.pop("format") != STORE_FORMAT:
                raise TraceError(f"{path} is of another format; extract the hidden states again")
            return _manifest(data)
        except FileNotFoundError as error:
            raise TraceError(
                f"{folder} holds no complete store of hidden states (no {MANIFEST_NAME}); "
                "run the extraction again, it goes on where it stopped"
            ) from error
        except (OSError, AttributeError, KeyError, TypeError, ValueError) as error:
            raise TraceError(
                f"{path} is damaged ({error}); delete it and extract the hidden states again"
            ) from error


def _manifest(data: dict[str, Any]) -> StoreManifest:
    traces = (
        TraceRecord(**(trace | {"cut_messages": tuple(trace["cut_messages"])}))
        for trace in data.pop("traces")
    )
    shards = (tuple(WindowRecord(**window) for window in shard) for shard in data.pop("shards"))
    return StoreManifest(traces=tuple(traces), shards=tuple(shards), **data)
