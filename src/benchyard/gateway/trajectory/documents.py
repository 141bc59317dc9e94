"""Texts of trajectories, written with one step per line and read step by step; standard library alone.

The text is the same JSON document as without the line breaks. It is read without the whole of its values in
memory, so that a trajectory of hundreds of thousands of steps can be taken apart.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NoReturn

from benchyard.errors import UsageError

MOST_BYTES = 128 * 1024**2
"""Largest trajectory that is read step by step; a larger one can only be downloaded."""
MOST_STEPS = 1_000_000
MOST_NESTED = 8
"""Deepest nesting of sub-agents to read steps of."""
STEPS = "steps"
INSIDE = "subagent_trajectories"
_SPACE = re.compile(r"[ \t\n\r]*")
_HEAD_KEYS = ("schema_version", "trajectory_id", "session_id", "agent")
_MOST_SHOWN = 200


class _Unfinished(Exception):
    """The text ends or breaks here."""


@dataclass
class TrajectoryHead:
    """Facts about one trajectory of a document: the main one, or a sub-agent's."""

    known: dict[str, Any] = field(default_factory=dict)
    """Fields that name the trajectory and its agent, of any type."""
    steps: int = 0


@dataclass(frozen=True)
class DocumentPiece:
    """A piece of a document's text; all pieces together are the document."""

    text: str
    step: Any = None
    """The value of the step that this text encodes."""
    trajectory: int | None = None
    """Index of the trajectory that the step belongs to; None if the piece is no step."""


def json_line(value: Any) -> str:
    """Return a value as JSON without line breaks; numbers that JSON does not have become null."""
    try:
        line = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except ValueError:
        line = json.dumps(_finite(value), ensure_ascii=False, separators=(",", ":"))
    if line.isascii():
        return line
    try:
        line.encode()
    except UnicodeEncodeError:
        # Half a surrogate pair, which JSON can escape but UTF-8 cannot encode.
        return json.dumps(_finite(value), separators=(",", ":"))
    return line


def document_text(document: dict[str, Any]) -> str:
    """Return a trajectory as JSON with one step per line."""
    return "".join(_written(document))


def _written(document: dict[str, Any]) -> Iterator[str]:
    yield "{"
    for place, (key, value) in enumerate(document.items()):
        yield f"{',' if place else ''}{json_line(str(key))}:"
        if key == STEPS and isinstance(value, list) and value:
            yield "[\n" + ",\n".join(map(json_line, value)) + "\n]"
        elif key == INSIDE and isinstance(value, list) and value:
            for count, inner in enumerate(value):
                yield ",\n" if count else "[\n"
                yield from _written(inner) if isinstance(inner, dict) else (json_line(inner),)
            yield "\n]"
        else:
            yield json_line(value)
    yield "}"


class TrajectoryDocument:
    """A trajectory's text, which is read once, from its beginning to its end or to where it breaks."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._decoder = json.JSONDecoder()
        self._steps = 0
        self.heads: list[TrajectoryHead] = []
        """The trajectories found so far: the main one, then those of sub-agents."""
        self.problem: str | None = None
        """Reason why the document could not be read to its end."""

    def pieces(self) -> Iterator[DocumentPiece]:
        """Yield the document in pieces, each step in a separate one."""
        try:
            if self._next() != "{":
                self._fail("a trajectory is a JSON object")
            yield from self._object(0)
            if self._next():
                self._fail("there is more after the end of the trajectory")
        except _Unfinished as error:
            self.problem = str(error)
        except RecursionError:
            self.problem = "a value is nested too deeply"

    def steps(self) -> Iterator[tuple[int, Any]]:
        """Yield each step with the index of its trajectory."""
        for piece in self.pieces():
            if piece.trajectory is not None:
                yield piece.trajectory, piece.step

    def _object(self, depth: int) -> Iterator[DocumentPiece]:
        own = len(self.heads)
        head = TrajectoryHead()
        self.heads.append(head)
        yield DocumentPiece(self._take("{"))
        count = 0
        while self._next() != "}":
            comma = self._comma(count)
            key = self._value() if self._next() == '"' else self._fail("a field has no name")
            self._expect(":")
            yield DocumentPiece(f"{comma}{json_line(key)}:")
            if key == STEPS and self._next() == "[":
                yield from self._list(depth, own)
            elif key == INSIDE and depth < MOST_NESTED and self._next() == "[":
                yield from self._list(depth, None)
            else:
                value = self._value()
                if key in _HEAD_KEYS:
                    head.known[key] = value
                yield DocumentPiece(json_line(value))
            count += 1
        yield DocumentPiece(self._take("}"))

    def _list(self, depth: int, owner: int | None) -> Iterator[DocumentPiece]:
        """Yield a list of steps, or of trajectories inside this one."""
        yield DocumentPiece(self._take("["))
        count = 0
        while self._next() != "]":
            comma = self._comma(count).strip()
            yield DocumentPiece(f"{comma}\n")
            if owner is not None:
                yield self._step(owner)
            elif self._next() == "{":
                yield from self._object(depth + 1)
            else:
                yield DocumentPiece(json_line(self._value()))
            count += 1
        yield DocumentPiece("\n]" if count else "]")
        self._expect("]")

    def _step(self, owner: int) -> DocumentPiece:
        self._steps += 1
        if self._steps > MOST_STEPS:
            self._fail(f"there are more than {MOST_STEPS} steps")
        step = self._value()
        self.heads[owner].steps += 1
        return DocumentPiece(json_line(step), step, owner)

    def _comma(self, count: int) -> str:
        if not count:
            return ""
        self._expect(",")
        return ","

    def _next(self) -> str:
        """Return the next character that is no space; empty at the end."""
        found = _SPACE.match(self._text, self._at)
        self._at = found.end() if found else self._at
        return self._text[self._at : self._at + 1]

    def _take(self, character: str) -> str:
        self._expect(character)
        return character

    def _expect(self, character: str) -> None:
        if (found := self._next()) != character:
            self._fail(f"it has {found!r} in the place of {character!r}" if found else "it ends")
        self._at += 1

    def _value(self) -> Any:
        self._next()
        try:
            value, self._at = self._decoder.raw_decode(self._text, self._at)
        except json.JSONDecodeError as error:
            # An open string reaches to the end of the text.
            is_open = error.msg.startswith("Unterminated string")
            self._fail(error.msg, len(self._text) if is_open else error.pos)
        except RecursionError:
            self._fail("a value is nested too deeply")
        except ValueError as error:
            # A number with thousands of digits.
            self._fail(str(error)[:_MOST_SHOWN])
        else:
            return value

    def _fail(self, problem: str, place: int | None = None) -> NoReturn:
        at = self._at if place is None else place
        if not self._text[at:].strip():
            problem = "it ends in the middle; it is still being written, or was cut off"
        raise _Unfinished(f"{problem}, at character {at}")


def document_of(content: bytes) -> TrajectoryDocument:
    """Return the document in a file; raises UsageError if it is too large, or no text."""
    if len(content) > MOST_BYTES:
        most = MOST_BYTES // 1024**2
        raise UsageError(
            f"the trajectory has more than {most} MiB, which are not read by pieces; download it"
        )
    if not content.strip():
        raise UsageError("the trajectory is empty; it is still being written, or nothing was kept")
    try:
        return TrajectoryDocument(content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        # A file that is being written may end within a character.
        if error.end == len(content) and error.reason == "unexpected end of data":
            return TrajectoryDocument(content[: error.start].decode("utf-8-sig"))
        raise UsageError(
            f"the trajectory is not text in UTF-8, at byte {error.start}; download it"
        ) from error


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_finite(each) for each in value]
    is_number = not isinstance(value, float) or float("-inf") < value < float("inf")
    return value if is_number else None
