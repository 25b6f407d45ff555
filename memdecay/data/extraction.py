"""Run traces through an LLM once and keep one layer's hidden states with their labels."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from memdecay.classifier.fingerprint import llm_fingerprint
from memdecay.classifier.llm import LanguageModel
from memdecay.classifier.storage import storage_errors
from memdecay.data.backbone import hidden_states_in_chunks
from memdecay.data.digests import digest, labelled_digest
from memdecay.data.locking import only_process
from memdecay.data.manifest import (
    MANIFEST_NAME,
    STORE_FORMAT,
    StoreManifest,
    WindowRecord,
)
from memdecay.data.preparation import PreparedTrace, prepare_trace
from memdecay.data.store import (
    ExtractedStore,
    ExtractedWindow,
    load_store,
    shard_path,
    write_shard,
)
from memdecay.data.text_rows import text_rows_path, write_text_rows
from memdecay.data.trace import Trace
from memdecay.data.windows import TokenWindow

Progress = Callable[[int, int], None]
"""Called with the tokens done and the tokens in all, after each forward pass and shard."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ExtractionConfig:
    """How hidden states are extracted.

    Attributes:
        chunk_tokens: Tokens of one forward pass; the result does not depend on it.
        max_window_tokens: The most tokens that see each other; None for the model's context.
        shard_tokens: Tokens after which a shard is closed: what is lost when a run is killed.
    """

    chunk_tokens: int = 512
    max_window_tokens: int | None = None
    shard_tokens: int = 16384

    def __post_init__(self) -> None:
        """Check the ranges.

        Raises:
            ValueError: A count is below 1.
        """
        for name in ("chunk_tokens", "max_window_tokens", "shard_tokens"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} must be 1 or above, got {value}")


def extract(
    traces: Sequence[Trace],
    llm: LanguageModel,
    layer: int,
    out_dir: str | Path,
    config: ExtractionConfig | None = None,
    *,
    progress: Progress | None = None,
) -> ExtractedStore:
    """Extract hidden states into a store below ``out_dir``, or open the one that is there.

    Of several processes that want the same store one extracts, the others wait for it.

    The store's folder is named after the traces, the model, the layer and the settings. A killed
    extraction goes on after its last finished shard; a finished one is opened without any forward
    pass. Traces longer than the context are split (see `split_into_windows`); the store's manifest
    says which.

    Args:
        traces: The traces, labelled or not, at least one.
        llm: The model.
        layer: The decoder layer whose output is kept, 0 for the first.
        out_dir: Where stores are kept.
        config: Settings.
        progress: Called as work goes on.

    Raises:
        ValueError: There are no traces, or the model has no such layer.
        ModelError: The model's layers can't be found, or its tokenizer gives no offsets.
        StorageError: The store could not be written; finished shards stay.
    """
    config = config or ExtractionConfig()
    if not traces:
        raise ValueError("extraction needs at least one trace, got none")
    if not 0 <= layer < llm.num_layers:
        raise ValueError(f"layer must lie in 0 to {llm.num_layers - 1}, got {layer}")
    fingerprint = llm_fingerprint(llm.model)
    folder = Path(out_dir) / _store_name(traces, llm, fingerprint, layer, config)
    if _is_complete(folder):
        logger.info("Hidden states are there already: %s", folder)
        return load_store(folder)
    with only_process(folder):
        _fill(folder, traces, llm, fingerprint, layer, config, progress)
    return load_store(folder)


def _is_complete(folder: Path) -> bool:
    # Text features may be missing: those of another version of memdecay don't count.
    return (folder / MANIFEST_NAME).is_file() and text_rows_path(folder).is_file()


def _fill(
    folder: Path,
    traces: Sequence[Trace],
    llm: LanguageModel,
    fingerprint: str,
    layer: int,
    config: ExtractionConfig,
    progress: Progress | None,
) -> None:
    """Write what the store lacks; nothing if another process has filled it meanwhile."""
    if _is_complete(folder):
        return
    if (folder / MANIFEST_NAME).is_file():
        _write_text(folder, _prepare(traces, llm, config))
        return
    _remove_leftovers(folder)
    prepared = _prepare(traces, llm, config)
    shards = _plan_shards(prepared, config.shard_tokens)
    _write_shards(folder, prepared, shards, llm, layer, config, progress)
    _write_text(folder, prepared)
    _manifest(prepared, shards, llm, fingerprint, layer).write(folder)


def _store_name(
    traces: Sequence[Trace],
    llm: LanguageModel,
    fingerprint: str,
    layer: int,
    config: ExtractionConfig,
) -> str:
    tokenizer = llm.tokenizer
    facts = {
        "format": STORE_FORMAT,
        "traces": labelled_digest(traces),
        "llm": fingerprint,
        "dtype": str(llm.dtype),
        "tokenizer": digest(tokenizer.backend_tokenizer.to_str() if tokenizer.is_fast else None),
        "chat_template": tokenizer.chat_template,
        "layer": layer,
        "window": _window_tokens(llm, config),
        "shard": config.shard_tokens,
    }
    return f"hidden-states-{digest(facts)}"


def _window_tokens(llm: LanguageModel, config: ExtractionConfig) -> int:
    return min(llm.max_context, config.max_window_tokens or llm.max_context)


def _remove_leftovers(folder: Path) -> None:
    with storage_errors(folder):
        for leftover in folder.glob(".*.tmp"):  # Of a killed run.
            leftover.unlink(missing_ok=True)


def _prepare(
    traces: Sequence[Trace], llm: LanguageModel, config: ExtractionConfig
) -> list[PreparedTrace]:
    max_tokens = _window_tokens(llm, config)
    prepared = [prepare_trace(trace, llm.tokenizer, max_tokens) for trace in traces]
    if num_neutral := sum(trace.rendered.is_neutral for trace in prepared):
        logger.info(
            "%d of %d traces were rendered neutrally: the model's chat template takes no such "
            "conversations, or there is none",
            num_neutral,
            len(prepared),
        )
    num_split = sum(trace.report.is_split for trace in prepared)
    if num_split:
        logger.info(
            "%d of %d traces are longer than %d tokens and were split at message boundaries; "
            "%d messages had to be cut",
            num_split,
            len(prepared),
            max_tokens,
            sum(len(trace.report.cut_messages) for trace in prepared),
        )
    return prepared


def _plan_shards(
    prepared: Sequence[PreparedTrace], shard_tokens: int
) -> tuple[tuple[WindowRecord, ...], ...]:
    shards: list[tuple[WindowRecord, ...]] = []
    current: list[WindowRecord] = []
    for index, trace in enumerate(prepared):
        for window in trace.windows:
            current.append(WindowRecord(index, window.start, window.num_tokens))
            if sum(record.num_tokens for record in current) >= shard_tokens:
                shards.append(tuple(current))
                current = []
    return (*shards, tuple(current)) if current else tuple(shards)


def _write_text(folder: Path, prepared: Sequence[PreparedTrace]) -> None:
    write_text_rows(folder, (trace.tokens.text_rows(trace.rendered) for trace in prepared))


def _write_shards(
    folder: Path,
    prepared: Sequence[PreparedTrace],
    shards: Sequence[Sequence[WindowRecord]],
    llm: LanguageModel,
    layer: int,
    config: ExtractionConfig,
    progress: Progress | None,
) -> None:
    total = sum(record.num_tokens for shard in shards for record in shard)
    done = 0

    def advance(num_tokens: int) -> None:
        nonlocal done
        done += num_tokens
        if progress is not None:
            progress(done, total)

    for index, shard in enumerate(shards):
        path = shard_path(folder, index)
        if path.is_file():
            advance(sum(record.num_tokens for record in shard))
            continue
        windows = (
            _extract_window(prepared[record.trace], record, llm, layer, config, advance)
            for record in shard
        )
        write_shard(path, windows)


def _extract_window(
    trace: PreparedTrace,
    record: WindowRecord,
    llm: LanguageModel,
    layer: int,
    config: ExtractionConfig,
    advance: Callable[[int], None],
) -> ExtractedWindow:
    window = TokenWindow(record.start, record.start + record.num_tokens)
    input_ids = trace.tokens.input_ids[window.start : window.end]
    hidden_states = np.empty((input_ids.size, llm.hidden_size), np.float16)
    done = 0
    # Closed at once if `advance` raises: the model must get its layers back.
    with closing(hidden_states_in_chunks(llm, input_ids, layer, config.chunk_tokens)) as chunks:
        for chunk in chunks:
            hidden_states[done : done + len(chunk)] = chunk
            done += len(chunk)
            advance(len(chunk))
    return trace.window(window, hidden_states)


def _manifest(
    prepared: Sequence[PreparedTrace],
    shards: tuple[tuple[WindowRecord, ...], ...],
    llm: LanguageModel,
    fingerprint: str,
    layer: int,
) -> StoreManifest:
    return StoreManifest(
        llm_name=llm.name,
        llm_fingerprint=fingerprint,
        layer=layer,
        hidden_size=llm.hidden_size,
        traces=tuple(trace.record for trace in prepared),
        shards=shards,
    )
