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
from benchyard.gateway.dialects import catalog, model_answers
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
        told, status = row["usage"], row["status"] or 0
        unmetered += is_unmetered(status, row["error"], told=told is not None)
        if told is not None:
            usage += TokenUsage(**json.loads(told))
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


def is_unmetered(status: int, error: str | None, *, told: bool) -> bool:
    """Tell whether a call may have used unreported tokens: it was not refused, and did not end well."""
    return status < 400 and (not told or error is not None)


def is_unpriced(status: int) -> bool:
    """Tell whether a call without reported usage makes the cost unknown, because it was answered."""
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
        request=_assemble(connection, row["request"], parts),
        response=_response(row) if ended else None,
        first_byte_ms=row["first_byte_ms"],
        usage=None if row["usage"] is None else TokenUsage(**json.loads(row["usage"])),
        cost_usd=row["cost_usd"],
        rate_limited_ms=row["waited_ms"] or 0,
        error=row["error"] if ended else INTERRUPTED,
    )


def _response(row: sqlite3.Row) -> Any:
    dialect = catalog.dialect_named(row["dialect"])
    data = zlib.decompress(row["answer"])
    if dialect is None or not data:
        return None
    try:
        content = model_answers.decode_body(data, row["encoding"])
    except ValueError:
        # The error of the call names this failure already.
        return None
    return model_answers.read_answer(dialect, row["status"], row["kind"], content).response


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
        content = model_answers.decode_body(zlib.decompress(row["answer"]), row["encoding"])
    except ValueError:
        return {"answer": zlib.compress(b""), "encoding": None, "error": row["error"] or LEFT_OUT}
    shown, kind = clean(content), row["kind"]
    dialect = catalog.dialect_named(row["dialect"])
    if dialect is not None and shown:
        # A secret split over events is found in none of them: keep such an answer as if it had not been
        # streamed.
        whole = json.dumps(
            model_answers.read_answer(dialect, row["status"], kind or "", shown).response
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
