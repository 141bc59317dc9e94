"""Entries of a conversation, independent of the dialect, as a trajectory holds them."""

import json
import math
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

Who = Literal["system", "user", "agent", "tool"]


class MessageFile(NamedTuple):
    """Description of a picture or another file in a message, without its bytes."""

    media_type: str
    size: int | None = None
    """Size in bytes of a file contained in the message itself."""
    url: str | None = None


Piece = str | MessageFile


@dataclass(frozen=True)
class ToolUse:
    """Call of a tool that a model asks for."""

    id: str
    """Id of the call; empty if the dialect has none."""
    name: str
    arguments: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ToolResult:
    """Result that a tool returned."""

    id: str
    name: str
    pieces: tuple[Piece, ...] = ()
    is_error: bool = False


@dataclass(frozen=True)
class ConversationEntry:
    """A message, or a self-contained part of one."""

    who: Who
    pieces: tuple[Piece, ...] = ()
    reasoning: str = ""
    uses: tuple[ToolUse, ...] = ()
    results: tuple[ToolResult, ...] = ()

    @property
    def is_empty(self) -> bool:
        """True if the entry has no content."""
        return not (any(self.pieces) or self.reasoning or self.uses or self.results)

    @property
    def text(self) -> str:
        """The texts of the entry, one per line."""
        return "\n".join(piece for piece in self.pieces if isinstance(piece, str))


def join_entries(entries: list[ConversationEntry]) -> ConversationEntry:
    """Merge several entries of the agent into one."""
    return ConversationEntry(
        "agent",
        tuple(piece for entry in entries for piece in entry.pieces),
        "\n".join(entry.reasoning for entry in entries if entry.reasoning),
        tuple(use for entry in entries for use in entry.uses),
        tuple(result for entry in entries for result in entry.results),
    )


MOST_TEXT = 16 * 1024**2
"""Largest size of one text, in bytes."""
MOST_DEPTH = 48
_CUT = "\n[cut: {} characters in all]"
_IMAGES = {".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif"}
_IMAGES[".webp"] = "image/webp"


def clean_text(text: str) -> str:
    """Return a text that is valid UTF-8, cut if it is too large."""
    most = (MOST_TEXT - len(_CUT) - 20) // (1 if text.isascii() else 4)
    shortened = text if len(text) <= most else text[:most] + _CUT.format(len(text))
    return shortened if shortened.isascii() else shortened.encode("utf-8", "replace").decode()


def plain_json(value: Any, depth: int = MOST_DEPTH) -> Any:
    """Return a copy that is valid JSON; values nested too deeply are left out."""
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, dict):
        inside = value.items() if depth else ()
        return {clean_text(str(key)): plain_json(each, depth - 1) for key, each in inside}
    if isinstance(value, list | tuple):
        return [plain_json(inner, depth - 1) for inner in value] if depth else []
    return _number(value) if isinstance(value, int | float) else None


def text_from_value(value: Any) -> str:
    """Return a value as text: a string unchanged, any other value as JSON."""
    return value if isinstance(value, str) else json.dumps(plain_json(value), ensure_ascii=False)


def message_content(pieces: tuple[Piece, ...]) -> str | list[dict[str, Any]]:
    """Return the content of an ATIF message: a text, or parts if there are images stored elsewhere."""
    parts = [_part(piece) for piece in pieces if piece]
    if all(part["type"] == "text" for part in parts):
        return clean_text("\n".join(part["text"] for part in parts))
    return parts


def iso_time(milliseconds: int) -> str | None:
    """Return a time in ISO 8601; None if it is not a valid time."""
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")
    except (OverflowError, ValueError, OSError):
        return None


def _part(piece: Piece) -> dict[str, Any]:
    if isinstance(piece, str):
        return {"type": "text", "text": clean_text(piece)}
    known = _image(piece)
    return {"type": "image", "source": known} if known else {"type": "text", "text": _placeholder(piece)}


def _image(piece: MessageFile) -> dict[str, Any] | None:
    """Return the source of an image stored elsewhere; None if ATIF does not know its type."""
    url = clean_text(piece.url or "")
    if not url.startswith(("http://", "https://")):
        return None
    path = url.partition("?")[0].lower()
    known = next((media for ending, media in _IMAGES.items() if path.endswith(ending)), piece.media_type)
    return {"media_type": known, "path": url} if known in _IMAGES.values() else None


def _placeholder(piece: MessageFile) -> str:
    where = f" at {piece.url[:1000]}" if piece.url else ""
    size = f", {piece.size} bytes" if piece.size is not None else ""
    return clean_text(f"[{piece.media_type[:100] or 'file'}{size}{where}]")


def _number(value: float) -> Any:
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if abs(value) < 2**64 else None
    return value if math.isfinite(value) else None
