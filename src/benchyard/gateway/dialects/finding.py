"""Which dialect a request speaks, by its path."""

from benchyard.gateway.dialects.anthropic import Anthropic
from benchyard.gateway.dialects.base import Dialect
from benchyard.gateway.dialects.chat import Chat
from benchyard.gateway.dialects.gemini import STREAMING, Gemini
from benchyard.gateway.dialects.responses import Responses

_ENDINGS: dict[str, Dialect] = {
    "/messages": Anthropic(),
    "/responses": Responses(),
    "/chat/completions": Chat(),
    ":generateContent": Gemini(),
    STREAMING: Gemini(),
}
_NAMES = {dialect.name: dialect for dialect in _ENDINGS.values()}


def of(path: str) -> Dialect | None:
    """The dialect of a call of a model at this path, with or without a query; None for any other request."""
    plain = path.partition("?")[0]
    return next((dialect for ending, dialect in _ENDINGS.items() if plain.endswith(ending)), None)


def named(name: str) -> Dialect | None:
    """The dialect of that name; None if there is none."""
    return _NAMES.get(name)


def all() -> list[Dialect]:
    """Every dialect, once."""
    return list(_NAMES.values())
