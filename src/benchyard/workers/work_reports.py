"""Lists and diffs of the work of a run, made of what `devboxes/layers/work_changes.py` wrote."""

import json
import os
from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple

from benchyard.devboxes.layers.work_changes import (
    MOST_BYTES,
    MOST_DIFFED,
    MOST_FILE_BYTES,
    WorkEntry,
    printable,
)
from benchyard.workers.line_diff import StepBudget, hunks, is_binary, quoted_name, split_lines

_LINK = 0o120000
_FILE = 0o100000
_WORDS = {"device": "a device", "other": "a pipe or a socket", "folder": "a folder"}


class _ReadEntry(NamedTuple):
    """An entry, and the sizes of its contents in the report, None where they were not read."""

    entry: WorkEntry
    before_bytes: int | None
    after_bytes: int | None


def list_files(content: BinaryIO, limit: int, after: str | None) -> bytes:
    """Return a page of the differing paths as JSON, in the order of the paths."""
    facts, entries = _read_entries(content)
    shown = [_shown_fields(entry.entry) for entry in entries]
    begin = 0
    if after is not None:
        begin = next((at + 1 for at, each in enumerate(shown) if each["path"] == after), len(shown))
    page = shown[begin : begin + limit]
    told = {
        "files": page,
        "has_more": begin + limit < len(shown),
        "total_count": facts["total"],
        "beside_count": facts["beside"],
        "truncated": facts["truncated"],
    }
    return json.dumps(told, ensure_ascii=False).encode()


def make_diff(content: BinaryIO, most_bytes: int) -> bytes:
    """Return the differences as a unified diff, as git writes it; its top names the paths left out."""
    facts, entries = _read_entries(content)
    budget = StepBudget()
    parts: list[bytes] = []
    left_out: list[str] = []
    size = 0
    for each in entries:
        before = content.read(each.before_bytes or 0)
        now = content.read(each.after_bytes or 0)
        entry = each.entry
        kinds = {entry.type, entry.type_before}
        if not kinds & {"file", "link"}:
            if kinds != {"folder"} and kinds != {None, "folder"}:
                left_out.append(f"{_quoted_path(entry)}: {_WORDS[str(entry.type or entry.type_before)]}")
            continue
        if each.before_bytes is None and each.after_bytes is None:
            left_out.append(f"{_quoted_path(entry)}: {_why_unread(entry)}")
            continue
        # A side that could not be read has no content, although there is a file.
        is_unread = (each.before_bytes is None and entry.change != "added") or (
            each.after_bytes is None and entry.change != "deleted"
        )
        if modes := _modes_only(entry, before, now):
            left_out.append(modes)
            continue
        made = b"".join(_file_diff(entry, before, now, budget, is_unread=is_unread))
        if size + len(made) > most_bytes:
            left_out.append(f"{_quoted_path(entry)}: the diff has {most_bytes} bytes at most")
            continue
        size += len(made)
        parts.append(made)
    return b"".join([*_notes(facts, left_out), *parts])


def _modes_only(entry: WorkEntry, before: bytes, now: bytes) -> str | None:
    """Return a sentence on a change of permissions that git does not know; None for any other change."""
    if entry.change != "modified" or entry.type != "file" or before != now or entry.mode == entry.mode_before:
        return None
    if _git_mode(entry.type, entry.mode) != _git_mode(entry.type_before, entry.mode_before):
        return None
    return f"{_quoted_path(entry)}: only its mode changed, {entry.mode_before or 0:o} -> {entry.mode or 0:o}"


def _read_entries(content: BinaryIO) -> tuple[dict[str, Any], list[_ReadEntry]]:
    facts: dict[str, Any] = json.loads(content.readline())
    entries = []
    for _ in range(facts["entries"]):
        *fields, before, after = json.loads(content.readline())
        entries.append(_ReadEntry(WorkEntry(*fields), before, after))
    return facts, entries


def _shown_fields(entry: WorkEntry) -> dict[str, Any]:
    told = {**entry._asdict(), "path": printable(entry.path)}
    return {name: value for name, value in told.items() if value is not None}


def _quoted_path(entry: WorkEntry) -> str:
    return json.dumps(printable(entry.path), ensure_ascii=False)[1:-1]


def _why_unread(entry: WorkEntry) -> str:
    sizes = [each for each in (entry.size_before, entry.size) if each is not None]
    if max(sizes) <= MOST_FILE_BYTES:
        return f"more than {MOST_DIFFED} files, or {MOST_BYTES >> 20} MiB; name a path to see it"
    return f"too large to be compared, {' -> '.join(map(str, sizes))} bytes"


_MOST_NOTED = 20


def _notes(facts: dict[str, Any], left_out: list[str]) -> Iterator[bytes]:
    if facts["truncated"]:
        yield f"# not all differences are here: {facts['truncated']}\n".encode()
    for line in left_out[:_MOST_NOTED]:
        yield f"# left out: {line}\n".encode()
    if len(left_out) > _MOST_NOTED:
        yield f"# left out: {len(left_out) - _MOST_NOTED} more\n".encode()


def _file_diff(
    entry: WorkEntry, before: bytes, now: bytes, budget: StepBudget, *, is_unread: bool
) -> Iterator[bytes]:
    name = os.fsencode(entry.path.lstrip("/"))
    old, new = quoted_name(b"a/" + name), quoted_name(b"b/" + name)
    yield b"diff --git %s %s\n" % (old, new)
    modes = _git_mode(entry.type_before, entry.mode_before), _git_mode(entry.type, entry.mode)
    if entry.change == "added":
        yield b"new file mode %o\n" % modes[1]
    elif entry.change == "deleted":
        yield b"deleted file mode %o\n" % modes[0]
    elif modes[0] != modes[1]:
        yield b"old mode %o\nnew mode %o\n" % modes
    if before == now and not is_unread:
        return
    sides = (
        b"/dev/null" if entry.change == "added" else old,
        b"/dev/null" if entry.change == "deleted" else new,
    )
    if is_unread or is_binary(before) or is_binary(now):
        yield b"Binary files %s and %s differ\n" % sides
        return
    # A name with a space has a tab behind it, which shows patch where it ends.
    yield b"--- %s\n+++ %s\n" % (_with_tab(sides[0]), _with_tab(sides[1]))
    yield from hunks(split_lines(before), split_lines(now), budget)


def _with_tab(name: bytes) -> bytes:
    return name + b"\t" if b" " in name and not name.startswith(b'"') else name


def _git_mode(type: str | None, mode: int | None) -> int:
    if type == "link":
        return _LINK
    return _FILE | (0o755 if (mode or 0) & 0o100 else 0o644)
