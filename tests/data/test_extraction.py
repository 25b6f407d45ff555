from __future__ import annotations

import dataclasses
import logging
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from memdecay.classifier import storage
from memdecay.classifier.errors import StorageError
from memdecay.classifier.fingerprint import llm_fingerprint
from memdecay.classifier.regions import Region
from memdecay.data import extraction
from memdecay.data.digests import trace_digest
from memdecay.data.extraction import ExtractionConfig, extract
from memdecay.data.locking import LOCK_NAME, only_process
from memdecay.data.preparation import prepare_trace
from memdecay.data.store import ExtractedStore, ExtractedWindow, write_shard
from memdecay.data.trace import Message, Span, Trace
from tests.tiny import STRICT, tiny_language_model

LLM = tiny_language_model()
LAYER = 1
CONFIG = ExtractionConfig(chunk_tokens=32, max_window_tokens=128, shard_tokens=150)


def make_trace(name: str, num_turns: int) -> Trace:
    messages = [Message("system", f"You are {name}.")]
    for turn in range(num_turns):
        messages += [
            Message("user", f"Question {turn} of {name}: what is the weather?"),
            Message("assistant", f"Answer {turn}.", ({"function": {"name": "look"}},)),
        ]
    return Trace(
        id=name,
        messages=tuple(messages),
        source="made",
        spans=(
            Span(0, 0, len(messages[0].content), Region.SYSTEM_INSTRUCTION),
            Span(1, 0, 8, Region.RECENT_DIALOGUE),
        ),
        extra=(("task_id", f"task of {name}"),),
    )


TRACES = (make_trace("a", 1), make_trace("b", 6), make_trace("c", 2))


def windows_of(store: ExtractedStore) -> list[ExtractedWindow]:
    return [store.window(index) for index in range(len(store))]


def assert_equal_windows(left: ExtractedStore, right: ExtractedStore, atol: float = 0) -> None:
    assert len(left) == len(right)
    for a, b in zip(windows_of(left), windows_of(right), strict=True):
        for field in dataclasses.fields(ExtractedWindow):
            np.testing.assert_allclose(
                getattr(a, field.name), getattr(b, field.name), atol=atol, err_msg=field.name
            )


def forbid_forward(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_args: object, **_kwargs: object) -> Any:
        raise AssertionError("the model was run")

    monkeypatch.setattr(extraction, "hidden_states_in_chunks", fail)


def test_windows_hold_the_tokens_with_their_states_and_labels(tmp_path: Path) -> None:
    store = extract(TRACES, LLM, LAYER, tmp_path, CONFIG)
    row = 0
    for number, trace in enumerate(TRACES):
        prepared = prepare_trace(trace, LLM.tokenizer, 128)
        for window in prepared.windows:
            rows = slice(window.start, window.end)
            stored = store.window(row)
            input_ids = prepared.tokens.input_ids[rows]
            reference = LLM.model(torch.from_numpy(input_ids)[None], output_hidden_states=True)
            np.testing.assert_allclose(
                stored.hidden_states, reference.hidden_states[LAYER + 1][0].numpy(), atol=1e-3
            )
            np.testing.assert_array_equal(stored.input_ids, input_ids)
            np.testing.assert_array_equal(stored.labels, prepared.labels[rows])
            np.testing.assert_array_equal(stored.position, np.arange(rows.start, rows.stop))
            np.testing.assert_array_equal(
                stored.position_features, prepared.tokens.position_features()[rows]
            )
            assert store.num_tokens(row) == stored.num_tokens == window.num_tokens
            assert store.record(row).start == window.start
            assert store.trace(row).id == TRACES[number].id
            row += 1
    assert row == len(store)
    assert store.total_tokens == sum(store.num_tokens(index) for index in range(row))


def test_manifest_tells_what_became_of_the_traces(tmp_path: Path) -> None:
    long_message = Trace("long", (Message("user", "word " * 200),))
    manifest = extract([TRACES[0], long_message], LLM, LAYER, tmp_path, CONFIG).manifest
    assert (manifest.llm_name, manifest.layer, manifest.hidden_size) == ("tiny", LAYER, 32)
    assert manifest.llm_fingerprint == llm_fingerprint(LLM.model)
    first, second = manifest.traces
    assert (first.source, first.task_id, first.num_windows) == ("made", "task of a", 1)
    assert first.digest == trace_digest(TRACES[0])
    assert second.cut_messages == (0,)
    assert (manifest.num_split_traces, manifest.num_cut_messages) == (1, 1)
    assert manifest.num_tokens == first.num_tokens + second.num_tokens


def test_refusing_template_is_counted(tmp_path: Path) -> None:
    llm = tiny_language_model(STRICT)
    assert extract(TRACES, llm, LAYER, tmp_path).manifest.num_neutral_traces == len(TRACES)


def test_chunks_do_not_change_the_states(tmp_path: Path) -> None:
    whole = dataclasses.replace(CONFIG, chunk_tokens=4096)
    assert_equal_windows(
        extract(TRACES, LLM, LAYER, tmp_path / "chunks", CONFIG),
        extract(TRACES, LLM, LAYER, tmp_path / "whole", whole),
        atol=1e-3,
    )


class KilledError(Exception):
    """Stands for a kill."""


@pytest.mark.parametrize("after_tokens", [1, 200, 300])
def test_killed_run_goes_on_where_it_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after_tokens: int
) -> None:
    def kill(done: int, _total: int) -> None:
        if done >= after_tokens:
            raise KilledError

    layers = LLM.model.model.layers
    with pytest.raises(KilledError):
        extract(TRACES, LLM, LAYER, tmp_path / "killed", CONFIG, progress=kill)
    assert LLM.model.model.layers is layers
    assert not list((tmp_path / "killed").rglob("*.tmp"))
    finished = {path.name for path in (tmp_path / "killed").rglob("*.arrow")}

    written = []
    real = extraction.write_shard

    def note_and_write(path: Path, windows: Any) -> None:
        written.append(path.name)
        real(path, windows)

    monkeypatch.setattr(extraction, "write_shard", note_and_write)
    resumed = extract(TRACES, LLM, LAYER, tmp_path / "killed", CONFIG)
    assert finished.isdisjoint(written)
    assert len(finished) + len(written) == len(resumed.manifest.shards) > 2
    assert_equal_windows(resumed, extract(TRACES, LLM, LAYER, tmp_path / "calm", CONFIG))


def test_finished_extraction_runs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = extract(TRACES, LLM, LAYER, tmp_path, CONFIG)
    forbid_forward(monkeypatch)
    again = extract(TRACES, LLM, LAYER, tmp_path, dataclasses.replace(CONFIG, chunk_tokens=64))
    assert again.folder == first.folder
    assert_equal_windows(first, again)


def test_everything_that_matters_changes_the_folder(tmp_path: Path) -> None:
    relabelled = dataclasses.replace(TRACES[0], spans=TRACES[0].spans[:1])
    other_template = dataclasses.replace(LLM, tokenizer=tiny_language_model(STRICT).tokenizer)
    stores = [
        extract(TRACES[:1], LLM, LAYER, tmp_path, CONFIG),
        extract([relabelled], LLM, LAYER, tmp_path, CONFIG),
        extract(TRACES[:2], LLM, LAYER, tmp_path, CONFIG),
        extract(TRACES[:1], LLM, LAYER + 1, tmp_path, CONFIG),
        extract(TRACES[:1], LLM, LAYER, tmp_path),
        extract(TRACES[:1], other_template, LAYER, tmp_path, CONFIG),
        extract(TRACES[:1], tiny_language_model(seed=1), LAYER, tmp_path, CONFIG),
    ]
    assert len({store.folder for store in stores}) == len(stores)


def test_progress_reaches_the_total(tmp_path: Path) -> None:
    calls: list[tuple[int, int]] = []
    store = extract(TRACES, LLM, LAYER, tmp_path, CONFIG, progress=lambda *call: calls.append(call))
    assert {total for _, total in calls} == {store.total_tokens}
    assert [done for done, _ in calls] == sorted({done for done, _ in calls})
    assert calls[-1][0] == store.total_tokens


def test_full_disk_leaves_finished_shards_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = []
    real = os.fsync

    def refuse_the_second(handle: int) -> None:
        synced.append(handle)
        if len(synced) > 1:
            raise OSError(28, os.strerror(28))
        real(handle)

    monkeypatch.setattr(storage.os, "fsync", refuse_the_second)
    with pytest.raises(StorageError, match="No space left"):
        extract(TRACES, LLM, LAYER, tmp_path, CONFIG)
    files = {path.name for path in tmp_path.rglob("*") if path.is_file()}
    assert files - {LOCK_NAME} == {"shard-00000.arrow"}


def test_leftovers_of_a_killed_process_go(tmp_path: Path) -> None:
    folder = extract(TRACES, LLM, LAYER, tmp_path, CONFIG).folder
    (folder / "manifest.json").unlink()
    leftover = folder / ".shard-00000.arrow.abc.tmp"
    leftover.write_bytes(b"half")
    extract(TRACES, LLM, LAYER, tmp_path, CONFIG)
    assert not leftover.exists()


def test_one_of_two_at_once_extracts_and_the_other_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[Path] = []
    both_started = threading.Barrier(2)

    def write_slowly(path: Path, windows: Any) -> None:
        written.append(path)
        time.sleep(0.05)
        write_shard(path, windows)

    def run(_: int) -> ExtractedStore:
        both_started.wait()
        return extract(TRACES, LLM, LAYER, tmp_path, CONFIG)

    monkeypatch.setattr(extraction, "write_shard", write_slowly)
    with ThreadPoolExecutor(2) as pool:
        left, right = pool.map(run, range(2))
    assert len(written) == len(set(written)) == len(left.manifest.shards)
    assert_equal_windows(left, right)


def test_waiting_for_another_process_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "memdecay")
    folder = extract(TRACES, LLM, LAYER, tmp_path, CONFIG).folder
    (folder / "manifest.json").unlink()
    with ThreadPoolExecutor(1) as pool:
        with only_process(folder):
            waiting = pool.submit(extract, TRACES, LLM, LAYER, tmp_path, CONFIG)
            while "waiting for it" not in caplog.text:
                time.sleep(0.01)
            assert not waiting.done()
        assert len(waiting.result()) > 2


def test_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="could not be written"), only_process(tmp_path / "file"):
        pass


def test_traces_that_the_template_refuses_are_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "memdecay")
    extract(TRACES[:2], LLM, LAYER, tmp_path, CONFIG)
    assert "neutrally" not in caplog.text
    extract(TRACES[:2], tiny_language_model(STRICT), LAYER, tmp_path, CONFIG)
    assert "2 of 2 traces were rendered neutrally" in caplog.text


def test_no_traces_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="at least one trace"):
        extract([], LLM, LAYER, tmp_path)


@pytest.mark.parametrize("layer", [-1, 4])
def test_absent_layer_is_refused_before_any_work(tmp_path: Path, layer: int) -> None:
    with pytest.raises(ValueError, match="layer must lie in 0 to 3"):
        extract(TRACES, LLM, layer, tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("field", ["chunk_tokens", "max_window_tokens", "shard_tokens"])
def test_counts_below_one_are_refused(field: str) -> None:
    with pytest.raises(ValueError, match=f"{field} must be 1 or above"):
        ExtractionConfig(**{field: 0})
