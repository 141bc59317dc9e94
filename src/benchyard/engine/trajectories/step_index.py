"""Index of a trajectory's steps, with the span and summary of each, made and searched by workers.

An index is a file beside the trajectory: a line that describes it, the span of every step, the
index as compressed JSON, giant steps cut short, and the steps themselves where they differ from the stored
trajectory: a foreign one is not written line by line, and secrets are taken out.
"""

import base64
import gzip
import json
import struct
import zlib
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO, NamedTuple

from benchyard.engine.redaction import Scrubber
from benchyard.errors import UsageError
from benchyard.gateway.trajectory.documents import (
    MOST_BYTES,
    STEPS,
    TrajectoryDocument,
    TrajectoryHead,
    document_of,
    json_line,
)
from benchyard.gateway.trajectory.stored_steps import StoredStep, stored_step

WHOLE_BYTES = 256 * 1024
"""Size up to which a step is shown whole among others."""
FIRST_CHARACTERS = 80
HEAD_BYTES = 4096
"""Size within which the describing line ends."""
LEFT_OUT = "(left out: a secret reaches over its edge)"
_CUT_BYTES = 64 * 1024
_CUT_TEXTS = (8192, 1024, 128)
"""Lengths that the texts of a giant step are cut to, until it is small enough."""
_CUT_ITEMS = 100
_CUT_DEPTH = 12
_SPAN = struct.Struct("<QQQQ")
_MOST_NAME = 200
_MOST_TOOLS = 20
_NO_STEPS = "it has no list of steps"


class StepSpan(NamedTuple):
    """Span of a step, in the stored trajectory or in the index file, and of its cut form in the latter."""

    offset: int
    length: int
    cut_offset: int
    cut_length: int
    """0 if the step is small enough to be shown whole."""


@dataclass(frozen=True)
class IndexHead:
    """The line that describes an index file."""

    count: int = 0
    index_bytes: int = 0
    is_inside: bool = False
    """True if the steps are in the index file, and not in the stored trajectory."""
    reason: str | None = None
    """Reason why the trajectory cannot be taken apart."""

    @classmethod
    def of(cls, begin: bytes) -> "tuple[IndexHead, int]":
        """Read the description from the beginning of a file; returns also its length."""
        line, _, _ = begin.partition(b"\n")
        return cls(**json.loads(line)), len(line) + 1

    @property
    def table_bytes(self) -> int:
        """Return the size of the table of spans."""
        return self.count * _SPAN.size


def table_range(first: int, last: int) -> tuple[int, int]:
    """Return where the spans of some steps, from 1, begin and end within the table."""
    return (first - 1) * _SPAN.size, last * _SPAN.size


def spans_in(table: bytes) -> list[StepSpan]:
    """Return the spans in a piece of the table."""
    return [StepSpan(*each) for each in _SPAN.iter_unpack(table)]


def make_index(content: BinaryIO, name: str, secrets: Sequence[str]) -> bytes:
    """Return the index file of a trajectory without these secrets; of an unreadable one, the reason."""
    stored = content.read(MOST_BYTES + 1)
    try:
        document = document_of(stored)
        body = _Body(document)
    except UsageError as error:
        return _file(IndexHead(reason=error.message), b"", b"", b"", b"")
    if not body.lines and (problem := document.problem or (None if body.has_list else _NO_STEPS)):
        reason = f"{name[:_MOST_NAME]} is not a trajectory: {problem}; it can still be downloaded"
        return _file(IndexHead(reason=reason), b"", b"", b"", b"")
    scrubber = Scrubber(secrets)
    is_inside = body.clean(scrubber) or body.text != stored
    columns, cut = _Columns(), _CutSteps()
    for line in body.lines:
        columns.add(line)
        cut.add(line)
    index = _index_text(name, document, columns, scrubber)
    spans, steps = bytearray(), bytearray()
    head = IndexHead(len(body.lines), len(index), is_inside)
    base = len(_head_line(head)) + head.table_bytes + len(index)
    for line, (cut_offset, cut_length) in zip(body.lines, cut.spans, strict=True):
        offset = base + len(cut.text) + len(steps) if is_inside else line.offset
        spans += _SPAN.pack(offset, len(line.text), base + cut_offset, cut_length)
        steps += line.text + b",\n" if is_inside else b""
    return _file(head, bytes(spans), index, bytes(cut.text), bytes(steps))


def _file(head: IndexHead, spans: bytes, index: bytes, cut: bytes, steps: bytes) -> bytes:
    return b"".join((_head_line(head), spans, index, cut, steps))


def _head_line(head: IndexHead) -> bytes:
    """Return the describing line; its length does not depend on the numbers in it."""
    return json.dumps(vars(head)).encode().ljust(HEAD_BYTES - 1)[: HEAD_BYTES - 1] + b"\n"


@dataclass
class _Line:
    """A step as one line."""

    number: int
    trajectory: int
    offset: int
    text: bytes
    step: StoredStep


class _Body:
    """A document's text with one step per line, and its steps."""

    def __init__(self, document: TrajectoryDocument) -> None:
        pieces: list[bytes] = []
        self.lines: list[_Line] = []
        self.has_list = False
        at = 0
        for piece in document.pieces():
            text = piece.text.encode()
            if piece.trajectory is not None:
                number = len(self.lines) + 1
                step = stored_step(piece.step, number, piece.trajectory)
                self.lines.append(_Line(number, piece.trajectory, at, text, step))
            self.has_list = self.has_list or text == b"["
            pieces.append(text)
            at += len(text)
        self.text = b"".join(pieces)

    def clean(self, scrubber: Scrubber) -> bool:
        """Take secrets out of the steps; returns whether there were any, also elsewhere in the document."""
        found = scrubber.places(self.text, len(self.text))
        starts = [line.offset for line in self.lines]
        touched: dict[int, bool] = {}
        for begin, end in found:
            first, last = (max(0, bisect_right(starts, offset) - 1) for offset in (begin, end - 1))
            for index in range(first, last + 1) if starts else ():
                line = self.lines[index]
                is_within = line.offset <= begin and end <= line.offset + len(line.text)
                overlaps = begin < line.offset + len(line.text) and line.offset < end
                touched[index] = touched.get(index, False) or (overlaps and not is_within)
        for index, is_crossed in touched.items():
            line = self.lines[index]
            line.text = _without(line, scrubber, is_crossed=is_crossed)
            line.step = stored_step(json.loads(line.text), line.number, line.trajectory)
        return bool(found)


def _without(line: _Line, scrubber: Scrubber, *, is_crossed: bool) -> bytes:
    """Return a step without secrets; one that is no JSON without them is left out."""
    text = scrubber.data(line.text)
    try:
        json.loads(text)
    except ValueError:
        is_crossed = True
    return json_line({"source": "system", "message": LEFT_OUT}).encode() if is_crossed else text


class _CutSteps:
    """Giant steps with their texts cut short."""

    def __init__(self) -> None:
        self.text = bytearray()
        self.spans: list[tuple[int, int]] = []
        """Offset and length of each step's cut form; a length of 0 if it needs none."""

    def add(self, line: _Line) -> None:
        if len(line.text) <= WHOLE_BYTES:
            self.spans.append((0, 0))
            return
        beginning = {"source": line.step.source, "message": line.step.text[: _CUT_TEXTS[-1]]}
        text = cut_text(json.loads(line.text), beginning)
        self.spans.append((len(self.text), len(text)))
        self.text += text


def cut_text(value: Any, otherwise: dict[str, Any]) -> bytes:
    """Return a value as JSON with its texts cut until it is small, or else another value."""
    shorter = (json_line(_shortened(value, length)).encode() for length in _CUT_TEXTS)
    return next((each for each in shorter if len(each) <= _CUT_BYTES), json_line(otherwise).encode())


def _shortened(value: Any, length: int, depth: int = _CUT_DEPTH) -> Any:
    """Return a value with its texts, lists and objects cut."""
    if isinstance(value, str):
        return value if len(value) <= length else f"{value[:length]}... {len(value)} characters in all"
    if isinstance(value, list | dict) and not depth:
        return "..."
    if isinstance(value, list):
        return [_shortened(each, length, depth - 1) for each in value[:_CUT_ITEMS]]
    if isinstance(value, dict):
        kept = list(value.items())[:_CUT_ITEMS]
        return {key[:length]: _shortened(each, length, depth - 1) for key, each in kept}
    return value


@dataclass
class _Columns:
    """The index as columns, one value per step in each."""

    trajectory: list[int] = field(default_factory=list)
    source: list[str] = field(default_factory=list)
    tools: list[list[str]] = field(default_factory=list)
    text: list[str] = field(default_factory=list)
    model: list[str | None] = field(default_factory=list)
    prompt_tokens: list[int | None] = field(default_factory=list)
    completion_tokens: list[int | None] = field(default_factory=list)
    cost_usd: list[float | None] = field(default_factory=list)
    timestamp: list[str | None] = field(default_factory=list)
    is_error: list[bool] = field(default_factory=list)
    is_copied: list[bool] = field(default_factory=list)
    size_bytes: list[int] = field(default_factory=list)

    def add(self, line: _Line) -> None:
        step = line.step
        self.trajectory.append(line.trajectory)
        self.source.append(step.source[:_MOST_NAME])
        self.tools.append([call.name for call in step.calls[:_MOST_TOOLS]])
        self.text.append(first_words(step))
        self.model.append(step.model[:_MOST_NAME] if step.model else None)
        self.prompt_tokens.append(step.prompt_tokens)
        self.completion_tokens.append(step.completion_tokens)
        self.cost_usd.append(step.cost_usd)
        self.timestamp.append(step.timestamp)
        self.is_error.append(step.has_error)
        self.is_copied.append(step.is_copied)
        self.size_bytes.append(len(line.text))


def first_words(step: StoredStep) -> str:
    """Return the first characters of a step's message, else of its call's arguments, thoughts or result."""
    texts = (step.text, *map(_argument, step.calls[:1]), step.reasoning, *(o.text for o in step.observations))
    found = next((" ".join(text[: 8 * FIRST_CHARACTERS].split()) for text in texts if text.strip()), "")
    return found[:FIRST_CHARACTERS]


def _argument(call: Any) -> str:
    """Return the first argument of a tool call that is a text."""
    values = call.arguments.values() if isinstance(call.arguments, dict) else (call.arguments,)
    return next((value for value in values if isinstance(value, str) and value.strip()), "")


def _index_text(name: str, document: TrajectoryDocument, columns: _Columns, scrubber: Scrubber) -> bytes:
    """Return the index as compressed JSON."""
    facts = {
        "trace": name,
        "count": len(columns.source),
        "problem": document.problem,
        "trajectories": [_head(head) for head in document.heads],
        "columns": vars(columns),
    }
    text = scrubber.data(json_line(facts).encode())
    try:
        json.loads(text)
    except ValueError:
        # Without the secret the text is not valid JSON: keep only the values that are not texts.
        blank = [""] * len(columns.source)
        bare = {**vars(columns), "text": blank, "tools": [[] for _ in blank], "model": [None for _ in blank]}
        text = json_line({**facts, "trajectories": [], "columns": bare}).encode()
    return gzip.compress(text, 6, mtime=0)


def _head(head: TrajectoryHead) -> dict[str, Any]:
    agent = head.known.get("agent")
    agent = agent if isinstance(agent, dict) else {}
    found = {
        "trajectory_id": head.known.get("trajectory_id"),
        "schema_version": head.known.get("schema_version"),
        "agent": agent.get("name"),
        "model": agent.get("model_name"),
    }
    named = {key: value[:_MOST_NAME] for key, value in found.items() if isinstance(value, str)}
    return {**named, STEPS: head.steps}


MOST_FOUND = 500
_MOST_DEPTH = 64
"""Depth down to which texts are searched."""
_AROUND = 60
"""Characters of the text before and after a hit."""


def packed_table(table: bytes) -> str:
    """Return the table of spans as a parameter for `find_steps`."""
    return base64.b85encode(zlib.compress(table, 1)).decode()


def find_steps(content: BinaryIO, table: str, text: str, most: int) -> bytes:
    """Return the steps that contain a text, in any case, and its surroundings, as JSON."""
    wanted = text.lower()
    quick = wanted.encode() if wanted.isascii() and json.dumps(wanted) == f'"{wanted}"' else None
    found: list[dict[str, Any]] = []
    total = 0
    for number, span in enumerate(spans_in(zlib.decompress(base64.b85decode(table))), start=1):
        content.seek(span.offset)
        line = content.read(span.length)
        if quick is not None and quick not in line.lower():
            continue
        hit = next(_hits(json.loads(line), wanted), None)
        if hit is None:
            continue
        total += 1
        if len(found) < most:
            found.append({"number": number, **hit})
    return json_line({"found": found, "total": total}).encode()


def _hits(step: Any, wanted: str) -> Iterator[dict[str, Any]]:
    """Yield where a step contains a text, and the text around it."""
    for where, text in _texts(step, "", _MOST_DEPTH):
        at = text.lower().find(wanted)
        if at >= 0:
            begin, end = max(0, at - _AROUND), at + len(wanted) + _AROUND
            yield {"field": where[:_MOST_NAME], "text": text[begin:end]}


def _texts(value: Any, where: str, depth: int) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield where, value
    elif isinstance(value, Mapping) and depth:
        for key, each in value.items():
            yield from _texts(each, f"{where}.{key[:_MOST_NAME]}" if where else key, depth - 1)
    elif isinstance(value, list) and depth:
        for index, each in enumerate(value):
            yield from _texts(each, f"{where}[{index}]", depth - 1)
