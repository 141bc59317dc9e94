"""The reader contract: how a dialect's requests and answers tell a conversation. All of it is pure."""

from abc import ABC, abstractmethod
from typing import Any

from benchyard.gateway.dialects.values import fields, items, parsed, text
from benchyard.gateway.trajectory.entries import Attachment, Entry
from benchyard.gateway.trajectory.plain import plain

RAW = "_raw"
"""Where arguments are kept that are no JSON object."""
_ADDED = "additional_tools"
_NESTED = 2
"""How many groups are inside each other: the namespaces of an item."""
_GROUPS = ("tools", "functionDeclarations", "function_declarations")


class Reader(ABC):
    """One dialect; whatever it is given, it does not raise."""

    @abstractmethod
    def items(self, request: Any) -> list[Any]:
        """The history of a request, in items as they are compared with those of the next request."""

    @abstractmethod
    def entries(self, item: Any) -> tuple[Entry, ...]:
        """What an item says."""

    @abstractmethod
    def answer(self, response: Any) -> Entry:
        """What an answer says."""

    @abstractmethod
    def tools(self, request: Any) -> list[dict[str, Any]]:
        """The tools a request offers, as OpenAI's functions are declared."""

    @abstractmethod
    def effort(self, request: Any) -> Any:
        """How much the model is to think."""


def arguments(given: Any) -> dict[str, Any]:
    """What a tool is called with, as an object."""
    if isinstance(given, str):
        try:
            given = parsed(given) if given.strip() else {}
        except ValueError:
            return {RAW: plain(given)}
    known: dict[str, Any] = plain(given if isinstance(given, dict) else {RAW: given})
    return known


def function(name: Any, description: Any, parameters: Any) -> dict[str, Any]:
    """A tool as OpenAI's functions are declared."""
    declared = {"name": text(name), "description": description, "parameters": parameters}
    known = {key: plain(value) for key, value in declared.items() if value is not None}
    return {"type": "function", "function": known}


def offered(request: Any) -> frozenset[str]:
    """The names of the tools a request offers, in any dialect, without reading more of them."""
    given = fields(request).get("tools")
    groups = [*(given if isinstance(given, list) else [given])]
    groups += [item for item in items(fields(request).get("input")) if _ADDED in fields(item).values()]
    for _ in range(_NESTED):
        groups = [tool for group in map(fields, groups) for tool in _inside(group)]
    return frozenset(name for tool in map(fields, groups) for name in _names(tool))


def _inside(group: dict[str, Any]) -> list[Any]:
    """The tools of a group; a tool is a group of itself."""
    return [each for key in _GROUPS for each in items(group.get(key))] or [group]


def _names(tool: dict[str, Any]) -> list[str]:
    named = next((fields(tool[key]) for key in ("function", "custom") if key in tool), tool)
    return [text(named.get("name")) or text(tool.get("type"))] if tool else []


def encoded(media_type: Any, data: Any) -> Attachment:
    """A file in base64."""
    return Attachment(text(media_type), len(text(data)) * 3 // 4)


def linked(url: Any, media_type: str = "") -> Attachment:
    """A file behind a URL, or in one."""
    address = text(url)
    if address.startswith("data:"):
        head, _, data = address.partition(",")
        return encoded(head.removeprefix("data:").partition(";")[0], data)
    return Attachment(media_type or "image", url=address)


def with_system(system: Any, history: Any) -> list[Any]:
    """A history that begins with what the request says beside it; a lone text is the user's."""
    if isinstance(history, str):
        history = [{"role": "user", "content": history}]
    return [*([{"role": "system", "content": system}] if system else []), *items(history)]


def level(request: Any, *path: str) -> Any:
    """A field inside fields; None if there is none."""
    value: Any = request
    for name in path:
        value = fields(value).get(name)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return plain(value) if is_number or isinstance(value, str) else None
