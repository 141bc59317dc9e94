"""The ASGI app: every route file of the folder, behind keys, limits and the log."""

import importlib
import importlib.metadata
import pkgutil
from typing import Any

from fastapi import APIRouter, FastAPI
from starlette.middleware import Middleware
from starlette.routing import BaseRoute

from benchyard.api import routes
from benchyard.api.auth import BearerKeys
from benchyard.api.deps import Services
from benchyard.api.errors import ErrorView, add_error_handlers
from benchyard.api.limits import RequestLimits
from benchyard.api.log import RequestLog

_FAILURES = {status: {"model": ErrorView} for status in (400, 401, 404)}
_BEARER = {"bearer": {"type": "http", "scheme": "bearer"}}


class App(FastAPI):
    """FastAPI, with the keys in its schema that `BearerKeys` asks for."""

    def openapi(self) -> dict[str, Any]:
        if not self.openapi_schema:
            schema = super().openapi()
            schema["components"]["securitySchemes"] = _BEARER
            schema["security"] = [{name: []} for name in _BEARER]
        return super().openapi()


def build_app(services: Services) -> FastAPI:
    """The app that serves these services."""
    app = App(
        title="Benchyard",
        version=importlib.metadata.version("benchyard"),
        redoc_url=None,
        responses={status: dict(failure) for status, failure in _FAILURES.items()},
        redirect_slashes=False,
        middleware=[
            Middleware(RequestLog),
            Middleware(BearerKeys, keys=services.keys),
            Middleware(RequestLimits, settings=services.settings),
        ],
    )
    app.state.services = services
    add_error_handlers(app)
    app.include_router(all_routes())
    return app


def all_routes() -> APIRouter:
    """The routes of every file in the folder, literal paths before those with parameters."""
    found: list[BaseRoute] = []
    for module in pkgutil.iter_modules(routes.__path__):
        found.extend(importlib.import_module(f"{routes.__name__}.{module.name}").router.routes)
    merged = APIRouter()
    merged.routes.extend(sorted(found, key=_breadth))
    return merged


def _breadth(route: BaseRoute) -> list[int]:
    segments = str(getattr(route, "path", "")).split("/")
    return [2 if ":path}" in segment else int("{" in segment) for segment in segments]
