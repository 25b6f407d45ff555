"""Who sends a request, as a dependency of the routes."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Header, Request

from memdecay.serving.api.generation import Caller
from memdecay.serving.api.schemas.common import SESSION_PATTERN
from memdecay.serving.api.services import Services, request_id, services, tenant

ServicesOf = Annotated[Services, Depends(services)]
TenantOf = Annotated[str, Depends(tenant)]


def caller(
    request: Request,
    x_session_id: Annotated[str | None, Header(pattern=SESSION_PATTERN)] = None,
) -> Caller:
    """Return who asks."""
    return Caller(tenant(request), request_id(request), x_session_id)


CallerOf = Annotated[Caller, Depends(caller)]
