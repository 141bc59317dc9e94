"""Reading what is kept of calls, in any process, while the gateway writes."""

import json
import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from benchyard.errors import NotFound, StoreError
from benchyard.gateway import answers
from benchyard.gateway.calls import Call, Usage
from benchyard.gateway.dialects import finding
from benchyard.gateway.grants import Spent

INTERRUPTED = "interrupted"
"""What a call failed with that has no end: it is in flight, or was when the gateway was killed."""
OTHERS = "others"
"""The fact about a grant that counts its requests which were no calls of a model."""
_PATIENCE_SECONDS = 30.0


@dataclass(frozen=True)
class Kept:
    """What a grant has behind it, as its file tells."""

    spent: Spent
    unmetered: int
    """Calls that may have used what nobody told us of."""
    last_number: int
    group: str | None


def read_calls(file: Path) -> Iterator[Call]:
    """Every call in its order; what requests have in common is one object, not to be changed.

    Raises NotFound if there is no such file, StoreError if it cannot be read.
    """
    with reading(file) as connection:
        parts: dict[int, Any] = {}
        rows = connection.execute("SELECT * FROM calls ORDER BY number")
        rows.row_factory = sqlite3.Row
        for row in rows:
            yield _call(connection, row, parts)


@contextmanager
def reading(file: Path) -> Iterator[sqlite3.Connection]:
    """A connection that reads a grant's file; raises NotFound, StoreError."""
    with closing(_opened(file)) as connection, _store_errors(file):
        yield connection


def read_kept(file: Path) -> Kept:
    """What the calls of a file come to; raises NotFound, StoreError."""
    with reading(file) as connection:
        meta = dict(connection.execute("SELECT key, value FROM meta").fetchall())
        cursor = connection.cursor()
        cursor.row_factory = sqlite3.Row
        rows = cursor.execute(
            "SELECT number, status, usage, cost_usd, limited_ms, error FROM calls ORDER BY number"
        ).fetchall()
    usage, cost, unmetered = Usage(), 0.0, 0
    known = True
    for row in rows:
        told, status = row["usage"], row["status"] or 0
        unmetered += is_unmetered(status, row["error"], told=told is not None)
        if told is not None:
            usage += Usage(**json.loads(told))
            cost += row["cost_usd"] or 0.0
            known = known and row["cost_usd"] is not None
        else:
            known = known and not is_unpriced(status)
    last = rows[-1] if rows else None
    spent = Spent(
        calls=len(rows),
        others=int(meta.get(OTHERS, 0)),
        usage=usage,
        cost_usd=cost if known else None,
        rate_limited_ms=sum(row["limited_ms"] or 0 for row in rows),
        over_budget=meta.get("over_budget"),
        last_error=(last["error"] or (None if last["status"] else INTERRUPTED)) if last else None,
        last_status=(last["status"] or 0) if last else None,
    )
    return Kept(spent, unmetered, last["number"] if last else 0, meta.get("group"))


def is_unmetered(status: int, error: str | None, *, told: bool) -> bool:
    """Whether a call may have used what nobody told us of: it was not refused, and did not end well."""
    return status < 400 and (not told or error is not None)


def is_unpriced(status: int) -> bool:
    """Whether a call that does not say what it used makes the cost unknown: if it was answered at all."""
    return 200 <= status < 400


def _call(connection: sqlite3.Connection, row: sqlite3.Row, parts: dict[int, Any]) -> Call:
    ended = row["ended_ms"] is not None
    return Call(
        number=row["number"],
        dialect=row["dialect"],
        provider=row["provider"],
        path=row["path"],
        model=row["model"],
        status=row["status"] or 0,
        started_ms=row["started_ms"],
        ended_ms=row["ended_ms"] if ended else row["started_ms"],
        request=_put_together(connection, row["request"], parts),
        response=_response(row) if ended else None,
        first_byte_ms=row["first_byte_ms"],
        usage=None if row["usage"] is None else Usage(**json.loads(row["usage"])),
        cost_usd=row["cost_usd"],
        rate_limited_ms=row["waited_ms"] or 0,
        error=row["error"] if ended else INTERRUPTED,
    )


def _response(row: sqlite3.Row) -> Any:
    dialect = finding.named(row["dialect"])
    data = zlib.decompress(row["answer"])
    if dialect is None or not data:
        return None
    try:
        content = answers.decoded(data, row["encoding"])
    except ValueError:
        # The call says so in its error already.
        return None
    return answers.understood(dialect, row["status"], row["kind"], content).response


def _put_together(connection: sqlite3.Connection, packed: bytes, parts: dict[int, Any]) -> Any:
    apart = json.loads(zlib.decompress(packed))
    body = apart["body"]
    for key, last in apart.get("lists", {}).items():
        body[key] = [_part(connection, part, parts) for part in _chain(connection, last)]
    for key, part in apart.get("parts", {}).items():
        body[key] = _part(connection, part, parts)
    return body


def _chain(connection: sqlite3.Connection, last: int) -> list[int]:
    rows = connection.execute(
        "WITH RECURSIVE chain(id, before, part, depth) AS ("
        " SELECT id, before, part, 0 FROM links WHERE id=?"
        " UNION ALL SELECT links.id, links.before, links.part, depth + 1 FROM links JOIN chain"
        " ON links.id=chain.before) SELECT part FROM chain ORDER BY depth DESC",
        (last,),
    )
    return [part for (part,) in rows]


def _part(connection: sqlite3.Connection, part: int, parts: dict[int, Any]) -> Any:
    if part not in parts:
        (data,) = connection.execute("SELECT data FROM parts WHERE id=?", (part,)).fetchone()
        parts[part] = json.loads(zlib.decompress(data))
    return parts[part]


def _opened(file: Path) -> sqlite3.Connection:
    if not file.is_file():
        raise NotFound(f"no calls were recorded for {file.stem}")
    with _store_errors(file), ExitStack() as stack:
        connection = sqlite3.connect(f"file:{quote(str(file))}?mode=ro", uri=True, timeout=_PATIENCE_SECONDS)
        stack.callback(connection.close)
        if connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone() is None:
            # Whoever began it was killed before anything was in it.
            raise NotFound(f"no calls were recorded for {file.stem}")
        stack.pop_all()
        return connection


@contextmanager
def _store_errors(file: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise StoreError(f"the record of {file.stem} cannot be read: {error}") from error
