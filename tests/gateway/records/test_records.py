"""Every call is kept once, whole, and in a file that grows no faster than the conversation."""

import asyncio
import json
import sqlite3
import subprocess
import sys
import tempfile
import zlib
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from hypothesis import given, settings
from hypothesis import strategies as some

from benchyard.errors import NotFound, StoreError, UsageError
from benchyard.gateway import protocol
from benchyard.gateway.dialects import catalog
from benchyard.gateway.grants import Grant, Upstream
from benchyard.gateway.records import storage
from benchyard.gateway.records.reader import INTERRUPTED, read_calls, read_history
from benchyard.gateway.records.storage import CallEnd, CallStart
from benchyard.gateway.records.writer import CallSubject, Recorder
from tests.gateway.station import MODEL, Station, events, live, message, streamed

ANSWER = json.dumps(message()).encode()


def subject(grant_id: str = "trial", dialect: str = "anthropic") -> CallSubject:
    spoken = catalog.dialect_named(dialect)
    assert spoken is not None
    return CallSubject(grant_id, None, spoken, "anthropic")


def begun(number: int) -> CallStart:
    return CallStart(number, "anthropic", "anthropic", "/v1/messages", 1000 * number)


def ended(number: int, answer: bytes = ANSWER) -> CallEnd:
    return CallEnd(number, 200, 1000 * number + 500, None, answer, None, "application/json", 0, 0, None)


async def kept(folder: Path, requests: list[Any]) -> Path:
    """A file with these requests and an answer to each."""
    recorder = Recorder(folder)
    recorder.open()
    for number, request in enumerate(requests, start=1):
        recorder.begin(subject(), begun(number), json.dumps(request).encode(), None)
        await recorder.end(subject(), ended(number))
    await recorder.finish("trial")
    await recorder.close()
    return protocol.record_file(folder, "trial")


def conversation(steps: int) -> list[Any]:
    """What an agent sends in so many steps: each request has all that was said before."""
    words = [f"{number}: {zlib.crc32(b'%d' % number):x}" * 40 for number in range(steps)]
    said = [{"role": "user", "content": each} for each in words]
    system = [{"type": "text", "text": "be good " * 500}]
    return [{"model": MODEL, "system": system, "messages": said[: number + 1]} for number in range(steps)]


def test_a_conversation_grows_linearly(tmp_path: Path) -> None:
    sizes = []
    for steps in (50, 100, 200):
        folder = tmp_path / str(steps)
        folder.mkdir()
        requests = conversation(steps)
        file = asyncio.run(kept(folder, requests))
        assert [call.request for call in read_calls(file)] == requests
        sizes.append(file.stat().st_size)
    # Of what grows with the square, the second difference would be four times the first.
    assert sizes[2] - sizes[1] < 2.3 * (sizes[1] - sizes[0])
    assert sizes[2] < sum(len(json.dumps(request)) for request in conversation(200)) / 20


json_values = some.recursive(
    some.none() | some.booleans() | some.integers(-(2**53), 2**53) | some.text(max_size=8),
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(some.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
requests_of_any_kind = json_values | some.fixed_dictionaries(
    {"model": some.text(max_size=8)},
    optional=dict.fromkeys(("messages", "system", "tools", "metadata"), json_values),
)


@settings(max_examples=40, deadline=None)
@given(some.lists(requests_of_any_kind, min_size=1, max_size=4))
def test_any_request_is_read_back_as_it_was(requests: list[Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "trial.db"
        with closing(storage.open_for_writing(file)) as connection:
            for number, request in enumerate(requests, start=1):
                storage.put_start(connection, begun(number), None, request, ("messages", "system", "tools"))
        read = [call.request for call in read_calls(file)]
    assert read == requests
    assert [[*each] for each in read if isinstance(each, dict)] == [
        [*each] for each in requests if isinstance(each, dict)
    ], "keys come in the order they had"


@live
async def test_an_answer_is_kept_byte_by_byte(tmp_path: Path) -> None:
    pieces = events()

    async def answer(request: web.BaseRequest, _body: bytes) -> web.StreamResponse:
        return await streamed(request, pieces)

    async with Station(tmp_path / "gateway") as station:
        station.behind.answer = answer
        await station.grant()
        await station.ask()
        (call,) = await station.calls()
        assert (call.dialect, call.provider, call.path) == ("anthropic", "anthropic", "/v1/messages")
        assert call.started_ms <= (call.first_byte_ms or 0) <= call.ended_ms
        assert call.cost_usd == pytest.approx(10 * 3e-6 + 5 * 15e-6)
        file = protocol.record_file(station.folder, "trial")
        with closing(sqlite3.connect(file)) as connection:
            ((data,),) = connection.execute("SELECT answer FROM calls").fetchall()
        assert zlib.decompress(data) == b"".join(pieces)


@live
async def test_a_call_without_an_end_was_interrupted(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    recorder.open()
    recorder.begin(subject(), begun(1), b'{"model": "m"}', None)
    await recorder.finish("trial")
    await recorder.close()
    (call,) = read_calls(protocol.record_file(tmp_path, "trial"))
    assert (call.status, call.error, call.request) == (0, INTERRUPTED, {"model": "m"})


@live
async def test_another_process_reads_while_the_gateway_writes(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    recorder.open()
    program = (
        "import sys; from pathlib import Path; from benchyard.gateway.records.reader import read_calls\n"
        "print([call.number for call in read_calls(Path(sys.argv[1]))])"
    )
    for number in (1, 2):
        recorder.begin(subject(), begun(number), b"{}", None)
        await recorder.end(subject(), ended(number))
        file = protocol.record_file(tmp_path, "trial")
        said = await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "-c", program, str(file)],
            capture_output=True,
            text=True,
            check=True,
        )
        assert said.stdout.strip() == str([*range(1, number + 1)])
    await recorder.close()


@live
async def test_forgotten_records_leave_no_file(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    recorder.open()
    recorder.begin(subject(), begun(1), b"{}", None)
    await recorder.forget("trial")
    await recorder.close()
    assert list((tmp_path / protocol.RECORDS).iterdir()) == []
    with pytest.raises(NotFound):
        list(read_calls(protocol.record_file(tmp_path, "trial")))


@live
async def test_a_call_that_cannot_be_kept_is_still_counted(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    recorder.open()
    protocol.record_file(tmp_path, "trial").write_bytes(b"this is no database" * 100)
    recorder.begin(subject(), begun(1), b'{"model": "m"}', None)
    metered = await recorder.end(subject(), ended(1))
    assert metered.usage is not None
    assert metered.usage.total_tokens == 15
    # Others are not touched by that.
    recorder.begin(subject("other"), begun(1), b"{}", None)
    await recorder.end(subject("other"), ended(1))
    await recorder.close()
    with pytest.raises(StoreError):
        list(read_calls(protocol.record_file(tmp_path, "trial")))
    assert len(list(read_calls(protocol.record_file(tmp_path, "other")))) == 1


@live
async def test_invalid_text_is_kept_as_far_as_it_goes(tmp_path: Path) -> None:
    """JSON can hold halves of characters, which no file can."""

    async def answer(_request: web.BaseRequest, _body: bytes) -> web.StreamResponse:
        body = b'{"error": {"message": "half: \\ud800"}, "model": "\\ud800"}'
        return web.Response(status=400, body=body, content_type="application/json")

    async with Station(tmp_path / "gateway") as station:
        station.behind.answer = answer
        await station.grant()
        await station.ask(body=b'{"model": "\\ud800", "messages": ["\\udfff"]}')
        (call,) = await station.calls()
        assert (call.model, call.error) == ("?", "HTTP 400: half: ?")
        assert call.request == {"model": "\ud800", "messages": ["\udfff"]}
        assert (await station.spent()).last_error == call.error


@pytest.mark.parametrize("name", ["", "..", "a/b", "a.db", "x" * 65, "é"])
def test_an_id_is_not_a_path(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError):
        protocol.record_file(tmp_path, name)


def test_a_grant_is_sent_whole() -> None:
    upstream = Upstream("http://x", key="k", headers={"a": "b"})
    grant = Grant("id", "token", "box", {"x": upstream}, 5, group="g")
    assert protocol.grant_from_json(json.loads(json.dumps(protocol.grant_to_json(grant)))) == grant


def test_a_begun_record_without_calls_is_not_a_record(tmp_path: Path) -> None:
    file = tmp_path / "trial.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        with pytest.raises(NotFound, match="no calls"):
            read_history(file)
    with pytest.raises(NotFound, match="no calls"):
        list(read_calls(file))
