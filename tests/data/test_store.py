from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
from datasets import load_dataset

from memdecay.classifier.errors import TraceError
from memdecay.classifier.features import FeatureLayout
from memdecay.classifier.text import ConversationText, read_text
from memdecay.data.manifest import StoreManifest, TraceRecord, WindowRecord
from memdecay.data.store import ExtractedStore, ExtractedWindow, load_store, shard_path, write_shard
from memdecay.data.text_rows import text_rows_path, write_text_rows

HIDDEN_SIZE = 4
TEXT = read_text([{"role": "user", "content": "What time is it?\nAnd where?"}])


def make_window(num_tokens: int, seed: int) -> ExtractedWindow:
    rng = np.random.default_rng(seed)

    def integers(high: int, dtype: type) -> np.ndarray:
        return rng.integers(0, high, num_tokens).astype(dtype)

    return ExtractedWindow(
        text=TEXT.rows[integers(len(TEXT.rows), np.int32)].astype(np.float16),
        hidden_states=rng.standard_normal((num_tokens, HIDDEN_SIZE)).astype(np.float16),
        input_ids=integers(1000, np.int32),
        labels=integers(5, np.int8) - np.int8(1),
        message_index=integers(9, np.int32),
        position=integers(99, np.int32),
        position_in_message=integers(9, np.int32),
        role=integers(5, np.int8),
    )


SHARDS = ((make_window(3, 0), make_window(7, 1)), (make_window(1, 2),), (make_window(5, 3),))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for index, shard in enumerate(SHARDS):
        write_shard(shard_path(tmp_path, index), iter(shard))
    StoreManifest(
        llm_name="tiny",
        llm_fingerprint="abc",
        layer=2,
        hidden_size=HIDDEN_SIZE,
        traces=(TraceRecord("t", "s", "k", "d", 16, 4, (1,), False),),
        shards=tuple(
            tuple(WindowRecord(0, 0, window.num_tokens) for window in shard) for shard in SHARDS
        ),
    ).write(tmp_path)
    write_text_rows(tmp_path, (_text_of(window) for shard in SHARDS for window in shard))
    return tmp_path


def _text_of(window: ExtractedWindow) -> tuple[ConversationText, np.ndarray]:
    rows = [int((TEXT.rows == row).all(axis=1).argmax()) for row in window.text]
    return TEXT, np.array(rows, np.int32)


def check(store: ExtractedStore) -> None:
    for index, window in enumerate(window for shard in SHARDS for window in shard):
        stored = store.window(index)
        for name in (
            "hidden_states",
            "input_ids",
            "labels",
            "message_index",
            "position",
            "position_in_message",
            "role",
            "text",
        ):
            expected = getattr(window, name)
            np.testing.assert_array_equal(getattr(stored, name), expected)
            assert getattr(stored, name).dtype == expected.dtype


def test_windows_come_back_as_written(folder: Path) -> None:
    store = load_store(folder)
    assert (len(store), store.total_tokens) == (4, 16)
    assert [store.num_tokens(index) for index in range(4)] == [3, 7, 1, 5]
    assert store.feature_layout == FeatureLayout(layer=2, hidden_size=HIDDEN_SIZE)
    assert store.trace(3).cut_messages == (1,)
    check(store)


def test_arrays_are_views_of_the_file(folder: Path) -> None:
    assert not load_store(folder).window(1).hidden_states.flags.owndata


def test_store_can_go_to_a_loaders_worker(folder: Path) -> None:
    store = load_store(folder)
    store.window(0)
    check(pickle.loads(pickle.dumps(store)))


def test_shards_are_plain_arrow_files(folder: Path, tmp_path: Path) -> None:
    dataset = load_dataset(
        "arrow",
        data_files=[str(shard_path(folder, index)) for index in range(len(SHARDS))],
        split="train",
        cache_dir=str(tmp_path / "cache"),
    )
    assert [len(row["labels"]) for row in dataset] == [3, 7, 1, 5]


@pytest.mark.parametrize("index", [-1, 4])
def test_absent_window_is_refused(folder: Path, index: int) -> None:
    with pytest.raises(IndexError, match="window must lie in 0 to 3"):
        load_store(folder).window(index)


def test_folder_without_a_manifest_is_no_store(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="no complete store"):
        load_store(tmp_path)


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"format": 1}', '{"format": 1, "traces": 3}'])
def test_damaged_manifest_is_named(folder: Path, text: str) -> None:
    (folder / "manifest.json").write_text(text)
    with pytest.raises(TraceError, match=r"manifest.json is damaged"):
        load_store(folder)


def test_other_format_is_refused(folder: Path) -> None:
    (folder / "manifest.json").write_text('{"format": 99}')
    with pytest.raises(TraceError, match="another format"):
        load_store(folder)


def test_missing_shard_is_named(folder: Path) -> None:
    shard_path(folder, 1).unlink()
    with pytest.raises(TraceError, match=r"shard-00001.arrow is missing"):
        load_store(folder)


def test_damaged_shard_is_named(folder: Path) -> None:
    shard_path(folder, 1).write_bytes(b"no arrow")
    with pytest.raises(TraceError, match=r"shard-00001.arrow is damaged"):
        load_store(folder).window(0)


def test_missing_text_features_are_found(folder: Path) -> None:
    text_rows_path(folder).unlink()
    with pytest.raises(TraceError, match="missing"):
        load_store(folder).window(0)


@pytest.mark.parametrize("content", [b"", b"not an archive"])
def test_damaged_text_features_are_found(folder: Path, content: bytes) -> None:
    text_rows_path(folder).write_bytes(content)
    with pytest.raises(TraceError, match="damaged"):
        load_store(folder).window(0)


def test_text_features_of_another_store_are_refused(folder: Path) -> None:
    write_text_rows(folder, [(TEXT, np.zeros(3, np.int32))])
    with pytest.raises(TraceError, match="does not fit"):
        load_store(folder).window(0)
