"""Routes that cost little until their first request: a server has many, and most clients need a few."""

from collections.abc import Callable, Collection
from typing import Any, get_type_hints

from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.routing import Match, compile_path
from starlette.types import Scope

from benchyard.api.requests import Handler, with_large_bodies


class LazyRoute(APIRoute):
    """A route whose parameters and models FastAPI processes at its first request, not at the start."""

    def __init__(
        self,
        path: str,
        endpoint: Callable[..., Any],
        *,
        methods: Collection[str] | None = None,
        **options: Any,
    ) -> None:
        self.path = path
        self.endpoint = endpoint
        self.methods = {method.upper() for method in methods or ["GET"]}
        self._options: dict[str, Any] | None = options
        self._literal = path.partition("{")[0]
        self._end = path.rpartition("}")[2]
        self._has_pattern = False

    def get_route_handler(self) -> Handler:
        """Return the handler that is called with each request."""
        return with_large_bodies(super().get_route_handler())

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        path = scope["path"]
        if not (path.startswith(self._literal) and path.endswith(self._end)):
            return Match.NONE, {}
        if not self._has_pattern:
            self.path_regex, self.path_format, self.param_convertors = compile_path(self.path)
            self._has_pattern = True
        return super().matches(scope)

    def __getattr__(self, name: str) -> Any:
        """Build the route as FastAPI does, at the first access to any other attribute."""
        options = self.__dict__.get("_options")
        if options is None:
            raise AttributeError(name)
        self._options = None
        try:
            _build_models(self.endpoint)
            super().__init__(self.path, self.endpoint, methods=list(self.methods or ()), **options)
        except BaseException:
            self._options = options
            raise
        return getattr(self, name)


def _build_models(endpoint: Callable[..., Any]) -> None:
    """Build the models an endpoint takes and returns: FastAPI would build others by half, with a warning."""
    for kind in get_type_hints(endpoint).values():
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            kind.model_rebuild()
            kind.model_config["defer_build"] = False
