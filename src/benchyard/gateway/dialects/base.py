"""The contract of a dialect: its HTTP conventions, and how to read the conversation of its requests. Pure."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Literal

from benchyard.gateway.calls import TokenUsage
from benchyard.gateway.dialects.entries import ConversationEntry, MessageFile, plain_json
from benchyard.gateway.dialects.values import fields, items, parse_json, text

Refusal = Literal["auth", "forbidden", "budget", "too_large", "bad_request", "unavailable"]
"""Reasons for which the gateway answers by itself."""
REFUSAL_STATUS: Mapping[Refusal, int] = {
    "auth": 401,
    "forbidden": 403,
    "budget": 402,
    "too_large": 413,
    "bad_request": 400,
    "unavailable": 502,
}
"""402 for a used-up budget: agents take it as final, where they would try again after a 429."""


class Dialect(ABC):
    """HTTP conventions of one model API."""

    name: ClassVar[str]
    shared: ClassVar[tuple[str, ...]]
    """Keys of a request with values that recur in the next one: recorded only once, lists item by item."""

    def model(self, path: str, body: Any) -> str | None:
        """Return the model that a request asks for."""
        return text(fields(body).get("model")) or None

    def streams(self, path: str, body: Any) -> bool:
        """Tell whether the answer to a request will be a stream of events."""
        return fields(body).get("stream") is True

    @abstractmethod
    def whole(self, events: Iterable[Any]) -> Any:
        """Assemble the answer of these events (their JSON) as a call without streaming would return it.

        For a stream that broke off, return the part that arrived; None if there is none.
        """

    def bare(self, events: list[Any]) -> list[Any]:
        """Drop the content from events, leaving enough for the usage and the model named by the answer."""
        return events

    @abstractmethod
    def usage(self, response: Any) -> TokenUsage | None:
        """Return the usage that an answer reports; None if it reports none that can be read."""

    @abstractmethod
    def refusal(self, kind: Refusal, message: str) -> Any:
        """Return the body of an answer that refuses a request, in the form clients of this dialect expect."""


RAW_ARGUMENTS = "_raw"
"""Key under which arguments are kept that are not a JSON object."""
_ADDED = "additional_tools"
_NESTED = 2
"""Levels of nested tool groups: the namespaces of an item."""
_GROUPS = ("tools", "functionDeclarations", "function_declarations")


class ConversationReader(ABC):
    """Reader of conversations in one dialect; never raises, even on malformed input."""

    @abstractmethod
    def items(self, request: Any) -> list[Any]:
        """Return the history of a request as items that can be compared with those of the next request."""

    @abstractmethod
    def entries(self, item: Any) -> tuple[ConversationEntry, ...]:
        """Return the entries of an item of the history."""

    @abstractmethod
    def answer(self, response: Any) -> ConversationEntry:
        """Return the agent's entry of an answer."""

    @abstractmethod
    def tools(self, request: Any) -> list[dict[str, Any]]:
        """Return the tools that a request offers, in the form of OpenAI's function declarations."""

    @abstractmethod
    def effort(self, request: Any) -> Any:
        """Return the reasoning effort that a request asks for."""


def tool_arguments(given: Any) -> dict[str, Any]:
    """Return the arguments of a tool call as an object."""
    if isinstance(given, str):
        try:
            given = parse_json(given) if given.strip() else {}
        except ValueError:
            return {RAW_ARGUMENTS: plain_json(given)}
    known: dict[str, Any] = plain_json(given if isinstance(given, dict) else {RAW_ARGUMENTS: given})
    return known


def tool_schema(name: Any, description: Any, parameters: Any) -> dict[str, Any]:
    """Return a tool in the form of OpenAI's function declarations."""
    declared = {"name": text(name), "description": description, "parameters": parameters}
    known = {key: plain_json(value) for key, value in declared.items() if value is not None}
    return {"type": "function", "function": known}


def offered_tools(request: Any) -> frozenset[str]:
    """Return the names of the tools that a request offers, in any dialect, reading only the names."""
    tools = fields(request).get("tools")
    groups = [*(tools if isinstance(tools, list) else [tools])]
    groups += [item for item in items(fields(request).get("input")) if _ADDED in fields(item).values()]
    for _ in range(_NESTED):
        groups = [tool for group in map(fields, groups) for tool in _inside(group)]
    return frozenset(name for tool in map(fields, groups) for name in _names(tool))


def _inside(group: dict[str, Any]) -> list[Any]:
    """Return the tools of a group; a tool counts as a group of itself."""
    return [item for key in _GROUPS for item in items(group.get(key))] or [group]


def _names(tool: dict[str, Any]) -> list[str]:
    named = next((fields(tool[key]) for key in ("function", "custom") if key in tool), tool)
    return [text(named.get("name")) or text(tool.get("type"))] if tool else []


def file_from_base64(media_type: Any, data: Any) -> MessageFile:
    """Describe a file given in base64."""
    return MessageFile(text(media_type), len(text(data)) * 3 // 4)


def file_from_url(url: Any, media_type: str = "") -> MessageFile:
    """Describe a file given by a URL or inside a data URL."""
    address = text(url)
    if address.startswith("data:"):
        head, _, data = address.partition(",")
        return file_from_base64(head.removeprefix("data:").partition(";")[0], data)
    return MessageFile(media_type or "image", url=address)


def with_system(system: Any, history: Any) -> list[Any]:
    """Put the separate system prompt of a request before its history; a lone text is the user's."""
    if isinstance(history, str):
        history = [{"role": "user", "content": history}]
    return [*([{"role": "system", "content": system}] if system else []), *items(history)]


def nested_field(request: Any, *path: str) -> Any:
    """Return the value of a nested field; None if it does not exist."""
    value: Any = request
    for name in path:
        value = fields(value).get(name)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return plain_json(value) if is_number or isinstance(value, str) else None
