"""Reader of recorded calls, usable in any process while the gateway writes; can redact secrets."""

import json
import sqlite3
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any
from urllib.parse import quote

from benchyard.errors import NotFound, StoreError
from benchyard.gateway.calls import Call, TokenUsage
from benchyard.gateway.dialects import catalog, model_replies
from benchyard.gateway.grants import GrantUsage
from benchyard.gateway.records.storage import SCHEMA

INTERRUPTED = "interrupted"
"""Error of a call without an end: it is in flight, or was when the gateway was killed."""
OTHERS = "others"
"""Key in `meta` for the number of requests that were not calls of a model."""
_PATIENCE_SECONDS = 30.0


@dataclass(frozen=True)
class GrantHistory:
    """Usage of a grant until now, as recorded in its file."""

    spent: GrantUsage
    unmetered: int
    """Calls whose usage is unknown although they may have used something."""
    last_number: int
    group: str | None


def read_calls(file: Path) -> Iterator[Call]:
    """Yield every call in order; equal parts of requests are shared objects, which must not be changed.

    Raises NotFound if there is no such file, StoreError if it cannot be read.
    """
    with open_for_reading(file) as connection:
        parts: dict[int, Any] = {}
        rows = connection.execute("SELECT * FROM calls ORDER BY number")
        rows.row_factory = sqlite3.Row
        for row in rows:
            yield _call(connection, row, parts)


@dataclass(frozen=True)
class CallPosition:
    """Place among calls in the order of their ends."""

    ended_ms: int = 0
    number: int = 0


_MOST_ITEMS = 2000
"""Most new items of a request that are read."""
_IN_FLIGHT = 256
"""Number of calls back within which one may end after a later one."""
_REMEMBERED_CALLS = 32
"""Number of calls back that are searched for the newest item of earlier requests."""
_NO_HISTORY = frozenset({"tools"})


@dataclass(frozen=True)
class NewCall:
    """A call with only the items of its request that were in no request before it."""

    call: Call
    only_adds: bool
    """True if the request is an earlier one with more at its end; else an item of it may be repeated."""


class NewCalls:
    """Calls of a grant that ended lately.

    The cost of a call does not grow with its conversation: the chain of its items is followed back only to
    the newest item of earlier calls. An item that changed is read as a new one.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._connection.row_factory = sqlite3.Row
        self._parts: dict[int, Any] = {}
        self._requests: dict[int, dict[str, Any]] = {}

    def after(self, place: CallPosition, before_ms: int, most: int) -> list[NewCall]:
        """Return calls that ended after a place and before a time, in the order of their ends."""
        rows = self._connection.execute(
            "SELECT * FROM calls WHERE number > ? AND ended_ms IS NOT NULL AND ended_ms < ?"
            " AND (ended_ms, number) > (?, ?) ORDER BY ended_ms, number LIMIT ?",
            (place.number - _IN_FLIGHT, before_ms, place.ended_ms, place.number, most),
        ).fetchall()
        new = (self._new_part(row["number"]) for row in rows)
        return [NewCall(_call_of(row, body), adds) for row, (body, adds) in zip(rows, new, strict=True)]

    def before(self, number: int, most: int) -> list[Call]:
        """Return the last calls before one, in the order of their numbers; answers are left out."""
        rows = self._connection.execute(
            "SELECT * FROM calls WHERE number BETWEEN ? AND ? ORDER BY number", (number - most, number - 1)
        ).fetchall()
        return [_call_of(dict(row) | {"ended_ms": None}, self._new_part(row["number"])[0]) for row in rows]

    def _new_part(self, number: int) -> tuple[Any, bool]:
        """Return the body of a request with only what earlier requests did not have, and if it only adds."""
        apart = self._request(number)
        earlier = [self._request(each) for each in range(max(1, number - _REMEMBERED_CALLS), number)]
        heads = {last for each in earlier for last in each.get("lists", {}).values()}
        known = {part for each in earlier for part in each.get("parts", {}).values()}
        body = apart.get("body")
        if not isinstance(body, dict):
            return body, True
        body = {**body}
        only_adds = True
        for key, last in apart.get("lists", {}).items():
            if key in _NO_HISTORY:
                body[key] = []
                continue
            body[key], link = self._items_after(max(heads, default=0), last)
            only_adds = only_adds and (link in heads or not earlier)
        for key, part in apart.get("parts", {}).items():
            body[key] = None if part in known else _part(self._connection, part, self._parts)
        return body, only_adds

    def _items_after(self, newest: int, link: int) -> tuple[list[Any], int]:
        """Return the items of a chain after the newest known one, and the link before them."""
        found: list[Any] = []
        while link > newest and len(found) < _MOST_ITEMS:
            row = self._connection.execute("SELECT before, part FROM links WHERE id=?", (link,)).fetchone()
            if row is None:
                break
            found.append(_part(self._connection, row["part"], self._parts))
            link = row["before"]
        return found[::-1], link

    def _request(self, number: int) -> dict[str, Any]:
        if number not in self._requests:
            query = "SELECT request FROM calls WHERE number=?"
            row = self._connection.execute(query, (number,)).fetchone()
            packed = row["request"] if row is not None else None
            self._requests[number] = json.loads(zlib.decompress(packed)) if packed else {}
        return self._requests[number]


@contextmanager
def open_for_reading(file: Path) -> Iterator[sqlite3.Connection]:
    """Open a grant's file for reading; raises NotFound, StoreError."""
    with closing(_open_read_only(file)) as connection, _store_errors(file):
        yield connection


def read_history(file: Path) -> GrantHistory:
    """Return the totals of a grant's file; raises NotFound, StoreError."""
    with open_for_reading(file) as connection:
        meta = dict(connection.execute("SELECT key, value FROM meta").fetchall())
        cursor = connection.cursor()
        cursor.row_factory = sqlite3.Row
        rows = cursor.execute(
            "SELECT number, status, usage, cost_usd, limited_ms, error FROM calls ORDER BY number"
        ).fetchall()
    usage, cost, unmetered = TokenUsage(), 0.0, 0
    known = True
    for row in rows:
        reported, status = row["usage"], row["status"] or 0
        unmetered += is_unmetered(status, row["error"], is_reported=reported is not None)
        if reported is not None:
            usage += TokenUsage(**json.loads(reported))
            cost += row["cost_usd"] or 0.0
            known = known and row["cost_usd"] is not None
        else:
            known = known and not is_unpriced(status)
    last = rows[-1] if rows else None
    spent = GrantUsage(
        calls=len(rows),
        others=int(meta.get(OTHERS, 0)),
        usage=usage,
        cost_usd=cost if known else None,
        rate_limited_ms=sum(row["limited_ms"] or 0 for row in rows),
        over_budget=meta.get("over_budget"),
        last_error=(last["error"] or (None if last["status"] else INTERRUPTED)) if last else None,
        last_status=(last["status"] or 0) if last else None,
    )
    return GrantHistory(spent, unmetered, last["number"] if last else 0, meta.get("group"))


def is_unmetered(status: int, error: str | None, *, is_reported: bool) -> bool:
    """Tell whether a call may have used unreported tokens: it was not refused, and did not end well."""
    return status < 400 and (not is_reported or error is not None)


def is_unpriced(status: int) -> bool:
    """Tell whether a call without reported usage makes the cost unknown, because it was answered."""
    return 200 <= status < 400


def _call(connection: sqlite3.Connection, row: sqlite3.Row, parts: dict[int, Any]) -> Call:
    return _call_of(row, _assemble(connection, row["request"], parts))


def _call_of(row: sqlite3.Row | dict[str, Any], request: Any) -> Call:
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
        request=request,
        response=_response(row) if ended else None,
        first_byte_ms=row["first_byte_ms"],
        usage=None if row["usage"] is None else TokenUsage(**json.loads(row["usage"])),
        cost_usd=row["cost_usd"],
        rate_limited_ms=row["waited_ms"] or 0,
        error=row["error"] if ended else INTERRUPTED,
    )


def _response(row: sqlite3.Row | dict[str, Any]) -> Any:
    dialect = catalog.dialect_named(row["dialect"])
    data = zlib.decompress(row["answer"])
    if dialect is None or not data:
        return None
    try:
        content = model_replies.decode_body(data, row["encoding"])
    except ValueError:
        # The error of the call names this failure already.
        return None
    return model_replies.read_answer(dialect, row["status"], row["kind"], content).response


def _assemble(connection: sqlite3.Connection, packed: bytes, parts: dict[int, Any]) -> Any:
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


def _open_read_only(file: Path) -> sqlite3.Connection:
    if not file.is_file():
        raise NotFound(f"no calls were recorded for {file.stem}")
    with _store_errors(file), ExitStack() as stack:
        connection = sqlite3.connect(f"file:{quote(str(file))}?mode=ro", uri=True, timeout=_PATIENCE_SECONDS)
        stack.callback(connection.close)
        if connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone() is None:
            # The process that created the file was killed before it wrote anything.
            raise NotFound(f"no calls were recorded for {file.stem}")
        stack.pop_all()
        return connection


@contextmanager
def _store_errors(file: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise StoreError(f"the record of {file.stem} cannot be read: {error}") from error


Clean = Callable[[bytes], bytes]
"""Function that removes secrets from bytes."""

LEFT_OUT = "the answer is left out: its encoding is not read, so that it cannot be searched for secrets"
_GONE = "(left out)"


def redacted_copy(file: Path, clean: Clean) -> bytes:
    """Return a grant's file with secrets removed; raises NotFound, StoreError."""
    with open_for_reading(file) as source, closing(sqlite3.connect(":memory:")) as copy:
        source.row_factory = sqlite3.Row
        copy.executescript(SCHEMA)
        for row in source.execute("SELECT * FROM meta"):
            _put(copy, "meta", {**row, "value": _redacted_text(row["value"], clean)})
        for row in source.execute("SELECT * FROM parts"):
            _put(copy, "parts", _redacted_part(dict(row), clean))
        for row in source.execute("SELECT * FROM links"):
            _put(copy, "links", dict(row))
        for row in source.execute("SELECT * FROM calls"):
            _put(copy, "calls", _redacted_call(dict(row), clean))
        copy.commit()
        return copy.serialize()


def _put(copy: sqlite3.Connection, table: str, row: dict[str, Any]) -> None:
    places = ", ".join("?" * len(row))
    # Table and columns are names of our own schema, not recorded data.
    copy.execute(f"INSERT INTO {table}({', '.join(row)}) VALUES ({places})", tuple(row.values()))  # noqa: S608


def _redacted_part(row: dict[str, Any], clean: Clean) -> dict[str, Any]:
    data = zlib.decompress(row["data"])
    shown = _redacted_json(data, clean, _GONE)
    if shown == data:
        return row
    # Include the number: redacted parts may be equal, and a hash of the secret could be guessed.
    name = blake2b(b"%d %s" % (row["id"], shown), digest_size=20).digest()
    return {**row, "hash": name, "data": zlib.compress(shown)}


def _redacted_call(row: dict[str, Any], clean: Clean) -> dict[str, Any]:
    request = _redacted_json(zlib.decompress(row["request"]), clean, {"body": _GONE})
    texts = {name: _redacted_text(row[name], clean) for name in ("path", "model", "error")}
    row = {**row, **texts, "request": zlib.compress(request)}
    return row if row["answer"] is None else {**row, **_redacted_answer(row, clean)}


def _redacted_answer(row: dict[str, Any], clean: Clean) -> dict[str, Any]:
    try:
        content = model_replies.decode_body(zlib.decompress(row["answer"]), row["encoding"])
    except ValueError:
        return {"answer": zlib.compress(b""), "encoding": None, "error": row["error"] or LEFT_OUT}
    shown, kind = clean(content), row["kind"]
    dialect = catalog.dialect_named(row["dialect"])
    if dialect is not None and shown:
        # A secret split over events is found in none of them: keep such an answer as if it had not been
        # streamed.
        whole = json.dumps(
            model_replies.read_answer(dialect, row["status"], kind or "", shown).response
        ).encode()
        if (without := _redacted_json(whole, clean, _GONE)) != whole:
            shown, kind = without, "application/json"
    if shown == content:
        return {}
    return {"answer": zlib.compress(shown), "encoding": None, "kind": kind}


def _redacted_json(data: bytes, clean: Clean, instead: Any) -> bytes:
    """Remove secrets from JSON; return the replacement if the result is not valid JSON any more."""
    shown = clean(data)
    if shown == data:
        return data
    try:
        json.loads(shown)
    except ValueError:
        return json.dumps(instead).encode()
    return shown


def _redacted_text(value: str | None, clean: Clean) -> str | None:
    return None if value is None else clean(value.encode()).decode(errors="replace")
