"""Which dialect a path is of."""

from collections.abc import Mapping

from benchyard.testing.model.wires.anthropic import Anthropic
from benchyard.testing.model.wires.base import Wire
from benchyard.testing.model.wires.chat import Chat
from benchyard.testing.model.wires.gemini import Gemini, GeminiArray
from benchyard.testing.model.wires.responses import Responses

ANTHROPIC = Anthropic()
GEMINI = Gemini()
RESPONSES = Responses()
CHAT = Chat()
_GEMINI_ARRAY = GeminiArray()
_ENDINGS: Mapping[str, Wire] = {
    "/messages": ANTHROPIC,
    "/responses": RESPONSES,
    "/chat/completions": CHAT,
    ":generateContent": GEMINI,
}


def of(path: str, query: Mapping[str, str]) -> Wire | None:
    """The dialect that a request for an answer is of; None if it is none."""
    if path.endswith(":streamGenerateContent"):
        return GEMINI if query.get("alt") == "sse" else _GEMINI_ARRAY
    return next((wire for ending, wire in _ENDINGS.items() if path.endswith(ending)), None)
