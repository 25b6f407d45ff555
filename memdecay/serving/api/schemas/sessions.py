"""The bodies of the routes that look at sessions, models and the server."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from memdecay.serving.api.schemas.chat import Message, Tool
from memdecay.serving.engine.views import EngineStats, SessionView, TierUse


class SnapshotBody(BaseModel):
    """A session's memory at one moment."""

    tokens_seen: int
    tokens_kept: int
    kept_per_region: Mapping[str, int]
    kv_bytes: int


class ForgottenBody(BaseModel):
    """Neighbouring tokens of one message that were evicted."""

    start: int
    stop: int
    message_index: int | None
    role: str | None
    text: str


class SessionBody(BaseModel):
    """A session."""

    id: str
    object: Literal["session"] = "session"
    is_named: bool
    tier: Literal["device", "cpu", "disk", "none"]
    is_running: bool
    num_turns: int
    tokens_seen: int
    tokens_kept: int
    tokens_evicted: int
    kept_per_region: Mapping[str, int]
    kept_per_precision: Mapping[str, int]
    evicted_per_region: Mapping[str, int]
    kv_bytes: int
    idle_s: float
    expires_in_s: float | None
    history: list[SnapshotBody]
    forgotten: list[ForgottenBody] | None = Field(
        default=None,
        description="What was evicted, with its text; only with explain=true.",
        exclude_if=lambda value: value is None,
    )


class SessionList(BaseModel):
    """A tenant's sessions, the last used first."""

    object: Literal["list"] = "list"
    data: list[SessionBody]


class DeletedSession(BaseModel):
    """A session that is no more."""

    id: str
    object: Literal["session.deleted"] = "session.deleted"
    deleted: bool = True


class ModelBody(BaseModel):
    """A model."""

    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str
    max_model_len: int


class ModelList(BaseModel):
    """The models of this server."""

    object: Literal["list"] = "list"
    data: list[ModelBody]


class TokenizeRequest(BaseModel):
    """A prompt or a conversation to be counted."""

    model_config = ConfigDict(extra="ignore")

    model: str | None = None
    prompt: str | None = Field(default=None, min_length=1)
    messages: list[Message] | None = Field(default=None, min_length=1)
    tools: list[Tool] | None = Field(default=None, max_length=256)


class TokenizeResponse(BaseModel):
    """The tokens of a prompt."""

    count: int
    max_model_len: int
    tokens: list[int]


class Health(BaseModel):
    """The server answers."""

    status: Literal["ok"] = "ok"


class TierBody(BaseModel):
    """How full a tier is."""

    num_sessions: int
    used_bytes: int
    limit_bytes: int | None


class StatusBody(BaseModel):
    """The server now."""

    model: str
    version: str
    max_model_len: int
    num_running: int
    num_waiting: int
    tiers: Mapping[str, TierBody]
    prefix_cache: TierBody
    reserved_bytes: int
    occupied_bytes: int
    watermark_level: float
    region_tokens: Mapping[str, int]
    evicted_tokens_total: Mapping[str, int]
    prompt_tokens_total: int
    cached_tokens_total: int
    generated_tokens_total: int
    prefix_queries_total: int
    prefix_hits_total: int
    finished_total: Mapping[str, int]
    failed_total: Mapping[str, int]


def session_body(view: SessionView, *, explains: bool = False) -> SessionBody:
    """Return a session as a client reads it."""
    data: dict[str, Any] = dataclasses.asdict(view)
    session_id = data.pop("session_id")
    forgotten = data.pop("forgotten")
    evicted = sum(view.evicted_per_region.values())
    return SessionBody(
        id=session_id, tokens_evicted=evicted, forgotten=forgotten if explains else None, **data
    )


def status_body(stats: EngineStats, model: str, version: str, max_model_len: int) -> StatusBody:
    """Return the server's figures as a client reads them."""
    return StatusBody(
        model=model,
        version=version,
        max_model_len=max_model_len,
        num_running=stats.num_running,
        num_waiting=stats.num_waiting,
        tiers={name: _tier(use) for name, use in stats.tiers.items()},
        prefix_cache=_tier(stats.prefix_cache),
        reserved_bytes=stats.reserved_bytes,
        occupied_bytes=stats.occupied_bytes,
        watermark_level=stats.watermark_level,
        region_tokens=stats.region_tokens,
        evicted_tokens_total=stats.evicted_tokens_total,
        prompt_tokens_total=stats.prompt_tokens_total,
        cached_tokens_total=stats.cached_tokens_total,
        generated_tokens_total=stats.generated_tokens_total,
        prefix_queries_total=stats.prefix_queries_total,
        prefix_hits_total=stats.prefix_hits_total,
        finished_total=stats.finished_total,
        failed_total=stats.failed_total,
    )


def _tier(use: TierUse) -> TierBody:
    return TierBody(
        num_sessions=use.num_sessions, used_bytes=use.used_bytes, limit_bytes=use.limit_bytes
    )
