"""The ASGI app: every route file of the folder, behind keys, limits and the log."""

import importlib
import importlib.metadata
import pkgutil
from typing import Any

from fastapi import FastAPI
from starlette.middleware import Middleware
from starlette.routing import BaseRoute

from benchyard.api import routes
from benchyard.api.deps import Services
from benchyard.api.errors import ErrorView, add_error_handlers
from benchyard.api.log import RequestLog
from benchyard.api.metrics import RequestCounts
from benchyard.api.middleware.auth import BearerKeys
from benchyard.api.middleware.compression import ResponseCompression
from benchyard.api.middleware.limits import RequestLimits
from benchyard.api.middleware.rates import RateLimit
from benchyard.api.tunnels.proxy import TunnelProxy

_FAILURES = {
    "400": "Bad request",
    "401": "No key, or a wrong one",
    "404": "No such thing",
    "429": "Too many requests",
}
_BEARER = {"bearer": {"type": "http", "scheme": "bearer"}}


class App(FastAPI):
    """FastAPI app whose schema also has the parts common to all routes: keys, and the form of errors."""

    def openapi(self) -> dict[str, Any]:
        if not self.openapi_schema:
            schema = super().openapi()
            schema["components"]["securitySchemes"] = _BEARER
            schema["security"] = [{name: []} for name in _BEARER]
            schema["components"]["schemas"][ErrorView.__name__] = ErrorView.model_json_schema()
            _add_failures(schema)
        return super().openapi()


def _add_failures(schema: dict[str, Any]) -> None:
    content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{ErrorView.__name__}"}}}
    for operations in schema["paths"].values():
        for operation in operations.values():
            for status, description in _FAILURES.items():
                operation["responses"].setdefault(status, {"description": description, "content": content})


def build_app(services: Services) -> FastAPI:
    """Build the app that serves these services."""
    app = App(
        title="Benchyard",
        version=importlib.metadata.version("benchyard"),
        # The reference page is our own: the library's page loads scripts from other servers.
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        middleware=[
            Middleware(RequestCounts, metrics=services.metrics),
            Middleware(RequestLog),
            Middleware(TunnelProxy, services=services),
            Middleware(BearerKeys, keys=services.keys, settings=services.settings),
            Middleware(RateLimit, settings=services.settings),
            Middleware(RequestLimits, settings=services.settings),
            Middleware(ResponseCompression),
        ],
    )
    app.state.services = services
    add_error_handlers(app)
    # Not `include_router`: it would search the route of each request twice.
    app.router.routes.extend(all_routes())
    return app


def all_routes() -> list[BaseRoute]:
    """Return the routes of every file in the folder, literal paths before those with parameters."""
    found: list[BaseRoute] = []
    for module in pkgutil.iter_modules(routes.__path__):
        found.extend(importlib.import_module(f"{routes.__name__}.{module.name}").router.routes)
    return sorted(found, key=_breadth)


def _breadth(route: BaseRoute) -> list[int]:
    segments = str(getattr(route, "path", "")).split("/")
    return [2 if ":path}" in segment else int("{" in segment) for segment in segments]
