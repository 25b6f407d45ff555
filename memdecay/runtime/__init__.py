"""The decaying KV cache, the tagger that feeds it and the session that uses both."""

from memdecay.runtime.cache import DecayCache
from memdecay.runtime.config import CacheConfig, FeedbackConfig
from memdecay.runtime.hooks import attach_memory
from memdecay.runtime.session import Reply, Session
from memdecay.runtime.stats import SessionStats
from memdecay.runtime.tagger import RegionTagger

__all__ = [
    "CacheConfig",
    "DecayCache",
    "FeedbackConfig",
    "RegionTagger",
    "Reply",
    "Session",
    "SessionStats",
    "attach_memory",
]
