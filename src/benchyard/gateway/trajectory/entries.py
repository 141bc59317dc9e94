"""What is said in a conversation, in whatever dialect."""

from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

Who = Literal["system", "user", "agent", "tool"]


class Attachment(NamedTuple):
    """A picture or another file in a message: what it is, without its bytes."""

    media_type: str
    size: int | None = None
    """Of what is in the message itself, in bytes."""
    url: str | None = None


Piece = str | Attachment


@dataclass(frozen=True)
class Use:
    """A model's wish to have a tool called."""

    id: str
    """Empty where the dialect has none."""
    name: str
    arguments: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Result:
    """What a tool answered."""

    id: str
    name: str
    pieces: tuple[Piece, ...] = ()
    is_error: bool = False


@dataclass(frozen=True)
class Entry:
    """One message, or a part of one that stands for itself."""

    who: Who
    pieces: tuple[Piece, ...] = ()
    reasoning: str = ""
    uses: tuple[Use, ...] = ()
    results: tuple[Result, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether it says nothing at all."""
        return not (any(self.pieces) or self.reasoning or self.uses or self.results)

    @property
    def text(self) -> str:
        """Its texts."""
        return "\n".join(piece for piece in self.pieces if isinstance(piece, str))


def joined(entries: list[Entry]) -> Entry:
    """What the agent said in several entries as one."""
    return Entry(
        "agent",
        tuple(piece for entry in entries for piece in entry.pieces),
        "\n".join(entry.reasoning for entry in entries if entry.reasoning),
        tuple(use for entry in entries for use in entry.uses),
        tuple(result for entry in entries for result in entry.results),
    )
