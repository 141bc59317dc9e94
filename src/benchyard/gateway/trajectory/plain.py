"""Values and texts as they may stand in a trajectory: bounded, and fit for any JSON."""

import json
import math
from datetime import UTC, datetime
from typing import Any

from benchyard.gateway.trajectory.entries import Attachment, Piece

MOST_TEXT = 16 * 1024**2
"""Bytes of one text."""
MOST_DEPTH = 48
_CUT = "\n[cut: {} characters in all]"
_IMAGES = {".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif"}
_IMAGES[".webp"] = "image/webp"


def clean(text: str) -> str:
    """A text that can be written down, and is not too large."""
    most = (MOST_TEXT - len(_CUT) - 20) // (1 if text.isascii() else 4)
    kept = text if len(text) <= most else text[:most] + _CUT.format(len(text))
    return kept if kept.isascii() else kept.encode("utf-8", "replace").decode()


def plain(value: Any, depth: int = MOST_DEPTH) -> Any:
    """A copy that holds nothing but JSON; what is nested too deeply is left out."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        inside = value.items() if depth else ()
        return {clean(str(key)): plain(each, depth - 1) for key, each in inside}
    if isinstance(value, list | tuple):
        return [plain(each, depth - 1) for each in value] if depth else []
    return _number(value) if isinstance(value, int | float) else None


def written(value: Any) -> str:
    """A value as text: a string as it is, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(plain(value), ensure_ascii=False)


def content(pieces: tuple[Piece, ...]) -> str | list[dict[str, Any]]:
    """A message of ATIF: a text, or parts where there are images elsewhere."""
    parts = [_part(piece) for piece in pieces if piece]
    if all(part["type"] == "text" for part in parts):
        return clean("\n".join(part["text"] for part in parts))
    return parts


def moment(milliseconds: int) -> str | None:
    """A time in ISO 8601; None for what is none."""
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")
    except (OverflowError, ValueError, OSError):
        return None


def _part(piece: Piece) -> dict[str, Any]:
    if isinstance(piece, str):
        return {"type": "text", "text": clean(piece)}
    known = _image(piece)
    return {"type": "image", "source": known} if known else {"type": "text", "text": _placeholder(piece)}


def _image(piece: Attachment) -> dict[str, Any] | None:
    """The source of an image that is somewhere else, if ATIF knows its type."""
    url = clean(piece.url or "")
    if not url.startswith(("http://", "https://")):
        return None
    path = url.partition("?")[0].lower()
    known = next((media for ending, media in _IMAGES.items() if path.endswith(ending)), piece.media_type)
    return {"media_type": known, "path": url} if known in _IMAGES.values() else None


def _placeholder(piece: Attachment) -> str:
    where = f" at {piece.url[:1000]}" if piece.url else ""
    size = f", {piece.size} bytes" if piece.size is not None else ""
    return clean(f"[{piece.media_type[:100] or 'file'}{size}{where}]")


def _number(value: float) -> Any:
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if abs(value) < 2**64 else None
    return value if math.isfinite(value) else None
