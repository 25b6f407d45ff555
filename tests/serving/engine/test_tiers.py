"""Sessions that move to CPU memory and to disk come back as they were."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from memdecay.classifier.errors import StorageError
from memdecay.classifier.llm import LanguageModel
from memdecay.classifier.storage import storage_errors
from memdecay.runtime.config import CacheConfig
from memdecay.runtime.tagger import RegionTagger
from memdecay.serving.engine.model.state import load_memory, save_memory
from memdecay.serving.engine.sessions.disk import SessionFolder
from memdecay.serving.engine.sessions.look import forgotten_spans
from tests.serving.engine.rig import Clock, Rig, Run, cache_config, long_conversation, rig, user

CPU = torch.device("cpu")
ANN, BEN = long_conversation("Ann", 6), long_conversation("Ben", 4)
CACHES = [
    cache_config(policy="full"),
    cache_config(policy="region"),
    cache_config(policy="memdecay"),
]


def go_on(engine: Rig, messages: Any, first: Run, **options: Any) -> Run:
    answer = {"role": "assistant", "content": first.finished.text}
    more = (*messages, answer, user("And then?"))
    return engine.ask(
        more, **({"session_id": first.started.session_id, "max_tokens": 30} | options)
    )


def undisturbed(
    llm: LanguageModel, tagger: RegionTagger | None, cache: CacheConfig
) -> tuple[Run, Run, list[torch.Tensor]]:
    with rig(llm, tagger, cache=cache) as engine:
        first = engine.ask(ANN, session_id="s", max_tokens=20)
        second = go_on(engine, ANN, first, request_id="second")
        return first, second, engine.logits["second"]


def assert_same(engine: Rig, second: Run, expected: tuple[Run, Run, list[torch.Tensor]]) -> None:
    lone = expected[1].finished
    assert second.finished.token_ids == lone.token_ids
    # A cache that never evicts grows in other steps when it is put back.
    assert replace(second.finished.memory, kv_bytes=0) == replace(lone.memory, kv_bytes=0)
    assert second.finished.usage == lone.usage
    # Bit by bit.
    assert torch.equal(torch.stack(engine.logits["second"]), torch.stack(expected[2]))


@pytest.mark.parametrize("cache", CACHES, ids=lambda cache: cache.policy)
@pytest.mark.parametrize("tier", ["cpu", "disk"])
def test_a_session_that_was_moved_goes_on_exactly(
    llm: LanguageModel, tagger: RegionTagger, tmp_path: Path, cache: CacheConfig, tier: str
) -> None:
    expected = undisturbed(llm, tagger, cache)
    place = {"cpu_memory_bytes": 10**9} if tier == "cpu" else {"disk_folder": tmp_path / "kv"}
    with rig(llm, tagger, cache=cache, max_sessions=1, **place) as engine:
        first = engine.ask(ANN, session_id="s", max_tokens=20)
        engine.ask(BEN, session_id="other")
        session = engine.session(first)
        assert session.tier == tier
        assert session.reserved_bytes == 0
        assert engine.core.parts.tiers.use()[tier].used_bytes == session.saved_bytes > 0
        second = go_on(engine, ANN, first, request_id="second")
        assert second.started.restored_from == tier
        assert second.started.notes == ()
        assert_same(engine, second, expected)
        assert session.tier == "device"
        assert engine.core.parts.tiers.num_restored == {tier: 1}


@pytest.mark.parametrize("is_named", [True, False])
def test_sessions_outlive_the_engine(
    llm: LanguageModel, tagger: RegionTagger, tmp_path: Path, is_named: bool
) -> None:
    cache, folder = cache_config(), tmp_path / "kv"
    expected = undisturbed(llm, tagger, cache)
    with rig(llm, tagger, cache=cache, disk_folder=folder) as engine:
        first = engine.ask(ANN, session_id="s" if is_named else None, max_tokens=20)
        engine.core.close()
    assert folder.stat().st_mode & 0o77 == 0
    with rig(llm, tagger, cache=cache, disk_folder=folder) as engine:
        session = engine.session(first)
        assert (session.tier, session.num_turns) == ("disk", 1)
        options = {} if is_named else {"session_id": None}
        second = go_on(engine, ANN, first, request_id="second", **options)
        assert second.started.session_id == first.started.session_id
        assert second.finished.token_ids == expected[1].finished.token_ids
        assert torch.equal(torch.stack(engine.logits["second"]), torch.stack(expected[2]))


def test_files_of_another_setting_are_not_used(llm: LanguageModel, tmp_path: Path) -> None:
    with rig(llm, disk_folder=tmp_path) as engine:
        engine.ask(ANN, session_id="s")
        engine.core.close()
    assert list(tmp_path.iterdir())
    with rig(llm, cache=cache_config(128), disk_folder=tmp_path) as engine:
        assert len(engine.core.parts.store) == 0
    assert not list(tmp_path.iterdir())


def damage_data(folder: Path) -> None:
    (path,) = folder.glob("*.safetensors")
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def cut_data(folder: Path) -> None:
    (path,) = folder.glob("*.safetensors")
    path.write_bytes(path.read_bytes()[:100])


def remove_data(folder: Path) -> None:
    (path,) = folder.glob("*.safetensors")
    path.unlink()


@pytest.mark.parametrize("damage", [damage_data, cut_data, remove_data])
def test_a_session_whose_file_is_damaged_is_read_again_and_says_so(
    llm: LanguageModel, tmp_path: Path, damage: Any
) -> None:
    with rig(llm, max_sessions=1, disk_folder=tmp_path) as engine:
        first = engine.ask(ANN, session_id="s")
        engine.ask(BEN, session_id="other")
        damage(tmp_path)
        second = go_on(engine, ANN, first)
        assert second.started.num_cached_tokens == 0
        assert "its file on disk was damaged" in second.started.notes[0]
        assert second.finished.memory.notes == second.started.notes
        assert engine.core.counters.recomputed == 1
        fresh = go_on(engine, ANN, first, session_id="fresh")
        assert second.finished.token_ids == fresh.finished.token_ids


@pytest.mark.parametrize("damage", ["cut", "edited", "not JSON", "other keys"])
def test_a_damaged_record_costs_only_its_session(
    llm: LanguageModel, tmp_path: Path, damage: str
) -> None:
    with rig(llm, disk_folder=tmp_path) as engine:
        first = engine.ask(ANN, session_id="s")
        engine.ask(BEN, session_id="other", tenant="ben")
        engine.core.close()
    session_text = json.dumps({"session_id": "s"})[1:-1].replace('"', '\\"')
    (path,) = (path for path in tmp_path.glob("*.json") if session_text in path.read_text())
    text = path.read_text()
    path.write_text(
        {
            "cut": text[: len(text) // 2],
            "edited": text.replace("Ann", "Eve"),
            "not JSON": "\x00\xff",
            "other keys": "{}",
        }[damage]
    )
    with rig(llm, disk_folder=tmp_path) as engine:
        assert [session.session_id for session in engine.core.parts.store] == ["other"]
        assert len(list(tmp_path.iterdir())) == 2
        assert go_on(engine, ANN, first).started.num_cached_tokens == 0


def test_what_a_crash_left_is_cleaned_up(llm: LanguageModel, tmp_path: Path) -> None:
    with rig(llm, disk_folder=tmp_path) as engine:
        engine.ask(ANN, session_id="s")
        engine.core.close()
    name = "a" * 32
    left = [tmp_path / f"{name}.{name}.safetensors"]
    left += [tmp_path / f".{there}.ab_cd123.tmp" for there in (f"{name}.json", left[0].name)]
    for path in left:
        path.write_text("half")
    with rig(llm, disk_folder=tmp_path) as engine:
        assert len(engine.core.parts.store) == 1
    assert not any(path.exists() for path in left)


def test_files_of_others_in_the_folder_are_left_alone(llm: LanguageModel, tmp_path: Path) -> None:
    """A model's folder, for example, which somebody names by mistake."""
    names = ("config.json", "model.safetensors", "model-1.safetensors", "x.tmp", "notes.txt")
    for name in names:
        (tmp_path / name).write_text("precious")
    with rig(llm, disk_folder=tmp_path) as engine:
        engine.ask(ANN, session_id="s")
        engine.core.close()
    with rig(llm, disk_folder=tmp_path) as engine:
        assert len(engine.core.parts.store) == 1
    assert all((tmp_path / name).read_text() == "precious" for name in names)


def test_a_folder_has_one_server_at_a_time(tmp_path: Path) -> None:
    folder = SessionFolder(tmp_path, "f")
    with pytest.raises(StorageError, match="a server that runs"):
        SessionFolder(tmp_path, "other")
    folder.close()
    SessionFolder(tmp_path, "other").close()


def test_a_file_name_of_another_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="32 hex digits"):
        SessionFolder(tmp_path, "f").write("../x", {}, {})


def test_a_full_disk_costs_the_session_and_nothing_else(
    llm: LanguageModel,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def refuse(path: Path, _: Any) -> None:
        with storage_errors(path):
            raise OSError(28, "No space left on device")

    monkeypatch.setattr("memdecay.serving.engine.sessions.disk.write_atomically", refuse)
    with rig(llm, max_sessions=1, disk_folder=tmp_path) as engine:
        first = engine.ask(ANN, session_id="s")
        other = engine.ask(BEN, session_id="other")
        assert other.finished.finish_reason == "length"
        assert engine.session(first).tier == "none"
        assert not list(tmp_path.iterdir())
        second = go_on(engine, ANN, first)
        assert "could not be written to disk" in second.started.notes[0]
    line = next(record for record in caplog.records if "given up" in record.message)
    assert (vars(line)["tenant"], vars(line)["session_id"]) == ("ann", "s")


def test_without_other_tiers_the_least_valuable_session_is_given_up(llm: LanguageModel) -> None:
    clock = Clock()
    with rig(llm, clock=clock, max_sessions=2) as engine:
        long = engine.ask(ANN, session_id="long")
        clock.now += 60
        short = engine.ask((user("Hi"),), session_id="short")
        clock.now += 600
        engine.ask(BEN, session_id="new")
        assert (engine.session(long).tier, engine.session(short).tier) == ("device", "none")
        clock.now += 10_000
        engine.ask((user("Ho"),), session_id="newer")
        assert engine.session(long).tier == "none"
        again = go_on(engine, ANN, long)
        assert again.started.restored_from == "none"
        assert "it had to make room for others" in again.started.notes[0]
        # It says so once.
        assert go_on(engine, ANN, long, session_id="long").started.notes == ()


def test_a_changed_past_of_a_session_that_was_given_up_is_read_whole(llm: LanguageModel) -> None:
    with rig(llm, max_sessions=1) as engine:
        engine.ask(ANN, session_id="s")
        engine.ask(BEN, session_id="other")
        run = engine.ask((*ANN[:-1], user("Something else")), session_id="s")
        assert run.started.num_cached_tokens == 0
        assert "make room for others" in run.started.notes[0]
        assert run.started.divergence is not None
        assert run.started.divergence.is_read_again


def test_the_device_never_holds_more_bytes_than_set(llm: LanguageModel) -> None:
    session_bytes = 96 * 4 * 2 * 2 * 8 * 4
    limit = 2 * session_bytes + 10
    with rig(llm, kv_memory_bytes=limit, cpu_memory_bytes=10**9) as engine:
        runs = [engine.submit(long_conversation(f"A{i}", 4), session_id=f"{i}") for i in range(5)]
        while not all(run.has_ended for run in runs):
            engine.core.step()
            assert engine.core.parts.tiers.use()["device"].used_bytes <= limit
            assert len(engine.core.running) <= 2
        use = engine.core.parts.tiers.use()
        assert use["device"].num_sessions + use["cpu"].num_sessions == 5


def test_full_tiers_pass_sessions_on(llm: LanguageModel, tmp_path: Path) -> None:
    with rig(llm) as engine:
        run = engine.ask(ANN)
        size = sum(t.nbytes for t in save_memory(engine.session(run).memory, CPU).values())
    options = {
        "max_sessions": 1,
        "cpu_memory_bytes": int(1.5 * size),
        "disk_folder": tmp_path,
        "disk_bytes": int(1.8 * size),
    }
    with rig(llm, **options) as engine:
        runs = []
        for name in "abcd":
            runs.append(engine.ask(ANN, session_id=name))
            engine.clock.now += 1000
        assert [engine.session(run).tier for run in runs] == ["none", "disk", "cpu", "device"]
        assert len(list(tmp_path.iterdir())) == 2


def test_idle_sessions_hold_nothing_that_waits(llm: LanguageModel) -> None:
    """What is packed ahead is not saved, so that a session that stays must not use it either."""
    config = cache_config(policy="memdecay")
    config = replace(config, fading=replace(config.fading, staging_share=0.1))

    def waiting_after(num_tokens: int) -> list[int]:
        waiting = []
        with rig(llm, cache=config) as engine:
            run = engine.submit(ANN, session_id="s", max_tokens=num_tokens)
            while not run.has_ended:
                engine.core.step()
                waiting.append(engine.session(run).memory.cache.waiting_bytes)
        return waiting

    waiting = waiting_after(40)
    step = next(step for step, num_bytes in enumerate(waiting) if num_bytes)
    num_tokens = 40 - (len(waiting) - 1 - step)
    assert num_tokens > 0
    assert waiting_after(num_tokens)[-1] == 0


def test_what_was_forgotten_is_told_in_every_tier(llm: LanguageModel, tmp_path: Path) -> None:
    options = {"cache": cache_config(policy="region"), "disk_folder": tmp_path}
    with rig(llm, max_sessions=1, cpu_memory_bytes=10**9, **options) as engine:
        session, folder = engine.session(engine.ask(ANN)), engine.core.parts.folder
        tiers = engine.core.parts.tiers
        expected = forgotten_spans(session, llm.tokenizer, folder)
        assert sum(span.stop - span.start for span in expected) == sum(
            session.look().evicted_per_region.values()
        )
        tiers.offload(session)
        assert session.tier == "cpu"
        assert forgotten_spans(session, llm.tokenizer, folder) == expected
        tiers.save_all()
        assert session.tier == "disk"
        assert forgotten_spans(session, llm.tokenizer, folder) == expected
        damage_data(tmp_path)
        assert forgotten_spans(session, llm.tokenizer, folder) == ()


def test_a_state_of_other_parts_is_refused(llm: LanguageModel, tagger: RegionTagger) -> None:
    with rig(llm) as plain, rig(llm, tagger) as tagging:
        state = save_memory(plain.session(plain.ask(ANN)).memory, CPU)
        memory = tagging.core.parts.new_memory()
        with pytest.raises(ValueError, match="does not fit this model and classifier"):
            load_memory(memory, state, CPU)
        assert memory.num_tokens == 0


def test_saving_leaves_the_session_as_it_is(llm: LanguageModel, tagger: RegionTagger) -> None:
    cache = cache_config()
    expected = undisturbed(llm, tagger, cache)
    with rig(llm, tagger, cache=cache) as engine:
        first = engine.ask(ANN, session_id="s", max_tokens=20)
        save_memory(engine.session(first).memory, CPU)
        assert_same(engine, go_on(engine, ANN, first, request_id="second"), expected)


@pytest.mark.parametrize("policy", ["region", "memdecay"])
def test_what_was_pinned_and_forgotten_is_saved_too(llm: LanguageModel, policy: str) -> None:
    with rig(llm, cache=cache_config(128, policy=policy)) as engine:
        run = engine.ask(ANN, pins=(1,), max_tokens=20)
        memory, loaded = engine.session(run).memory, engine.core.parts.new_memory()
        load_memory(loaded, save_memory(memory, CPU), CPU)
        assert loaded.cache.fates() == memory.cache.fates() != []
        assert loaded.cache._pins == memory.cache._pins != ()
        assert loaded.cache.slots.is_pinned.any()
        assert torch.equal(loaded.cache.slots.is_pinned, memory.cache.slots.is_pinned)


def test_a_folder_that_can_not_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="could not be written"):
        SessionFolder(tmp_path / "file" / "kv", "f")
