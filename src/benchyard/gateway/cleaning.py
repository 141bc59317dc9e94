"""What is kept of calls as it may be shown: a copy of a grant's file without what nobody may read.

Records are compressed, and a stream has what it says in pieces: whoever looks for a text has to look here.
"""

import json
import sqlite3
import zlib
from collections.abc import Callable
from contextlib import closing
from hashlib import blake2b
from pathlib import Path
from typing import Any

from benchyard.gateway import answers
from benchyard.gateway.dialects import finding
from benchyard.gateway.reading import reading
from benchyard.gateway.storing import SCHEMA

Clean = Callable[[bytes], bytes]
"""Takes out of bytes what nobody may read."""

LEFT_OUT = "the answer is left out: its encoding is not read, so that it cannot be searched for secrets"
_GONE = "(left out)"


def cleaned(file: Path, clean: Clean) -> bytes:
    """A grant's file as it may be shown; raises NotFound, StoreError."""
    with reading(file) as source, closing(sqlite3.connect(":memory:")) as copy:
        source.row_factory = sqlite3.Row
        copy.executescript(SCHEMA)
        for row in source.execute("SELECT * FROM meta"):
            _put(copy, "meta", {**row, "value": _text(row["value"], clean)})
        for row in source.execute("SELECT * FROM parts"):
            _put(copy, "parts", _part(dict(row), clean))
        for row in source.execute("SELECT * FROM links"):
            _put(copy, "links", dict(row))
        for row in source.execute("SELECT * FROM calls"):
            _put(copy, "calls", _call(dict(row), clean))
        copy.commit()
        return copy.serialize()


def _put(copy: sqlite3.Connection, table: str, row: dict[str, Any]) -> None:
    places = ", ".join("?" * len(row))
    # Names of our own schema, not of what was recorded.
    copy.execute(f"INSERT INTO {table}({', '.join(row)}) VALUES ({places})", tuple(row.values()))  # noqa: S608


def _part(row: dict[str, Any], clean: Clean) -> dict[str, Any]:
    data = zlib.decompress(row["data"])
    shown = _json(data, clean, _GONE)
    if shown == data:
        return row
    # With its number: two parts may be the same by now, and the hash of a secret could be tried out.
    name = blake2b(b"%d %s" % (row["id"], shown), digest_size=20).digest()
    return {**row, "hash": name, "data": zlib.compress(shown)}


def _call(row: dict[str, Any], clean: Clean) -> dict[str, Any]:
    request = _json(zlib.decompress(row["request"]), clean, {"body": _GONE})
    texts = {name: _text(row[name], clean) for name in ("path", "model", "error")}
    row = {**row, **texts, "request": zlib.compress(request)}
    return row if row["answer"] is None else {**row, **_answer(row, clean)}


def _answer(row: dict[str, Any], clean: Clean) -> dict[str, Any]:
    try:
        content = answers.decoded(zlib.decompress(row["answer"]), row["encoding"])
    except ValueError:
        return {"answer": zlib.compress(b""), "encoding": None, "error": row["error"] or LEFT_OUT}
    shown, kind = clean(content), row["kind"]
    dialect = finding.named(row["dialect"])
    if dialect is not None and shown:
        # What came in pieces is found in none of them: such an answer is kept as if it had come whole.
        whole = json.dumps(answers.understood(dialect, row["status"], kind or "", shown).response).encode()
        if (without := _json(whole, clean, _GONE)) != whole:
            shown, kind = without, "application/json"
    if shown == content:
        return {}
    return {"answer": zlib.compress(shown), "encoding": None, "kind": kind}


def _json(data: bytes, clean: Clean, instead: Any) -> bytes:
    """JSON without what nobody may read, and still JSON: a secret may look like a part of its grammar."""
    shown = clean(data)
    if shown == data:
        return data
    try:
        json.loads(shown)
    except ValueError:
        return json.dumps(instead).encode()
    return shown


def _text(value: str | None, clean: Clean) -> str | None:
    return None if value is None else clean(value.encode()).decode(errors="replace")
