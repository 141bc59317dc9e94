"""A record as it may be shown: no known value is in it, however it was kept, and the rest is as it was."""

import asyncio
import gzip
import json
import sqlite3
import zlib
from contextlib import closing
from pathlib import Path
from typing import Any

from benchyard.engine.redaction import Scrubber
from benchyard.gateway.calls import Call
from benchyard.gateway.dialects import catalog
from benchyard.gateway.protocol import record_file
from benchyard.gateway.records.reader import read_calls, read_history, redacted_copy
from benchyard.gateway.records.storage import CallEnd, CallStart
from benchyard.gateway.records.writer import CallSubject, Recorder
from tests.gateway.station import MODEL, events, message

SECRET = 'sk-"very"/secret-0123456789'
_SPOKEN = catalog.dialect_named("anthropic")


def asked(text: str) -> dict[str, Any]:
    return {"model": MODEL, "messages": [{"role": "user", "content": text}]}


def answered(text: str) -> bytes:
    return json.dumps({**message(), "content": [{"type": "text", "text": text}]}).encode()


def streamed(*texts: str) -> bytes:
    told = events()
    deltas = [{"type": "text_delta", "text": each} for each in texts]
    pieces = [{"type": "content_block_delta", "index": 0, "delta": each} for each in deltas]
    lines = [f"event: content_block_delta\ndata: {json.dumps(each)}\n\n".encode() for each in pieces]
    return b"".join([*told[:2], *lines, *told[3:]])


async def kept(folder: Path, *calls: tuple[str, bytes, dict[str, Any]]) -> Path:
    """A file with calls: what was said, what was answered, and how that came."""
    assert _SPOKEN is not None
    subject = CallSubject("trial", None, _SPOKEN, "anthropic")
    recorder = Recorder(folder)
    recorder.open()
    for number, (text, answer, how) in enumerate(calls, start=1):
        begun = CallStart(number, "anthropic", "anthropic", "/v1/messages", 1000 * number)
        recorder.begin(subject, begun, json.dumps(asked(text)).encode(), None)
        came: dict[str, Any] = {"encoding": None, "kind": "application/json", "error": None, **how}
        times: dict[str, Any] = {"ended_ms": 1000 * number + 500, "first_byte_ms": None}
        times |= {"waited_ms": 0, "limited_ms": 0}
        await recorder.end(subject, CallEnd(number=number, status=200, answer=answer, **times, **came))
    recorder.note("trial", "over_budget", f"no more {SECRET}")
    await recorder.finish("trial")
    await recorder.close()
    return record_file(folder, "trial")


def shown(file: Path) -> tuple[list[Call], str]:
    """The calls of a cleaned copy, and everything in it as one text."""
    copy = file.with_name("shown.db")
    copy.write_bytes(redacted_copy(file, Scrubber([SECRET]).data))
    everything = []
    with closing(sqlite3.connect(copy)) as connection:
        for table in ("meta", "parts", "links", "calls"):
            for row in connection.execute(f"SELECT * FROM {table}"):
                everything += [_plain(value) for value in row]
    calls = list(read_calls(copy))
    return calls, "\n".join([*everything, *(json.dumps([each.request, each.response]) for each in calls)])


def _plain(value: object) -> str:
    if isinstance(value, bytes):
        try:
            value = zlib.decompress(value)
        except zlib.error:
            value = bytes(value)
        return value.decode(errors="replace")
    return str(value)


def is_told(everything: str) -> bool:
    escaped = json.dumps(SECRET)[1:-1]
    return any(each in everything for each in (SECRET, escaped, json.dumps(escaped)[1:-1]))


def test_a_known_value_is_in_no_request_answer_error_or_note(tmp_path: Path) -> None:
    said = f"the key is {SECRET}, keep it"
    broken = streamed("hello").partition(b"event: message_stop")[0]
    file = asyncio.run(
        kept(
            tmp_path,
            (said, answered(said), {}),
            (said, gzip.compress(answered(said)), {"encoding": "gzip"}),
            ("hi", broken, {"kind": "text/event-stream", "error": f"wrong key {SECRET}"}),
        )
    )
    calls, everything = shown(file)
    assert not is_told(everything)
    assert [call.request["messages"][0]["content"] for call in calls[:2]] == ["the key is ***, keep it"] * 2
    assert [call.response["content"][0]["text"] for call in calls[:2]] == ["the key is ***, keep it"] * 2
    assert calls[2].response["content"][0]["text"] == "hello"
    assert calls[2].error == "wrong key ***"


def test_a_value_that_came_in_pieces_is_found(tmp_path: Path) -> None:
    how = {"kind": "text/event-stream"}
    file = asyncio.run(kept(tmp_path, ("hi", streamed("it is ", SECRET[:9], SECRET[9:], "."), how)))
    assert next(read_calls(file)).response["content"][0]["text"] == f"it is {SECRET}."
    (call,), everything = shown(file)
    assert call.response["content"][0]["text"] == "it is ***."
    assert SECRET[9:] not in everything
    assert json.dumps(SECRET[9:])[1:-1] not in everything


def test_unsearchable_answers_are_left_out(tmp_path: Path) -> None:
    file = asyncio.run(kept(tmp_path, ("hi", SECRET.encode(), {"encoding": "br"})))
    (call,), everything = shown(file)
    assert not is_told(everything)
    assert call.response is None
    assert call.error is not None


def test_records_without_a_secret_are_unchanged(tmp_path: Path) -> None:
    how = {"kind": "text/event-stream"}
    file = asyncio.run(kept(tmp_path, ("hi", streamed("a", "b"), how), ("ho", answered("c"), {})))
    copy = tmp_path / "copy.db"
    copy.write_bytes(redacted_copy(file, Scrubber(["another-value-1234"]).data))
    assert list(read_calls(copy)) == list(read_calls(file))
    assert read_history(copy) == read_history(file)


def test_a_value_that_looks_like_grammar_leaves_a_record_that_can_be_read(tmp_path: Path) -> None:
    file = asyncio.run(kept(tmp_path, ("hi", answered("hello"), {})))
    copy = tmp_path / "copy.db"
    copy.write_bytes(redacted_copy(file, Scrubber(['user","content":"hi"']).data))
    (call,) = read_calls(copy)
    assert call.request["messages"] == ["(left out)"]
