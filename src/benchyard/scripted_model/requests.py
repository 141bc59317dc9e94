"""A request for a reply, in no particular dialect: the conversation so far, and the offered tools."""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Role = Literal["user", "assistant", "tool"]


@dataclass(frozen=True)
class ConversationMessage:
    """A message: by the user, by the model, or by a tool that gave its result."""

    role: Role
    text: str = ""
    calls: tuple[str, ...] = ()
    """The ids of the model's tool calls; for a tool's result, the call that it answers."""


@dataclass(frozen=True)
class OfferedTool:
    """A tool that the model may call."""

    name: str
    schema: Mapping[str, Any] = field(default_factory=dict)
    """Schema of its arguments."""
    takes_code: bool = False
    """The tool takes a text instead of arguments."""


@dataclass(frozen=True)
class ModelRequest:
    """The parts of a request that scripts look at."""

    model: str
    streams: bool
    turns: tuple[ConversationMessage, ...]
    tools: tuple[OfferedTool, ...]
    body: Mapping[str, Any]
    input_tokens: int
    session: str = ""
    """The client's name for its conversation, if it sends one."""
    schema: Mapping[str, Any] | None = None
    """Schema of the JSON that the reply must be."""

    @property
    def prompt(self) -> str:
        """Return all user messages before the model's first: agents put their own notes around a prompt."""
        texts = []
        for turn in self.turns:
            if turn.role != "user":
                break
            texts.append(turn.text)
        return "\n".join(texts)

    def results(self, without: Container[str] = ()) -> int:
        """Return the number of tool results, without those of some calls."""
        given = [turn for turn in self.turns if turn.role == "tool"]
        return sum(not any(call in without for call in turn.calls) for turn in given)

    @property
    def texts(self) -> int:
        """Return the number of the model's messages without tool calls."""
        return sum(turn.role == "assistant" and not turn.calls for turn in self.turns)

    @property
    def first_call(self) -> str:
        """Return the id of the model's first tool call, which identifies the conversation; empty if none."""
        spoken = (turn for turn in self.turns if turn.role == "assistant")
        return next((call for turn in spoken for call in turn.calls), "")


def items(value: Any) -> list[Mapping[str, Any]]:
    """Return the objects of a received list; none for any other value."""
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def text_of(content: Any, kinds: Sequence[str] = ("text", "input_text", "output_text")) -> str:
    """Return the text of a message's content: a string, or a list of parts."""
    if isinstance(content, str):
        return content
    return "\n".join(str(part.get("text", "")) for part in items(content) if part.get("type") in kinds)
