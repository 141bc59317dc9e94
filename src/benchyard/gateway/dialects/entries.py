"""What is said in a conversation, in whatever dialect, as it may stand in a trajectory."""

import json
import math
from dataclasses import dataclass, field
from datetime import UTC, datetime
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
class ToolUse:
    """A model's wish to have a tool called."""

    id: str
    """Empty where the dialect has none."""
    name: str
    arguments: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ToolResult:
    """What a tool answered."""

    id: str
    name: str
    pieces: tuple[Piece, ...] = ()
    is_error: bool = False


@dataclass(frozen=True)
class ConversationEntry:
    """One message, or a part of one that stands for itself."""

    who: Who
    pieces: tuple[Piece, ...] = ()
    reasoning: str = ""
    uses: tuple[ToolUse, ...] = ()
    results: tuple[ToolResult, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether it says nothing at all."""
        return not (any(self.pieces) or self.reasoning or self.uses or self.results)

    @property
    def text(self) -> str:
        """Its texts."""
        return "\n".join(piece for piece in self.pieces if isinstance(piece, str))


def join_entries(entries: list[ConversationEntry]) -> ConversationEntry:
    """What the agent said in several entries as one."""
    return ConversationEntry(
        "agent",
        tuple(piece for entry in entries for piece in entry.pieces),
        "\n".join(entry.reasoning for entry in entries if entry.reasoning),
        tuple(use for entry in entries for use in entry.uses),
        tuple(result for entry in entries for result in entry.results),
    )


MOST_TEXT = 16 * 1024**2
"""Bytes of one text."""
MOST_DEPTH = 48
_CUT = "\n[cut: {} characters in all]"
_IMAGES = {".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif"}
_IMAGES[".webp"] = "image/webp"


def clean_text(text: str) -> str:
    """A text that can be written down, and is not too large."""
    most = (MOST_TEXT - len(_CUT) - 20) // (1 if text.isascii() else 4)
    kept = text if len(text) <= most else text[:most] + _CUT.format(len(text))
    return kept if kept.isascii() else kept.encode("utf-8", "replace").decode()


def plain_json(value: Any, depth: int = MOST_DEPTH) -> Any:
    """A copy that holds nothing but JSON; what is nested too deeply is left out."""
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, dict):
        inside = value.items() if depth else ()
        return {clean_text(str(key)): plain_json(each, depth - 1) for key, each in inside}
    if isinstance(value, list | tuple):
        return [plain_json(each, depth - 1) for each in value] if depth else []
    return _number(value) if isinstance(value, int | float) else None


def text_from_value(value: Any) -> str:
    """A value as text: a string as it is, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(plain_json(value), ensure_ascii=False)


def message_content(pieces: tuple[Piece, ...]) -> str | list[dict[str, Any]]:
    """A message of ATIF: a text, or parts where there are images elsewhere."""
    parts = [_part(piece) for piece in pieces if piece]
    if all(part["type"] == "text" for part in parts):
        return clean_text("\n".join(part["text"] for part in parts))
    return parts


def iso_time(milliseconds: int) -> str | None:
    """A time in ISO 8601; None for what is none."""
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")
    except (OverflowError, ValueError, OSError):
        return None


def _part(piece: Piece) -> dict[str, Any]:
    if isinstance(piece, str):
        return {"type": "text", "text": clean_text(piece)}
    known = _image(piece)
    return {"type": "image", "source": known} if known else {"type": "text", "text": _placeholder(piece)}


def _image(piece: Attachment) -> dict[str, Any] | None:
    """The source of an image that is somewhere else, if ATIF knows its type."""
    url = clean_text(piece.url or "")
    if not url.startswith(("http://", "https://")):
        return None
    path = url.partition("?")[0].lower()
    known = next((media for ending, media in _IMAGES.items() if path.endswith(ending)), piece.media_type)
    return {"media_type": known, "path": url} if known in _IMAGES.values() else None


def _placeholder(piece: Attachment) -> str:
    where = f" at {piece.url[:1000]}" if piece.url else ""
    size = f", {piece.size} bytes" if piece.size is not None else ""
    return clean_text(f"[{piece.media_type[:100] or 'file'}{size}{where}]")


def _number(value: float) -> Any:
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if abs(value) < 2**64 else None
    return value if math.isfinite(value) else None
