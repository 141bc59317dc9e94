"""A request for an answer, whatever its dialect: the conversation so far, and the tools there are."""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Role = Literal["user", "assistant", "tool"]


@dataclass(frozen=True)
class ConversationMessage:
    """Something that was said: by the user, by the model, or by a tool that gave its result."""

    role: Role
    text: str = ""
    calls: tuple[str, ...] = ()
    """The ids of the calls of tools that the model made; of a tool's result, the call that it is of."""


@dataclass(frozen=True)
class OfferedTool:
    """A tool that the model may call."""

    name: str
    schema: Mapping[str, Any] = field(default_factory=dict)
    """Of its arguments."""
    takes_code: bool = False
    """Whether it takes a text instead of arguments."""


@dataclass(frozen=True)
class ModelRequest:
    """A request, as far as scripts look at it."""

    model: str
    streams: bool
    turns: tuple[ConversationMessage, ...]
    tools: tuple[OfferedTool, ...]
    body: Mapping[str, Any]
    input_tokens: int
    session: str = ""
    """Whatever the client names its conversation by."""
    schema: Mapping[str, Any] | None = None
    """Of the JSON that the answer must be."""

    @property
    def prompt(self) -> str:
        """All that users said before the model first spoke: agents put notes of their own around a prompt."""
        texts = []
        for turn in self.turns:
            if turn.role != "user":
                break
            texts.append(turn.text)
        return "\n".join(texts)

    def results(self, without: Container[str] = ()) -> int:
        """How many tools have given their results, without those of some calls."""
        given = [turn for turn in self.turns if turn.role == "tool"]
        return sum(not any(call in without for call in turn.calls) for turn in given)

    @property
    def texts(self) -> int:
        """How often the model has said something without calling a tool."""
        return sum(turn.role == "assistant" and not turn.calls for turn in self.turns)

    @property
    def first_call(self) -> str:
        """The id of the model's first call of a tool, which tells conversations apart; empty without one."""
        spoken = (turn for turn in self.turns if turn.role == "assistant")
        return next((call for turn in spoken for call in turn.calls), "")


def items(value: Any) -> list[Mapping[str, Any]]:
    """The objects of a list that somebody sent; of anything else, none."""
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list) else []


def fields(value: Any) -> Mapping[str, Any]:
    """An object that somebody sent; of anything else, an empty one."""
    return value if isinstance(value, Mapping) else {}


def text_of(content: Any, kinds: Sequence[str] = ("text", "input_text", "output_text")) -> str:
    """The text of what a message holds: a string, or a list of parts."""
    if isinstance(content, str):
        return content
    return "\n".join(str(part.get("text", "")) for part in items(content) if part.get("type") in kinds)


def word(value: Any) -> str:
    """A string that somebody sent; of anything else, an empty one."""
    return value if isinstance(value, str) else ""
