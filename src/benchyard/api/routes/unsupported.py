"""Features that come later: they answer 501 with their name instead of 404."""

from collections.abc import Awaitable, Callable

from fastapi import APIRouter

from benchyard.api.lazy_route import LazyRoute
from benchyard.engine.devboxes.request_checks import INSTEAD_OF_MCP
from benchyard.errors import NotYet

router = APIRouter(route_class=LazyRoute, include_in_schema=False)

_VERBS = ["GET", "POST", "DELETE"]
_PATHS = {
    "/v1/devboxes/{id}/create_mcp_token": "MCP tokens",
    "/v1/devboxes/evictions/watch": "devbox evictions",
    "/v1/restricted_keys": "restricted keys",
}
_ROOMS = {
    "axons": "axons",
    "mcp-configs": "MCP configs",
}

_INSTEAD = {"MCP tokens": INSTEAD_OF_MCP, "MCP configs": INSTEAD_OF_MCP}
"""Advice for the meantime, by feature."""


def _not_yet(feature: str) -> Callable[[], Awaitable[None]]:
    instead = f"; {_INSTEAD[feature]}" if feature in _INSTEAD else ""

    async def answer() -> None:
        raise NotYet(f"not served yet: {feature}{instead}", feature=feature)

    return answer


for _path, _feature in _PATHS.items():
    router.add_api_route(_path, _not_yet(_feature), methods=_VERBS, name=_feature)
for _room, _feature in _ROOMS.items():
    router.add_api_route(f"/v1/{_room}", _not_yet(_feature), methods=_VERBS, name=_feature)
    router.add_api_route(f"/v1/{_room}/{{rest:path}}", _not_yet(_feature), methods=_VERBS, name=_feature)
