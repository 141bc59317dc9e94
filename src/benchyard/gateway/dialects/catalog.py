"""All dialects, by path and by name."""

from benchyard.gateway.dialects.anthropic import AnthropicDialect
from benchyard.gateway.dialects.base import Dialect
from benchyard.gateway.dialects.chat import ChatDialect
from benchyard.gateway.dialects.gemini import STREAMING, GeminiDialect
from benchyard.gateway.dialects.responses import ResponsesDialect

_ENDINGS: dict[str, Dialect] = {
    "/messages": AnthropicDialect(),
    "/responses": ResponsesDialect(),
    "/chat/completions": ChatDialect(),
    ":generateContent": GeminiDialect(),
    STREAMING: GeminiDialect(),
}
_NAMES = {dialect.name: dialect for dialect in _ENDINGS.values()}


def dialect_of_path(path: str) -> Dialect | None:
    """Return the dialect of model calls at this path, with or without a query; None for any other request."""
    plain = path.partition("?")[0]
    return next((dialect for ending, dialect in _ENDINGS.items() if plain.endswith(ending)), None)


def dialect_named(name: str) -> Dialect | None:
    """Return the dialect of that name; None if there is none."""
    return _NAMES.get(name)


def all_dialects() -> list[Dialect]:
    """Return every dialect once."""
    return list(_NAMES.values())
