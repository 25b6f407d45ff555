"""Nothing of one tenant ever reaches another."""

from __future__ import annotations

from pathlib import Path

import pytest

from memdecay.classifier.llm import LanguageModel
from memdecay.runtime.tagger import RegionTagger
from memdecay.serving.engine.config import SharedPrompt
from tests.serving.engine.rig import SYSTEM, Rig, rig, user

SECRET = {name: f"The vault code of {name} is {code}." for name, code in (("ann", 71), ("ben", 94))}
RULES = {"role": "system", "content": "Read the files and run the tests. " * 3}


def talk(tenant: str) -> tuple[dict[str, str], ...]:
    return (RULES, user(SECRET[tenant]))


def texts_of(engine: Rig, tenant: str) -> str:
    return "\n".join(session.transcript.text for session in engine.core.parts.store.of(tenant))


@pytest.mark.parametrize("place", ["device", "cpu", "disk"])
def test_tenants_with_equal_conversations_share_nothing(
    llm: LanguageModel, tagger: RegionTagger, tmp_path: Path, place: str
) -> None:
    """The same words, the same session name, the same salt: two tenants never meet."""
    options = {
        "device": {},
        "cpu": {"max_sessions": 1, "cpu_memory_bytes": 10**9},
        "disk": {"max_sessions": 1, "disk_folder": tmp_path},
    }[place]
    with rig(llm, tagger, prefix_cache_bytes=10**8, **options) as engine:
        first = engine.ask(talk("ann"), "ann", session_id="s", cache_salt="x")
        same = engine.ask(talk("ann"), "ben", session_id="s", cache_salt="x")
        assert same.started.num_cached_tokens == 0
        assert same.finished.token_ids == first.finished.token_ids
        unnamed = engine.ask(talk("ann"), "ann")
        answer = {"role": "assistant", "content": unnamed.finished.text}
        more = (*talk("ann"), answer, user("Go on"))
        assert engine.ask(more, "eve").started.num_cached_tokens == 0
        assert engine.ask(more, "ann").started.num_cached_tokens > 0


def test_secrets_stay_with_their_tenants(
    llm: LanguageModel, tagger: RegionTagger, tmp_path: Path
) -> None:
    """Both talk at once, are moved about, and go on: each equals a run without the other."""
    options = {"max_sessions": 1, "disk_folder": tmp_path, "prefix_cache_bytes": 10**8}

    def turns(engine: Rig, tenants: list[str]) -> dict[str, list[tuple[int, ...]]]:
        said: dict[str, list[tuple[int, ...]]] = {tenant: [] for tenant in tenants}
        messages = {tenant: talk(tenant) for tenant in tenants}
        for _ in range(3):
            runs = {
                tenant: engine.submit(messages[tenant], tenant, session_id="s")
                for tenant in tenants
            }
            engine.finish(*runs.values())
            for tenant, run in runs.items():
                said[tenant].append(run.finished.token_ids)
                answer = {"role": "assistant", "content": run.finished.text}
                messages[tenant] = (*messages[tenant], answer, user("What was the code?"))
        return said

    with rig(llm, tagger, **options) as engine:
        together = turns(engine, ["ann", "ben"])
        for mine, other in (("ann", "ben"), ("ben", "ann")):
            assert SECRET[mine] in texts_of(engine, mine)
            assert SECRET[other] not in texts_of(engine, mine)
        engine.core.close()
    for tenant in ("ann", "ben"):
        with rig(llm, tagger, prefix_cache_bytes=10**8) as engine:
            assert turns(engine, [tenant])[tenant] == together[tenant]


def test_prefixes_are_shared_within_a_tenant_only(llm: LanguageModel) -> None:
    with rig(llm, prefix_cache_bytes=10**8) as engine:
        engine.ask((RULES, user("One")), "ann")
        other = engine.ask((RULES, user("Two")), "ben")
        assert other.started.origin == "new"
        own = engine.ask((RULES, user("Two")), "ann")
        assert own.started.origin == "prefix"
        assert own.finished.token_ids == other.finished.token_ids
        salted = engine.ask((RULES, user("Three")), "ann", cache_salt="x")
        assert salted.started.origin == "new"


def test_a_public_prefix_is_shared_by_all(llm: LanguageModel, tagger: RegionTagger) -> None:
    shared = (SharedPrompt((RULES,)), SharedPrompt((SYSTEM,), tenant="ann"))
    with rig(llm, tagger, prefix_cache_bytes=10**8, shared_prompts=shared) as engine:
        engine.core.warm_up()
        for tenant in ("ann", "ben"):
            run = engine.ask((RULES, user("Hi")), tenant)
            assert run.started.origin == "prefix"
            assert run.started.num_cached_tokens % 16 == 0
        assert engine.ask((SYSTEM, user("Hi")), "ann").started.origin == "prefix"
        assert engine.ask((SYSTEM, user("Hi")), "ben").started.origin == "new"


def test_a_view_shows_only_own_sessions(llm: LanguageModel) -> None:
    with rig(llm) as engine:
        engine.ask((user("Hi"),), "ann", session_id="s")
        store = engine.core.parts.store
        assert store.get("ben", "s") is None
        assert store.of("ben") == []
        assert len(store.of("ann")) == 1
