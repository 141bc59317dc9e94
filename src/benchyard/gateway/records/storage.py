"""Storage of calls: one SQLite file per grant, with repeated parts of requests stored only once.

Items of a conversation are `parts`, by hash. A conversation is a chain of `links`, each an item and the link
before it: a request that adds to a conversation adds one link and one part, and a long one grows linearly.
"""

import hashlib
import json
import os
import sqlite3
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchyard.gateway.calls import TokenUsage
from benchyard.store.private_files import keep_private

SCHEMA = """
CREATE TABLE IF NOT EXISTS meta(key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS parts(id INTEGER PRIMARY KEY, hash BLOB NOT NULL UNIQUE, data BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS links(
    id INTEGER PRIMARY KEY, before INTEGER NOT NULL, part INTEGER NOT NULL, UNIQUE(before, part));
CREATE TABLE IF NOT EXISTS calls(
    number INTEGER PRIMARY KEY, dialect TEXT NOT NULL, provider TEXT NOT NULL, path TEXT NOT NULL, model TEXT,
    started_ms INTEGER NOT NULL, request BLOB, ended_ms INTEGER, status INTEGER, first_byte_ms INTEGER,
    answer BLOB, encoding TEXT, kind TEXT, usage TEXT, cost_usd REAL, waited_ms INTEGER, limited_ms INTEGER,
    error TEXT);
"""
_NEW_LINK = "INSERT INTO links(before, part) VALUES (?, ?)"
_PATIENCE_SECONDS = 30.0


@dataclass(frozen=True)
class CallStart:
    """Facts about a call at its start."""

    number: int
    dialect: str
    provider: str
    path: str
    started_ms: int


@dataclass(frozen=True)
class CallEnd:
    """Facts about a call at its end."""

    number: int
    status: int
    ended_ms: int
    first_byte_ms: int | None
    answer: bytes
    """The body of the answer as received."""
    encoding: str | None
    kind: str
    waited_ms: int
    """Milliseconds that this call was held because of the rate limit."""
    limited_ms: int
    """Milliseconds that this call adds to its grant's wait; overlapping waits are counted only once."""
    error: str | None


def open_for_writing(file: Path) -> sqlite3.Connection:
    """Open a file for writing; commits survive this process, and after `sync_to_disk` the machine's crash."""
    keep_private(file)
    connection = sqlite3.connect(file, timeout=_PATIENCE_SECONDS, isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=NORMAL")
    connection.executescript(f"BEGIN IMMEDIATE;{SCHEMA}COMMIT;")
    return connection


def sync_to_disk(file: Path) -> None:
    """Flush the commits of a file to disk."""
    descriptor = os.open(file.with_name(f"{file.name}-wal"), os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def put_start(
    connection: sqlite3.Connection, call: CallStart, model: str | None, body: Any, shared: Sequence[str]
) -> None:
    """Store a call at its start: a row without an end."""
    connection.execute(
        "INSERT OR REPLACE INTO calls(number, dialect, provider, path, model, started_ms, request) "
        "VALUES (?, ?, ?, ?, ?, ?, ?)",
        (
            *(call.number, call.dialect, call.provider, call.path, _text(model), call.started_ms),
            _pack(_take_apart(connection, body, shared)),
        ),
    )


def put_end(
    connection: sqlite3.Connection, call: CallEnd, usage: TokenUsage | None, cost_usd: float | None
) -> None:
    """Store the end of a call."""
    connection.execute(
        "UPDATE calls SET status=?, ended_ms=?, first_byte_ms=?, answer=?, encoding=?, kind=?, waited_ms=?, "
        "limited_ms=?, error=?, usage=?, cost_usd=? WHERE number=?",
        (
            *(call.status, call.ended_ms, call.first_byte_ms, zlib.compress(call.answer), call.encoding),
            *(call.kind, call.waited_ms, call.limited_ms, _text(call.error)),
            None if usage is None else json.dumps(vars(usage)),
            cost_usd,
            call.number,
        ),
    )


def put_meta(connection: sqlite3.Connection, key: str, value: str) -> None:
    """Store a fact about the grant."""
    connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))


def _text(value: str | None) -> str | None:
    """Return a text that can be stored: lone surrogates, which JSON can hold, are replaced."""
    return None if value is None else value.encode(errors="replace").decode()


def _pack(value: Any) -> bytes:
    return zlib.compress(json.dumps(value, separators=(",", ":")).encode())


def _take_apart(connection: sqlite3.Connection, body: Any, shared: Sequence[str]) -> dict[str, Any]:
    if not isinstance(body, dict):
        return {"body": body}
    lists, parts, rest = {}, {}, dict(body)
    for key in shared:
        if key not in body:
            continue
        # The key stays, so that the request is restored in its original order.
        rest[key] = None
        if isinstance(body[key], list):
            lists[key] = _chain(connection, body[key])
        else:
            parts[key] = _part(connection, body[key])
    return {"body": rest, "lists": lists, "parts": parts}


def _chain(connection: sqlite3.Connection, items: list[Any]) -> int:
    last = 0
    for item in items:
        step = (last, _part(connection, item))
        row = connection.execute("SELECT id FROM links WHERE before=? AND part=?", step).fetchone()
        last = row[0] if row else _insert(connection, _NEW_LINK, step)
    return last


def _part(connection: sqlite3.Connection, value: Any) -> int:
    data = json.dumps(value, separators=(",", ":")).encode()
    name = hashlib.blake2b(data, digest_size=20).digest()
    row = connection.execute("SELECT id FROM parts WHERE hash=?", (name,)).fetchone()
    if row:
        return int(row[0])
    return _insert(connection, "INSERT INTO parts(hash, data) VALUES (?, ?)", (name, zlib.compress(data)))


def _insert(connection: sqlite3.Connection, statement: str, values: tuple[Any, ...]) -> int:
    return int(connection.execute(statement, values).lastrowid or 0)
