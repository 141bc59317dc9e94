"""Whether the server is up; asks for no key."""

from typing import Literal

from fastapi import APIRouter, Request

from benchyard.api.routing import LateRoute
from benchyard.models.base import Model

router = APIRouter(tags=["health"], route_class=LateRoute)


class HealthView(Model):
    """A sign of life."""

    status: Literal["ok"] = "ok"
    version: str


@router.get("/healthz")
@router.head("/healthz", include_in_schema=False)
async def health(request: Request) -> HealthView:
    """Say that the server is up."""
    return HealthView(version=request.app.version)
