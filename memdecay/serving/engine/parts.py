"""What an engine is made of, put together once."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

from memdecay.classifier.errors import ConfigError
from memdecay.classifier.fingerprint import llm_fingerprint
from memdecay.classifier.llm import LanguageModel
from memdecay.runtime.cache import DecayCache
from memdecay.runtime.preparation import chunk_within_budget, make_cache, stop_ids
from memdecay.runtime.rule_tagger import RuleTagger
from memdecay.runtime.tagger import RegionTagger
from memdecay.serving.engine.config import EngineConfig
from memdecay.serving.engine.model.capacity import kv_bytes_per_token, session_bytes
from memdecay.serving.engine.model.memory import SessionMemory
from memdecay.serving.engine.model.runner import ModelRunner
from memdecay.serving.engine.model.tagging import ServedTagger, begin_tagging
from memdecay.serving.engine.sessions.disk import SessionFolder
from memdecay.serving.engine.sessions.prefix_cache import PrefixCache
from memdecay.serving.engine.sessions.store import SessionStore
from memdecay.serving.engine.sessions.tiers import Tiers
from memdecay.serving.engine.turns.begin import Beginner
from memdecay.serving.engine.turns.stops import ReadingStops


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of an engine.

    Attributes:
        llm: The language model.
        config: The settings.
        runner: Runs the forwards.
        store: The sessions.
        tiers: Where they lie.
        prefixes: Beginnings that they share.
        stops: Where reading stops.
        beginner: Brings sessions to prompts.
        folder: Sessions on disk; None if there are none.
        new_memory: Makes an empty memory.
        stop_ids: Tokens that end an answer.
        template: A cache that stays empty; tells what all sessions' caches have in common.
        bytes_per_token: Bytes of a kept token.
    """

    llm: LanguageModel
    config: EngineConfig
    runner: ModelRunner
    store: SessionStore
    tiers: Tiers
    prefixes: PrefixCache
    stops: ReadingStops
    beginner: Beginner
    folder: SessionFolder | None
    new_memory: Callable[[], SessionMemory]
    stop_ids: frozenset[int]
    template: DecayCache
    bytes_per_token: int

    @property
    def evicts(self) -> bool:
        """Whether sessions ever evict."""
        return self.template.policy.evicts

    def reserve_bytes(self, num_tokens: int) -> int:
        """Return the bytes that a session of so many tokens takes at most."""
        return session_bytes(self.template, self.bytes_per_token, num_tokens)

    @property
    def most_kv_bytes(self) -> int:
        """Bytes that all sessions on the device take at most."""
        most = self.config.max_sessions * self.reserve_bytes(self.llm.max_context)
        limit = self.config.kv_memory_bytes
        return most if limit is None else min(most, limit)


def make_parts(
    llm: LanguageModel,
    config: EngineConfig,
    tagger: ServedTagger | None,
    clock: Callable[[], float],
) -> Parts:
    """Put an engine's parts together.

    Raises:
        TypeError: The tagger is none whose tags can be saved.
        ArtifactError: The classifier was trained on another language model.
        ModelError: The model has layers that the cache does not know.
        ConfigError: The policy is unknown or lacks its foresight head, or the KV memory holds not
            one session.
        StorageError: The folder of sessions can't be made, or another server uses it.
    """
    # A tagger whose tags can't be saved with a session would forget them when it is moved.
    if tagger is not None and not isinstance(tagger, RegionTagger | RuleTagger):
        raise TypeError(
            f"the engine tags with a RegionTagger or a RuleTagger, got a {type(tagger).__name__}; "
            "load a classifier, or leave the tagger out"
        )
    template = make_cache(llm, config.cache, tagger)
    bytes_per_token = kv_bytes_per_token(template, llm.model.config, llm.dtype)
    _check_kv_memory(config, session_bytes(template, bytes_per_token, 1))

    def new_memory() -> SessionMemory:
        cache = make_cache(llm, config.cache, tagger)
        return SessionMemory(cache, None if tagger is None else begin_tagging(tagger, llm))

    store = SessionStore()
    folder = None
    if config.disk_folder is not None:
        folder = SessionFolder(config.disk_folder, _fingerprint(llm, config, tagger))
    tiers = Tiers(config, store, new_memory, llm.device, folder, clock)
    prefixes = PrefixCache(config.prefix_cache_bytes)
    stops = ReadingStops(chunk_within_budget(config.chunk_tokens, template), prefixes.is_on)
    return Parts(
        llm=llm,
        config=config,
        runner=ModelRunner(llm, tagger.layer if isinstance(tagger, RegionTagger) else None),
        store=store,
        tiers=tiers,
        prefixes=prefixes,
        stops=stops,
        beginner=Beginner(tiers, prefixes, stops, llm.device),
        folder=folder,
        new_memory=new_memory,
        stop_ids=stop_ids(llm),
        template=template,
        bytes_per_token=bytes_per_token,
    )


def _check_kv_memory(config: EngineConfig, least_bytes: int) -> None:
    limit = config.kv_memory_bytes
    if limit is not None and limit < least_bytes:
        raise ConfigError(
            f"the KV memory of {limit:,} bytes holds no session: one with a budget of "
            f"{config.cache.budget_tokens} tokens takes {least_bytes:,}; raise --kv-memory or "
            "lower --budget"
        )


def _fingerprint(llm: LanguageModel, config: EngineConfig, tagger: ServedTagger | None) -> str:
    """Name all that a saved memory depends on."""
    facts = (
        llm_fingerprint(llm.model),
        str(llm.dtype),
        repr(config.cache),
        type(tagger).__name__,
        tagger.artifact.card.to_json() if isinstance(tagger, RegionTagger) else "",
        "" if tagger is None else repr(tagger.region_table),
    )
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()
