"""`/v1/sessions`: what a tenant's sessions remember."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter, Path, Query

from memdecay.serving.api.errors import ApiError
from memdecay.serving.api.routes.caller import ServicesOf, TenantOf
from memdecay.serving.api.schemas.common import SESSION_PATTERN, error_responses
from memdecay.serving.api.schemas.sessions import (
    DeletedSession,
    SessionBody,
    SessionList,
    session_body,
)

router = APIRouter(prefix="/v1/sessions", tags=["Sessions"])

_SessionPath = Annotated[str, Path(pattern=SESSION_PATTERN)]
_Explain = Annotated[bool, Query(description="Add what was evicted, with its text.")]


@router.get("", responses=error_responses(), summary="List the sessions")
async def list_sessions(tenant: TenantOf, services: ServicesOf) -> SessionList:
    """Return the tenant's sessions, the last used first."""
    views = await asyncio.to_thread(services.engine.sessions, tenant)
    return SessionList(data=[session_body(view) for view in views])


@router.get("/{session_id}", responses=error_responses(404), summary="Look at a session")
async def get_session(
    session_id: _SessionPath, tenant: TenantOf, services: ServicesOf, explain: _Explain = False
) -> SessionBody:
    """Return what a session has seen, kept and evicted."""
    view = await asyncio.to_thread(services.engine.session, tenant, session_id, explain=explain)
    if view is None:
        raise _not_found(session_id)
    return session_body(view, explains=explain)


@router.delete("/{session_id}", responses=error_responses(404), summary="Delete a session")
async def delete_session(
    session_id: _SessionPath, tenant: TenantOf, services: ServicesOf
) -> DeletedSession:
    """Cancel a session's request and free its memory in every tier."""
    is_deleted = await asyncio.to_thread(services.engine.delete_session, tenant, session_id)
    if not is_deleted:
        raise _not_found(session_id)
    return DeletedSession(id=session_id)


def _not_found(session_id: str) -> ApiError:
    return ApiError(
        404, f"there is no session {session_id!r}; see GET /v1/sessions", code="session_not_found"
    )
