"""The contract of a dialect: how it is spoken, and how its requests tell a conversation. Pure."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Literal

from benchyard.gateway.calls import TokenUsage
from benchyard.gateway.dialects.entries import Attachment, ConversationEntry, plain_json
from benchyard.gateway.dialects.values import fields, items, parse_json, text

Refusal = Literal["auth", "forbidden", "budget", "too_large", "bad_request", "unavailable"]
"""Why the gateway answers by itself."""
REFUSAL_STATUS: Mapping[Refusal, int] = {
    "auth": 401,
    "forbidden": 403,
    "budget": 402,
    "too_large": 413,
    "bad_request": 400,
    "unavailable": 502,
}
"""A used-up budget is a 402: every agent takes that as final, soon, where it would try again after a 429."""


class Dialect(ABC):
    """One way of speaking with models over HTTP."""

    name: ClassVar[str]
    shared: ClassVar[tuple[str, ...]]
    """Keys of a request whose values return in the next one: kept once each, lists item by item."""

    @abstractmethod
    def model(self, path: str, body: Any) -> str | None:
        """The model a request asks for."""

    @abstractmethod
    def streams(self, path: str, body: Any) -> bool:
        """Whether the answer will be a stream of events."""

    @abstractmethod
    def whole(self, events: Iterable[Any]) -> Any:
        """The answer that these events (their JSON) come to, as a call without streaming has it.

        Of a stream that broke off: what had come until then. None if nothing had.
        """

    def bare(self, events: list[Any]) -> list[Any]:
        """These events without content: enough for what the answer used, and which model says it answered."""
        return events

    @abstractmethod
    def usage(self, response: Any) -> TokenUsage | None:
        """What an answer says it used; None if it says nothing that can be read."""

    @abstractmethod
    def refusal(self, kind: Refusal, message: str) -> Any:
        """The body of an answer that refuses a request, as clients of this dialect read it."""


RAW_ARGUMENTS = "_raw"
"""Where arguments are kept that are no JSON object."""
_ADDED = "additional_tools"
_NESTED = 2
"""How many groups are inside each other: the namespaces of an item."""
_GROUPS = ("tools", "functionDeclarations", "function_declarations")


class ConversationReader(ABC):
    """One dialect; whatever it is given, it does not raise."""

    @abstractmethod
    def items(self, request: Any) -> list[Any]:
        """The history of a request, in items as they are compared with those of the next request."""

    @abstractmethod
    def entries(self, item: Any) -> tuple[ConversationEntry, ...]:
        """What an item says."""

    @abstractmethod
    def answer(self, response: Any) -> ConversationEntry:
        """What an answer says."""

    @abstractmethod
    def tools(self, request: Any) -> list[dict[str, Any]]:
        """The tools a request offers, as OpenAI's functions are declared."""

    @abstractmethod
    def effort(self, request: Any) -> Any:
        """How much the model is to think."""


def tool_arguments(given: Any) -> dict[str, Any]:
    """What a tool is called with, as an object."""
    if isinstance(given, str):
        try:
            given = parse_json(given) if given.strip() else {}
        except ValueError:
            return {RAW_ARGUMENTS: plain_json(given)}
    known: dict[str, Any] = plain_json(given if isinstance(given, dict) else {RAW_ARGUMENTS: given})
    return known


def tool_schema(name: Any, description: Any, parameters: Any) -> dict[str, Any]:
    """A tool as OpenAI's functions are declared."""
    declared = {"name": text(name), "description": description, "parameters": parameters}
    known = {key: plain_json(value) for key, value in declared.items() if value is not None}
    return {"type": "function", "function": known}


def offered_tools(request: Any) -> frozenset[str]:
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


def file_from_base64(media_type: Any, data: Any) -> Attachment:
    """A file in base64."""
    return Attachment(text(media_type), len(text(data)) * 3 // 4)


def file_from_url(url: Any, media_type: str = "") -> Attachment:
    """A file behind a URL, or in one."""
    address = text(url)
    if address.startswith("data:"):
        head, _, data = address.partition(",")
        return file_from_base64(head.removeprefix("data:").partition(";")[0], data)
    return Attachment(media_type or "image", url=address)


def with_system(system: Any, history: Any) -> list[Any]:
    """A history that begins with what the request says beside it; a lone text is the user's."""
    if isinstance(history, str):
        history = [{"role": "user", "content": history}]
    return [*([{"role": "system", "content": system}] if system else []), *items(history)]


def nested_field(request: Any, *path: str) -> Any:
    """A field inside fields; None if there is none."""
    value: Any = request
    for name in path:
        value = fields(value).get(name)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return plain_json(value) if is_number or isinstance(value, str) else None
