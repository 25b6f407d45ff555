"""What a session settles before its first turn: its cache, its chunks, where answers end."""

from __future__ import annotations

from dataclasses import replace

from memdecay.classifier.decoder import find_decoder
from memdecay.classifier.llm import LanguageModel
from memdecay.classifier.tokenization import special_ids
from memdecay.runtime.cache import DecayCache
from memdecay.runtime.config import PACKAGED, CacheConfig
from memdecay.runtime.foresight.packaged import packaged_head
from memdecay.runtime.precision.rotary import RotaryFrequencies
from memdecay.runtime.tagging import SessionTagger


def make_cache(llm: LanguageModel, config: CacheConfig, tagger: SessionTagger | None) -> DecayCache:
    """Return an empty cache that decays as the tagger's region table says.

    Raises:
        ArtifactError: The classifier was trained on another language model.
        ModelError: The model has layers that the cache does not know.
        ConfigError: The policy is unknown, or needs a foresight head that is not there.
    """
    frequencies = RotaryFrequencies.of(find_decoder(llm.model))
    if tagger is not None:
        tagger.check_llm(llm)
    table = None if tagger is None else tagger.region_table
    ids = special_ids(llm.tokenizer)
    return DecayCache(llm.model.config, with_head(config, llm), table, frequencies, ids)


def with_head(config: CacheConfig, llm: LanguageModel) -> CacheConfig:
    """Put the packaged foresight head in where the configuration leaves it to the package."""
    if config.foresight != PACKAGED:
        return config
    return replace(config, foresight=packaged_head(llm.name))


def chunk_within_budget(chunk_tokens: int, cache: DecayCache) -> int:
    """Return the chunk size, lowered to the room between low watermark and budget.

    A larger chunk would push the cache below its low watermark each time.
    """
    if not cache.policy.evicts:
        return chunk_tokens
    return min(chunk_tokens, cache.config.budget_tokens - cache.config.low_tokens)


def stop_ids(llm: LanguageModel) -> frozenset[int]:
    """Return the tokens that end an answer."""
    named = getattr(llm.model.generation_config, "eos_token_id", None)
    ids = [*named] if isinstance(named, list | tuple) else [named]
    return frozenset(id_ for id_ in (*ids, llm.tokenizer.eos_token_id) if id_ is not None)
