"""What a request came on: a connection of its own, or a stream among others."""

from typing import Any, Protocol

from starlette.types import Scope

_KEY = "benchyard.underneath"


class Underneath(Protocol):
    """Carries one request and its answer."""

    def cut(self) -> None:
        """End an answer that cannot be finished, so that nobody takes it for a whole one."""


def underneath(carrier: Underneath) -> dict[str, Any]:
    """What a scope has as extensions, for `underneath_of` to find."""
    return {_KEY: {"held": carrier}}


def underneath_of(scope: Scope) -> Underneath:
    """What this request came on."""
    carrier: Underneath = scope["extensions"][_KEY]["held"]
    return carrier
